/*
 * exact_step: checks engine exact against the truth, at every call of a part of a program's run.
 *
 * The program is recorded as a user would do it, and runs freely to a random place. From there on
 * it is single-stepped, and its true calling context is kept (exact_truth). At every call that goes
 * through a site of the engine, the context that the engine has for the caller and for the callee
 * must be the true one; and when the window is over, each context must have been counted as often
 * as it was entered.
 *
 * Exit status: 0; 1 if less than 999 of 1000 calls were right and counted, if anything was counted
 * that was not called, or if nothing was compared; 2 for a usage or other error.
 */
#include "exact_truth.h"

#include "step_driver.h"
#include "step_memory.h"

#include "base/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char usage_text[] =
    "usage: exact_step [options] -- CALLTRAIL record --engine exact … -- PROGRAM [ARGUMENTS]\n"
    "  --window STEPS      how many instructions of the program (100000)\n"
    "  --after MS          begin within MS milliseconds of processor time (100)\n"
    "  --seed N            for the random time (1)\n"
    "  --show N            print so many wrong contexts (3)\n"
    "  --cpu N             the core for driver and program (the present one)\n"
    "  --map-cache FOLDER  keep maps there between runs\n";

struct settings {
    uint64_t window, after_ms, seed, show;
    int cpu;
    const char *map_cache;
    char **command;
};

/* What became of the calls. */
struct balance {
    uint64_t right;       /* counted in their true context */
    uint64_t lacks_tail;  /* counted, but without a tail jump that is not edited */
    uint64_t not_counted; /* in no such context */
    uint64_t not_called;  /* counted, but there was no such call */
};

struct run {
    struct settings settings;
    pid_t recorder;
    struct tracee tracee;
    struct code_view code;
    struct engine engine;
    struct exact_truth truth;
    uint64_t steps, stub_steps, slow_calls;
    uint32_t initial_depth;
    double seconds;
};

static _Noreturn void usage(const char *what)
{
    fprintf(stderr, "exact_step: %s\n%s", what, usage_text);
    exit(2);
}

static uint64_t number(const char *text)
{
    return driver_number(text, usage);
}

static struct settings parse_options(int argc, char **argv)
{
    static const struct option options[] = {
        {"window", required_argument, NULL, 'w'},
        {"after", required_argument, NULL, 'a'},
        {"seed", required_argument, NULL, 's'},
        {"show", required_argument, NULL, 'n'},
        {"cpu", required_argument, NULL, 'c'},
        {"map-cache", required_argument, NULL, 'm'},
        {NULL, 0, NULL, 0},
    };
    struct settings s = {
        .window = 100000, .after_ms = 100, .seed = 1, .show = 3, .cpu = sched_getcpu()};
    int option;
    while ((option = getopt_long(argc, argv, "+", options, NULL)) != -1) {
        switch (option) {
        case 'w':
            s.window = number(optarg);
            break;
        case 'a':
            s.after_ms = number(optarg);
            break;
        case 's':
            s.seed = number(optarg);
            break;
        case 'n':
            s.show = number(optarg);
            break;
        case 'c':
            s.cpu = (int)number(optarg);
            break;
        case 'm':
            s.map_cache = optarg;
            break;
        default:
            usage("options");
        }
    }
    s.command = argv + optind;
    if (!s.command[0])
        usage("which program?");
    return s;
}

/* --- the program, from outside
 * -------------------------------------------------------------------- */

/* The recorder also starts the dynamic linker, to ask it about the program. */
static bool has_runtime(pid_t pid)
{
    char path[64], line[4352];
    snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
    FILE *maps = fopen(path, "re");
    bool found = false;
    while (maps && !found && fgets(line, sizeof line, maps))
        found = strstr(line, "/libcalltrail-rt.so") != NULL;
    if (maps)
        fclose(maps);
    return found;
}

/* A child of one of the recorder's threads that is recorded; 0: none. */
static pid_t find_child(pid_t recorder, const char *thread)
{
    char path[512];
    int child = 0;
    snprintf(path, sizeof path, "/proc/%d/task/%s/children", (int)recorder, thread);
    FILE *children = fopen(path, "re");
    while (children && fscanf(children, "%d", &child) == 1 && !has_runtime(child))
        child = 0;
    if (children)
        fclose(children);
    return child;
}

static pid_t find_program(pid_t recorder)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task", (int)recorder);
    DIR *threads = opendir(path);
    const struct dirent *thread;
    pid_t program = 0;
    while (threads && !program && (thread = readdir(threads)))
        if (thread->d_name[0] != '.')
            program = find_child(recorder, thread->d_name);
    if (threads)
        closedir(threads);
    return program;
}

