/* Calls without an end: a debugger that stops it finds it in a chain of calls that is known. */
#include <stdio.h>

static volatile unsigned long sink;

__attribute__((noinline)) static void leaf(unsigned long n)
{
    sink += n;
}

__attribute__((noinline)) static void inner(void (*through)(unsigned long), unsigned long n)
{
    leaf(n);
    through(n);
    sink++;
}

__attribute__((noinline)) static void outer(unsigned long n)
{
    inner(leaf, n);
    inner(leaf, n + 1);
    sink++;
}

int main(void)
{
    puts("spins");
    fflush(stdout);
    for (unsigned long n = 0;; n++)
        outer(n);
}
