/* Calls that wait and never return: a handler jumps out of them, again and again. */
#include "own_time.h"

#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static sigjmp_buf out;
static int ends[2];
static pthread_barrier_t begun;
static double waited, burnt;
static volatile int jumps;

static void on_signal(int number)
{
    (void)number;
    siglongjmp(out, 1);
}

__attribute__((noinline)) static void read_or_poll(void)
{
    char c;
    struct pollfd end = {.fd = ends[0], .events = POLLIN};
    if (jumps % 2)
        poll(&end, 1, -1);
    else if (read(ends[0], &c, 1) == 1)
        puts("it was not to return");
}

__attribute__((noinline)) static void jumps_out(void)
{
    static volatile double start;
    while (jumps < 4) {
        start = now_s();
        if (!sigsetjmp(out, 1)) {
            pthread_barrier_wait(&begun);
            read_or_poll();
        }
        waited += now_s() - start;
        jumps++;
        burnt += burn(0.15);
    }
}

static void *run(void *argument)
{
    double start = now_s();
    jumps_out();
    printf("life %f\nqueued %f\n", now_s() - start, queued_s());
    return argument;
}

int main(void)
{
    pthread_t thread;
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGUSR1, &action, NULL);
    pthread_barrier_init(&begun, NULL, 2);
    if (pipe(ends) != 0)
        return 1;
    pthread_create(&thread, NULL, run, NULL);
    for (int i = 0; i < 4; i++) {
        pthread_barrier_wait(&begun);
        nap(0.2); /* longer than it takes to get from there into the call */
        pthread_kill(thread, SIGUSR1);
    }
    pthread_join(thread, NULL);
    printf("waited %f\nburnt %f\n", waited, burnt);
    return 0;
}
