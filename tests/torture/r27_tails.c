/* Row 27: mutual tail recursion, tens of millions long, directly and through pointers: it returns,
 * in bounded memory. */
#include "torture.h"

typedef long step(long n, long sum);

static step one, two, three;
static step *volatile through[] = {one, two, three};

__attribute__((noinline)) static long one(long n, long sum)
{
    return n ? two(n - 1, sum + 1) : sum;
}

__attribute__((noinline)) static long two(long n, long sum)
{
    step *next = through[n % 3];
    return n ? next(n - 1, sum + 2) : sum;
}

__attribute__((noinline)) static long three(long n, long sum)
{
    if (n & 1)
        return one(n - 1, sum ^ 3);
    return n ? two(n - 1, sum + 3) : sum;
}

int main(void)
{
    printf("%ld\n", one(30000000, 0));
    printf("%ld\n", three(10000001, 0));
    return 0;
}
