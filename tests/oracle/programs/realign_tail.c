/*
 * Frames that are aligned further than the ABI asks, whose functions end in tail calls: several
 * epilogues in one function with code of the frame between them, calls from parts that are rarely
 * run, frames of more than a page, arguments on the stack, and vector registers.
 */
#include "checksum.h"

#include <alloca.h>
#include <string.h>

/* Callers must not know what a function leaves alone: they save registers of their own. */
#ifdef __clang__
#define OPAQUE __attribute__((noinline))
#else
#define OPAQUE __attribute__((noipa))
#endif

typedef float vector8 __attribute__((vector_size(32)));
typedef float vector16 __attribute__((vector_size(64)));

static unsigned volatile rare; /* 0: the compiler does not know */

OPAQUE static unsigned fold(const void *bytes, size_t size)
{
    const unsigned char *at = bytes;
    unsigned total = 17;
    for (size_t i = 0; i < size; i += 29)
        total = total * 33 + at[i];
    return total;
}

OPAQUE static unsigned last(unsigned x, unsigned y)
{
    return x * 31 + y;
}

OPAQUE static unsigned other(unsigned x, unsigned y)
{
    return fold(&y, sizeof y) ^ x;
}

typedef unsigned (*next_function)(unsigned x, unsigned y);
static next_function volatile table[2] = {last, other};

__attribute__((cold)) OPAQUE static unsigned complain(unsigned x)
{
    return x + rare;
}

OPAQUE static unsigned one_end(unsigned x)
{
    _Alignas(32) unsigned char block[64];
    memset(block, (int)x, sizeof block);
    return last(fold(block, sizeof block), x);
}

/* The frame goes on behind the first of its ends. */
OPAQUE static unsigned many_ends(unsigned x)
{
    _Alignas(64) unsigned char block[128];
    memset(block, (int)x, sizeof block);
    unsigned sum = fold(block, sizeof block);
    if (x % 4 == 0)
        return last(sum, x);
    memset(block, (int)sum, sizeof block);
    sum += fold(block, sizeof block);
    if (x % 4 == 1)
        return other(sum, x);
    block[x % 128] = 1;
    sum += fold(block, sizeof block);
    if (x % 4 == 2)
        return sum;
    sum ^= other(sum, fold(block, 64));
    return table[sum % 2](sum, fold(block, sizeof block));
}

/* Saved registers are found relative to the frame pointer. */
OPAQUE static unsigned many_values(unsigned a, unsigned b, unsigned c, unsigned d)
{
    _Alignas(32) unsigned words[16];
    for (unsigned i = 0; i < 16; i++)
        words[i] = a * i + b;
    unsigned e = fold(words, 16), f = fold(words, 32), g = fold(words, 48), h = fold(words, 64);
    if ((e ^ a) & 1)
        return other(e + f, g + h + c);
    if (__builtin_expect(rare, 0))
        e += complain(f) + complain(g) * complain(h);
    words[a % 16] = e + f * d;
    e += fold(words, sizeof words);
    if ((e ^ b) & 1)
        return last(e * f, g * h);
    return one_end((e + f) * (g + h) + a + b + c + d);
}

OPAQUE static unsigned with_arguments(unsigned a, unsigned b, unsigned c, unsigned d, unsigned e,
                                      unsigned f, unsigned g, unsigned h)
{
    _Alignas(32) unsigned words[8] = {a, b, c, d, e, f, g, h};
    unsigned sum = fold(words, sizeof words);
    if (sum % 2)
        return last(sum, h);
    words[3] = sum;
    return many_ends(fold(words, sizeof words) + g);
}

/* More than a page: with -fstack-clash-protection every page is touched on the way down. */
OPAQUE static unsigned large(unsigned x)
{
    _Alignas(64) unsigned char block[20000];
    memset(block + x * 100, (int)x, 256);
    unsigned sum = fold(block + x * 100, 256);
    if (sum % 3 == 0)
        return last(sum, x);
    block[x * 100] = (unsigned char)sum;
    sum += fold(block + x * 100, 64);
    return many_values(sum, x, sum ^ x, 3);
}

OPAQUE static unsigned with_alloca(unsigned x)
{
    _Alignas(64) unsigned words[16];
    unsigned char *bytes = alloca(x * 300 + 1);
    for (unsigned i = 0; i < 16; i++)
        words[i] = x * i;
    bytes[x] = (unsigned char)x;
    unsigned sum = fold(words, sizeof words) + bytes[x];
    if (sum & 1)
        return large(x);
    memset(bytes, (int)x, x + 1);
    return other(fold(bytes, x + 1), sum);
}

__attribute__((target("avx2"))) OPAQUE static unsigned vectors(unsigned x, vector8 *to)
{
    vector8 a = {1, 2, 3, 4, 5, 6, 7, (float)x}, b = *to;
    unsigned first = fold(&a, sizeof a);
    if (first % 2)
        return last(first, x);
    a += b * b;
    first += fold(&a, sizeof a);
    *to = a;
    return other(first, x);
}

