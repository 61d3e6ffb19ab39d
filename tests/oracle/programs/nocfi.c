/* Calls into nocfi_part.c, which is compiled without unwind information, and gets called back. */
#include "nocfi.h"

#include "checksum.h"

static unsigned callback(unsigned x)
{
    return x * 3 + 1;
}

static unsigned callback_deeper(unsigned x)
{
    return x % 4 ? nocfi_calls(callback, x / 2) : callback(x);
}

int main(void)
{
    for (unsigned x = 0; x < 12; x++) {
        check(nocfi_leaf(x));
        check(nocfi_calls(callback, x));
        check(nocfi_calls(callback_deeper, x));
        check(nocfi_saves(callback_deeper, x, x + 1, x + 2));
        check(nocfi_array(callback, x));
        check(nocfi_early(callback, x));
        check(nocfi_loop(callback_deeper, x));
        check(nocfi_many(callback, x, 2, 3, 4, 5, 6, 7));
        check(nocfi_variable(callback, x));
        check(nocfi_aligned(callback, x));
    }
    check(nocfi_recursion(callback, 6));
    return print_checksum("nocfi");
}
