/*
 * Uses so many seconds of CPU time (or as long as it is let), in contexts that come and go and in
 * threads that end, and ends with status 7.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static volatile double sum;

__attribute__((noinline)) void leaf(int n)
{
    for (int i = 0; i < n; i++)
        sum += i * 0.5;
}

__attribute__((noinline)) void often(int n)
{
    leaf(n);
    __asm__ volatile("");
}

__attribute__((noinline)) void seldom(int n)
{
    leaf(2 * n);
    __asm__ volatile("");
}

static double cpu_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void *short_lived(void *p)
{
    for (int i = 0; i < 20; i++)
        often(10000);
    return p;
}

static void *ends_at_once(void *p)
{
    return p;
}

/* When many threads have ended, others go on with the records that they left. */
static void end_threads(int count)
{
    pthread_t thread;
    for (int i = 0; i < count; i++)
        if (pthread_create(&thread, NULL, ends_at_once, NULL) == 0)
            pthread_join(thread, NULL);
}

int main(int argc, char **argv)
{
    double seconds = argc > 1 ? atof(argv[1]) : 1e9;
    const char *threads = getenv("THREADS_ENDED");
    end_threads(threads ? atoi(threads) : 0);
    for (int i = 0; cpu_s() < seconds; i++) {
        pthread_t thread;
        if (i % 3)
            often(100000);
        else
            seldom(100000);
        if (i % 10 == 0 && pthread_create(&thread, NULL, short_lived, NULL) == 0)
            pthread_join(thread, NULL);
    }
    puts("done");
    return 7;
}
