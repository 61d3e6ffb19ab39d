/*
 * Memory that is asked for in known amounts: grows to a peak, of which a part is freed, and leaks
 * in one place. With an argument, the whole of it so many times.
 */
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

static unsigned long long asked, calls;
static void *volatile keep[3000];

static void *counted(void *memory, size_t bytes)
{
    asked += bytes;
    calls++;
    return memory;
}

__attribute__((noinline)) static void leaker(int i)
{
    keep[i] = counted(malloc(1000), 1000);
}

__attribute__((noinline)) static void small(int i)
{
    keep[i] = counted(malloc(16 + (size_t)i % 7), 16 + (size_t)i % 7);
}

__attribute__((noinline)) static void large(int i)
{
    keep[i] = counted(calloc(3, 70000), 210000);
}

__attribute__((noinline)) static void aligned(int i)
{
    void *memory = NULL;
    if (i % 3 == 0)
        memory = counted(aligned_alloc(64, 640), 640);
    else if (i % 3 == 1)
        memory = counted(memalign(128, 500), 500);
    else if (posix_memalign(&memory, 256, 300) == 0)
        counted(memory, 300);
    keep[i] = memory;
}

__attribute__((noinline)) static void grower(void)
{
    char *memory = NULL;
    for (size_t bytes = 100; bytes <= 100000; bytes += 100)
        memory = counted(realloc(memory, bytes), bytes);
    keep[0] = memory;
}

static void *free_all(void *until)
{
    for (int i = 0; i < (int)(size_t)until; i++) {
        free(keep[i]);
        keep[i] = NULL;
    }
    return NULL;
}

/* Freed by another thread than the one that asked for it. */
static void free_elsewhere(size_t until)
{
    pthread_t other;
    pthread_create(&other, NULL, free_all, (void *)until);
    pthread_join(other, NULL);
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 1;
    for (int round = 0; round < rounds; round++) {
        grower();
        free_all((void *)1);
        for (int i = 0; i < 1000; i++)
            small(i);
        for (int i = 1000; i < 1300; i++)
            large(i);
        for (int i = 1300; i < 2000; i++)
            aligned(i);
        free_elsewhere(1300);
        for (int i = 0; i < 1000; i++)
            small(i);
        free_all((void *)2000);
        for (int i = 2000; i < 2010; i++)
            leaker(i);
    }
    char line[200];
    int length = snprintf(line, sizeof line, "asked %llu\ncalls %llu\n", asked, calls);
    fwrite(line, 1, (size_t)length, stdout);
    return 0;
}
