/* Arguments and results of every shape: variadic, more than fit in registers, by value, wide. */
#include "checksum.h"

#include <complex.h>
#include <stdarg.h>
#include <string.h>

struct small {
    int a, b;
};

struct mixed {
    double a;
    long b;
};

struct large {
    long words[7];
};

NOINLINE static uint64_t fold(const void *bytes, size_t size)
{
    const unsigned char *at = bytes;
    uint64_t total = 7;
    for (size_t i = 0; i < size; i++)
        total = total * 31 + at[i];
    return total;
}

NOINLINE static long add_all(int count, ...)
{
    va_list list;
    long total = 0;
    va_start(list, count);
    for (int i = 0; i < count; i++)
        total = total * 3 + va_arg(list, long);
    va_end(list);
    return total;
}

NOINLINE static double add_doubles(int count, ...)
{
    va_list list;
    double total = 0;
    va_start(list, count);
    for (int i = 0; i < count; i++)
        total = total / 2 + va_arg(list, double);
    va_end(list);
    return total;
}

NOINLINE static long twelve(long a, long b, long c, long d, long e, long f, long g, long h, long i,
                            long j, long k, long l)
{
    return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h + 9 * i + 10 * j + 11 * k +
           12 * l;
}

NOINLINE static struct small make_small(int a)
{
    return (struct small){a, a + 1};
}

NOINLINE static struct mixed make_mixed(struct small s, double d)
{
    return (struct mixed){d + s.a, s.b};
}

NOINLINE static struct large make_large(struct mixed m, struct large before)
{
    before.words[3] += m.b;
    before.words[0]++;
    return before;
}

NOINLINE static long double wide(long double x, int n)
{
    return n > 0 ? wide(x * 1.5L, n - 1) + 0.25L : x;
}

NOINLINE static unsigned __int128 multiply(unsigned __int128 a, unsigned __int128 b, long n)
{
    return a * b + (unsigned __int128)n;
}

NOINLINE static double complex turn(double complex z, float complex w)
{
    return z * z + w;
}

int main(void)
{
    struct large large = {{1, 2, 3, 4, 5, 6, 7}};
    for (int i = 0; i < 6; i++) {
        check((uint64_t)add_all(3, 1L, 2L, (long)i));
        check((uint64_t)add_all(9, 1L, 2L, 3L, 4L, 5L, 6L, 7L, 8L, (long)i));
        double d = add_doubles(10, 1., 2., 3., 4., 5., 6., 7., 8., 9., (double)i);
        check(fold(&d, sizeof d));
        check((uint64_t)twelve(i, 2, 3, 4, i, 6, 7, 8, i, 10, 11, 12));
        struct mixed mixed = make_mixed(make_small(i), d);
        large = make_large(mixed, large);
        check(fold(&large, sizeof large) + (uint64_t)mixed.b);
        check((uint64_t)(wide(1.0L + i, 3) * 1000));
        unsigned __int128 product = multiply((unsigned)i + 1, ~0ull, i);
        check((uint64_t)product ^ (uint64_t)(product >> 64));
        check((uint64_t)creal(turn(i + 2. * I, 1.f)));
    }
    return print_checksum("arguments");
}
