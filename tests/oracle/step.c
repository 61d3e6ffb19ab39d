/*
 * step: checks the stack walker against the truth at every instruction of a program.
 *
 * The program is single-stepped under ptrace, from its first instruction in the dynamic linker on.
 * The true call stack is kept by watching calls, returns, signals and the stack pointer
 * (step_truth); at every step the walker's own code walks from the thread's registers over a copy
 * of its stack (step_memory), with maps of the modules that are loaded then (step_modules), and the
 * frames are compared (step_compare). In the middle of big programs the true stack begins with what
 * libdwfl says (step_window).
 *
 * Exit status: 0; 1 if a walk was wrong, more than one in ten thousand was incomplete, more than
 * one in twenty needed an exception (see step_compare.h: they are rare, or they are not
 * understood), the oracle had trouble, or nothing was compared; 2 for a usage or other error.
 */
#include "step_driver.h"
#include "step_run.h"

#include <getopt.h>
#include <inttypes.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

static const char usage_text[] =
    "usage: step [options] [--] PROGRAM [ARGUMENTS]\n"
    "  --from FUNCTION     begin there, from a stack given by libdwfl, not at the first "
    "instruction\n"
    "  --step-limit N      stop after N steps\n"
    "  --skip N            do not compare the first N steps\n"
    "  --every N           compare one step in N\n"
    "  --max-wrong N       stop after N wrong walks (10; 0: never)\n"
    "  --allow-incomplete  incomplete walks do not count as a failure\n"
    "  --window STEPS      let the program run, then step so far, from a stack given by libdwfl\n"
    "  --windows N         so many windows in one run (1)\n"
    "  --after MS          each begins within MS milliseconds of processor time (100)\n"
    "  --seed N            for the random times (1)\n"
    "  --break KIND[:N]    lie in one walk of N (1000): pc, slot, short, long, skip, rbp or fast\n"
    "  --cpu N             the core for driver and program (the present one)\n"
    "  --stdout FILE       the program's standard output\n"
    "  --map-cache FOLDER  keep maps there between runs\n"
    "  --quiet             print only what is wrong, and the last line\n";

enum {
    OPTION_FROM = 256,
    OPTION_STEP_LIMIT,
    OPTION_SKIP,
    OPTION_EVERY,
    OPTION_MAX_WRONG,
    OPTION_ALLOW_INCOMPLETE,
    OPTION_WINDOW,
    OPTION_WINDOWS,
    OPTION_AFTER,
    OPTION_SEED,
    OPTION_BREAK,
    OPTION_CPU,
    OPTION_STDOUT,
    OPTION_MAP_CACHE,
    OPTION_QUIET,
};

static const struct option long_options[] = {
    {"from", required_argument, NULL, OPTION_FROM},
    {"step-limit", required_argument, NULL, OPTION_STEP_LIMIT},
    {"skip", required_argument, NULL, OPTION_SKIP},
    {"every", required_argument, NULL, OPTION_EVERY},
    {"max-wrong", required_argument, NULL, OPTION_MAX_WRONG},
    {"allow-incomplete", no_argument, NULL, OPTION_ALLOW_INCOMPLETE},
    {"window", required_argument, NULL, OPTION_WINDOW},
    {"windows", required_argument, NULL, OPTION_WINDOWS},
    {"after", required_argument, NULL, OPTION_AFTER},
    {"seed", required_argument, NULL, OPTION_SEED},
    {"break", required_argument, NULL, OPTION_BREAK},
    {"cpu", required_argument, NULL, OPTION_CPU},
    {"stdout", required_argument, NULL, OPTION_STDOUT},
    {"map-cache", required_argument, NULL, OPTION_MAP_CACHE},
    {"quiet", no_argument, NULL, OPTION_QUIET},
    {NULL, 0, NULL, 0},
};

static _Noreturn void usage(const char *what)
{
    fprintf(stderr, "step: %s\n%s", what, usage_text);
    exit(2);
}

static uint64_t number(const char *text)
{
    return driver_number(text, usage);
}

struct breakage {
    enum break_kind kind;
    uint64_t every;
};

static struct breakage parse_break(char *text)
{
    static const char *const names[] = {
        [BREAK_PC] = "pc",     [BREAK_RBP] = "rbp",   [BREAK_SHORT] = "short",
        [BREAK_LONG] = "long", [BREAK_SLOT] = "slot", [BREAK_SKIP] = "skip",
        [BREAK_FAST] = "fast"};
    struct breakage breakage = {BREAK_NOTHING, 1000};
    char *colon = strchr(text, ':');
    if (colon) {
        *colon = '\0';
        breakage.every = number(colon + 1);
    }
    for (size_t i = BREAK_NOTHING + 1; i < sizeof names / sizeof *names; i++) {
        if (strcmp(text, names[i]) == 0)
            breakage.kind = (enum break_kind)i;
    }
    if (breakage.kind == BREAK_NOTHING || breakage.every == 0)
        usage("--break: no such kind");
    return breakage;
}

