/* A third of its time is in `hot` below `left`, two thirds below `right`; so in each thread. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

__attribute__((noinline)) unsigned hot(unsigned x, long n)
{
    for (long i = 0; i < n; i++)
        x = x * 1103515245u + 12345u;
    return x;
}

__attribute__((noinline)) unsigned left(unsigned x)
{
    return hot(x, 1000000) + 1;
}

__attribute__((noinline)) unsigned right(unsigned x)
{
    return hot(x, 2000000) + 1;
}

static void *work(void *rounds)
{
    unsigned x = 1;
    for (long i = 0; i < (long)rounds; i++)
        x = left(x) + right(x);
    return (void *)(unsigned long)x;
}

int main(int argc, char **argv)
{
    long rounds = argc > 1 ? atol(argv[1]) : 100;
    int threads = argc > 2 ? atoi(argv[2]) : 0;
    pthread_t others[64];
    unsigned long sum = (unsigned long)work((void *)rounds);
    for (int i = 0; i < threads && i < 64; i++)
        pthread_create(&others[i], NULL, work, (void *)rounds);
    for (int i = 0; i < threads && i < 64; i++) {
        void *one;
        pthread_join(others[i], &one);
        sum += (unsigned long)one;
    }
    printf("%lu\n", sum);
    return 7;
}
