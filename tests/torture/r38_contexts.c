/*
 * Row 38: more contexts than there is room for: each of four million calls has its own. Where no
 * more can be kept, frames are where others were before, and are not those.
 */
#include "torture.h"

static NOINLINE unsigned fib(unsigned n)
{
    if (n < 2)
        return 1;
    unsigned first = fib(n - 1);
    return first + fib(n - 2);
}

int main(void)
{
    enum { CALLS = 4356617 };
    printf("%u of %d\n", fib(31), CALLS);
    burn_ms(100);
    return torture_end();
}
