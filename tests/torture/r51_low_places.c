/*
 * Row 51: address space that a program counts on: memory at places of its own choice between 2 and
 * 4 GB, over whatever may lie there; a heap that grows behind a program at a low address; all that
 * a limit of its own leaves it, also with other threads. It gets them, and they are its own. And
 * the children of children of forks have no more of it in use than the first of them.
 */
#include "torture.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

static NOINLINE unsigned next(unsigned x)
{
    return x * 1664525u + 1013904223u;
}

static NOINLINE unsigned work(unsigned x)
{
    for (int i = 0; i < 20000; i++)
        x = next(x);
    return x;
}

/* Nothing is in the memory that it did not put there, also after some calls. */
static void map(int how)
{
    const uint64_t place = UINT64_C(1) << 31, bytes = UINT64_C(1) << 30, step = 4096;
    char *at = mmap((void *)place, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | how, -1, 0);
    CHECK(at == (char *)place);
    if (at == MAP_FAILED)
        return;
    burn_ms(30);
    unsigned sum = work(1), wrong = 0;
    for (uint64_t i = 0; i < bytes; i += step)
        wrong += *(uint64_t *)(at + i) != 0;
    for (uint64_t i = 512u << 20; i < (520u << 20); i += 8) /* where an arena may be */
        wrong += *(uint64_t *)(at + i) != 0;
    printf("%u, %u wrong\n", sum, wrong);
}

static void grow(void)
{
    enum { STEP = 64 << 20, STEPS = 23 };
    for (int i = 0; i < STEPS; i++) {
        char *at = sbrk(STEP);
        CHECK(at != (void *)-1);
        if (at == (void *)-1)
            return;
        at[0] = at[STEP - 1] = 1;
    }
    printf("%u\n", work(1));
}

static volatile sig_atomic_t is_over;

static void *burn(void *unused)
{
    while (!is_over)
        work(2);
    return unused;
}

static void limit(int left_mb)
{
    struct rlimit limit = {400 << 20, 400 << 20};
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
    for (int i = 0; i < left_mb; i++) {
        char *memory = malloc(1 << 20);
        CHECK(memory);
        if (!memory)
            return;
        memory[0] = memory[(1 << 20) - 1] = 1;
    }
    printf("%u\n", work(1));
}

/* Others are sampled, and take memory for it, while the limit comes. */
static void limit_with_threads(void)
{
    enum { THREADS = 3, LEFT_MB = 170 };
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, burn, NULL) == 0);
    burn_ms(30);
    limit(LEFT_MB);
    burn_ms(30);
    is_over = 1;
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

static long mapped_mb(void)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file && fscanf(file, "%ld", &pages) == 1);
    if (file)
        fclose(file);
    return pages >> 8;
}

static void fork_on(int generations, long first_mb)
{
    int status = 0;
    fflush(stdout);
    if (generations == 0) {
        CHECK(mapped_mb() - first_mb < 512);
        return;
    }
    pid_t child = fork();
    if (child == 0) {
        fork_on(generations - 1, first_mb);
        fflush(stdout);
        _exit(torture_failures != 0);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    unsigned sum = work(1);
    burn_ms(30); /* samples before and after */
    if (!strcmp(what, "fixed"))
        map(MAP_FIXED);
    else if (!strcmp(what, "noreplace"))
        map(MAP_FIXED_NOREPLACE);
    else if (!strcmp(what, "heap"))
        grow();
    else if (!strcmp(what, "forks"))
        fork_on(8, mapped_mb());
    else if (!strcmp(what, "limit_threads"))
        limit_with_threads();
    else
        limit(90);
    CHECK(sum == work(1));
    return torture_end();
}
