/*
 * A thread makes its first call through the PLT of a library, and then none that is new until
 * another thread has unloaded the library.
 *
 *     unload LIBRARY
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

#define OUT __attribute__((noinline, noclone))

enum stage { BEGIN, HAS_CALLED, IS_UNLOADED };

static _Atomic enum stage stage;
static long (*library_work)(long);
long of_program(long n);

OUT long of_program(long n)
{
    return 2 * n;
}

OUT static long new_call(long n)
{
    return n + 3;
}

static void *work(void *unused)
{
    long sum = library_work(20);
    stage = HAS_CALLED;
    while (stage != IS_UNLOADED)
        ;
    printf("%ld\n", new_call(sum));
    return unused;
}

int main(int count, char **arguments)
{
    pthread_t thread;
    void *library = count == 2 ? dlopen(arguments[1], RTLD_LAZY) : NULL;
    if (!library)
        return 2;
    *(void **)&library_work = dlsym(library, "library_work");
    if (pthread_create(&thread, NULL, work, NULL) != 0)
        return 2;
    while (stage != HAS_CALLED)
        ;
    if (dlclose(library) != 0)
        return 2;
    stage = IS_UNLOADED;
    return pthread_join(thread, NULL) != 0;
}
