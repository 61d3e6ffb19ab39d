/*
 * What a sample costs the program, by toggling: the same piece of work with an event on and off, in
 * turn, inside one process, and all kinds of events in each round, so that what changes on the
 * machine changes for all of them. The events are those of `record --outside`, with windows of
 * several sizes, that of `record` with an empty handler for its signal, and perf's. A thread on
 * another processor reads what they have written, as a reader would, while nothing is measured.
 *
 *   outside HZ ROUNDS [each]     prints a row of a table for each kind
 *
 * Toggling has all that a sample costs, but at low frequencies its noise is larger than what is to
 * be seen. With `each`, the work looks at the time stamp counter all the time: where it stands
 * still and a record has been written meanwhile, that is what a sample takes, each for itself. What
 * it costs later, by what it has taken from the caches, is not there.
 */
#include <asm/perf_regs.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { RING = 4 << 20, PAGE = 4096, STACK_IN_USE = 70000, MOST_ROUNDS = 10000, PERIODS = 5 };

enum contents { SIGNAL, REGISTERS, CALLERS, CALLERS_AND_REGISTERS };

struct kind {
    const char *name;
    enum contents contents;
    uint32_t window;
    int fd;
    struct perf_event_mmap_page *ring;
    uint64_t records;
    double *excess_us; /* of each round */
};

static struct kind kinds[] = {
    {"an empty record", REGISTERS, 0, -1, NULL, 0, NULL}, /* the others are compared with it */
    {"a signal with an empty handler", SIGNAL, 0, -1, NULL, 0, NULL},
    {"window 1 KB", REGISTERS, 1 << 10, -1, NULL, 0, NULL},
    {"window 2 KB", REGISTERS, 2 << 10, -1, NULL, 0, NULL},
    {"window 4 KB", REGISTERS, 4 << 10, -1, NULL, 0, NULL},
    {"window 8 KB", REGISTERS, 8 << 10, -1, NULL, 0, NULL},
    {"window 32 KB", REGISTERS, 32 << 10, -1, NULL, 0, NULL},
    {"window 63 KB", REGISTERS, 63 << 10, -1, NULL, 0, NULL},
    {"perf record -g", CALLERS, 0, -1, NULL, 0, NULL},
    {"perf record --call-graph dwarf", CALLERS_AND_REGISTERS, 8 << 10, -1, NULL, 0, NULL},
};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

static volatile uint64_t signals, iterations;

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

static void work(uint64_t count)
{
    uint64_t x = 1;
    for (uint64_t i = 0; i < count; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        __asm__ volatile("" : "+r"(x));
    }
}

/* How much of it takes so long. */
static uint64_t work_for(double us)
{
    enum { PROBE = 1000000 };
    double best = 1e9;
    for (int i = 0; i < 20; i++) {
        double began = now_us();
        work(PROBE);
        double took = now_us() - began;
        best = took < best ? took : best;
    }
    return (uint64_t)(us / best * PROBE);
}

static struct perf_event_attr describe(const struct kind *k, long hz)
{
    struct perf_event_attr a = {.size = sizeof a,
                                .type = PERF_TYPE_SOFTWARE,
                                .config = PERF_COUNT_SW_TASK_CLOCK,
                                .sample_period = (uint64_t)(1000000000 / hz),
                                .exclude_kernel = 1,
                                .disabled = 1,
                                .use_clockid = 1,
                                .clockid = CLOCK_MONOTONIC,
                                .watermark = k->contents != SIGNAL};
    if (k->contents == SIGNAL) {
        a.wakeup_events = 1;
        return a;
    }
    a.sample_type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME;
    a.wakeup_watermark = RING / 2;
    if (k->contents != CALLERS) {
        a.sample_type |= PERF_SAMPLE_REGS_USER | (k->window ? PERF_SAMPLE_STACK_USER : 0);
        a.sample_regs_user = 0x1ff | (UINT64_C(0xff) << PERF_REG_X86_R8);
        a.sample_stack_user = k->window;
    }
    if (k->contents != REGISTERS)
        a.sample_type |= PERF_SAMPLE_CALLCHAIN | PERF_SAMPLE_PERIOD;
    a.exclude_callchain_user = k->contents == CALLERS_AND_REGISTERS;
    return a;
}

