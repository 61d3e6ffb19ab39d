/* Waits that never end: for a lock that is never released, for a condition until the thread is
 * cancelled, and for nothing at all. */
#include "own_time.h"

#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER, mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t begun;
static double stuck_from, cancelled_from;

__attribute__((noinline)) static void get_stuck(void)
{
    stuck_from = now_s();
    pthread_barrier_wait(&begun);
    for (;;)
        pthread_mutex_lock(&held);
}

__attribute__((noinline)) static void get_cancelled(void)
{
    pthread_mutex_lock(&mutex);
    cancelled_from = now_s();
    pthread_barrier_wait(&begun);
    for (;;)
        pthread_cond_wait(&never, &mutex);
}

__attribute__((noinline)) static void be_idle(void)
{
    for (;;)
        pause();
}

static void *run(void *function)
{
    ((void (*)(void))function)();
    return NULL;
}

int main(void)
{
    pthread_t threads[3];
    pthread_mutex_lock(&held);
    pthread_barrier_init(&begun, NULL, 3);
    pthread_create(&threads[0], NULL, run, (void *)get_stuck);
    pthread_create(&threads[1], NULL, run, (void *)get_cancelled);
    pthread_create(&threads[2], NULL, run, (void *)be_idle);
    pthread_barrier_wait(&begun);
    nap(0.5);
    pthread_cancel(threads[1]);
    pthread_join(threads[1], NULL);
    printf("cancelled %f\n", now_s() - cancelled_from);
    nap(0.5);
    printf("stuck %f\n", now_s() - stuck_from);
    return 0;
}
