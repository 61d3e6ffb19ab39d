/*
 * Burns CPU time in the ways that make a sampler miss some of it, and says how much it was: one
 * line for each part, "PART TID CPU_NS USER_NS", by the clock of the thread that burnt it and by
 * what the kernel found it doing (bursts: rounds of a loop instead). The functions have the names
 * of the parts, so that a profile can be compared. The last line is the process's: "all 0 0 NS".
 *
 *   burn one MS                a busy thread
 *   burn many MS               eight threads, each with that much, and names t0 to t7
 *   burn blocked MS            threads that block all signals, in three ways
 *   burn raw MS                one that does so by the bare system call, for a third of the time
 *   burn bursts COUNT          threads that live for 0.1 to 2 ms, beside one that stays
 *   burn calls MS              user time between system calls that take as long
 */
#include "../torture/torture.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/syscall.h>

struct burnt {
    uint64_t cpu_ns, user_ns;
};

static uint64_t user_ns(int who)
{
    struct rusage usage;
    getrusage(who, &usage);
    return (uint64_t)usage.ru_utime.tv_sec * 1000000000 + (uint64_t)usage.ru_utime.tv_usec * 1000;
}

static void say(const char *part, struct burnt burnt)
{
    printf("%s %ld %llu %llu\n", part, syscall(SYS_gettid), (unsigned long long)burnt.cpu_ns,
           (unsigned long long)burnt.user_ns);
}

/*
 * Each part burns in a function of its own, though they are alike. What a thread did is counted
 * too: where threads are short, much of their CPU time is the kernel's.
 */
#define PART(name)                                                                                 \
    static NOINLINE __attribute__((no_icf)) struct burnt name(uint64_t ns)                         \
    {                                                                                              \
        const unsigned rounds = ns < 3000000 ? 30000 : 200000;                                     \
        uint64_t start = thread_cpu_ns(), user_start = user_ns(RUSAGE_THREAD), passed;             \
        do {                                                                                       \
            spin(rounds);                                                                          \
            rounds_done += rounds;                                                                 \
        } while ((passed = thread_cpu_ns() - start) < ns);                                         \
        return (struct burnt){passed, user_ns(RUSAGE_THREAD) - user_start};                        \
    }

static __thread uint64_t rounds_done;

PART(one)
PART(many)
PART(by_pthread_sigmask)
PART(by_sigprocmask)
PART(by_syscall)
PART(before_raw)
PART(raw)
PART(after_raw)
PART(steady)
PART(burst)
PART(between_calls)

static uint64_t burn_ns;

static void *run_many(void *name)
{
    pthread_setname_np(pthread_self(), name);
    say("many", many(burn_ns));
    return NULL;
}

static void *run_by_pthread_sigmask(void *argument)
{
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    say("by_pthread_sigmask", by_pthread_sigmask(burn_ns));
    return argument;
}

static void *run_by_sigprocmask(void *argument)
{
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    say("by_sigprocmask", by_sigprocmask(burn_ns));
    return argument;
}

static void *run_by_syscall(void *argument)
{
    uint64_t all = UINT64_MAX;
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, NULL, sizeof all);
    say("by_syscall", by_syscall(burn_ns));
    return argument;
}

/* No library function stands in between. */
static long set_mask(uint64_t mask)
{
    long result;
    register long size __asm__("r10") = sizeof mask;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(SYS_rt_sigprocmask), "D"(SIG_SETMASK), "S"(&mask), "d"(0), "r"(size)
                     : "rcx", "r11", "memory");
    return result;
}

static void *run_raw(void *argument)
{
    say("before_raw", before_raw(burn_ns));
    set_mask(UINT64_MAX);
    struct burnt burnt = raw(burn_ns);
    set_mask(0);
    say("raw", burnt);
    say("after_raw", after_raw(burn_ns));
    return argument;
}

/* What bursts did goes into one sum: they must not spend their short lives on printing. */
static _Atomic uint64_t bursts_rounds;

static void *run_burst(void *argument)
{
    burst((uint64_t)(uintptr_t)argument);
    bursts_rounds += rounds_done;
    return NULL;
}

/* The one that stays works in between, so that a machine that is fast now and slow then is fair. */
static void run_bursts(unsigned count)
{
    uint32_t random = 1;
    for (unsigned i = 0; i < count; i++) {
        pthread_t thread;
        random = random * 1664525u + 1013904223u;
        uintptr_t ns = 100000 + random / 256 % 1900000;
        if (pthread_create(&thread, NULL, run_burst, (void *)ns) == 0)
            pthread_join(thread, NULL);
        steady(ns);
    }
    say("steady", (struct burnt){rounds_done, rounds_done});
    say("burst", (struct burnt){bursts_rounds, bursts_rounds});
}

static void run_calls(uint64_t ns)
{
    static char buffer[1 << 18];
    int zero = open("/dev/zero", O_RDONLY);
    struct burnt sum = {0, 0};
    while (sum.cpu_ns < ns) {
        sum.cpu_ns += between_calls(100000).cpu_ns;
        if (read(zero, buffer, sizeof buffer) < 0)
            break;
        if (read(zero, buffer, sizeof buffer) < 0)
            break;
    }
    close(zero);
    sum.user_ns = user_ns(RUSAGE_THREAD); /* what is not between calls is the kernel's */
    say("between_calls", sum);
}

static void run_threads(unsigned count, void *(*const *run)(void *))
{
    static char names[][4] = {"t0", "t1", "t2", "t3", "t4", "t5", "t6", "t7"};
    pthread_t threads[8];
    for (unsigned i = 0; i < count; i++)
        pthread_create(&threads[i], NULL, run[i], names[i]);
    for (unsigned i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
}

int main(int argc, char **argv)
{
    static void *(*const eight[])(void *) = {run_many, run_many, run_many, run_many,
                                             run_many, run_many, run_many, run_many};
    static void *(*const blocked[])(void *) = {run_by_pthread_sigmask, run_by_sigprocmask,
                                               run_by_syscall};
    static void *(*const bare[])(void *) = {run_raw};
    if (argc != 3)
        return 2;
    const char *what = argv[1];
    unsigned amount = (unsigned)atoi(argv[2]);
    burn_ns = amount * UINT64_C(1000000);
    if (strcmp(what, "one") == 0)
        say("one", one(burn_ns));
    else if (strcmp(what, "many") == 0)
        run_threads(8, eight);
    else if (strcmp(what, "blocked") == 0)
        run_threads(3, blocked);
    else if (strcmp(what, "raw") == 0)
        run_threads(1, bare);
    else if (strcmp(what, "bursts") == 0)
        run_bursts(amount);
    else if (strcmp(what, "calls") == 0)
        run_calls(burn_ns);
    printf("all 0 0 %llu\n", (unsigned long long)user_ns(RUSAGE_SELF));
    return 0;
}
