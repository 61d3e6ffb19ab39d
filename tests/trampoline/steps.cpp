/*
 * Marks at every instruction. A scenario is run by single steps (the trap flag), and the runtime
 * samples the program
 *
 *     dense    at every instruction, those of the trampoline itself among them
 *     sparse   at one instruction, after which it runs on freely: once for each instruction, or for
 *              every STRIDE-th
 *
 * Each time the scenario must do what it does by itself, and its caller must find its registers.
 *
 *     steps SCENARIO dense|sparse [STRIDE [FIRST]]
 */
#include "marks.h"

#include <errno.h>
#include <execinfo.h>
#include <setjmp.h>
#include <stdexcept>
#include <string>
#include <sys/wait.h>

static char trace[256];
static unsigned trace_length;
static volatile int sink;

static void say(char c)
{
    if (trace_length < sizeof trace - 1)
        trace[trace_length++] = c;
}

/* --- scenarios ----------------------------------------------------------------------------- */

struct Noisy {
    char c;
    NOINLINE ~Noisy()
    {
        say(c);
    }
};

NOINLINE static void throws(int k)
{
    Noisy d{'1'};
    if (k == 0)
        throw std::runtime_error("x");
    throws(k - 1);
    sink = k;
}

NOINLINE static int exceptions()
{
    try {
        Noisy d{'2'};
        try {
            throws(2);
        } catch (std::logic_error &) {
            say('W');
        }
    } catch (std::exception &e) {
        say(e.what()[0]);
        return 6;
    }
    return 0;
}

static jmp_buf target;

NOINLINE static void jumps(int k)
{
    if (k == 0)
        longjmp(target, 5);
    jumps(k - 1);
    sink = k;
}

NOINLINE static int longjmps()
{
    int came = setjmp(target);
    say(came ? 'r' : 's');
    if (!came)
        jumps(3);
    return came;
}

static ucontext_t main_context, other_context;
static char other_stack[65536];

NOINLINE static int contexts()
{
    volatile int k = 0;
    getcontext(&main_context);
    say('g');
    if (k++ < 2)
        setcontext(&main_context);
    return k;
}

static void coroutine()
{
    say('c');
    swapcontext(&other_context, &main_context);
    say('d');
}

NOINLINE static int coroutines()
{
    getcontext(&other_context);
    other_context.uc_stack.ss_sp = other_stack;
    other_context.uc_stack.ss_size = sizeof other_stack;
    other_context.uc_link = &main_context;
    makecontext(&other_context, coroutine, 0);
    swapcontext(&main_context, &other_context);
    say('2');
    swapcontext(&main_context, &other_context);
    return 9;
}

/* The single steps end in the child: no handler there takes the trap. */
extern "C" void steps_on(void), steps_off(void);

NOINLINE static int vforks()
{
    pid_t pid = vfork();
    if (!pid)
        _exit(3);
    int status = 0;
    waitpid(pid, &status, 0);
    say((char)('0' + WEXITSTATUS(status)));
    return 4;
}

NOINLINE static int forks()
{
    pid_t pid = fork();
    if (!pid)
        _exit(3);
    int status = 0;
    waitpid(pid, &status, 0);
    say((char)('0' + WEXITSTATUS(status)));
    return 4;
}

NOINLINE static int callers()
{
    Dl_info info;
    void *next = dlsym(RTLD_NEXT, "malloc");
    say(next && dladdr(next, &info) && strstr(info.dli_fname, "libc.so") ? 'C' : 'X');
    return 1;
}

NOINLINE static int backtraces()
{
    void *addresses[30];
    int n = backtrace(addresses, 30);
    say(n > 3 ? 'b' : 'B');
    return 1;
}

NOINLINE static int prints()
{
    char text[64];
    snprintf(text, sizeof text, "%d %s %.3f %Lf", 5, "abc", 1.5, 2.5L);
    for (char *c = text; *c; c++)
        say(*c);
    return 1;
}

