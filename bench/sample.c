/*
 * What a sample costs: a program to be run by `calltrail record` (bench/sample.py does).
 *
 *   sample work DEPTH TOP MS       has that depth of stack, and moves its top up and down as it
 * works sample toggle DEPTH TOP PAIRS  does the same piece of work with calltrail's handler and
 * with one that is empty, in turn, and prints the CPU time of both, in ns
 *
 * The stack has DEPTH frames of functions that call each other at random, and on top of them up to
 * TOP that come and go. The event and its signal are the same in both halves of a pair: what is
 * left is what calltrail's own code takes, with all that it does to the caches.
 */
#include "walk_stack.h"

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>

enum { UNITS = 30000, ROUNDS = 60 };

static unsigned top_frames;

struct top {
    uint32_t random;
    uint32_t units; /* of work that are left */
};

static uint32_t next_random(struct top *t)
{
    t->random ^= t->random << 13;
    t->random ^= t->random >> 17;
    t->random ^= t->random << 5;
    return t->random;
}

typedef unsigned frame_fn(unsigned level, struct top *top);
static frame_fn *const frames[8];

#define FRAME(name, bytes)                                                                         \
    static __attribute__((noinline)) unsigned name(unsigned level, struct top *t)                  \
    {                                                                                              \
        volatile char local[bytes];                                                                \
        volatile unsigned sum = level;                                                             \
        local[0] = (char)level;                                                                    \
        for (unsigned i = 0; i < ROUNDS; i++)                                                      \
            sum = sum * 1664525u + 1013904223u;                                                    \
        while (t->units && level < top_frames && next_random(t) % 8 < 5) {                         \
            t->units--;                                                                            \
            sum += frames[next_random(t) % 8](level + 1, t);                                       \
        }                                                                                          \
        return sum + (unsigned)local[0];                                                           \
    }

FRAME(a, 8)
FRAME(b, 24)
FRAME(c, 40)
FRAME(d, 72)
FRAME(e, 104)
FRAME(f, 136)
FRAME(g, 200)
FRAME(h, 264)

static frame_fn *const frames[8] = {a, b, c, d, e, f, g, h};

static uint64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* A piece of work, always the same. */
static uint64_t work_ns(void)
{
    struct top top = {.random = 2463534242u, .units = UNITS};
    uint64_t start = cpu_ns();
    while (top.units)
        a(0, &top);
    return cpu_ns() - start;
}

/* As the kernel has it: calltrail hides its handler from sigaction. */
struct kernel_action {
    void (*handler)(int, siginfo_t *, void *);
    unsigned long flags;
    void (*restorer)(void);
    uint64_t mask;
};

static void change_action(const struct kernel_action *new, struct kernel_action *old)
{
    long status;
    register long size __asm__("r10") = sizeof old->mask;
    __asm__ volatile("syscall"
                     : "=a"(status)
                     : "a"(SYS_rt_sigaction), "D"(SIGVTALRM), "S"(new), "d"(old), "r"(size)
                     : "rcx", "r11", "memory");
    if (status != 0) {
        fprintf(stderr, "sample: rt_sigaction: %s\n", strerror((int)-status));
        exit(1);
    }
}

static void do_nothing(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)info;
    (void)context;
}

static int toggle(void *argument)
{
    unsigned pairs = *(const unsigned *)argument;
    struct kernel_action ours, empty;
    change_action(NULL, &ours);
    if ((void *)ours.handler == (void *)SIG_DFL) {
        fprintf(stderr, "sample: is to be run by calltrail record\n");
        exit(1);
    }
    empty = ours;
    empty.handler = do_nothing;
    for (unsigned i = 0; i < 5; i++)
        work_ns();
    for (unsigned i = 0; i < pairs; i++) {
        /* Which comes first changes: what the first does to the second would not be noticed. */
        bool ours_first = i % 2;
        change_action(ours_first ? &ours : &empty, NULL);
        uint64_t first = work_ns();
        change_action(ours_first ? &empty : &ours, NULL);
        uint64_t second = work_ns();
        printf("%llu %llu\n", (unsigned long long)(ours_first ? first : second),
               (unsigned long long)(ours_first ? second : first));
    }
    change_action(&ours, NULL);
    return 0;
}

static int work(void *argument)
{
    uint64_t end = cpu_ns() + *(const unsigned *)argument * UINT64_C(1000000);
    while (cpu_ns() < end)
        work_ns();
    return 0;
}

int main(int argc, char **argv)
{
    if (argc != 5)
        return 2;
    unsigned amount = (unsigned)atoi(argv[4]);
    top_frames = (unsigned)atoi(argv[3]);
    grow_stack_without_frame_pointers(atoi(argv[2]), RANDOM, 1,
                                      strcmp(argv[1], "toggle") == 0 ? toggle : work, &amount);
    return 0;
}
