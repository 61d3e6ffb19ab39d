/*
 * Frames whose return addresses lie 8 bytes apart: the functions are the compiler's own, have no
 * frames, and keep no alignment. Prints how often the innermost was called.
 */
#include <stdio.h>

static volatile unsigned long calls;

__attribute__((noinline)) static void leaf(unsigned long n)
{
    calls += n;
}

__attribute__((noinline)) static void inner(unsigned long n)
{
    leaf(n);
    leaf(n);
    calls = calls;
}

__attribute__((noinline)) static void outer(unsigned long n)
{
    inner(n);
    inner(n);
    calls = calls;
}

int main(void)
{
    for (int i = 0; i < 10000; i++)
        outer(1);
    printf("%lu\n", calls);
    return 0;
}