static int launch(struct run *run, struct ct_error *err)
{
    const struct timespec moment = {0, 1000000};
    run->recorder = fork();
    if (run->recorder == 0) {
        dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), STDOUT_FILENO);
        execvp(run->settings.command[0], run->settings.command);
        fprintf(stderr, "exact_step: %s: cannot be started\n", run->settings.command[0]);
        _exit(127);
    }
    while (waitpid(run->recorder, NULL, WNOHANG) == 0) {
        pid_t program = find_program(run->recorder);
        if (program)
            return tracee_attach(&run->tracee, program, run->settings.cpu, err);
        nanosleep(&moment, NULL);
    }
    run->recorder = 0;
    return ct_fail(err, "%s: ended before its program began", run->settings.command[0]);
}

static void end_program(struct run *run)
{
    if (run->tracee.pid)
        tracee_kill(&run->tracee);
    if (run->recorder)
        waitpid(run->recorder, NULL, 0);
}

/* Runs to the random place, or on from there until the thread counts. */
static int run_to_window(struct run *run, struct ct_error *err)
{
    enum { MORE_NS = 20000000 };
    uint64_t random = run->settings.seed;
    uint64_t wait_ns = driver_random(&random) % (run->settings.after_ms * 1000000 + 1);
    bool ready = false;
    run->code.pid = run->tracee.pid;
    run->code.modules.cache_folder = run->settings.map_cache;
    while (!ready) {
        if (tracee_run(&run->tracee, wait_ns) == STOP_GONE)
            return ct_fail(err, "the program ended before the window began");
        CT_TRY(code_refresh(&run->code, err));
        CT_TRY(engine_find(&run->engine, &run->code, run->tracee.regs.fs_base, &ready, err));
        wait_ns = MORE_NS;
    }
    return CT_OK;
}

/* --- single steps
 * --------------------------------------------------------------------------------- */

/* The slow path of the engine is called from a stub, and returns there. */
static bool is_slow_call(struct run *run, const struct user_regs_struct *before)
{
    struct code was = code_at(&run->code, before->rip);
    return was.kind == CODE_STUB && was.transfer == CALLS &&
           code_at(&run->code, run->tracee.regs.rip).kind == CODE_OURS;
}

static int pass_slow_path(struct run *run, enum stop_kind *stop, struct ct_error *err)
{
    uint64_t ret;
    run->slow_calls++;
    if (!read_word(run->tracee.pid, run->tracee.regs.rsp, &ret))
        return ct_fail(err, "the stack cannot be read");
    *stop = tracee_run_to(&run->tracee, ret);
    if (*stop != STOP_GONE)
        *stop = STOP_STEP;
    return CT_OK;
}

static bool may_change_code(const struct user_regs_struct *regs)
{
    bool makes = regs->rax == SYS_mmap || regs->rax == SYS_mprotect;
    return (makes && regs->rdx & PROT_EXEC) || regs->rax == SYS_munmap;
}

/* One instruction, or the whole of the slow path. */
static int advance(struct run *run, enum stop_kind *stop, struct user_regs_struct *before,
                   bool *is_in_handler, struct ct_error *err)
{
    struct tracee *tracee = &run->tracee;
    int delivered = tracee->deliver;
    *before = tracee->regs;
    struct code code = code_at(&run->code, before->rip);
    bool is_syscall = code.transfer == ENTERS_KERNEL;
    *stop = tracee_step(tracee, is_syscall);
    while (*stop == STOP_VFORK) {
        struct tracee child;
        CT_TRY(tracee_take_child(tracee, &child, err));
        tracee_detach(&child);
        *stop = tracee_step(tracee, true);
    }
    if (*stop == STOP_EXEC)
        return ct_fail(err, "the program became another");
    *is_in_handler = delivered && *stop == STOP_STEP && tracee->regs.rsp != before->rsp &&
                     tracee->regs.rdi == (uint64_t)delivered;
    if (*stop == STOP_STEP && !*is_in_handler && is_slow_call(run, before))
        CT_TRY(pass_slow_path(run, stop, err));
    bool is_strange =
        *stop != STOP_GONE && code_at(&run->code, tracee->regs.rip).kind == CODE_NOWHERE;
    if (is_strange || (is_syscall && may_change_code(before)))
        CT_TRY(code_refresh(&run->code, err));
    return CT_OK;
}

