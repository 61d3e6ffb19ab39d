/* Indirect jumps inside functions: computed goto, dense and sparse switches, and cold paths. */
#include "checksum.h"

#include <stdlib.h>

NOINLINE static unsigned helper(unsigned x)
{
    return x * 3 + 1;
}

NOINLINE static unsigned interpret(const unsigned char *code)
{
    static const void *const labels[] = {&&op_add, &&op_double, &&op_call, &&op_branch, &&op_end};
    unsigned a = 1, turns = 0;
    const unsigned char *at = code;
    goto *labels[*at];
op_add:
    a += at[1];
    at += 2;
    goto *labels[*at];
op_double:
    a *= 2;
    at++;
    goto *labels[*at];
op_call:
    a = helper(a);
    at++;
    goto *labels[*at];
op_branch:
    at = ++turns < 6 ? code : at + 1;
    goto *labels[*at];
op_end:
    return a;
}

NOINLINE static unsigned dense(unsigned x)
{
    switch (x % 9) {
    case 0:
        return helper(x);
    case 1:
        return x + 4;
    case 2:
        return helper(x) + helper(x + 1);
    case 3:
        return x * 7;
    case 4:
        return x ^ 0x55;
    case 5:
        return helper(x ^ 3);
    case 6:
        return x - 1;
    default:
        return helper(helper(x));
    }
}

NOINLINE static unsigned sparse(unsigned x)
{
    switch (x) {
    case 3:
        return helper(1);
    case 70:
        return 4;
    case 900:
        return helper(2);
    case 4000:
        return 8;
    default:
        return x;
    }
}

__attribute__((cold, noinline)) static unsigned rare(unsigned x)
{
    return helper(x) ^ 0xff;
}

NOINLINE static unsigned mostly_hot(unsigned x)
{
    unsigned total = helper(x);
    if (__builtin_expect(x % 8 == 5, 0)) {
        total += rare(x);
        if (total == 12345)
            abort();
        total ^= rare(total);
    }
    return total + helper(total);
}

int main(void)
{
    static const unsigned char program[] = {0, 5, 1, 2, 0, 9, 3, 4};
    check(interpret(program));
    for (unsigned x = 0; x < 27; x++) {
        check(dense(x));
        check(mostly_hot(x));
    }
    check(sparse(3) + sparse(70) + sparse(900) + sparse(4000) + sparse(5));
    return print_checksum("switches");
}
