/*
 * Calls of known duration in CPU time, nearly all of it in user mode, as the thread's own clock has
 * it: `long_call` lasts MILLISECONDS and is called COUNT times by one caller and twice as often by
 * another.
 *
 *     durations COUNT MILLISECONDS
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define NOINLINE __attribute__((noinline, noclone))

static volatile long sink;

static double cpu_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

NOINLINE void short_call(long n)
{
    for (long i = 0; i < n; i++)
        sink = sink + i;
}

NOINLINE void long_call(double ms)
{
    double end = cpu_ms() + ms;
    while (cpu_ms() < end)
        short_call(20000);
    __asm__ volatile("");
}

NOINLINE void first_caller(int count, double ms)
{
    for (int i = 0; i < count; i++)
        long_call(ms);
    __asm__ volatile("");
}

NOINLINE void second_caller(int count, double ms)
{
    for (int i = 0; i < 2 * count; i++)
        long_call(ms);
    __asm__ volatile("");
}

int main(int argc, char **argv)
{
    int count = argc > 1 ? atoi(argv[1]) : 10;
    double ms = argc > 2 ? atof(argv[2]) : 10;
    first_caller(count, ms);
    second_caller(count, ms);
    return 0;
}
