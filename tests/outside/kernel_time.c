/*
 * Spends CPU time in the kernel, by four kinds of calls, each for so many milliseconds of its own
 * clock, and prints how long each has taken: name, user and kernel time in nanoseconds.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { BYTES = 1 << 16, PAGE = 4096, PAGES = 256 };
static char bytes[BYTES];
static int zero, null;

static long now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * 1000000000L + t.tv_nsec;
}

__attribute__((noinline)) void reads(void)
{
    for (int i = 0; i < 100; i++)
        if (read(zero, bytes, BYTES) != BYTES)
            abort();
}

__attribute__((noinline)) void writes(void)
{
    for (int i = 0; i < 1000; i++)
        if (write(null, bytes, BYTES) != BYTES)
            abort();
}

__attribute__((noinline)) void faults(void)
{
    char *p = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        abort();
    for (int i = 0; i < PAGES; i++)
        *(volatile char *)(p + (long)i * PAGE) = 1;
    munmap(p, PAGES * PAGE);
}

__attribute__((noinline)) void asks(void)
{
    struct rusage usage;
    for (int i = 0; i < 1000; i++)
        getrusage(RUSAGE_SELF, &usage);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } kinds[] = {{"reads", reads}, {"writes", writes}, {"faults", faults}, {"asks", asks}};
    long each_ns = (argc > 1 ? atol(argv[1]) : 200) * 1000000L;
    zero = open("/dev/zero", O_RDONLY);
    null = open("/dev/null", O_WRONLY);
    for (int i = 0; i < 4; i++) {
        long began = now_ns(), passed;
        do {
            kinds[i].run();
            passed = now_ns() - began;
        } while (passed < each_ns);
        printf("%s %ld\n", kinds[i].name, passed);
    }
    return 0;
}
