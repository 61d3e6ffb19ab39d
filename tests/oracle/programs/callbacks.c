/* The library calls back: sorting, searching, trees, exit functions. */
#include "checksum.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

static int compare(const void *a, const void *b)
{
    int x = *(const int *)a, y = *(const int *)b;
    return x < y ? -1 : x > y;
}

static int compare_reversed(const void *a, const void *b, void *calls)
{
    ++*(unsigned *)calls;
    return compare(b, a);
}

static void visit(const void *node, VISIT order, int depth)
{
    if (order == postorder || order == leaf)
        check((uint64_t)(**(int *const *)node * 10 + depth));
}

static void nothing(void *node)
{
    check(*(int *)node);
}

static void at_end(void)
{
    check(1);
    print_checksum("callbacks");
}

struct big {
    int key;
    char rest[60];
};

int main(void)
{
    int numbers[24];
    struct big big[6];
    unsigned calls = 0;
    void *tree = NULL;
    for (int i = 0; i < 24; i++)
        numbers[i] = i * 17 % 31;
    qsort(numbers, 24, sizeof *numbers, compare);
    check((unsigned)numbers[5]);
    qsort_r(numbers, 24, sizeof *numbers, compare_reversed, &calls);
    check(calls);
    qsort(numbers, 24, sizeof *numbers, compare);
    for (int i = 0; i < 6; i++) {
        memset(&big[i], i, sizeof big[i]);
        big[i].key = i * 5 % 7;
    }
    qsort(big, 6, sizeof *big, compare);
    check((unsigned char)big[2].rest[3]);
    int wanted = 12;
    check(bsearch(&wanted, numbers, 24, sizeof *numbers, compare) != NULL);
    for (int i = 0; i < 24; i += 3)
        tsearch(&numbers[i], &tree, compare);
    twalk(tree, visit);
    tdestroy(tree, nothing);
    atexit(at_end);
    return 0;
}
