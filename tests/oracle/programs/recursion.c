/* Recursion of several shapes, and leaf functions that keep locals below the stack pointer. */
#include "checksum.h"

NOINLINE static unsigned leaf(unsigned x)
{
    volatile unsigned scratch[8];
    for (unsigned i = 0; i < 8; i++)
        scratch[i] = x * i + 1;
    return scratch[x & 7] + scratch[3];
}

NOINLINE static unsigned fibonacci(unsigned n)
{
    return n < 2 ? leaf(n) : fibonacci(n - 1) + fibonacci(n - 2);
}

NOINLINE static unsigned ackermann(unsigned m, unsigned n)
{
    if (m == 0)
        return n + 1;
    return n == 0 ? ackermann(m - 1, 1) : ackermann(m - 1, ackermann(m, n - 1));
}

NOINLINE static unsigned odd(unsigned n);

NOINLINE static unsigned even(unsigned n)
{
    return n == 0 ? 1 : odd(n - 1) + 2;
}

NOINLINE static unsigned odd(unsigned n)
{
    return n == 0 ? 0 : even(n - 1) + 3;
}

/* Deep enough that the stack is longer than what the stepper reads again at every step. */
NOINLINE static unsigned deep(unsigned n, unsigned char *above)
{
    unsigned char room[300];
    room[n % 300] = (unsigned char)n;
    unsigned below = n ? deep(n - 1, room) : leaf(n);
    return below + room[n % 300] + (above ? above[(n + 1) % 300] : 0u);
}

int main(void)
{
    check(fibonacci(8));
    check(ackermann(2, 3));
    check(even(60));
    check(deep(250, NULL));
    return print_checksum("recursion");
}