static bool open_kind(struct kind *k, long hz, long rounds)
{
    struct perf_event_attr a = describe(k, hz);
    k->fd = (int)syscall(SYS_perf_event_open, &a, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
    void *map = k->fd < 0 ? MAP_FAILED
                          : mmap(NULL, PAGE + RING, PROT_READ | PROT_WRITE, MAP_SHARED, k->fd, 0);
    k->excess_us = calloc((size_t)rounds, sizeof *k->excess_us);
    if (map == MAP_FAILED || !k->excess_us)
        return false;
    k->ring = map;
    if (k->contents == SIGNAL) {
        struct sigaction action = {.sa_handler = on_signal};
        sigaction(SIGSTKFLT, &action, NULL);
        fcntl(k->fd, F_SETFL, O_ASYNC);
        fcntl(k->fd, F_SETSIG, SIGSTKFLT);
        fcntl(k->fd, F_SETOWN, getpid());
    }
    return true;
}

/* --- the reader --------------------------------------------------------------------------------
 */

static sem_t may_read, has_read;
static struct kind *to_read;
static volatile uint64_t sum;

static void drain(struct kind *k)
{
    const char *bytes = (const char *)k->ring + PAGE;
    uint64_t head = __atomic_load_n(&k->ring->data_head, __ATOMIC_ACQUIRE);
    for (uint64_t at = k->ring->data_tail; at < head;) {
        struct perf_event_header h;
        memcpy(&h, bytes + at % RING, sizeof h);
        k->records += h.type == PERF_RECORD_SAMPLE;
        for (uint64_t i = 0; i < h.size; i += 8)
            sum += *(const uint64_t *)(const void *)(bytes + (at + i) % RING);
        at += h.size;
    }
    __atomic_store_n(&k->ring->data_tail, head, __ATOMIC_RELEASE);
}

static void *read_rings(void *nothing)
{
    for (;;) {
        sem_wait(&may_read);
        if (!to_read)
            return nothing;
        drain(to_read);
        sem_post(&has_read);
    }
}

static void have_read(struct kind *k)
{
    to_read = k;
    sem_post(&may_read);
    if (k)
        sem_wait(&has_read);
}

static void stay_on(pthread_t thread, int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)cpu, &set);
    pthread_setaffinity_np(thread, sizeof set, &set); /* if there is one */
}

/* --- the measurement ---------------------------------------------------------------------------
 */

static double time_of(const struct kind *k, bool on)
{
    if (on)
        ioctl(k->fd, PERF_EVENT_IOC_ENABLE, 0);
    double began = now_us();
    work(iterations);
    double took = now_us() - began;
    if (on)
        ioctl(k->fd, PERF_EVENT_IOC_DISABLE, 0);
    return took;
}

/* What the work reads: as programs do, so that the kernel's own data has to come back. */
enum { MEMORY = 1 << 19, LINE = 64, LEAST_GAP_NS = 1000, SAMPLES_OF_A_ROUND = 16 };
static volatile char memory[MEMORY];
static double ticks_per_ns;

static uint64_t written_by(const struct kind *k)
{
    return k->contents == SIGNAL ? signals : __atomic_load_n(&k->ring->data_head, __ATOMIC_ACQUIRE);
}

static int by_size(const void *a, const void *b);

/* The middle of some samples. */
static double watch(const struct kind *k)
{
    double gaps_us[SAMPLES_OF_A_ROUND];
    unsigned count = 0;
    ioctl(k->fd, PERF_EVENT_IOC_ENABLE, 0);
    uint64_t least = (uint64_t)(LEAST_GAP_NS * ticks_per_ns), written = written_by(k);
    uint64_t last = __builtin_ia32_rdtsc();
    for (size_t at = 0; count < SAMPLES_OF_A_ROUND; at = (at + LINE) % MEMORY) {
        memory[at];
        uint64_t now = __builtin_ia32_rdtsc(), before = written;
        if (now - last > least && (written = written_by(k)) != before) {
            gaps_us[count++] = (double)(now - last) / ticks_per_ns / 1e3;
            now = __builtin_ia32_rdtsc();
        }
        last = now;
    }
    ioctl(k->fd, PERF_EVENT_IOC_DISABLE, 0);
    qsort(gaps_us, count, sizeof *gaps_us, by_size);
    return gaps_us[count / 2];
}

