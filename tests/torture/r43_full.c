/*
 * Row 43: memory for what is measured is full for good. Samples of contexts that were not there
 * before find no room: they are lost, and are not counted in those that were.
 */
#include "torture.h"

static NOINLINE unsigned has_room(unsigned ms)
{
    burn_ms(ms);
    return ms + 1;
}

static NOINLINE unsigned left(unsigned bits, unsigned depth);
static NOINLINE unsigned right(unsigned bits, unsigned depth);

/* Its bits, one after the other, say which way each call goes. */
static NOINLINE unsigned new_context(unsigned bits, unsigned depth)
{
    if (depth == 0) {
        uint64_t end = thread_cpu_ns() + 2000000;
        while (thread_cpu_ns() < end)
            spin(1000);
        return 1;
    }
    bits = bits * 1664525u + 1013904223u;
    return (bits >> 16 & 1 ? left(bits, depth - 1) : right(bits, depth - 1)) + 1;
}

static NOINLINE unsigned left(unsigned bits, unsigned depth)
{
    return new_context(bits, depth) + 1;
}

static NOINLINE unsigned right(unsigned bits, unsigned depth)
{
    return new_context(bits, depth) + 2;
}

int main(void)
{
    enum { DEPTH = 300, FILLING = 150, AFTER = 100 };
    volatile unsigned ms = 50; /* so that there is one call, and its contexts are the same */
    unsigned sum = 0;
    for (unsigned i = 0; i <= AFTER; i++) {
        sum += has_room(ms);
        ms = 2;
        for (unsigned k = i ? 1 : FILLING; k > 0; k--)
            sum += new_context(i << 8 | k, DEPTH);
    }
    CHECK(sum > 0);
    return torture_end();
}
