/* setjmp and longjmp: over many frames, back and forth, and from inside a callback of the library.
 */
#include "checksum.h"

#include <setjmp.h>
#include <stdlib.h>

static jmp_buf outer, inner;
static sigjmp_buf with_mask;

NOINLINE static unsigned climb(unsigned depth, jmp_buf target, int value)
{
    volatile unsigned char room[64];
    room[depth % 64] = (unsigned char)depth;
    if (depth == 0)
        longjmp(target, value);
    return depth < 100 ? climb(depth - 1, target, value) + room[depth % 64] : 0;
}

NOINLINE static unsigned two_levels(unsigned n)
{
    volatile unsigned total = n;
    switch (setjmp(inner)) {
    case 0:
        total += climb(n % 5, inner, 1);
        break;
    case 1:
        total = total * 3 + 1;
        climb(n % 3, inner, 2);
        break;
    default:
        total = total * 5 + 2;
        climb(n % 4, outer, (int)total);
    }
    return total;
}

static int compare(const void *a, const void *b)
{
    int x = *(const int *)a, y = *(const int *)b;
    if (x == 4 && y != 4)
        longjmp(outer, 1000);
    return x - y;
}

int main(void)
{
    volatile unsigned i = 0;
    int value = setjmp(outer);
    check((unsigned)value);
    if (i < 8) {
        i++;
        check(two_levels(i));
    }
    if (i == 8) {
        i++;
        int numbers[] = {9, 2, 7, 4, 1};
        qsort(numbers, 5, sizeof *numbers, compare);
    }
    for (volatile int j = 0; j < 3; j++) {
        if (sigsetjmp(with_mask, j & 1) == 0)
            siglongjmp(with_mask, j + 1);
        check((unsigned)j);
    }
    return print_checksum("jumps");
}
