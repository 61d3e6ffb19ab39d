/*
 * What a record in the ring costs the program, by toggling: the same piece of work with the event
 * on and off, in turn, inside one process. The event is that of `record --outside`, with windows of
 * several sizes; beside it, the event of `record` with an empty handler for its signal.
 *
 *   outside HZ PAIRS      prints a row of a table for each kind
 */
#include <asm/perf_regs.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { RING = 8 << 20, PAGE = 4096, STACK_IN_USE = 70000, MOST_PAIRS = 10000 };

static volatile long signals;

static void on_signal(int number)
{
    (void)number;
    signals++;
}

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); /* others may be at work, too */
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* About 3 ms of it. */
static void work(void)
{
    uint64_t x = 1;
    for (int i = 0; i < 2500000; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        __asm__ volatile("" : "+r"(x));
    }
}

struct bench {
    int fd;
    struct perf_event_mmap_page *ring;
    uint64_t records;
};

/* `window`: bytes; -1: a signal and no record. */
static int open_event(struct bench *b, long hz, long window)
{
    struct perf_event_attr a = {.size = sizeof a,
                                .type = PERF_TYPE_SOFTWARE,
                                .config = PERF_COUNT_SW_TASK_CLOCK,
                                .sample_period = (uint64_t)(1000000000 / hz),
                                .exclude_kernel = 1,
                                .disabled = 1,
                                .use_clockid = 1,
                                .clockid = CLOCK_MONOTONIC};
    if (window >= 0) {
        a.sample_type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID |
                        PERF_SAMPLE_TIME | PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER;
        a.sample_regs_user = 0x1ff | (UINT64_C(0xff) << PERF_REG_X86_R8);
        a.sample_stack_user = (uint32_t)window;
        a.watermark = 1;
        if (window == 0)
            a.sample_type &= ~(uint64_t)PERF_SAMPLE_STACK_USER;
    } else {
        a.wakeup_events = 1;
    }
    b->fd = (int)syscall(SYS_perf_event_open, &a, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
    b->ring = b->fd < 0 ? MAP_FAILED
                        : mmap(NULL, PAGE + RING, PROT_READ | PROT_WRITE, MAP_SHARED, b->fd, 0);
    if (b->ring == MAP_FAILED)
        return -1;
    if (window < 0) {
        struct sigaction action = {.sa_handler = on_signal};
        sigaction(SIGSTKFLT, &action, NULL);
        fcntl(b->fd, F_SETFL, O_ASYNC);
        fcntl(b->fd, F_SETSIG, SIGSTKFLT);
        fcntl(b->fd, F_SETOWN, getpid());
    }
    return 0;
}

static void drain(struct bench *b)
{
    uint64_t at = b->ring->data_tail;
    while (at < b->ring->data_head) {
        struct perf_event_header h;
        memcpy(&h, (const char *)b->ring + PAGE + at % RING, sizeof h);
        b->records += h.type == PERF_RECORD_SAMPLE;
        at += h.size;
    }
    b->ring->data_tail = at;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static int measure(const char *name, long hz, long window, long pairs)
{
    static double excess[MOST_PAIRS];
    struct bench b = {0};
    if (open_event(&b, hz, window) != 0) {
        perror("perf_event_open");
        return 1;
    }
    signals = 0;
    for (long i = 0; i < pairs; i++) {
        ioctl(b.fd, PERF_EVENT_IOC_ENABLE, 0);
        double began = now_us();
        work();
        double on = now_us() - began;
        ioctl(b.fd, PERF_EVENT_IOC_DISABLE, 0);
        drain(&b);
        began = now_us();
        work();
        excess[i] = on / (now_us() - began) - 1;
    }
    qsort(excess, (size_t)pairs, sizeof *excess, by_size);
    /* The interval of the median: by the binomial distribution, at 95%. */
    long half = 1;
    while (half * half < pairs)
        half++;
    double middle = excess[pairs / 2], low = excess[pairs / 2 - half],
           high = excess[pairs / 2 + half];
    double to_us = 1e6 / (double)hz;
    printf("| %s | %ld | %.2f%% | %.1f | %.1f to %.1f | %lu |\n", name, hz, middle * 100,
           middle * to_us, low * to_us, high * to_us,
           window < 0 ? (unsigned long)signals : (unsigned long)b.records);
    fflush(stdout);
    munmap(b.ring, PAGE + RING);
    close(b.fd);
    return 0;
}

struct kind {
    const char *name;
    long window, hz, pairs;
};

/* On a stack of its own, of which little is in use. */
static void *measure_low(void *context)
{
    const struct kind *k = context;
    return measure(k->name, k->hz, k->window, k->pairs) == 0 ? NULL : context;
}

int main(int argc, char **argv)
{
    static const struct kind kinds[] = {{"a signal with an empty handler", -1, 0, 0},
                                        {"a record without a stack", 0, 0, 0},
                                        {"window 1 KB", 1024, 0, 0},
                                        {"window 4 KB", 4 << 10, 0, 0},
                                        {"window 8 KB", 8 << 10, 0, 0},
                                        {"window 16 KB", 16 << 10, 0, 0},
                                        {"window 32 KB", 32 << 10, 0, 0},
                                        {"window 63 KB", 63 << 10, 0, 0}};
    long hz = argc > 1 ? atol(argv[1]) : 999, pairs = argc > 2 ? atol(argv[2]) : 400;
    volatile char in_use[STACK_IN_USE]; /* so that windows are full */
    memset((char *)in_use, 1, sizeof in_use);
    if (hz < 1 || pairs < 16 || pairs > MOST_PAIRS)
        return 2;
    for (unsigned i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (measure(kinds[i].name, hz, kinds[i].window, pairs) != 0)
            return 1;
    struct kind low = {"window 32 KB, a stack of 4 KB", 32 << 10, hz, pairs};
    pthread_t thread;
    void *failed;
    if (pthread_create(&thread, NULL, measure_low, &low) != 0 ||
        pthread_join(thread, &failed) != 0 || failed)
        return 1;
    return in_use[0] - 1;
}