static void measure_each(long round)
{
    for (unsigned i = 0; i < KINDS; i++) {
        struct kind *k = &kinds[(i + (unsigned)round) % KINDS];
        k->excess_us[round] = watch(k);
        have_read(k);
    }
}

static void learn_ticks(void)
{
    enum { FOR_NS = 100000000 };
    struct timespec from, to;
    double passed;
    clock_gettime(CLOCK_MONOTONIC, &from);
    uint64_t began = __builtin_ia32_rdtsc();
    do {
        clock_gettime(CLOCK_MONOTONIC, &to);
        passed = (double)(to.tv_sec - from.tv_sec) * 1e9 + (double)(to.tv_nsec - from.tv_nsec);
    } while (passed < FOR_NS);
    ticks_per_ns = (double)(__builtin_ia32_rdtsc() - began) / passed;
}

static void measure(long round)
{
    for (unsigned i = 0; i < KINDS; i++) {
        struct kind *k = &kinds[(i + (unsigned)round) % KINDS];
        bool first_on = round & 1;
        double first = time_of(k, first_on), second = time_of(k, !first_on);
        have_read(k);
        k->excess_us[round] = (first_on ? first - second : second - first) / PERIODS;
    }
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

struct median {
    double middle, low, high; /* at 95%, by the binomial distribution */
};

static struct median median_of(double *values, long count)
{
    long half = 1;
    qsort(values, (size_t)count, sizeof *values, by_size);
    while (half * half < count)
        half++;
    return (struct median){values[count / 2], values[count / 2 - half], values[count / 2 + half]};
}

static void print_kind(struct kind *k, long hz, long rounds, const double *empty_us)
{
    static double more[MOST_ROUNDS];
    double empty[MOST_ROUNDS];
    memcpy(empty, empty_us, (size_t)rounds * sizeof *empty);
    for (long i = 0; i < rounds; i++)
        more[i] = k->excess_us[i] - empty_us[i];
    double one = median_of(empty, rounds).middle;
    struct median over = median_of(more, rounds), own = median_of(k->excess_us, rounds);
    printf("| %s | %ld | %.2f%% | %.1f | %.1f to %.1f | %+.1f%% | %+.1f to %+.1f%% | %lu |\n",
           k->name, hz, own.middle * (double)hz / 1e4, own.middle, own.low, own.high,
           100 * over.middle / one, 100 * over.low / one, 100 * over.high / one,
           (unsigned long)(k->contents == SIGNAL ? signals : k->records));
}

int main(int argc, char **argv)
{
    static double empty_us[MOST_ROUNDS];
    long hz = argc > 1 ? atol(argv[1]) : 999, rounds = argc > 2 ? atol(argv[2]) : 400;
    bool is_each = argc > 3;
    volatile char in_use[STACK_IN_USE]; /* so that windows are full */
    pthread_t reader;
    memset((char *)in_use, 1, sizeof in_use);
    if (hz < 1 || rounds < 16 || rounds > MOST_ROUNDS)
        return 2;
    for (unsigned i = 0; i < KINDS; i++)
        if (!open_kind(&kinds[i], hz, rounds)) {
            perror(kinds[i].name);
            return 1;
        }
    sem_init(&may_read, 0, 0);
    sem_init(&has_read, 0, 0);
    if (pthread_create(&reader, NULL, read_rings, NULL) != 0)
        return 1;
    stay_on(pthread_self(), 0);
    stay_on(reader, 1);
    learn_ticks();
    iterations = is_each ? 0 : work_for(PERIODS * 1e6 / (double)hz);
    for (long round = 0; round < rounds; round++)
        is_each ? measure_each(round) : measure(round);
    have_read(NULL);
    pthread_join(reader, NULL);
    memcpy(empty_us, kinds[0].excess_us, (size_t)rounds * sizeof *empty_us);
    for (unsigned i = 0; i < KINDS; i++)
        print_kind(&kinds[i], hz, rounds, empty_us);
    return in_use[0] - 1;
}
