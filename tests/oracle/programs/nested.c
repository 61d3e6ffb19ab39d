/* Nested functions, called through trampolines on the stack, with realigned frames. GNU C. */
#include "checksum.h"

#include <stdlib.h>

NOINLINE static unsigned apply(unsigned (*function)(unsigned), unsigned x)
{
    return function(x) + function(x + 1);
}

NOINLINE static unsigned outer(unsigned n)
{
    _Alignas(64) unsigned words[16] = {n, n + 1, n + 2};
    unsigned total = 0;
    unsigned inner(unsigned x)
    {
        _Alignas(64) volatile unsigned own[16] = {x};
        total += words[x % 16] + own[0];
        return own[0] * 2 + (unsigned)((uintptr_t)own & 63);
    }
    unsigned twice(unsigned x)
    {
        return inner(x) + apply(inner, x);
    }
    return apply(twice, n) + total;
}

NOINLINE static void sort_with(int *numbers, size_t count, int direction)
{
    int compare(const void *a, const void *b)
    {
        int x = *(const int *)a, y = *(const int *)b;
        return direction * (x < y ? -1 : x > y);
    }
    qsort(numbers, count, sizeof *numbers, compare);
}

int main(void)
{
    int numbers[] = {5, 3, 9, 1, 7, 2, 8};
    for (unsigned i = 0; i < 5; i++)
        check(outer(i));
    sort_with(numbers, 7, 1);
    check((unsigned)numbers[0]);
    sort_with(numbers, 7, -1);
    check((unsigned)numbers[0]);
    return print_checksum("nested");
}
