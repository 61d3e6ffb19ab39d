/*
 * Row 9: threads that are cancelled, at a blocking call and anywhere (asynchronously), and threads
 * that leave by pthread_exit from deep below: clean-up handlers and destructors run, each once.
 */
#include "torture.h"

#include <pthread.h>

static int cleaned, destroyed, unwound;
static pthread_barrier_t ready;
static pthread_key_t key;

struct Guard {
    ~Guard()
    {
        unwound++;
    }
};

static void clean(void *)
{
    cleaned++;
    spin(10000);
}

static void destroy(void *)
{
    destroyed++;
    spin(10000);
}

static NOINLINE int deep(int depth, void (*leaf)())
{
    Guard guard;
    int result = depth ? deep(depth - 1, leaf) + 1 : (leaf(), 0);
    __asm__ volatile("" : "+r"(result));
    return result;
}

static void leaves()
{
    spin(100000);
    pthread_exit((void *)5);
}

static void waits()
{
    spin(100000);
    pthread_barrier_wait(&ready);
    for (;;)
        pause();
}

static void burns()
{
    pthread_barrier_wait(&ready);
    for (;;) {
        spin(100000);
        pthread_testcancel();
    }
}

static void burns_without_points()
{
    pthread_barrier_wait(&ready);
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    for (;;)
        __asm__ volatile("" ::: "memory");
}

static void *thread(void *argument)
{
    pthread_setspecific(key, &key);
    pthread_cleanup_push(clean, NULL);
    if (argument == (void *)burns_without_points)
        burns_without_points(); /* no destructors on the way: those need synchronous unwinding */
    deep(20, (void (*)())argument);
    pthread_cleanup_pop(0);
    return NULL;
}

static void run(const char *name, void (*leaf)(), bool cancel)
{
    cleaned = destroyed = unwound = 0;
    for (int i = 0; i < 40; i++) {
        pthread_t made;
        void *result;
        CHECK(pthread_create(&made, NULL, thread, (void *)leaf) == 0);
        if (cancel) {
            pthread_barrier_wait(&ready);
            spin(300000);
            CHECK(pthread_cancel(made) == 0);
        }
        CHECK(pthread_join(made, &result) == 0);
        CHECK(result == (cancel ? PTHREAD_CANCELED : (void *)5));
    }
    printf("%s: %d cleaned, %d destroyed, %d unwound\n", name, cleaned, destroyed, unwound);
}

int main()
{
    pthread_key_create(&key, destroy);
    pthread_barrier_init(&ready, NULL, 2);
    run("pthread_exit", leaves, false);
    run("cancelled in pause", waits, true);
    run("cancelled at a point", burns, true);
    run("cancelled anywhere", burns_without_points, true);
    return torture_end();
}
