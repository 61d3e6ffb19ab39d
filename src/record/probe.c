#include "record/probe.h"

#include "base/page.h"

#include <fcntl.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t arrived;
static volatile int delayed_event = -1; /* the one whose signals are timed */
static const struct perf_event_mmap_page *volatile ticks;
static volatile uint64_t delays_ns[PROBE_TICKS];

/* What the kernel writes for a tick. */
struct record {
    struct perf_event_header header;
    uint64_t cpu_ns;
};

static void on_signal(int number)
{
    (void)number;
    uint64_t now_ns;
    if (delayed_event >= 0 && arrived < PROBE_TICKS &&
        read(delayed_event, &now_ns, sizeof now_ns) == (ssize_t)sizeof now_ns && ticks->data_head) {
        const char *newest = (const char *)ticks + PAGE_BYTES +
                             (ticks->data_head - sizeof(struct record)) % PAGE_BYTES;
        delays_ns[arrived] = now_ns - ((const struct record *)(const void *)newest)->cpu_ns;
    }
    arrived++;
}

static struct sigaction before;

void probe_begin(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigaction(SIGVTALRM, &action, &before);
}

void probe_end(void)
{
    sigaction(SIGVTALRM, &before, NULL);
}

static double cpu_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Work of a known size, in user mode. */
static void spin(int rounds)
{
    volatile double x = 1;
    for (int i = 0; i < rounds; i++)
        x = x * 1.0000001;
}

enum { ROUNDS = 2000000 };

double probe_rate(void)
{
    arrived = 0;
    double start = cpu_s(), passed;
    do {
        spin(ROUNDS);
        passed = cpu_s() - start;
    } while (passed < 0.3);
    return (double)arrived / passed;
}

int probe_open(uint64_t hz)
{
    struct perf_event_attr a = {.size = sizeof a,
                                .type = PERF_TYPE_SOFTWARE,
                                .config = PERF_COUNT_SW_TASK_CLOCK,
                                .sample_period = 1000000000 / hz,
                                .sample_type = PERF_SAMPLE_READ,
                                .exclude_kernel = 1,
                                .exclude_hv = 1,
                                .wakeup_events = 1};
    int fd = (int)syscall(SYS_perf_event_open, &a, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
    if (fd < 0)
        return -1;
    struct f_owner_ex owner = {F_OWNER_TID, gettid()};
    fcntl(fd, F_SETOWN_EX, &owner);
    fcntl(fd, F_SETSIG, SIGVTALRM);
    fcntl(fd, F_SETFL, O_ASYNC);
    return fd;
}

/* The CPU time that the work takes. */
static double burn_s(void)
{
    double start = cpu_s();
    spin(ROUNDS);
    return cpu_s() - start;
}

static int by_value(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

double probe_cost_us(void)
{
    enum { PAIRS = 41, HZ = 9999 };
    double cost_us[PAIRS];
    int fd = probe_open(HZ);
    for (int i = 0; i < PAIRS; i++) {
        ioctl(fd, PERF_EVENT_IOC_DISABLE, 0);
        double without = burn_s();
        ioctl(fd, PERF_EVENT_IOC_ENABLE, 0);
        arrived = 0;
        double with = burn_s();
        cost_us[i] = arrived ? (with - without) / (double)arrived * 1e6 : 0;
    }
    close(fd);
    qsort(cost_us, PAIRS, sizeof *cost_us, by_value);
    return cost_us[PAIRS / 2];
}

uint64_t probe_tick_delay_ns(void)
{
    enum { HZ = 9999, MOST_ROUNDS = 20000 };
    int fd = probe_open(HZ);
    if (fd < 0)
        return 0;
    void *page = mmap(NULL, 2 * (size_t)PAGE_BYTES, PROT_READ, MAP_SHARED, fd, 0);
    if (page == MAP_FAILED) {
        close(fd);
        return 0;
    }
    ticks = page;
    arrived = 0;
    for (unsigned i = 0; i < PROBE_TICKS; i++)
        delays_ns[i] = 0;
    delayed_event = fd;
    for (int round = 0; round < MOST_ROUNDS && arrived < PROBE_TICKS; round++)
        spin(1000);
    delayed_event = -1;
    close(fd);
    munmap(page, 2 * (size_t)PAGE_BYTES);
    double sorted[PROBE_TICKS];
    for (unsigned i = 0; i < PROBE_TICKS; i++)
        sorted[i] = (double)delays_ns[i];
    qsort(sorted, PROBE_TICKS, sizeof *sorted, by_value);
    return (uint64_t)sorted[PROBE_TICKS / 4];
}
