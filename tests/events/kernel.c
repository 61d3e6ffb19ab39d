/*
 * What the kernel counts, in known functions: pages that are touched for the first time, and sleeps
 * that give the processor away. Says what getrusage says of each.
 */
#include "own_time.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 800, SLEEPS = 60 };

static struct rusage usage(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return u;
}

/* In user mode, page by page. */
__attribute__((noinline)) static void touch(volatile char *memory)
{
    for (int i = 0; i < PAGES; i++)
        memory[(long)i * PAGE] = 1;
}

/* In the kernel, which writes there. */
__attribute__((noinline)) static void touch_in_kernel(char *memory, int file)
{
    for (int i = 0; i < PAGES; i++)
        if (read(file, memory + (long)i * PAGE, 1) != 1)
            exit(1);
}

__attribute__((noinline)) static void sleep_often(void)
{
    for (int i = 0; i < SLEEPS; i++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

int main(void)
{
    size_t bytes = (size_t)PAGES * PAGE;
    char *own = mmap(NULL, 2 * bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    FILE *zeros = fopen("/dev/zero", "re");
    if (own == MAP_FAILED || !zeros)
        return 1;
    madvise(own, 2 * bytes, MADV_NOHUGEPAGE);
    struct rusage a = usage();
    touch(own);
    struct rusage b = usage();
    touch_in_kernel(own + bytes, fileno(zeros));
    struct rusage c = usage();
    double start = now_s();
    sleep_often();
    double slept = now_s() - start;
    struct rusage d = usage();
    printf("touched %ld\nin_kernel %ld\nwaited %ld\npreempted %ld\n", b.ru_minflt - a.ru_minflt,
           c.ru_minflt - b.ru_minflt, d.ru_nvcsw - c.ru_nvcsw, d.ru_nivcsw - c.ru_nivcsw);
    printf("slept %f\nbytes %d\npages %d\n", slept, PAGES, PAGES);
    return 0;
}
