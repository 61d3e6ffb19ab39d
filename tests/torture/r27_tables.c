/*
 * Row 27: functions that leave by a jump through a table of functions, at an address that code
 * knows without its own (not position-independent): the same instruction as a switch has.
 */
#include "truth.h"

typedef unsigned long work(unsigned long);

enum { ROUNDS = 40000 };

#define LEAF(NAME)                                                                                 \
    static NOINLINE unsigned long NAME(unsigned long x)                                            \
    {                                                                                              \
        __asm__ volatile("" : "+r"(x));                                                            \
        return x * 3 + __LINE__;                                                                   \
    }

LEAF(first)
LEAF(second)
LEAF(third)
LEAF(fourth)

static work *changeable[] = {first, second, third, fourth};
static work *const constant[] = {fourth, first, second, third};
work *empty[4]; /* in no file */

static NOINLINE unsigned long by_changeable(unsigned long x)
{
    return changeable[x & 3](x);
}

static NOINLINE unsigned long by_constant(unsigned long x)
{
    return constant[x & 3](x);
}

static NOINLINE unsigned long by_empty(unsigned long x)
{
    return empty[x & 3](x);
}

/* A switch in a function without a frame; its first case is not 0. */
static NOINLINE unsigned long by_switch(unsigned long x)
{
    switch (x) {
    case 5:
        return x * 7;
    case 6:
        return first(x);
    case 7:
        return x << 3 ^ x;
    case 8:
        return second(x + 1);
    case 9:
        return x ^ 0x5555;
    case 10:
        return x - 77;
    case 11:
        return ~x;
    default:
        return x;
    }
}

int main(void)
{
    unsigned long sum = 0;
    __asm__ volatile("" ::"r"(changeable) : "memory");
    for (unsigned i = 0; i < 4; i++)
        empty[i] = changeable[i ^ 1];
    for (unsigned long i = 0; i < ROUNDS; i++)
        sum += by_changeable(i) + by_constant(i) + by_empty(i) + by_switch(i % 14);
    printf("%#lx\n", sum);
    printf("calls by_changeable %d\ncalls by_constant %d\ncalls by_empty %d\ncalls by_switch %d\n",
           ROUNDS, ROUNDS, ROUNDS, ROUNDS);
    int of_switch[2] = {0, 0};
    for (unsigned i = 0; i < ROUNDS; i++) {
        of_switch[0] += i % 14 == 6;
        of_switch[1] += i % 14 == 8;
    }
    printf("calls first %d\ncalls second %d\ncalls third %d\ncalls fourth %d\n",
           3 * ROUNDS / 4 + of_switch[0], 3 * ROUNDS / 4 + of_switch[1], 3 * ROUNDS / 4,
           3 * ROUNDS / 4);
    return torture_end();
}