/* Steps to the program's own code, outside of stubs, within some instructions. */
static int step_to_program(struct run *run, bool *is_there, struct ct_error *err)
{
    enum { MOST_STEPS = 3000 };
    *is_there = false;
    for (unsigned i = 0; i < MOST_STEPS && !*is_there; i++) {
        struct user_regs_struct before;
        enum stop_kind stop;
        bool in_handler;
        CT_TRY(advance(run, &stop, &before, &in_handler, err));
        if (stop == STOP_GONE)
            return ct_fail(err, "the program ended before the window began");
        struct code was = code_at(&run->code, before.rip);
        struct code is = code_at(&run->code, run->tracee.regs.rip);
        *is_there = stop == STOP_STEP && was.kind == CODE_PROGRAM && !was.is_changed &&
                    !was.in_plt && was.transfer == GOES_ON && is.kind == CODE_PROGRAM && !is.in_plt;
    }
    return CT_OK;
}

/* Where libdwfl knows the way; elsewhere the program runs on for a moment. */
static int begin_window(struct run *run, struct ct_error *err)
{
    enum { MOST_TRIES = 200, MOMENT_NS = 2000000 };
    struct exact_truth *t = &run->truth;
    *t = (struct exact_truth){.pid = run->tracee.pid,
                              .code = &run->code,
                              .engine = &run->engine,
                              .most_shown = (unsigned)run->settings.show};
    struct ct_error why = {"the program's own code does not run"};
    for (unsigned tries = 0; tries < MOST_TRIES; tries++) {
        bool is_there;
        CT_TRY(step_to_program(run, &is_there, err));
        if (is_there && exact_truth_begin(t, &run->tracee.regs, &why) == CT_OK) {
            engine_begin(&run->engine);
            run->initial_depth = (uint32_t)t->frames.count;
            run->slow_calls = 0;
            return CT_OK;
        }
        if (!is_there && tracee_run(&run->tracee, MOMENT_NS) == STOP_GONE)
            return ct_fail(err, "the program ended before the window began");
        if (!is_there)
            CT_TRY(code_refresh(&run->code, err));
    }
    return ct_fail(err, "no window can begin: %s", why.text);
}

static int step_window(struct run *run, struct ct_error *err)
{
    struct exact_truth *t = &run->truth;
    while (run->steps < run->settings.window || !exact_truth_is_settled(t)) {
        struct user_regs_struct before;
        enum stop_kind stop;
        bool in_handler;
        CT_TRY(advance(run, &stop, &before, &in_handler, err));
        if (stop == STOP_GONE)
            break;
        const struct user_regs_struct *after = &run->tracee.regs;
        if (in_handler)
            exact_truth_signal(t, &before, after);
        else if (after->rip != before.rip || after->rsp != before.rsp)
            exact_truth_step(t, &before, after);
        if (stop == STOP_STEP) {
            run->steps++;
            run->stub_steps += code_at(&run->code, before.rip).kind == CODE_STUB;
        }
        if (t->trouble > 1000)
            return ct_fail(err, "the true stack is lost");
    }
    return CT_OK;
}

/* --- results
 * -------------------------------------------------------------------------------------- */

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Takes what agrees from both sides. */
static uint64_t settle(uint64_t *seen, uint64_t *counted)
{
    uint64_t both = least(*seen, *counted);
    *seen -= both;
    *counted -= both;
    return both;
}

static struct balance strike(struct run *run)
{
    struct exact_truth *t = &run->truth;
    struct balance b = {0};
    unsigned shown = 0;
    engine_end(&run->engine, &t->contexts);
    struct context *all = t->contexts.items.items;
    size_t count = t->contexts.items.count;
    for (size_t i = 1; i < count; i++)
        b.right += settle(&all[i].seen, &all[i].counted);
    for (size_t i = 1; i < count; i++)
        if (all[i].seen && all[i].as_walked && all[i].as_walked != i)
            b.lacks_tail += settle(&all[i].seen, &all[all[i].as_walked].counted);
    for (size_t i = 1; i < count; i++) {
        b.not_counted += all[i].seen;
        b.not_called += all[i].counted;
        if ((all[i].seen || all[i].counted) && shown++ < run->settings.show) {
            printf("%s %" PRIu64 " times too %s:\n", all[i].seen ? "counted" : "counted",
                   all[i].seen + all[i].counted, all[i].seen ? "few" : "many");
            exact_truth_print(t, (uint32_t)i);
        }
    }
    return b;
}

