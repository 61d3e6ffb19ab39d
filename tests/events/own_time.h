/* What the programs here measure of themselves: clocks, and CPU time that is spent on purpose. */
#ifndef TESTS_EVENTS_OWN_TIME_H
#define TESTS_EVENTS_OWN_TIME_H

#define _GNU_SOURCE
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>

static inline double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* CPU time of the calling thread, with what the kernel has of it: its tick, and signals. */
static inline double cpu_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Of the calling thread, in user mode. */
static inline double user_s(void)
{
    struct rusage u;
    getrusage(RUSAGE_THREAD, &u);
    return (double)u.ru_utime.tv_sec + (double)u.ru_utime.tv_usec / 1e6;
}

__attribute__((noinline, noclone, unused)) static double burn(double s)
{
    volatile unsigned x = 0;
    double start = user_s();
    do
        for (int i = 0; i < 100000; i++)
            x += (unsigned)i;
    while (user_s() - start < s);
    return user_s() - start;
}

/* How long the thread has waited for a processor so far, which cannot be attributed. */
__attribute__((unused)) static double queued_s(void)
{
    unsigned long long ran_ns = 0, queued_ns = 0;
    FILE *file = fopen("/proc/thread-self/schedstat", "re");
    if (file) {
        if (fscanf(file, "%llu %llu", &ran_ns, &queued_ns) != 2)
            queued_ns = 0;
        fclose(file);
    }
    return (double)queued_ns / 1e9;
}

__attribute__((unused)) static void nap(double s)
{
    struct timespec t = {(time_t)s, (long)((s - (double)(time_t)s) * 1e9)};
    nanosleep(&t, NULL);
}

#endif
