/*
 * Frames that are aligned further than the ABI asks: locals of 32 and 64 bytes' alignment, with and
 * without alloca (which makes gcc keep the incoming stack pointer in another register), with vector
 * registers, and as callees of each other.
 */
#include "checksum.h"

#include <alloca.h>
#include <string.h>

typedef float vector8 __attribute__((vector_size(32)));

NOINLINE static unsigned fold(const void *bytes, size_t size)
{
    const unsigned char *at = bytes;
    unsigned total = (unsigned)((uintptr_t)bytes & 31);
    for (size_t i = 0; i < size; i += 5)
        total = total * 33 + at[i];
    return total;
}

NOINLINE static unsigned aligned_locals(unsigned x)
{
    _Alignas(64) unsigned char block[128];
    memset(block, (int)x, sizeof block);
    return fold(block, sizeof block) + x;
}

NOINLINE static unsigned aligned_with_alloca(unsigned x)
{
    _Alignas(64) unsigned words[16];
    unsigned char *bytes = alloca(x + 1);
    for (unsigned i = 0; i < 16; i++)
        words[i] = x * i;
    memset(bytes, (int)x, x + 1);
    return fold(words, sizeof words) ^ fold(bytes, x + 1);
}

/* Arguments on the stack have to be found above the hole that the alignment leaves. */
NOINLINE static unsigned aligned_with_arguments(unsigned a, unsigned b, unsigned c, unsigned d,
                                                unsigned e, unsigned f, unsigned g, unsigned h)
{
    _Alignas(32) unsigned words[8] = {a, b, c, d, e, f, g, h};
    return fold(words, sizeof words) + aligned_with_alloca(h % 32) + g;
}

NOINLINE static unsigned aligned_recursion(unsigned depth)
{
    _Alignas(32) unsigned words[8];
    for (unsigned i = 0; i < 8; i++)
        words[i] = depth + i;
    unsigned below = depth ? aligned_recursion(depth - 1) : aligned_locals(7);
    return below * 3 + fold(words, sizeof words);
}

__attribute__((target("avx"), noinline)) static void add_vectors(vector8 *to, const vector8 *from)
{
    *to += *from;
}

__attribute__((target("avx"), noinline)) static unsigned with_vectors(unsigned x)
{
    vector8 a = {1, 2, 3, 4, 5, 6, 7, 8};
    vector8 b = {(float)x, 1, 1, 1, 2, 2, 2, 2};
    unsigned char *bytes = alloca(x + 8);
    memset(bytes, (int)x, x + 8);
    add_vectors(&a, &b);
    unsigned first = fold(&a, sizeof a);
    add_vectors(&b, &a);
    return first + fold(&b, sizeof b) + fold(bytes, x);
}

int main(void)
{
    _Alignas(64) unsigned char own[64];
    memset(own, 5, sizeof own);
    for (unsigned x = 0; x < 24; x += 5) {
        check(aligned_locals(x));
        check(aligned_with_alloca(x));
        check(aligned_with_arguments(x, 1, 2, 3, 4, 5, 6, 7 + x));
        if (__builtin_cpu_supports("avx"))
            check(with_vectors(x));
    }
    check(aligned_recursion(6));
    check(fold(own, sizeof own));
    return print_checksum("realign");
}
