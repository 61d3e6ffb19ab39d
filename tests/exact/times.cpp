/*
 * What -m time says must be true: each function measures, by the same counter, how long it works
 * (its own time is at least that), and its caller how long it takes (its time with all that it
 * calls is at most that). Prints `FUNCTION least most` in ns, 0 where there is no bound.
 */
#include <csetjmp>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <pthread.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>
#include <x86intrin.h>

#define NOINLINE __attribute__((noinline, noclone))
#define ALWAYS   static inline __attribute__((always_inline))

enum what {
    RECURSES,
    TAIL,
    FROM_TAIL,
    JUMPS,
    LANDS,
    THROWS,
    CATCHES,
    CALLED_BY_HANDLER,
    COROUTINE,
    SWITCHES,
    THREAD,
    CALLBACK,
    CALLS,
    IN_CHILD,
    KILLED,
    WHATS
};

static const char *const names[WHATS] = {"recurses",  "tail",     "from_tail", "jumps",
                                         "lands",     "throws",   "catches",   "called_by_handler",
                                         "coroutine", "switches", "thread",    "callback",
                                         "calls",     "in_child", "killed"};
static struct {
    uint64_t least, most;
} ticks[WHATS];

/* Works for a while, and knows for how long; no call. */
ALWAYS void work(what who)
{
    const uint64_t begin = __rdtsc();
    for (unsigned i = 0; i < 20000; i++)
        __asm__ volatile("");
    ticks[who].least += __rdtsc() - begin;
}

/* From here to there. */
#define TAKES(who, ...)                                                                            \
    do {                                                                                           \
        const uint64_t begin = __rdtsc();                                                          \
        __VA_ARGS__;                                                                               \
        ticks[who].most += __rdtsc() - begin;                                                      \
    } while (0)

static NOINLINE int recurses(int depth)
{
    work(RECURSES);
    int below = depth ? recurses(depth - 1) : 0;
    work(RECURSES);
    return below + 1;
}

static NOINLINE int from_tail(int n)
{
    work(FROM_TAIL);
    return n;
}

static NOINLINE int tail(int n)
{
    work(TAIL);
    return from_tail(n + 1);
}

static jmp_buf landing;
static uint64_t jumped;

static NOINLINE void jumps(int depth)
{
    work(JUMPS);
    if (depth == 0)
        longjmp(landing, 1);
    jumps(depth - 1);
    __asm__ volatile("");
}

static NOINLINE void lands()
{
    for (volatile int i = 0; i < 20; i = i + 1) {
        jumped = __rdtsc();
        if (setjmp(landing) == 0)
            jumps(i % 7);
        ticks[JUMPS].most += __rdtsc() - jumped;
        work(LANDS);
    }
}

static NOINLINE void throws(int depth)
{
    work(THROWS);
    if (depth == 0)
        throw depth;
    throws(depth - 1);
    __asm__ volatile("");
}

static NOINLINE void catches()
{
    for (int i = 0; i < 20; i++) {
        const uint64_t begin = __rdtsc();
        try {
            throws(i % 7);
        } catch (int) {
            ticks[THROWS].most += __rdtsc() - begin;
            work(CATCHES);
        }
    }
}

static NOINLINE void called_by_handler()
{
    work(CALLED_BY_HANDLER);
}

static void on_signal(int)
{
    TAKES(CALLED_BY_HANDLER, called_by_handler());
}

static ucontext_t outside, inside;

static NOINLINE void coroutine()
{
    for (;;) {
        work(COROUTINE);
        swapcontext(&inside, &outside);
    }
}

static NOINLINE void switches()
{
    static char stack[256 << 10];
    getcontext(&inside);
    inside.uc_stack.ss_sp = stack;
    inside.uc_stack.ss_size = sizeof stack;
    makecontext(&inside, coroutine, 0);
    for (int i = 0; i < 20; i++) {
        TAKES(COROUTINE, swapcontext(&outside, &inside));
        work(SWITCHES);
    }
}

static NOINLINE int callback(const void *a, const void *b)
{
    work(CALLBACK);
    return *(const int *)a - *(const int *)b;
}

static NOINLINE void *thread(void *)
{
    for (int i = 0; i < 100; i++)
        work(THREAD); /* longer than all else that the thread does before its first call */
    pthread_exit(nullptr);
}

static NOINLINE void calls()
{
    int items[8] = {3, 1, 4, 1, 5, 9, 2, 6};
    pthread_t other;
    work(CALLS);
    TAKES(RECURSES, recurses(20));
    for (int i = 0; i < 20; i++) {
        const uint64_t begin = __rdtsc();
        tail(i);
        ticks[TAIL].most += __rdtsc() - begin;
        ticks[FROM_TAIL].most = ticks[TAIL].most;
    }
    TAKES(LANDS, lands());
    TAKES(CATCHES, catches());
    signal(SIGUSR1, on_signal);
    for (int i = 0; i < 20; i++)
        raise(SIGUSR1);
    TAKES(SWITCHES, switches());
    TAKES(CALLBACK, qsort(items, 8, sizeof *items, callback));
    pthread_create(&other, nullptr, thread, nullptr);
    pthread_join(other, nullptr);
    work(CALLS);
}

static NOINLINE void in_child()
{
    work(IN_CHILD);
}

static NOINLINE void killed()
{
    work(KILLED);
}

/* Calls something in a child, which says how long that worked. */
static NOINLINE void forks(what who, void (*function)(), double ns_per_tick)
{
    fflush(stdout);
    if (fork() == 0) {
        TAKES(who, function());
        printf("%s %.0f %.0f\n", names[who], (double)ticks[who].least * ns_per_tick,
               (double)ticks[who].most * ns_per_tick);
        fflush(stdout);
        if (who == KILLED)
            kill(getpid(), SIGKILL);
        _exit(0);
    }
    wait(nullptr);
}

static uint64_t now_ns()
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Both clocks at one moment, as nearly as a few attempts give it. */
static void both_clocks(uint64_t *ns, uint64_t *stamp)
{
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < 16; i++) {
        const uint64_t before = __rdtsc(), between = now_ns(), apart = __rdtsc() - before;
        if (apart < least) {
            least = apart;
            *ns = between;
            *stamp = before + apart / 2;
        }
    }
}

int main()
{
    uint64_t ns[2], stamps[2];
    both_clocks(&ns[0], &stamps[0]);
    TAKES(CALLS, calls());
    const struct timespec while_ns = {0, 10000000};
    nanosleep(&while_ns, nullptr);
    both_clocks(&ns[1], &stamps[1]);
    const double ns_per_tick = (double)(ns[1] - ns[0]) / (double)(stamps[1] - stamps[0]);
    for (int i = 0; i < IN_CHILD; i++)
        printf("%s %.0f %.0f\n", names[i], (double)ticks[i].least * ns_per_tick,
               (double)ticks[i].most * ns_per_tick);
    forks(IN_CHILD, in_child, ns_per_tick);
    forks(KILLED, killed, ns_per_tick);
    return 0;
}
