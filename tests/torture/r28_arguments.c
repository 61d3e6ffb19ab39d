/* Row 28: arguments and results of every kind, through calls of every kind; each callee checks all
 * that it gets. The first call from a new depth takes the long way, the later ones the short one.
 */
#include "truth.h"

#include <immintrin.h>
#include <stdarg.h>

struct small {
    int a;
    short b;
}; /* in a register */
struct mixed {
    double d;
    long n;
}; /* one of each kind */
struct large {
    long words[9];
    char tail;
}; /* by value, on the stack */
struct aligned {
    _Alignas(64) unsigned char bytes[64];
};
union either {
    long double wide;
    char bytes[16];
};

static volatile long sink;

NOINLINE static long variadic(int count, ...)
{
    TRUTH();
    va_list all, again;
    long sum = 0;
    va_start(all, count);
    va_copy(again, all);
    for (int i = 0; i < count; i++) {
        switch (i % 4) {
        case 0:
            CHECK(va_arg(all, int) == i * 3);
            break;
        case 1:
            CHECK(va_arg(all, double) == i + 0.25);
            break;
        case 2:
            CHECK(va_arg(all, long) == (long)i << 33);
            break;
        default:
            CHECK(va_arg(all, long double) == i - 0.5L);
            break;
        }
    }
    CHECK(va_arg(again, int) == 0);
    va_end(again);
    va_end(all);
    return sum + count;
}

NOINLINE static long many(char a, short b, int c, long d, unsigned char e, long f, signed char g,
                          short h, int i, long j, double k, float l, double m, double n, double o,
                          double p, double q, double r, double s, double t)
{
    TRUTH();
    CHECK(a == 'a' && b == -2 && c == 3 && d == -4 && e == 205 && f == 6 && g == -7 && h == 8 &&
          i == -9 && j == 10);
    CHECK(k == 1.5 && l == 2.5f && m == 3.5 && n == 4.5 && o == 5.5 && p == 6.5 && q == 7.5 &&
          r == 8.5 && s == 9.5 && t == 10.5);
    return j + (long)t;
}

NOINLINE static struct large by_value(struct small s, struct large l, struct mixed m, int last)
{
    TRUTH();
    CHECK(s.a == 11 && s.b == -12 && m.d == 0.125 && m.n == -1 && last == 99 && l.tail == 'x');
    for (int i = 0; i < 9; i++)
        CHECK(l.words[i] == i * 1111);
    l.words[3] = sink;
    return l;
}

NOINLINE static struct mixed two_kinds(struct mixed m)
{
    TRUTH();
    return (struct mixed){m.d * 2, m.n * 2};
}

NOINLINE static struct small in_register(struct small s)
{
    TRUTH();
    return (struct small){s.b, (short)s.a};
}

NOINLINE static long double wide(long double x, long y, long double z)
{
    TRUTH();
    CHECK(y == 5);
    return x * 3 - z;
}

NOINLINE static _Complex long double complex_wide(_Complex long double x, _Complex double y)
{
    TRUTH();
    return x + y;
}

NOINLINE static __int128 very_wide(__int128 a, long b, __int128 c, long d, __int128 e)
{
    TRUTH();
    CHECK(b == -2 && d == -4);
    return a * 3 + c - e;
}

NOINLINE static long over_aligned(struct aligned a, int n, struct aligned b)
{
    TRUTH();
    _Alignas(64) volatile unsigned char own[64];
    CHECK(((uintptr_t)own & 63) == 0 && ((uintptr_t)&a & 63) == 0 && ((uintptr_t)&b & 63) == 0);
    for (int i = 0; i < 64; i++) {
        own[i] = (unsigned char)i;
        CHECK(a.bytes[i] == (unsigned char)(i + n) && b.bytes[i] == (unsigned char)(i * n));
    }
    return own[n & 63];
}

NOINLINE static __m128i vector_128(__m128i a, __m128d b, __m128i c)
{
    TRUTH();
    CHECK(b[0] == 1.25 && b[1] == -2.5);
    return _mm_add_epi64(a, c);
}

