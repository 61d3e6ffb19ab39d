/* Row 31: 64 threads call, directly and through pointers, while others load and unload modules all
 * the time, call what is in them, and make new threads: every call is counted, no crash. */
#include "truth.h"

#include <dlfcn.h>
#include <pthread.h>

enum { CALLERS = 64, LOADERS = 4, LOADS = 40, ROUNDS = 1500 };

static volatile long sink;
static _Atomic long from_plugins;
static pthread_barrier_t begun;

NOINLINE static long leaf(long n)
{
    TRUTH();
    return n + 1;
}

NOINLINE static long branches(long n, int depth)
{
    TRUTH();
    return depth ? branches(n, depth - 1) + leaf(n) : leaf(n);
}

static long (*volatile pointers[])(long, int) = {branches, branches};

NOINLINE static void *calls(void *argument)
{
    TRUTH_OF_THREAD();
    long sum = 0;
    pthread_barrier_wait(&begun);
    for (int i = 0; i < ROUNDS; i++)
        sum += pointers[i & 1](i, i % 12) + branches(i, 3);
    return (void *)sum;
}

NOINLINE static void *short_life(void *argument)
{
    TRUTH_OF_THREAD();
    leaf(1);
    return argument;
}

NOINLINE static void *loads(void *argument)
{
    TRUTH_OF_THREAD();
    const char *name = argument;
    pthread_barrier_wait(&begun);
    for (int i = 0; i < LOADS; i++) {
        void *plugin = dlopen(name, i & 1 ? RTLD_NOW : RTLD_LAZY);
        if (!plugin) {
            printf("%s\n", dlerror());
            exit(2);
        }
        unsigned (*work)(unsigned) = (unsigned (*)(unsigned))dlsym(plugin, "plugin_work");
        for (int k = 0; k < 10; k++) {
            CHECK(work(10) & 1);
            from_plugins++;
        }
        pthread_t thread;
        if (pthread_create(&thread, NULL, short_life, NULL) == 0)
            pthread_join(thread, NULL);
        dlclose(plugin);
    }
    return argument;
}

int main(void)
{
    TRUTH();
    pthread_t callers[CALLERS], loaders[LOADERS];
    char names[LOADERS][32];
    pthread_barrier_init(&begun, NULL, CALLERS + LOADERS);
    for (int i = 0; i < CALLERS; i++)
        CHECK(pthread_create(&callers[i], NULL, calls, NULL) == 0);
    for (int i = 0; i < LOADERS; i++) {
        snprintf(names[i], sizeof names[i], "../plugin_%c.so", 'a' + i % 3);
        CHECK(pthread_create(&loaders[i], NULL, loads, names[i]) == 0);
    }
    void *sum, *first = NULL;
    for (int i = 0; i < CALLERS; i++) {
        pthread_join(callers[i], &sum);
        CHECK(i == 0 || sum == first);
        first = sum;
    }
    for (int i = 0; i < LOADERS; i++)
        pthread_join(loaders[i], NULL);
    printf("%ld\ncalls plugin_work %ld\n", (long)first, (long)from_plugins);
    printf("calls work_of_a|work_of_b|work_of_c %ld\n", (long)from_plugins);
    truth_print();
    return torture_end();
}
