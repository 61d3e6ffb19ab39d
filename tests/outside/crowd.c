/* So many threads that wait, and one that works, until stdin ends. */
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static sem_t never;
static volatile unsigned result;
static volatile int is_over;

static void *wait_for_ever(void *unused)
{
    while (sem_wait(&never) != 0)
        ;
    return unused;
}

__attribute__((noinline)) void hot(void)
{
    unsigned x = result;
    for (int i = 0; i < 1000000; i++)
        x = x * 1103515245u + 12345u;
    result = x;
}

static void *work(void *unused)
{
    while (!is_over)
        hot();
    return unused;
}

int main(int argc, char **argv)
{
    long count = argc > 1 ? atol(argv[1]) : 100;
    pthread_attr_t small;
    pthread_t thread;
    char word;
    sem_init(&never, 0, 0);
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 1 << 16);
    for (long i = 0; i < count; i++)
        if (pthread_create(&thread, &small, wait_for_ever, NULL) != 0)
            return 77;
    pthread_create(&thread, &small, work, NULL);
    puts("begun");
    fflush(stdout);
    while (read(0, &word, 1) > 0)
        ;
    is_over = 1;
    pthread_join(thread, NULL);
    puts("ends");
    return 3;
}
