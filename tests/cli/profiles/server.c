/* A program of the golden outputs: recorded once, as the descriptions beside it say. */
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ready = PTHREAD_COND_INITIALIZER;
static int queue[64], queued, done;
static volatile double sink;
__attribute__((noinline)) static void handle(int n)
{
    double s = 1;
    for (int i = 0; i < 2000000; i++)
        s = s * 1.0000001 + n;
    sink = s;
}
__attribute__((noinline)) static int next_request(void)
{
    int r = -1;
    pthread_mutex_lock(&lock);
    while (!queued && !done)
        pthread_cond_wait(&ready, &lock);
    if (queued)
        r = queue[--queued];
    pthread_mutex_unlock(&lock);
    return r;
}
static void *worker(void *a)
{
    char name[16];
    snprintf(name, 16, "worker-%ld", (long)a);
    pthread_setname_np(pthread_self(), name);
    for (int r; (r = next_request()) >= 0;)
        handle(r);
    return 0;
}
static void *idle(void *a)
{
    (void)a;
    pthread_setname_np(pthread_self(), "idle");
    pthread_mutex_lock(&lock);
    while (!done)
        pthread_cond_wait(&ready, &lock);
    pthread_mutex_unlock(&lock);
    return 0;
}
int main(void)
{
    pthread_t t[10];
    for (long i = 0; i < 2; i++)
        pthread_create(&t[i], 0, worker, (void *)i);
    for (int i = 2; i < 10; i++)
        pthread_create(&t[i], 0, idle, 0);
    for (int i = 0; i < 60; i++) {
        usleep(20000);
        pthread_mutex_lock(&lock);
        queue[queued++] = i;
        pthread_cond_signal(&ready);
        pthread_mutex_unlock(&lock);
    }
    usleep(100000);
    pthread_mutex_lock(&lock);
    done = 1;
    pthread_cond_broadcast(&ready);
    pthread_mutex_unlock(&lock);
    for (int i = 0; i < 10; i++)
        pthread_join(t[i], 0);
    return 0;
}
