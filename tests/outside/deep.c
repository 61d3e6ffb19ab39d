/* Works at the end of a chain of so many calls, with a kilobyte of stack each. */
#include <stdio.h>
#include <stdlib.h>

__attribute__((noinline)) unsigned hot(unsigned x)
{
    volatile char room[500]; /* so that the stack pointer is not the frame pointer */
    room[0] = 0;
    for (long i = 0; i < 40000000; i++)
        x = x * 1103515245u + 12345u;
    return x + (unsigned)room[0];
}

__attribute__((noinline)) unsigned down(int left, unsigned x)
{
    volatile char room[1000];
    room[0] = (char)x;
    return (left ? down(left - 1, x) : hot(x)) + (unsigned)room[0];
}

int main(int argc, char **argv)
{
    printf("%u\n", down(argc > 1 ? atoi(argv[1]) : 0, 1));
    return 0;
}
