/* Frames whose size is known only at run time: alloca, arrays of variable length, both in loops. */
#include "checksum.h"

#include <alloca.h>
#include <string.h>

NOINLINE static unsigned sum(const unsigned char *bytes, size_t size)
{
    unsigned total = 0;
    for (size_t i = 0; i < size; i++)
        total = total * 31 + bytes[i];
    return total;
}

NOINLINE static unsigned with_alloca(size_t size)
{
    unsigned char *bytes = alloca(size);
    memset(bytes, (int)size, size);
    return sum(bytes, size);
}

NOINLINE static unsigned with_array(size_t size, unsigned depth)
{
    unsigned char bytes[size];
    for (size_t i = 0; i < size; i++)
        bytes[i] = (unsigned char)(i * size);
    unsigned total = sum(bytes, size);
    return depth ? total ^ with_array(size + 7, depth - 1) : total;
}

/* The frame grows with every turn, and a call is made after each. */
NOINLINE static unsigned growing(unsigned turns)
{
    unsigned total = 0;
    unsigned char *last = NULL;
    for (unsigned i = 1; i <= turns; i++) {
        unsigned char *bytes = alloca(i * 16);
        memset(bytes, (int)i, i * 16);
        if (last)
            bytes[0] = last[i % 16];
        last = bytes;
        total += sum(bytes, i * 4);
    }
    return total;
}

/* The array's room is given back at the end of each turn. */
NOINLINE static unsigned scoped(unsigned turns)
{
    unsigned total = 0;
    for (unsigned i = 1; i <= turns; i++) {
        unsigned words[i];
        for (unsigned j = 0; j < i; j++)
            words[j] = j * i;
        total += sum((unsigned char *)words, i * sizeof *words / 2);
    }
    return total;
}

/* More arguments than registers, pushed below a frame of variable size. */
NOINLINE static unsigned many(unsigned a, unsigned b, unsigned c, unsigned d, unsigned e,
                              unsigned f, unsigned g, unsigned h, const unsigned char *bytes)
{
    return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h + sum(bytes, a);
}

NOINLINE static unsigned pushing(size_t size)
{
    unsigned char *bytes = alloca(size);
    memset(bytes, 3, size);
    unsigned n = (unsigned)size;
    return many(n, 1, 2, 3, n, 5, 6, n, bytes) + with_alloca(size / 2) +
           many(n / 2, 8, n, 6, 5, 4, n, 2, bytes);
}

int main(void)
{
    for (size_t size = 1; size < 60; size += 11) {
        check(with_alloca(size));
        check(with_array(size, 3));
        check(pushing(size));
    }
    check(growing(6));
    check(scoped(8));
    return print_checksum("alloca");
}
