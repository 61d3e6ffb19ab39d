/*
 * Threads that wait and run while measuring is paused now and then. Each says how long it lived
 * outside the pauses; with an argument there are none.
 */
#include "calltrail.h"

#include <pthread.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static double now_s(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double paused_s;

__attribute__((noinline)) static void rest(double s)
{
    struct timespec time = {(time_t)s, (long)((s - (double)(time_t)s) * 1e9)};
    nanosleep(&time, NULL);
}

__attribute__((noinline)) static void burn(double s)
{
    double start = now_s(CLOCK_THREAD_CPUTIME_ID);
    volatile unsigned x = 0;
    while (now_s(CLOCK_THREAD_CPUTIME_ID) - start < s)
        for (int i = 0; i < 10000; i++)
            x += (unsigned)i;
}

/* It waits over all pauses. */
static void *sleep_long(void *argument)
{
    const int *from = argument;
    char byte;
    double start = now_s(CLOCK_MONOTONIC);
    if (read(*from, &byte, 1) != 1)
        return NULL;
    printf("sleeper %f\n", now_s(CLOCK_MONOTONIC) - start);
    return NULL;
}

int main(int argc, char **argv)
{
    (void)argv;
    pthread_t other;
    double start = now_s(CLOCK_MONOTONIC);
    int ends[2];
    if (pipe(ends) != 0)
        return 1;
    pthread_create(&other, NULL, sleep_long, &ends[0]);
    for (int i = 0; i < 3; i++) {
        rest(0.1);
        burn(0.1);
        if (argc < 2) {
            double before = now_s(CLOCK_MONOTONIC);
            ct_pause();
            rest(0.05);
            burn(0.05);
            ct_resume();
            paused_s += now_s(CLOCK_MONOTONIC) - before;
        }
    }
    if (write(ends[1], "", 1) != 1)
        return 1;
    pthread_join(other, NULL);
    printf("paused %f\nmain %f\n", paused_s, now_s(CLOCK_MONOTONIC) - start);
    return 0;
}