__attribute__((target("avx512f"))) OPAQUE static unsigned wide_vectors(unsigned x, vector16 *to)
{
    vector16 a = *to;
    a += (float)x;
    unsigned first = fold(&a, sizeof a);
    if (first % 2)
        return many_ends(first);
    *to = a;
    return other(first, fold(to, sizeof *to));
}

OPAQUE static unsigned eight(unsigned a, unsigned b, unsigned c, unsigned d, unsigned e, unsigned f,
                             unsigned g, unsigned h)
{
    return a + b * 2 + c * 3 + d * 4 + e * 5 + f * 6 + g * 7 + h * 8;
}

/*
 * Arguments are pushed, so gcc keeps where the stack pointer was in a register and the frame; and
 * no address of a local is given away, so that it may end in a jump, several times.
 */
OPAQUE static unsigned pushing(unsigned x, unsigned y)
{
    _Alignas(32) float t[64];
    for (unsigned i = 0; i < 64; i++)
        t[i] = (float)(i * (x % 16));
    unsigned s = eight(x, y, 3, 4, 5, 6, 7, x) + (unsigned)t[x % 64];
    for (unsigned i = 0; i < 64; i++)
        t[i] += (float)(s % 8);
    if (s & 1)
        return last(s, (unsigned)t[s % 64]);
    s += eight(s, x, y, 1, s, x, y, (unsigned)t[y % 64]);
    t[s % 64]++;
    if (s & 2)
        return table[x % 2](s, (unsigned)t[x % 64]);
    if (__builtin_expect(rare, 0))
        s += complain(x) * complain(y);
    s ^= eight(1, s, 2, x, 3, y, 4, (unsigned)t[s % 64]);
    return other(s, x);
}

/* The same with registers of 32 and 64 bytes that a call would lose. */
__attribute__((target("avx2"))) OPAQUE static unsigned pushing_vectors(unsigned x, vector8 *p)
{
    vector8 a = p[0] + (float)x, b = p[1];
    unsigned s = eight(x, 1, 2, 3, 4, 5, 6, x);
    p[1] = a * b;
    if (s & 1)
        return last(s, x);
    s += eight(s, x, s, x, s, x, s, x);
    p[0] = a + b;
    return other(s, x);
}

__attribute__((target("avx512f"))) OPAQUE static unsigned pushing_wide(unsigned x, vector16 *p)
{
    vector16 a = p[0] + (float)x, b = p[1];
    unsigned s = eight(x, 1, 2, 3, 4, 5, 6, x);
    p[1] = a - b;
    if (s & 1)
        return pushing(s, x);
    s += eight(s, x, s, x, s, x, s, x);
    p[0] = a + b;
    return table[s / 2 % 2](s, x);
}

/* Several pages, on the way to which each is touched. */
OPAQUE static unsigned pushing_large(unsigned x, unsigned y)
{
    _Alignas(64) unsigned t[5000];
    for (unsigned i = 0; i < 5000; i += 500)
        t[i] = i * x;
    unsigned s = eight(x, y, 3, 4, 5, 6, 7, t[x % 10 * 500]);
    for (unsigned i = 0; i < 5000; i += 500)
        t[i] += s;
    if (s & 1)
        return pushing(s, t[s % 10 * 500]);
    s += eight(s, x, y, 1, s, x, y, t[y % 10 * 500]);
    return last(s, x);
}

/* It calls itself behind the place where it may have ended. */
OPAQUE static unsigned deep(unsigned depth, unsigned x)
{
    _Alignas(32) unsigned words[8];
    for (unsigned i = 0; i < 8; i++)
        words[i] = depth * x + i;
    if (!depth)
        return many_ends(fold(words, sizeof words));
    unsigned below = deep(depth - 1, x + fold(words, 16));
    words[below % 8]++;
    if (below % 3 == 0)
        return many_values(below, depth, x, fold(words, sizeof words));
    return other(below, fold(words, sizeof words));
}

/* main needs its frame pointer, so a walk that has lost it above these functions ends there. */
int main(int argc, char **argv)
{
    volatile unsigned char *own = alloca((size_t)argc * 16);
    own[0] = (unsigned char)(argv == NULL);
    static vector8 v8, pair[2];
    static vector16 v16, wide_pair[2];
    for (unsigned x = 0; x < 9; x++) {
        check(one_end(x));
        check(many_ends(x));
        check(many_values(x, x * 3, x / 2, 7));
        check(with_arguments(x, 1, 2, 3, 4, 5, 6, x + 7));
        check(large(x));
        check(with_alloca(x));
        check(deep(x % 5, x));
        check(pushing(x, x + 1));
        check(pushing_large(x, 3));
        if (__builtin_cpu_supports("avx2")) {
            check(vectors(x, &v8));
            check(pushing_vectors(x, pair));
        }
        if (__builtin_cpu_supports("avx512f")) {
            check(wide_vectors(x, &v16));
            check(pushing_wide(x, wide_pair));
        }
    }
    return print_checksum("realign_tail");
}