static void print_kinds(const char *title, const uint64_t *counts)
{
    static const char *const names[CALLER_KINDS] = {
        [FROM_SITE] = "edited sites",      [FROM_LEFT_SITE] = "sites left alone",
        [FROM_CODE_AT_RUN] = "other code", [FROM_LINKER] = "the dynamic linker",
        [FROM_VDSO] = "the vdso",          [FROM_OURS] = "the runtime"};
    printf("%s:", title);
    for (unsigned i = 0; i < CALLER_KINDS; i++)
        if (counts[i] || i == FROM_SITE)
            printf(" %s %" PRIu64, names[i], counts[i]);
    printf("\n");
}

static void print_verdicts(const char *title, const uint64_t *counts)
{
    printf("%s: right %" PRIu64 ", not asked %" PRIu64 ", lacks a tail jump %" PRIu64
           ", not known %" PRIu64 ", wrong %" PRIu64 "\n",
           title, counts[SAYS_RIGHT], counts[SAYS_NOTHING], counts[LACKS_TAIL],
           counts[SAYS_TOO_LITTLE], counts[SAYS_WRONG]);
}

static bool report(struct run *run)
{
    const struct exact_truth *t = &run->truth;
    struct balance b = strike(run);
    const uint64_t *slow = exact_counts_in(run->engine.thread)->slow,
                   *before = run->engine.slow_before;
    uint64_t edited = t->calls[FROM_SITE] + t->tail_jumps[FROM_SITE];
    uint64_t left = t->calls[FROM_LEFT_SITE] + t->tail_jumps[FROM_LEFT_SITE];
    uint64_t calls = edited + left;
    uint64_t wrong = t->at_site[SAYS_TOO_LITTLE] + t->at_site[SAYS_WRONG];
    uint64_t callee_wrong = t->at_arrival[SAYS_WRONG];
    wrong = wrong > callee_wrong ? wrong : callee_wrong;
    uint64_t lacking =
        t->at_arrival[LACKS_TAIL] > b.lacks_tail ? t->at_arrival[LACKS_TAIL] : b.lacks_tail;
    uint64_t good = edited - least(edited, wrong + lacking);
    print_kinds("calls from", t->calls);
    print_kinds("tail jumps from", t->tail_jumps);
    print_verdicts("callers' contexts", t->at_site);
    print_verdicts("callees' contexts", t->at_arrival);
    printf("slow: new %" PRIu64 ", walked %" PRIu64 ", uncounted %" PRIu64 ", other %" PRIu64
           "; %" PRIu64 " calls of the slow path; depth at the start %u\n",
           slow[SLOW_NEW] - before[SLOW_NEW], slow[SLOW_RESYNC] - before[SLOW_RESYNC],
           slow[SLOW_UNCOUNTED] - before[SLOW_UNCOUNTED], slow[SLOW_OTHER] - before[SLOW_OTHER],
           run->slow_calls, run->initial_depth);
    printf("steps %" PRIu64 " (%" PRIu64 " in stubs), calls %" PRIu64 ", contexts_right %" PRIu64
           ", counted_right %" PRIu64 ", lacks_tail %" PRIu64 ", not_counted %" PRIu64
           ", not_called %" PRIu64 ", sites_left %" PRIu64 ", trouble %" PRIu64 ", seconds %.1f\n",
           run->steps, run->stub_steps, calls, good, b.right, b.lacks_tail, b.not_counted,
           b.not_called, left, t->trouble, run->seconds);
    return calls > 0 && t->trouble == 0 && b.not_called == 0 && good * 1000 >= calls * 999 &&
           b.right * 1000 >= calls * 999;
}

int main(int argc, char **argv)
{
    struct run run = {.settings = parse_options(argc, argv)};
    struct ct_error err;
    double begin = driver_seconds();
    setvbuf(stdout, NULL, _IOLBF, 0);
    int result = run.settings.map_cache ? make_folders(run.settings.map_cache, &err) : CT_OK;
    if (result == CT_OK)
        result = launch(&run, &err);
    if (result == CT_OK)
        result = run_to_window(&run, &err);
    if (result == CT_OK)
        result = begin_window(&run, &err);
    if (result == CT_OK)
        result = step_window(&run, &err);
    run.seconds = driver_seconds() - begin;
    bool is_good = run.engine.counts_before && report(&run);
    end_program(&run);
    if (result != CT_OK)
        fprintf(stderr, "exact_step: %s\n", err.text);
    exact_truth_free(&run.truth);
    engine_free(&run.engine);
    code_free(&run.code);
    return result != CT_OK ? 2 : is_good ? 0 : 1;
}
