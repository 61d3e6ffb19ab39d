#include "record/doctor.h"

#include "map/cache.h"
#include "record/folder.h"
#include "record/target.h"
#include "runtime/arena_format.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t arrived;

static void on_signal(int number)
{
    (void)number;
    arrived++;
}

static double cpu_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Burns CPU time in user mode and says how many signals came for each second of it. */
static double measure_rate(void)
{
    enum { SPIN = 2000000 };
    volatile double x = 1;
    arrived = 0;
    double start = cpu_s(), passed;
    do {
        for (int i = 0; i < SPIN; i++)
            x = x * 1.0000001;
        passed = cpu_s() - start;
    } while (passed < 0.3);
    return (double)arrived / passed;
}

static int open_event(uint64_t hz)
{
    struct perf_event_attr a = {.size = sizeof a,
                                .type = PERF_TYPE_SOFTWARE,
                                .config = PERF_COUNT_SW_TASK_CLOCK,
                                .sample_period = 1000000000 / hz,
                                .exclude_kernel = 1,
                                .exclude_hv = 1,
                                .wakeup_events = 1};
    int fd = (int)syscall(SYS_perf_event_open, &a, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
    if (fd < 0)
        return -1;
    struct f_owner_ex owner = {F_OWNER_TID, gettid()};
    fcntl(fd, F_SETOWN_EX, &owner);
    fcntl(fd, F_SETSIG, SIGSTKFLT);
    fcntl(fd, F_SETFL, O_ASYNC);
    return fd;
}

/* Work of a fixed size, and the CPU time that it took. */
static double burn_s(void)
{
    enum { ROUNDS = 2000000 };
    volatile double x = 1;
    double start = cpu_s();
    for (int i = 0; i < ROUNDS; i++)
        x = x * 1.0000001;
    return cpu_s() - start;
}

static int by_value(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

/*
 * What the kernel takes for an event and its signal, of the program's CPU time: the same work with
 * and without, in turn, so that a machine with other work does no harm.
 */
static double measure_cost_us(void)
{
    enum { PAIRS = 41, HZ = 9999 };
    double cost_us[PAIRS];
    int fd = open_event(HZ);
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

static void print_perf(FILE *out)
{
    static const uint64_t rates[] = {999, 9999};
    for (unsigned i = 0; i < 2; i++) {
        int fd = open_event(rates[i]);
        if (fd < 0) {
            fprintf(out, "  perf events       no: %s\n", strerror(errno));
            return;
        }
        double got = measure_rate();
        close(fd);
        fprintf(out, "  %-17s %lu Hz asked, %.0f Hz reached\n", i ? "" : "perf events",
                (unsigned long)rates[i], got);
    }
    double cost_us = measure_cost_us();
    fprintf(out, "  an empty sample   takes %.0f us, most of it in the kernel: %.1f%% at 999 Hz\n",
            cost_us, cost_us * 999 / 1e4);
}

static void print_timers(FILE *out)
{
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGSTKFLT};
    event._sigev_un._tid = gettid();
    timer_t timer;
    if (timer_create(SAMPLE_TIMER_CLOCK, &event, &timer) != 0) {
        fprintf(out, "  CPU-time timers   no: %s\n", strerror(errno));
        return;
    }
    struct itimerspec every = {{0, 1001001}, {0, 1001001}};
    timer_settime(timer, 0, &every, NULL);
    double got = measure_rate();
    timer_delete(timer);
    fprintf(out,
            "  CPU-time timers   999 Hz asked, %.0f Hz reached (used when perf is not there)\n",
            got);
}

/* One line of a file, without its end; "" when there is none. */
static void read_line(const char *path, const char *key, char *line, size_t size)
{
    FILE *file = fopen(path, "re");
    line[0] = '\0';
    while (file && fgets(line, (int)size, file)) {
        line[strcspn(line, "\n")] = '\0';
        if (!key || strncmp(line, key, strlen(key)) == 0)
            break;
        line[0] = '\0';
    }
    if (file)
        fclose(file);
}

static void print_cache(FILE *out)
{
    struct map_cache cache;
    map_cache_open(&cache);
    if (cache.folder)
        fprintf(out, "  map cache         %s\n", cache.folder);
    else
        fprintf(out, "  map cache         none: %s\n", cache.warning.text);
    map_cache_close(&cache);
}

static void print_left(FILE *out)
{
    struct folder_list left = {0};
    folder_list_left(&left);
    for (size_t i = 0; i < left.paths.count; i++) {
        fprintf(out, "  left behind       %s: calltrail recover -o FILE %s\n", left.paths.items[i],
                left.paths.items[i]);
        free(left.paths.items[i]);
    }
    vec_free(&left.paths);
}

static int print_program(FILE *out, const char *program)
{
    struct ct_error err;
    char *path;
    if (target_find(program, &path, &err) != CT_OK) {
        fprintf(out, "  program           cannot be recorded: %s\n", err.text);
        return 1;
    }
    fprintf(out, "  program           %s: can be recorded\n", path);
    free(path);
    return 0;
}

int doctor_print(FILE *out, const char *program)
{
    char line[256];
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART}, before;
    sigaction(SIGSTKFLT, &action, &before);
    fputs("What this machine and this user allow\n", out);
    print_perf(out);
    print_timers(out);
    sigaction(SIGSTKFLT, &before, NULL);
    read_line("/proc/sys/kernel/perf_event_paranoid", NULL, line, sizeof line);
    fprintf(out, "  paranoia level    %s (perf_event_paranoid)\n", *line ? line : "not known");
    read_line("/proc/self/status", "x86_Thread_features:", line, sizeof line);
    fprintf(out, "  shadow stacks     %s\n", strstr(line, "shstk") ? "on" : "off");
    print_cache(out);
    print_left(out);
    return program ? print_program(out, program) : 0;
}
