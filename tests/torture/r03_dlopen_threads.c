/*
 * Row 3: one thread loads and unloads a plugin again and again while others burn, resolve symbols,
 * walk the list of modules (as a thrown exception does), and make threads.
 */
#include "torture.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>

static _Atomic int stop;
static _Atomic long looked;
static pthread_barrier_t begun; /* no thread is left behind on a busy machine */

static NOINLINE void *burner(void *argument)
{
    pthread_barrier_wait(&begun);
    for (uint64_t end = thread_cpu_ns() + 100000000; !stop || thread_cpu_ns() < end;)
        spin(50000);
    return argument;
}

static int visit(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)size;
    *(int *)data += info->dlpi_phnum > 0;
    return 0;
}

static void *looker(void *argument)
{
    pthread_barrier_wait(&begun);
    do {
        int modules = 0;
        dl_iterate_phdr(visit, &modules);
        CHECK(modules > 2);
        CHECK(dlsym(RTLD_DEFAULT, "printf") != NULL);
        looked++;
        spin(2000);
    } while (!stop);
    return argument;
}

static void *nothing(void *argument)
{
    return argument;
}

static void *maker(void *argument)
{
    pthread_barrier_wait(&begun);
    while (!stop) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, nothing, NULL) == 0);
        pthread_join(thread, NULL);
        spin(20000);
    }
    return argument;
}

int main(int argc, char **argv)
{
    pthread_t threads[4];
    char path[4200];
    snprintf(path, sizeof path, "%.*s/plugin_a.so", (int)(strrchr(argv[0], '/') - argv[0]),
             argv[0]);
    pthread_barrier_init(&begun, NULL, 5);
    pthread_create(&threads[0], NULL, burner, NULL);
    pthread_create(&threads[1], NULL, burner, NULL);
    pthread_create(&threads[2], NULL, looker, NULL);
    pthread_create(&threads[3], NULL, maker, NULL);
    pthread_barrier_wait(&begun);
    long sum = 0;
    for (int i = 0; i < 100; i++) {
        void *plugin = dlopen(path, i % 2 ? RTLD_NOW : RTLD_LAZY);
        CHECK(plugin != NULL);
        if (!plugin)
            break;
        unsigned (*work)(unsigned) = (unsigned (*)(unsigned))dlsym(plugin, "plugin_work");
        sum += work(20000) != 0;
        CHECK(dlclose(plugin) == 0);
    }
    stop = 1;
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    printf("worked %ld times, looked: %s\n", sum, looked > 0 ? "yes" : "no");
    (void)argc;
    return torture_end();
}
