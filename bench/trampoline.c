/*
 * What a sample costs against the depth of the stack, with the trampoline and without, when the top
 * of the stack moves by 1, 8 and 64 frames between two samples; and what a return through it costs.
 *
 *     trampoline CALLTRAIL      prints the tables; runs itself under `CALLTRAIL record`
 *     trampoline DEPTH MOVES    under record: calls the runtime's signal handler at that depth,
 *                               times it, and prints the median; 0 MOVES: works, for whole runs
 */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

enum { SAMPLES = 400, ROUNDS = 5, WHOLE_ROUNDS = 20, MOST_ROUNDS = 20 };

#define NOINLINE __attribute__((noinline, noclone))

static void (*handler)(int, siginfo_t *, void *);
static double sample_ns[SAMPLES], return_ns[SAMPLES];
static unsigned taken;
static double returned_at;
static volatile long sink;

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(double *values, unsigned count)
{
    qsort(values, count, sizeof *values, ascending);
    return count ? values[count / 2] : 0;
}

/* --- under record --------------------------------------------------------------------------- */

/*
 * A sample here, as the handler would see it. Little of the time is its own: the next one is
 * only taken after ten times as long.
 */
static NOINLINE void take_sample(void)
{
    static ucontext_t context;
    static siginfo_t info;
    static double last;
    double begin = now_ns();
    while (now_ns() - begin < 10 * last + 500)
        ;
    getcontext(&context);
    begin = now_ns();
    handler(SIGVTALRM, &info, &context);
    double end = now_ns();
    last = end - begin;
    sample_ns[taken] = last;
    returned_at = end;
}

/* Two of a kind, in turns: what the top of the stack moves to is not what was there before. */
#define MOVE(name)                                                                                 \
    static NOINLINE long name(int frames)                                                          \
    {                                                                                              \
        if (frames <= 1) {                                                                         \
            take_sample();                                                                         \
            returned_at = now_ns();                                                                \
            return 1;                                                                              \
        }                                                                                          \
        long result = name(frames - 1);                                                            \
        sink = result;                                                                             \
        return result + 1;                                                                         \
    }

MOVE(move_one)
MOVE(move_other)

static NOINLINE long descend(int depth, int moves)
{
    if (depth > 0) {
        long result = descend(depth - 1, moves);
        sink = result;
        return result + 1;
    }
    for (taken = 0; taken < SAMPLES; taken++) {
        sink = taken % 2 ? move_one(moves) : move_other(moves);
        return_ns[taken] = now_ns() - returned_at;
    }
    return 1;
}

/* A program that is deep and moves: 2,000 frames, with trees of calls at the bottom. */
static NOINLINE long tree(int height)
{
    if (height == 0)
        return 1;
    long result = tree(height - 1) + tree(height - 1);
    sink = result;
    return result;
}

static NOINLINE long work(int depth)
{
    if (depth == 0) {
        long result = 0;
        for (int i = 0; i < 400; i++)
            result += tree(18);
        return result;
    }
    long result = work(depth - 1);
    sink = result;
    return result + 1;
}

/* libc's sigaction and syscall would not tell: the runtime stands in for them. */
static long raw_syscall(long number, long a, const void *b, void *c, long d)
{
    register long r10 __asm__("r10") = d;
    __asm__ volatile("syscall"
                     : "+a"(number)
                     : "D"(a), "S"(b), "d"(c), "r"(r10)
                     : "rcx", "r11", "memory");
    return number;
}

static int measure_here(int depth, int moves)
{
    struct {
        void (*handler)(int, siginfo_t *, void *);
        unsigned long flags;
        void (*restorer)(void);
        unsigned long mask;
    } action = {0};
    raw_syscall(SYS_rt_sigaction, SIGVTALRM, NULL, &action, 8);
    handler = action.handler;
    if (!moves) {
        work(depth);
        return 0;
    }
    if ((uintptr_t)handler <= 1)
        return 1;
    descend(depth - moves, moves);
    printf("%.1f %.1f\n", median(sample_ns + 20, SAMPLES - 20),
           median(return_ns + 20, SAMPLES - 20));
    return 0;
}

/* --- the driver ----------------------------------------------------------------------------- */

static const char *calltrail, *self;
static char profile[64];

struct cost {
    double sample_ns, return_ns, walked;
};

static struct cost run_once(int depth, int moves, int with)
{
    char command[1024], line[4096];
    struct cost cost = {0};
    snprintf(command, sizeof command, "%s record -F 1 %s -o %s -- %s %d %d", calltrail,
             with ? "" : "--no-trampoline", profile, self, depth, moves);
    FILE *out = popen(command, "r");
    if (!out || fscanf(out, "%lf %lf", &cost.sample_ns, &cost.return_ns) != 2)
        fprintf(stderr, "no measurement: %s\n", command);
    if (out)
        pclose(out);
    snprintf(command, sizeof command, "%s info %s", calltrail, profile);
    out = popen(command, "r");
    while (out && fgets(line, sizeof line, out))
        if (!cost.walked && strstr(line, "frames_walked_per_sample"))
            sscanf(line, " %*s %lf", &cost.walked);
    if (out)
        pclose(out);
    return cost;
}

