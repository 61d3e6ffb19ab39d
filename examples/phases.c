/*
 * A program that tells calltrail what it is doing.
 *
 *     cc -O2 -g -o phases phases.c $(pkg-config --cflags calltrail)
 *     calltrail record ./phases && calltrail report --view phases
 *     calltrail report --phase sorting
 */
#include <calltrail.h>
#include <stdio.h>
#include <stdlib.h>

enum { COUNT = 4000000 };

static int compare(const void *a, const void *b)
{
    unsigned x = *(const unsigned *)a, y = *(const unsigned *)b;
    return (x > y) - (x < y);
}

static void fill(unsigned *numbers)
{
    unsigned x = 1;
    for (int i = 0; i < COUNT; i++)
        numbers[i] = x = x * 1664525u + 1013904223u;
}

static unsigned long sum(const unsigned *numbers)
{
    unsigned long all = 0;
    for (int turn = 0; turn < 20; turn++)
        for (int i = 0; i < COUNT; i++)
            all += numbers[i] ^ (unsigned)turn;
    return all;
}

int main(void)
{
    ct_pause(); /* what comes before is of no interest */
    unsigned *numbers = malloc(COUNT * sizeof *numbers);
    if (!numbers)
        return 1;
    fill(numbers);
    ct_resume();

    ct_phase("sorting");
    qsort(numbers, COUNT, sizeof *numbers, compare);
    ct_phase("adding up");
    printf("%lu\n", sum(numbers));
    ct_phase(NULL);
    free(numbers);
    return 0;
}
