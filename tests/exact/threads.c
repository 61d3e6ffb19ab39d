/* Threads with trees of their own; the sum of what they do is the same in every run. */
#include <pthread.h>
#include <stdio.h>

#define OUT __attribute__((noinline, noclone))

OUT static long leaf(long x)
{
    __asm__ volatile("" : "+r"(x));
    return x + 1;
}

OUT static long walk(long n)
{
    return n ? leaf(n) + walk(n - 1) : leaf(0);
}

OUT static long even(long n)
{
    return walk(n) + leaf(n);
}

static void *work(void *argument)
{
    long n = (long)argument, sum = 0;
    for (long i = 0; i < 100; i++)
        sum += i % 2 ? walk(n) : even(n);
    return (void *)sum;
}

int main(void)
{
    pthread_t threads[8];
    long sum = 0;
    for (long round = 0; round < 5; round++) {
        for (long i = 0; i < 8; i++)
            pthread_create(&threads[i], NULL, work, (void *)(i + round));
        for (int i = 0; i < 8; i++) {
            void *result;
            pthread_join(threads[i], &result);
            sum += (long)result;
        }
    }
    printf("%ld\n", sum);
}