static int ascending(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

NOINLINE static int sorts()
{
    int v[] = {5, 3, 1, 8, 2, 9, 4, 7};
    qsort(v, 8, sizeof v[0], ascending);
    for (int x : v)
        say((char)('0' + x));
    return v[7];
}

NOINLINE static long double in_x87(long double x)
{
    return x * 1.5L;
}

NOINLINE static double in_vector(double x)
{
    return x * 2.5;
}

NOINLINE static __int128 in_two(long x)
{
    return (__int128)x << 70 | x;
}

/* Functions that look at their own return address, the second by a jump, see the real one. */
NOINLINE static void *asks_for_caller()
{
    sink = sink + 1;
    return __builtin_return_address(0);
}

NOINLINE static void *jumps_to_it()
{
    sink = sink + 2;
    return asks_for_caller();
}

extern "C" char __executable_start, etext;

static bool is_ours(void *pc)
{
    return (char *)pc > &__executable_start && (char *)pc < &etext;
}

NOINLINE static int values()
{
    if (!is_ours(asks_for_caller()) || !is_ours(jumps_to_it()))
        say('A');
    sink = sink + 1;
    if (in_x87(2) != 3 || in_vector(2) != 5 || in_two(3) != ((__int128)3 << 70 | 3))
        say('V');
    say('v');
    return (int)in_vector(4);
}

static const struct {
    const char *name;
    int (*run)();
} scenarios[] = {{"exceptions", exceptions}, {"longjmps", longjmps},     {"contexts", contexts},
                 {"coroutines", coroutines}, {"vforks", vforks},         {"forks", forks},
                 {"callers", callers},       {"backtraces", backtraces}, {"prints", prints},
                 {"sorts", sorts},           {"values", values}};

static int (*scenario)();

/* --- the driver ----------------------------------------------------------------------------- */

__asm__(".text\n"
        ".type steps_on, @function\n"
        "steps_on: .cfi_startproc\n pushfq\n .cfi_adjust_cfa_offset 8\n"
        " orq $0x100, (%rsp)\n popfq\n .cfi_adjust_cfa_offset -8\n ret\n .cfi_endproc\n"
        ".size steps_on, . - steps_on\n"
        ".type steps_off, @function\n"
        "steps_off: .cfi_startproc\n pushfq\n .cfi_adjust_cfa_offset 8\n"
        " andq $~0x100, (%rsp)\n popfq\n .cfi_adjust_cfa_offset -8\n ret\n .cfi_endproc\n"
        ".size steps_off, . - steps_off\n");

static long step, sample_step; /* at this one; 0: at none, -1: at each */
static long in_runtime, broken_unwinds;
static uintptr_t runtime_end;
static void *main_start;

static _Unwind_Reason_Code find_main(struct _Unwind_Context *c, void *found)
{
    uintptr_t pc = _Unwind_GetIP(c);
    if (pc > (uintptr_t)main_start && pc < (uintptr_t)main_start + 4096)
        *(int *)found = 1;
    return _URC_NO_REASON;
}

static void on_trap(int, siginfo_t *, void *context)
{
    ucontext_t *c = (ucontext_t *)context;
    greg_t *r = c->uc_mcontext.gregs;
    int kept = errno;
    step++;
    if (sample_step < 0 || step == sample_step)
        sample(c);
    if (sample_step < 0 && runtime_base && (uintptr_t)r[REG_RIP] >= (uintptr_t)runtime_base &&
        (uintptr_t)r[REG_RIP] < runtime_end) { /* others must find their way out of it, too */
        int found = 0;
        in_runtime++;
        _Unwind_Backtrace(find_main, &found);
        broken_unwinds += !found;
    }
    if (sample_step > 0 && step == sample_step)
        r[REG_EFL] &= ~0x100;
    errno = kept;
}

/* A frame above the scenario: it has values in all registers that it may count on. */
NOINLINE static int run_once(long at, bool by_steps)
{
    step = 0;
    sample_step = at;
    trace_length = 0;
    memset(trace, 0, sizeof trace);
    long a = at + 1, b = at + 2, c = at + 3, d = at + 4;
    __asm__ volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d));
    if (by_steps)
        steps_on();
    int result = scenario();
    steps_off();
    __asm__ volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d));
    if (a != at + 1 || b != at + 2 || c != at + 3 || d != at + 4)
        say('R');
    return result;
}

static void find_runtime_end()
{
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "r");
    unsigned long start, end;
    while (maps && fgets(line, sizeof line, maps))
        if (strstr(line, "libcalltrail-") && sscanf(line, "%lx-%lx", &start, &end) == 2)
            runtime_end = end;
    if (maps)
        fclose(maps);
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    bool dense = strcmp(argv[2], "dense") == 0;
    long stride = argc > 3 ? atol(argv[3]) : 1, first = argc > 4 ? atol(argv[4]) : 1;
    for (auto &s : scenarios)
        if (strcmp(s.name, argv[1]) == 0)
            scenario = s.run;
    if (!scenario)
        return 2;
    marks_begin();
    find_runtime_end();
    main_start = (void *)main;
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = on_trap;
    action.sa_flags = SA_SIGINFO;
    sigfillset(&action.sa_mask);
    sigaction(SIGTRAP, &action, NULL);
    int found = 0;
    _Unwind_Backtrace(find_main,
                      &found); /* what is bound or loaded at first use is, from here on */
    run_once(0, false);
    int expected = run_once(0, false);
    std::string expected_trace(trace, trace_length);
    int got = run_once(0, true);
    long count = step, bad = got != expected || expected_trace != trace, total = 1;
    if (dense) {
        got = run_once(-1, true);
        total++;
        bad += got != expected || expected_trace != trace || broken_unwinds;
    } else {
        for (long at = first; at < count; at += stride, total++) {
            got = run_once(at, true);
            bad += got != expected || expected_trace != trace;
        }
    }
    /* How many runs there are depends on the instructions: fork is a longer way when recorded. */
    printf("%s %s: %ld runs not as without marks\n", argv[1], argv[2], bad);
    fprintf(stderr, "%ld runs, %ld instructions, %ld in the runtime, unwinds broken there: %ld\n",
            total, dense ? step : count, in_runtime, broken_unwinds);
    return bad != 0;
}
