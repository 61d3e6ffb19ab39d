/* Threads that sleep, wait for a pipe, for a lock, and run, for times that they measure themselves.
 */
#include "own_time.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static sem_t semaphore;
static int ends[2], is_ready;
static volatile int in_handler;

/* What each kind of waiting took, by the program's own clock, and how often a lock was not free. */
static double slept, piped, locked, conditioned, posted, joined, polled;

__attribute__((noinline)) static void sleeper(void)
{
    for (int i = 0; i < 100; i++) {
        double start = now_s();
        nap(0.003);
        slept += now_s() - start;
    }
}

__attribute__((noinline)) static void reader(void)
{
    char c;
    double start = now_s();
    while (read(ends[0], &c, 1) == 1 && c != 'q')
        ;
    piped += now_s() - start;
}

__attribute__((noinline)) static void locker(void)
{
    double start = now_s();
    pthread_mutex_lock(&mutex);
    locked += now_s() - start;
    start = now_s();
    while (!is_ready)
        pthread_cond_wait(&condition, &mutex);
    conditioned += now_s() - start;
    pthread_mutex_unlock(&mutex);
    start = now_s();
    sem_wait(&semaphore);
    posted += now_s() - start;
}

static void *run(void *what)
{
    if (what == &slept)
        sleeper();
    else if (what == &piped)
        reader();
    else if (what == &locked)
        locker();
    else
        for (;;) /* to the end of the process */
            pause();
    return NULL;
}

static double handler_burnt;

static double cpu_of_burn(double s)
{
    double start = cpu_s();
    burn(s);
    return cpu_s() - start;
}

static void on_alarm(int number)
{
    (void)number;
    handler_burnt += cpu_of_burn(0.1);
    in_handler++;
}

/* A handler of the program that runs in a call: its time is not the call's as well. */
__attribute__((noinline)) static void interrupted(void)
{
    struct itimerval soon = {{0, 0}, {0, 20000}};
    signal(SIGALRM, on_alarm);
    double start = now_s();
    setitimer(ITIMER_REAL, &soon, NULL);
    if (poll(NULL, 0, 1000) != -1 || errno != EINTR || in_handler != 1)
        puts("poll was not interrupted by the one signal");
    polled = now_s() - start;
}

/* How long the thread has waited for a processor so far, which cannot be attributed. */
static double queued_s(void)
{
    unsigned long long ran_ns = 0, queued_ns = 0;
    FILE *file = fopen("/proc/thread-self/schedstat", "re");
    if (file) {
        if (fscanf(file, "%llu %llu", &ran_ns, &queued_ns) != 2)
            queued_ns = 0;
        fclose(file);
    }
    return (double)queued_ns / 1e9;
}

int main(void)
{
    pthread_t threads[4];
    void *const what[] = {&slept, &piped, &locked, NULL};
    double burnt = 0, start = now_s();
    sem_init(&semaphore, 0, 0);
    if (pipe(ends))
        return 1;
    pthread_mutex_lock(&mutex);
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, run, what[i]);
    burnt += cpu_of_burn(0.3);
    nap(0.2);
    pthread_mutex_unlock(&mutex);
    nap(0.1);
    pthread_mutex_lock(&mutex);
    is_ready = 1;
    pthread_cond_signal(&condition);
    pthread_mutex_unlock(&mutex);
    nap(0.15);
    sem_post(&semaphore);
    if (write(ends[1], "abq", 3) != 3)
        return 1;
    double begin = now_s();
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    joined = now_s() - begin;
    interrupted();
    printf("slept %f\npiped %f\nlocked %f\nconditioned %f\nposted %f\njoined %f\npolled %f\n",
           slept, piped, locked, conditioned, posted, joined, polled);
    double queued = queued_s();
    printf("burnt %f\nhandler %f\nqueued %f\n", burnt, handler_burnt, queued);
    printf("elapsed %f\n", now_s() - start);
    return 0;
}
