/*
 * Row 17: a library audits all calls through the linker (LD_AUDIT), whose callers are then the
 * linker. A guest that calls through it, too, asks for the next function behind the linker, and
 * dies of that.
 */
#include "torture.h"

#include <pthread.h>
#include <sys/wait.h>

static int compare(const void *a, const void *b)
{
    const int *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static void *sort(void *unused)
{
    enum { COUNT = 2000, ROUNDS = 20 };
    static __thread int values[COUNT];
    unsigned x = 1, wrong = 0;
    for (int k = 0; k < ROUNDS; k++) {
        for (int i = 0; i < COUNT; i++)
            values[i] = (int)((x = x * 1664525u + 1013904223u) >> 8);
        qsort(values, COUNT, sizeof values[0], compare);
        for (int i = 1; i < COUNT; i++)
            wrong += values[i - 1] > values[i];
        free(malloc(100));
    }
    CHECK(wrong == 0);
    return unused;
}

int main(int argc, char **argv)
{
    pthread_t threads[3];
    if (argc == 1) { /* the library is there from the start */
        setenv("LD_AUDIT", "../audit.so", 1);
        execl("/proc/self/exe", argv[0], "audited", (char *)NULL);
        return 1;
    }
    for (int i = 0; i < 3; i++)
        CHECK(pthread_create(&threads[i], NULL, sort, NULL) == 0);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    burn_ms(120);
    int status = -1;
    pid_t child = fork();
    if (child == 0)
        _exit(7);
    CHECK(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 7);
    return torture_end();
}