#define VECTOR(BITS, FEATURE)                                                                      \
    typedef long long v##BITS __attribute__((vector_size(BITS / 8)));                              \
    __attribute__((target(FEATURE)))                                                               \
    NOINLINE static v##BITS vector_##BITS(v##BITS a, v##BITS b, v##BITS c, v##BITS d, v##BITS e,   \
                                          v##BITS f, v##BITS g, v##BITS h, v##BITS on_stack)       \
    {                                                                                              \
        TRUTH();                                                                                   \
        return a + b * 2 + c * 3 + d * 4 + e * 5 + f * 6 + g * 7 + h * 8 + on_stack * 9;           \
    }                                                                                              \
    __attribute__((target(FEATURE))) NOINLINE static void try_##BITS(long n)                       \
    {                                                                                              \
        TRUTH();                                                                                   \
        v##BITS x;                                                                                 \
        for (int i = 0; i < BITS / 64; i++)                                                        \
            x[i] = n * 1000 + i;                                                                   \
        v##BITS (*volatile through)(v##BITS, v##BITS, v##BITS, v##BITS, v##BITS, v##BITS, v##BITS, \
                                    v##BITS, v##BITS) = vector_##BITS;                             \
        v##BITS y = vector_##BITS(x, x + 1, x + 2, x + 3, x + 4, x + 5, x + 6, x + 7, x + 8);      \
        v##BITS z = through(x, x + 1, x + 2, x + 3, x + 4, x + 5, x + 6, x + 7, x + 8);            \
        for (int i = 0; i < BITS / 64; i++)                                                        \
            CHECK(y[i] == x[i] * 45 + 240 && z[i] == y[i]);                                        \
    }
VECTOR(256, "avx2")
VECTOR(512, "avx512f")

/* Passes all it gets on, as a tail call. */
NOINLINE static long double tail_wide(long double x, long y, long double z)
{
    return wide(x, y, z);
}

NOINLINE static void all(int depth)
{
    TRUTH();
    CHECK(variadic(9, 0, 1.25, 2L << 33, 2.5L, 12, 5.25, 6L << 33, 6.5L, 24) == 9);
    CHECK(variadic(2, 0, 1.25) == 2);
    CHECK(many('a', -2, 3, -4, 205, 6, -7, 8, -9, 10, 1.5, 2.5f, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5, 9.5,
               10.5) == 20);
    struct large l = {.tail = 'x'};
    for (int i = 0; i < 9; i++)
        l.words[i] = i * 1111;
    sink = depth;
    struct large (*volatile value)(struct small, struct large, struct mixed, int) = by_value;
    struct large back =
        (depth & 1 ? value : by_value)((struct small){11, -12}, l, (struct mixed){0.125, -1}, 99);
    CHECK(back.words[3] == depth && back.words[8] == 8888 && back.tail == 'x');
    struct mixed m = two_kinds((struct mixed){1.5, depth});
    CHECK(m.d == 3.0 && m.n == 2 * depth);
    struct small s = in_register((struct small){7, 8});
    CHECK(s.a == 8 && s.b == 7);
    CHECK(tail_wide(1.0L / 3, 5, 0.5L) == 1.0L / 3 * 3 - 0.5L);
    _Complex long double c = complex_wide(1.5L + 2.0iL, 0.25 - 1.0i);
    CHECK(__real__ c == 1.75L && __imag__ c == 1.0L);
    __int128 big = (__int128)1 << 100;
    CHECK(very_wide(big, -2, big + 7, -4, depth) == big * 4 + 7 - depth);
    struct aligned a, b;
    for (int i = 0; i < 64; i++) {
        a.bytes[i] = (unsigned char)(i + depth);
        b.bytes[i] = (unsigned char)(i * depth);
    }
    CHECK(over_aligned(a, depth, b) == (depth & 63));
    __m128i v =
        vector_128(_mm_set_epi64x(1, depth), _mm_set_pd(-2.5, 1.25), _mm_set_epi64x(10, 20));
    CHECK(v[0] == depth + 20 && v[1] == 11);
    if (__builtin_cpu_supports("avx2"))
        try_256(depth);
    if (__builtin_cpu_supports("avx512f"))
        try_512(depth);
    if (depth)
        all(depth - 1);
}

int main(void)
{
    TRUTH();
    for (int i = 0; i < 300; i++)
        all(10);
    truth_print();
    return torture_end();
}
