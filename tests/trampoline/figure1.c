/*
 * Froyd, Mellor-Crummey and Fowler's figure 1: a calls c(1) twice, b calls c(2) four times, through
 * pointers; c(1) lasts twice as long as c(2). Half of the cost is a's, half is b's. Since machines
 * are faster now and slower then, it prints what a and b have taken of the CPU, in ns.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define NOINLINE __attribute__((noinline, noclone))

static int loops;

NOINLINE void d(void)
{
    __asm__ volatile("");
}

NOINLINE void c(int n)
{
    for (int i = 0; i < loops / n; i++)
        d();
}

NOINLINE void b(void (*f)(int))
{
    f(2);
    f(2);
    f(2);
    f(2);
    __asm__ volatile("");
}

NOINLINE void a(void (*f)(int))
{
    f(1);
    f(1);
    __asm__ volatile("");
}

static long long cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

int main(int argc, char **argv)
{
    loops = argc > 1 ? atoi(argv[1]) : 1 << 26;
    long long start = cpu_ns();
    a(c);
    long long middle = cpu_ns();
    b(c);
    printf("%lld %lld\n", middle - start, cpu_ns() - middle);
    return 0;
}
