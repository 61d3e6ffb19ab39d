/* Calls assembly that nothing describes (bare_asm.S), also from a frame of variable size. */
#include "checksum.h"

#ifndef LOSSY
#define LOSSY 0
#endif

typedef unsigned (*bare_function)(unsigned);

bare_function bare_pick(int lossy);
unsigned bare_tail(unsigned x);
unsigned bare_saves(unsigned x);

__attribute__((noinline)) static unsigned with_array(bare_function f, unsigned n)
{
    unsigned sum[n + 1];
    for (unsigned i = 0; i <= n; i++)
        sum[i] = f(i) + (i ? sum[i - 1] : 0);
    return sum[n];
}

int main(void)
{
    for (unsigned x = 0; x < 12; x++) {
        check(bare_pick(LOSSY)(x));
        check(with_array(bare_pick(LOSSY), x));
        check(bare_tail(x));
        check(with_array(bare_tail, x));
        check(bare_saves(x));
        check(with_array(bare_saves, x));
    }
    return print_checksum("bare");
}
