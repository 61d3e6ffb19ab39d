/*
 * Threads that touch new pages: two with many in a row, two with a few at a time between which they
 * are busy. So what the kernel chooses as a period changes often. Says what getrusage says.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>

enum { PAGE = 4096, MANY = 20000, FEW = 20, TIMES = 200, BUSY = 300000 };

static long in_many, in_few;

static long faults_so_far(void)
{
    struct rusage u;
    getrusage(RUSAGE_THREAD, &u);
    return u.ru_minflt;
}

/* Returns how many faults that were. */
static long touch(long pages)
{
    size_t bytes = (size_t)pages * PAGE;
    volatile char *memory =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        exit(1);
    madvise((void *)memory, bytes, MADV_NOHUGEPAGE);
    long before = faults_so_far();
    for (long i = 0; i < pages; i++)
        memory[i * PAGE] = 1;
    long faults = faults_so_far() - before;
    munmap((void *)memory, bytes);
    return faults;
}

__attribute__((noinline)) static void *many(void *unused)
{
    in_many += touch(MANY);
    return unused;
}

__attribute__((noinline)) static void *few(void *unused)
{
    for (int i = 0; i < TIMES; i++) {
        in_few += touch(FEW);
        for (volatile int k = 0; k < BUSY; k++)
            ;
    }
    return unused;
}

int main(void)
{
    for (int i = 0; i < 4; i++) {
        pthread_t thread;
        pthread_create(&thread, NULL, i % 2 ? few : many, NULL);
        pthread_join(thread, NULL);
    }
    printf("many %ld\nfew %ld\n", in_many, in_few);
    return 0;
}