/* Medians of rounds in which both kinds take turns. */
static void compare(int depth, int moves, struct cost *with, struct cost *without)
{
    double values[2][3][ROUNDS];
    for (unsigned round = 0; round < ROUNDS; round++)
        for (int kind = 0; kind < 2; kind++) {
            struct cost c = run_once(depth, moves, kind);
            values[kind][0][round] = c.sample_ns;
            values[kind][1][round] = c.return_ns;
            values[kind][2][round] = c.walked;
        }
    for (int kind = 0; kind < 2; kind++)
        *(kind ? with : without) = (struct cost){.sample_ns = median(values[kind][0], ROUNDS),
                                                 .return_ns = median(values[kind][1], ROUNDS),
                                                 .walked = median(values[kind][2], ROUNDS)};
}

static double cpu_s(const char *command)
{
    struct rusage before, after;
    getrusage(RUSAGE_CHILDREN, &before);
    if (system(command) != 0)
        fprintf(stderr, "failed: %s\n", command);
    getrusage(RUSAGE_CHILDREN, &after);
    return (double)(after.ru_utime.tv_sec - before.ru_utime.tv_sec) +
           (double)(after.ru_stime.tv_sec - before.ru_stime.tv_sec) +
           (double)(after.ru_utime.tv_usec - before.ru_utime.tv_usec) / 1e6 +
           (double)(after.ru_stime.tv_usec - before.ru_stime.tv_usec) / 1e6;
}

static void whole_program(int hz)
{
    char commands[3][1024];
    double times[3][MOST_ROUNDS];
    snprintf(commands[0], sizeof commands[0], "%s 2000 0", self);
    snprintf(commands[1], sizeof commands[1], "%s record -F %d --no-trampoline -o %s -- %s 2000 0",
             calltrail, hz, profile, self);
    snprintf(commands[2], sizeof commands[2], "%s record -F %d -o %s -- %s 2000 0", calltrail, hz,
             profile, self);
    for (unsigned round = 0; round < WHOLE_ROUNDS; round++)
        for (unsigned kind = 0; kind < 3; kind++)
            times[kind][round] = cpu_s(commands[kind]);
    double plain = median(times[0], WHOLE_ROUNDS);
    printf("| %d Hz | %.3f s | %+.2f %% | %+.2f %% |\n", hz, plain,
           (median(times[1], WHOLE_ROUNDS) / plain - 1) * 100,
           (median(times[2], WHOLE_ROUNDS) / plain - 1) * 100);
}

int main(int argc, char **argv)
{
    static const int depths[] = {8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096};
    static const int moves[] = {1, 8, 64};
    if (argc == 3)
        return measure_here(atoi(argv[1]), atoi(argv[2]));
    if (argc != 2)
        return 2;
    calltrail = argv[1];
    self = realpath("/proc/self/exe", NULL);
    snprintf(profile, sizeof profile, "/tmp/bench-trampoline-%d.ctp", getpid());
    struct cost with, without, base = {0}, deep = {0};
    double bounce_ns = 0;
    printf("One sample, in microseconds, and the frames that it walks anew; the whole handler.\n\n"
           "| depth | moves by | without: µs | frames | with: µs | frames |\n"
           "|---:|---:|---:|---:|---:|---:|\n");
    run_once(16, 1, 1); /* makes the maps */
    for (unsigned m = 0; m < 3; m++)
        for (unsigned d = 0; d < sizeof depths / sizeof depths[0]; d++) {
            if (depths[d] < moves[m] + 1)
                continue;
            compare(depths[d], moves[m], &with, &without);
            printf("| %d | %d | %.2f | %.0f | %.2f | %.0f |\n", depths[d], moves[m],
                   without.sample_ns / 1e3, without.walked, with.sample_ns / 1e3, with.walked);
            fflush(stdout);
            if (moves[m] == 8 && depths[d] == 16)
                base = with;
            if (moves[m] == 8 && depths[d] == 4096)
                deep = with;
            if (moves[m] == 64 && depths[d] == 256)
                bounce_ns = (with.return_ns - without.return_ns) / 64;
        }
    printf(
        "\nDepth 4096 against depth 16, the top moving by 8 frames: %.2f times (at most 1.5 "
        "wanted).\nA return through the trampoline: %.1f ns more than one without.\n\n"
        "A whole program, 2,000 frames deep, CPU time of it and calltrail together, medians of "
        "%d rounds that take turns:\n\n| rate | plain | without | with |\n|---:|---:|---:|---:|\n",
        deep.sample_ns / base.sample_ns, bounce_ns, WHOLE_ROUNDS);
    whole_program(999);
    whole_program(9999);
    unlink(profile);
    return 0;
}
