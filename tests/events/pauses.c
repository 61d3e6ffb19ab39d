/*
 * Threads that wait and run while measuring is paused now and then. Each says how long it lived
 * outside the pauses; with an argument there are none.
 */
#include "own_time.h"

#include <calltrail.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static double paused_s;

/* It waits over all pauses. */
static void *sleep_long(void *argument)
{
    const int *from = argument;
    char byte;
    double start = now_s();
    if (read(*from, &byte, 1) != 1)
        return NULL;
    printf("sleeper %f\n", now_s() - start);
    return NULL;
}

int main(int argc, char **argv)
{
    (void)argv;
    pthread_t other;
    double start = now_s();
    int ends[2];
    if (pipe(ends) != 0)
        return 1;
    pthread_create(&other, NULL, sleep_long, &ends[0]);
    for (int i = 0; i < 3; i++) {
        nap(0.1);
        burn(0.1);
        if (argc < 2) {
            double before = now_s();
            ct_pause();
            nap(0.05);
            burn(0.05);
            ct_resume();
            paused_s += now_s() - before;
        }
    }
    if (write(ends[1], "", 1) != 1)
        return 1;
    pthread_join(other, NULL);
    printf("paused %f\nmain %f\n", paused_s, now_s() - start);
    return 0;
}
