/*
 * Row 43: thousands of distinct contexts, in many threads, to make the arena grow, while the
 * program has a small limit for the size of files; SIGXFSZ and SIGBUS must not reach it.
 */
#include "torture.h"

#include <pthread.h>
#include <sys/resource.h>

static volatile sig_atomic_t signals;

static void on_signal(int number)
{
    (void)number;
    signals++;
}

static NOINLINE unsigned left(unsigned bits, unsigned depth);
static NOINLINE unsigned right(unsigned bits, unsigned depth);

/* One context for each number: its bits say which way each call goes. */
static unsigned go(unsigned bits, unsigned depth)
{
    if (depth == 0)
        return spin(1500);
    return (bits & 1 ? left(bits >> 1, depth - 1) : right(bits >> 1, depth - 1)) + 1;
}

static NOINLINE unsigned left(unsigned bits, unsigned depth)
{
    return go(bits, depth) + 1;
}

static NOINLINE unsigned right(unsigned bits, unsigned depth)
{
    return go(bits, depth) + 2;
}

static void *thread(void *argument)
{
    unsigned bits = (unsigned)(intptr_t)argument;
    for (int i = 0; i < 12000; i++) {
        bits = bits * 1664525u + 1013904223u;
        go(bits >> 4, 28);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[8];
    struct rlimit small = {64 * 1024, 64 * 1024};
    signal(SIGXFSZ, on_signal);
    signal(SIGBUS, on_signal);
    if (argc > 1 && strcmp(argv[1], "fsize") == 0)
        CHECK(setrlimit(RLIMIT_FSIZE, &small) == 0);
    for (intptr_t i = 0; i < 8; i++)
        CHECK(pthread_create(&threads[i], NULL, thread, (void *)i) == 0);
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    printf("signals %d\n", (int)signals);
    return torture_end();
}
