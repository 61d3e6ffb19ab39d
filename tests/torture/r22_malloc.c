/*
 * Row 22: malloc from everywhere: before main, in a handler (between calls, not inside one), while
 * other threads fork, in thread destructors, after exit has begun.
 */
#include "torture.h"

#include <pthread.h>
#include <sys/wait.h>

static _Atomic int stop;
static int before_main, in_signal, in_destructor;
static pthread_key_t key;

static int use(size_t size)
{
    char *memory = malloc(size);
    if (!memory)
        return 0;
    memset(memory, 1, size);
    memory = realloc(memory, size * 2);
    int good = memory && memory[size - 1] == 1;
    free(memory);
    return good;
}

static __attribute__((constructor)) void construct(void)
{
    for (int i = 1; i < 2000; i++)
        before_main += use((size_t)i);
}

static __attribute__((destructor)) void destruct(void)
{
    int good = 0;
    for (int i = 1; i < 2000; i++)
        good += use((size_t)i);
    printf("destructor: %d\n", good);
}

static void at_exit(void)
{
    printf("atexit: %d\n", use(5000));
}

static void on_user(int number)
{
    for (int i = 1; i < 50; i++)
        in_signal += number == SIGUSR1 && use((size_t)i * 100);
}

static void at_end(void *argument)
{
    in_destructor += use(100000);
    free(argument);
}

static NOINLINE void *allocates(void *argument)
{
    pthread_setspecific(key, malloc(10));
    while (!stop)
        for (int i = 1; i < 300; i++)
            use((size_t)i * 16);
    return argument;
}

int main(void)
{
    pthread_t threads[2];
    int children = 0;
    atexit(at_exit);
    pthread_key_create(&key, at_end);
    signal(SIGUSR1, on_user);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, allocates, NULL) == 0);
    for (int i = 0; i < 40; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            int good = 0;
            for (int k = 1; k < 200; k++)
                good += use((size_t)k * 10);
            _exit(good == 199 ? 0 : 1);
        }
        int status = -1;
        CHECK(waitpid(pid, &status, 0) == pid);
        children += status == 0;
        raise(SIGUSR1);
    }
    stop = 1;
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    printf("before main %d, in a handler %d, in destructors %d, children %d\n", before_main,
           in_signal, in_destructor, children);
    return torture_end();
}
