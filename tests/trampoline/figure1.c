/*
 * Froyd, Mellor-Crummey and Fowler's figure 1: a calls c(1) twice, b calls c(2) four times, through
 * pointers; c(1) lasts twice as long as c(2). Half of the cost is a's, half is b's.
 */
#include <stdlib.h>

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

int main(int argc, char **argv)
{
    loops = argc > 1 ? atoi(argv[1]) : 1 << 26;
    a(c);
    b(c);
    return 0;
}