struct settings {
    struct run_options run;
    const char *map_cache;
    bool allow_incomplete;
    struct breakage breakage;
};

static struct settings parse_options(int argc, char **argv)
{
    struct settings s = {.run = {.every = 1, .max_wrong = 10, .windows = 1, .after_ms = 100}};
    s.run.seed = 1;
    s.run.launch.cpu = sched_getcpu();
    int option;
    while ((option = getopt_long(argc, argv, "+", long_options, NULL)) != -1) {
        switch (option) {
        case OPTION_FROM:
            s.run.from = optarg;
            break;
        case OPTION_STEP_LIMIT:
            s.run.step_limit = number(optarg);
            break;
        case OPTION_SKIP:
            s.run.skip_steps = number(optarg);
            break;
        case OPTION_EVERY:
            s.run.every = number(optarg);
            break;
        case OPTION_MAX_WRONG:
            s.run.max_wrong = number(optarg);
            break;
        case OPTION_ALLOW_INCOMPLETE:
            s.allow_incomplete = true;
            break;
        case OPTION_WINDOW:
            s.run.window_steps = number(optarg);
            break;
        case OPTION_WINDOWS:
            s.run.windows = number(optarg);
            break;
        case OPTION_AFTER:
            s.run.after_ms = number(optarg);
            break;
        case OPTION_SEED:
            s.run.seed = number(optarg);
            break;
        case OPTION_BREAK:
            s.breakage = parse_break(optarg);
            break;
        case OPTION_CPU:
            s.run.launch.cpu = (int)number(optarg);
            break;
        case OPTION_STDOUT:
            s.run.launch.stdout_path = optarg;
            break;
        case OPTION_MAP_CACHE:
            s.map_cache = optarg;
            break;
        case OPTION_QUIET:
            s.run.quiet = true;
            break;
        default:
            usage("options");
        }
    }
    if (optind == argc)
        usage("which program?");
    if (s.run.every == 0)
        usage("--every 0 compares nothing");
    s.run.launch.argv = argv + optind;
    return s;
}

static void print_results(const struct run *run, double seconds)
{
    const struct findings *found = &run->comparer.findings;
    uint64_t compared = run->comparer.compared;
    report_findings(stdout, found, FOUND_WRONG, compared);
    report_findings(stdout, found, FOUND_FAST, compared);
    if (!run->options.quiet) {
        report_findings(stdout, found, FOUND_INCOMPLETE, compared);
        report_findings(stdout, found, FOUND_AHEAD, compared);
        report_findings(stdout, found, FOUND_REPLACED, compared);
        printf("returns to pushed addresses %" PRIu64 ", redirected returns %" PRIu64
               ", walks that kept frames of the last one %" PRIu64 "\n",
               run->ret_jumps, run->redirected, run->comparer.joined);
    }
    printf("steps %" PRIu64 ", compared %" PRIu64 ", wrong %" PRIu64 ", incomplete %" PRIu64
           ", oracle_trouble %" PRIu64 ", seconds %.2f\n",
           run->steps, compared, found->totals[FOUND_WRONG] + found->totals[FOUND_FAST],
           found->totals[FOUND_INCOMPLETE], run->trouble, seconds);
}

static bool has_failed(const struct run *run, bool allow_incomplete)
{
    const uint64_t *found = run->comparer.findings.totals;
    uint64_t compared = run->comparer.compared;
    return compared == 0 || run->trouble > 0 || found[FOUND_WRONG] > 0 || found[FOUND_FAST] > 0 ||
           (!allow_incomplete && found[FOUND_INCOMPLETE] * 10000 > compared) ||
           (found[FOUND_AHEAD] + found[FOUND_REPLACED]) * 20 > compared;
}

int main(int argc, char **argv)
{
    struct settings settings = parse_options(argc, argv);
    struct run run = {.options = settings.run, .modules.cache_folder = settings.map_cache};
    struct ct_error err;
    setvbuf(stdout, NULL, _IOLBF, 0);
    comparer_begin(&run.comparer, settings.run.launch.argv[0], &run.modules);
    run.comparer.break_kind = settings.breakage.kind;
    run.comparer.break_every = settings.breakage.every;

    double begin = driver_seconds();
    if ((settings.map_cache && make_folders(settings.map_cache, &err) != CT_OK) ||
        run_program(&run, &err) != CT_OK) {
        fprintf(stderr, "step: %s\n", err.text);
        return 2;
    }
    print_results(&run, driver_seconds() - begin);

    bool failed = has_failed(&run, settings.allow_incomplete);
    comparer_free(&run.comparer);
    modules_free(&run.modules);
    return failed ? 1 : 0;
}
