/* Calls a function that the compiler could have split twice (parts.S). */
#include <stdio.h>

long parts(long (*leaf)(long));

__attribute__((noinline, noclone)) static long leaf(long n)
{
    return 2 * n + 1;
}

int main(void)
{
    printf("%ld\n", parts(leaf));
    return 0;
}
