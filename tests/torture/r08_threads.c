/*
 * Row 8: threads of every kind of life. The argument: "many" (1,000 at once, each of them burning a
 * little), "short" (3,000 that do nothing), "detached", or "exit" (main leaves by pthread_exit and
 * the others go on).
 */
#include "torture.h"

#include <dirent.h>
#include <limits.h>
#include <pthread.h>
#include <semaphore.h>

static pthread_barrier_t all_there;
static sem_t ended;
static _Atomic int ran;

static NOINLINE void in_thread(unsigned rounds)
{
    spin(rounds);
}

static void *one_of_many(void *argument)
{
    char name[16];
    snprintf(name, sizeof name, "many-%d", (int)(intptr_t)argument);
    pthread_setname_np(pthread_self(), name);
    pthread_barrier_wait(&all_there);
    in_thread(300000);
    ran++;
    return argument;
}

static void *nothing(void *argument)
{
    ran++;
    return argument;
}

static void *detached(void *argument)
{
    pthread_setname_np(pthread_self(), "detached");
    in_thread(1000000);
    ran++;
    sem_post(&ended);
    return argument;
}

static NOINLINE void *outlives_main(void *argument)
{
    pthread_setname_np(pthread_self(), "outlives-main");
    pthread_join(*(pthread_t *)argument, NULL);
    burn_ms(200);
    ran++;
    printf("ran %d\n", ran);
    exit(torture_end());
}

static void many(void)
{
    enum { COUNT = 1000 };
    static pthread_t threads[COUNT];
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 64 * 1024);
    pthread_barrier_init(&all_there, NULL, COUNT);
    for (intptr_t i = 0; i < COUNT; i++)
        CHECK(pthread_create(&threads[i], &small, one_of_many, (void *)i) == 0);
    for (intptr_t i = 0; i < COUNT; i++) {
        void *result = NULL;
        CHECK(pthread_join(threads[i], &result) == 0 && (intptr_t)result == i);
    }
}

static void shortest(void)
{
    for (intptr_t i = 0; i < 3000; i++) {
        pthread_t thread;
        void *result = NULL;
        CHECK(pthread_create(&thread, NULL, nothing, (void *)i) == 0);
        CHECK(pthread_join(thread, &result) == 0 && (intptr_t)result == i);
        spin(20000);
    }
}

static void detach(void)
{
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, PTHREAD_STACK_MIN);
    sem_init(&ended, 0, 0);
    for (int i = 0; i < 200; i++) {
        CHECK(pthread_create(&thread, &attributes, detached, NULL) == 0);
        while (sem_wait(&ended) != 0)
            printf("sem_wait: %d\n", errno);
    }
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    static pthread_t main_thread;
    main_thread = pthread_self();
    if (strcmp(what, "exit") == 0) {
        pthread_t thread;
        burn_ms(50);
        CHECK(pthread_create(&thread, NULL, outlives_main, &main_thread) == 0);
        pthread_exit(NULL);
    }
    if (strcmp(what, "many") == 0)
        many();
    else if (strcmp(what, "short") == 0)
        shortest();
    else
        detach();
    printf("ran %d\n", ran);
    return torture_end();
}
