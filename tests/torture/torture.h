/*
 * What the torture programs share. Each prints what it observed, without addresses, process ids or
 * times, so that a run under the profiler can be compared with a plain one byte by byte.
 */
#ifndef TORTURE_H
#define TORTURE_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))

/* A check that failed is printed, and makes the program fail; it does not stop it. */
static int torture_failures __attribute__((unused));

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            printf("line %d: not so: %s\n", __LINE__, #condition);                                 \
            torture_failures++;                                                                    \
        }                                                                                          \
    } while (0)

static inline int torture_end(void)
{
    printf("%d failures\n", torture_failures);
    fflush(stdout);
    return torture_failures != 0;
}

static inline uint64_t thread_cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Work for the processor that the compiler cannot leave out; async-signal-safe. */
static NOINLINE __attribute__((unused)) unsigned spin(unsigned rounds)
{
    volatile unsigned sum = 1;
    for (unsigned i = 0; i < rounds; i++)
        sum = sum * 1664525u + 1013904223u;
    return sum;
}

/* Uses that much CPU time of the calling thread. */
static NOINLINE __attribute__((unused)) void burn_ms(unsigned ms)
{
    uint64_t end = thread_cpu_ns() + ms * UINT64_C(1000000);
    do
        spin(20000);
    while (thread_cpu_ns() < end);
}

#endif
