/*
 * For so many seconds, threads and children that begin and end, hundreds a second: each thread asks
 * for memory, waits for a lock, writes, and burns a little; children do nothing, or as much.
 *
 *     churn SECONDS [threads|children]
 */
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int pipes[2];

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

__attribute__((noinline)) static unsigned burn(unsigned n)
{
    volatile unsigned x = 1;
    while (n--)
        x = x * 1664525 + 1013904223;
    return x;
}

static void *work(void *argument)
{
    char *text = malloc(5000), byte = 'x';
    memset(text, 1, 5000);
    pthread_mutex_lock(&lock);
    burn(20000);
    pthread_mutex_unlock(&lock);
    if (write(pipes[1], &byte, 1) != 1 || read(pipes[0], &byte, 1) != 1)
        abort();
    free(text);
    return argument;
}

int main(int argc, char **argv)
{
    double end = now() + (argc > 1 ? atof(argv[1]) : 5);
    int with_threads = argc < 3 || strcmp(argv[2], "threads") == 0;
    int with_children = argc < 3 || strcmp(argv[2], "children") == 0;
    if (pipe(pipes))
        return 1;
    while (now() < end) {
        pthread_t threads[8];
        for (int i = 0; i < 8 && with_threads; i++)
            if (pthread_create(&threads[i], NULL, work, NULL))
                return 1;
        for (int i = 0; i < 8 && with_threads; i++)
            pthread_join(threads[i], NULL);
        if (!with_children)
            continue;
        pid_t child;
        char *arguments[] = {"true", NULL};
        if (posix_spawn(&child, "/bin/true", NULL, NULL, arguments, environ) == 0)
            waitpid(child, NULL, 0);
        if ((child = fork()) == 0) {
            work(NULL);
            _exit(0);
        }
        waitpid(child, NULL, 0);
    }
    puts("done");
    return 0;
}
