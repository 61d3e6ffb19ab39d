/*
 * Functions to be compiled with -fno-asynchronous-unwind-tables: nothing but their instructions
 * tells where their callers are. A walk through them may give up; it must not be wrong.
 */

#ifdef LARGE /* too much to be decoded: nothing but its frame pointers is known of this code */
#define TEXT_OF(x) #x
#define TEXT(x)    TEXT_OF(x)
__asm__(".text\n.fill 5 << 20, 1, " TEXT(LARGE));
#endif
#include "nocfi.h"

#include <alloca.h>
#include <string.h>

unsigned nocfi_leaf(unsigned x)
{
    return x * 5 + 3;
}

unsigned nocfi_calls(nocfi_callback f, unsigned x)
{
    return f(x) + 1;
}

unsigned nocfi_saves(nocfi_callback f, unsigned a, unsigned b, unsigned c)
{
    unsigned x = f(a), y = f(b), z = f(c);
    return x * a + y * b + z * c + f(x + y + z);
}

unsigned nocfi_array(nocfi_callback f, unsigned x)
{
    volatile unsigned words[40];
    for (unsigned i = 0; i < 40; i++)
        words[i] = x + i;
    return f(words[x % 40]) + words[7];
}

/* One way out before the registers are saved, and several behind. */
unsigned nocfi_early(nocfi_callback f, unsigned x)
{
    if (x % 3 == 0)
        return x;
    unsigned y = f(x);
    if (y % 2)
        return y;
    unsigned z = f(x + y);
    return z > 20 ? z + y : f(z) + x + y;
}

unsigned nocfi_loop(nocfi_callback f, unsigned x)
{
    unsigned total = 0;
    for (unsigned i = 0; i < 4; i++) {
        total += f(x + i);
        if (total > 40)
            total -= f(i);
    }
    return total;
}

__attribute__((noinline)) static unsigned eight(unsigned a, unsigned b, unsigned c, unsigned d,
                                                unsigned e, unsigned f, unsigned g, unsigned h)
{
    return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h;
}

unsigned nocfi_many(nocfi_callback f, unsigned a, unsigned b, unsigned c, unsigned d, unsigned e,
                    unsigned g, unsigned h)
{
    return eight(h, g, e, d, c, b, a, f(a)) + f(h);
}

unsigned nocfi_variable(nocfi_callback f, unsigned x)
{
    unsigned char *bytes = alloca(x * 9 + 1);
    memset(bytes, (int)x, x * 9 + 1);
    return f(bytes[x * 3]) + bytes[x];
}

unsigned nocfi_aligned(nocfi_callback f, unsigned x)
{
    _Alignas(64) volatile unsigned words[16];
    words[x % 16] = x;
    return f(words[x % 16]) + words[x % 16];
}

unsigned nocfi_recursion(nocfi_callback f, unsigned depth)
{
    return depth ? nocfi_recursion(f, depth - 1) + f(depth) : f(1);
}
