#include "record/events.h"

#include "base/strings.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static const uint64_t MEMORY_PERIOD_BYTES = 512 << 10, MEMORY_PERIOD_MOST = UINT64_C(1) << 40,
                      PERF_PERIOD_MOST = UINT64_C(1) << 50;

struct name {
    const char *name;
    uint32_t type;
    uint64_t config, period; /* the period unless another is given */
};

/* Software events that happen in the kernel only are not among them: see refuse_kernel_event. */
static const struct name perf_names[] = {
    {"page-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS, 1},
    {"minor-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS_MIN, 1},
    {"major-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS_MAJ, 1},
    {"alignment-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_ALIGNMENT_FAULTS, 1},
    {"task-clock", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK, 1000000},
    {"cpu-clock", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK, 1000000},
    {"cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES, 2000000},
    {"instructions", PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS, 2000000},
    {"cache-references", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_REFERENCES, 20000},
    {"cache-misses", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_MISSES, 20000},
    {"branches", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_INSTRUCTIONS, 500000},
    {"branch-misses", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_MISSES, 20000},
    {"stalled-cycles-frontend", PERF_TYPE_HARDWARE, PERF_COUNT_HW_STALLED_CYCLES_FRONTEND, 1000000},
    {"stalled-cycles-backend", PERF_TYPE_HARDWARE, PERF_COUNT_HW_STALLED_CYCLES_BACKEND, 1000000},
};

/* A number with K, M or G behind it. */
static bool read_amount(const char *text, uint64_t most, uint64_t *out)
{
    char *end;
    errno = 0;
    unsigned long long n = strtoull(text, &end, 10);
    if (end == text || *text == '-' || *text == '+' || errno)
        return false;
    unsigned shift = *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;
    if (end[shift != 0] || n < 1 || n > most >> shift)
        return false;
    *out = (uint64_t)n << shift;
    return true;
}

/* A signal that comes while the thread is in the kernel would make its system calls fail. */
static int refuse_kernel_event(const char *name, struct ct_error *err)
{
    static const char *const names[] = {"context-switches", "cs", "cpu-migrations", "migrations"};
    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(name, names[i]) == 0)
            return ct_fail(err,
                           "'%s' happens in the kernel, where a sample would make the program's "
                           "system calls fail; -e wall shows where threads wait",
                           name);
    return CT_OK;
}

static int refuse_perf(const char *name, int why, struct ct_error *err)
{
    if (why == EACCES || why == EPERM)
        return ct_fail(
            err,
            "perf event '%s' is not permitted here; 'sysctl kernel.perf_event_paranoid=2' "
            "or CAP_PERFMON would permit it",
            name);
    if (why == ENOENT || why == EOPNOTSUPP || why == ENODEV)
        return ct_fail(err,
                       "perf event '%s' is not there: this machine, or the virtual machine that it "
                       "is, has no such counter",
                       name);
    return ct_fail_errno(err, why, "perf event '%s' cannot be used", name);
}

static int try_perf(const struct arena_perf *p, struct ct_error *err)
{
    struct perf_event_attr a = {.size = sizeof a,
                                .type = p->type,
                                .config = p->config,
                                .sample_period = p->period,
                                .exclude_kernel = 1,
                                .exclude_hv = 1,
                                .disabled = 1};
    long fd = syscall(SYS_perf_event_open, &a, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
    if (fd < 0)
        return refuse_perf(p->name, errno, err);
    close((int)fd);
    return CT_OK;
}

/* A tracepoint is known by its number, which tracefs has. */
static int find_tracepoint(const char *name, struct arena_perf *p, struct ct_error *err)
{
    const char *colon = strchr(name, ':');
    char *path =
        must_format("/sys/kernel/tracing/events/%.*s/%s/id", (int)(colon - name), name, colon + 1);
    FILE *file = strstr(name, "..") || strchr(name, '/') ? NULL : fopen(path, "re");
    int why = errno;
    free(path);
    if (!file && (why == EACCES || why == EPERM))
        return refuse_perf(name, why, err);
    unsigned long long id = 0;
    bool found = file && fscanf(file, "%llu", &id) == 1;
    if (file)
        fclose(file);
    if (!found)
        return ct_fail(err, "there is no tracepoint '%s' in /sys/kernel/tracing/events", name);
    p->type = PERF_TYPE_TRACEPOINT;
    p->config = id;
    p->period = 1;
    return CT_OK;
}

static int add_perf(const char *name, const char *period, struct arena_events *events,
                    struct ct_error *err)
{
    if (events->perf_count == ARENA_PERF_MOST)
        return ct_fail(err, "at most %d perf events at a time", ARENA_PERF_MOST);
    struct arena_perf *p = &events->perf[events->perf_count];
    *p = (struct arena_perf){0};
    if (strlen(name) >= sizeof p->name)
        return ct_fail(err, "there is no perf event '%s'", name);
    strcpy(p->name, name);
    CT_TRY(refuse_kernel_event(name, err));
    bool known = false;
    for (unsigned i = 0; i < sizeof perf_names / sizeof perf_names[0] && !known; i++) {
        known = strcmp(name, perf_names[i].name) == 0;
        p->type = perf_names[i].type;
        p->config = perf_names[i].config;
        p->period = perf_names[i].period;
    }
    if (!known && strchr(name, ':'))
        CT_TRY(find_tracepoint(name, p, err));
    else if (!known)
        return ct_fail(err,
                       "there is no perf event '%s'; there are: page-faults, task-clock, "
                       "cycles, instructions, cache-misses, branch-misses, GROUP:TRACEPOINT…",
                       name);
    if (period && !read_amount(period, PERF_PERIOD_MOST, &p->period))
        return ct_fail(err, "the period of '%s' is a number from 1 to 1048576G, not '%s'", name,
                       period);
    for (uint32_t i = 0; i < events->perf_count; i++)
        if (strcmp(events->perf[i].name, name) == 0)
            return ct_fail(err, "perf event '%s' is there twice", name);
    CT_TRY(try_perf(p, err));
    events->perf_count++;
    events->mask |= EVENT_PERF;
    return CT_OK;
}

/* malloc and heap look at the same points of memory, so they have one period. */
static int set_memory_period(const char *name, const char *text, struct arena_events *events,
                             struct ct_error *err)
{
    uint64_t period = MEMORY_PERIOD_BYTES;
    if (text && !read_amount(text, MEMORY_PERIOD_MOST, &period))
        return ct_fail(err, "the period of '%s' is a number of bytes from 1 to 1024G, not '%s'",
                       name, text);
    if (text && events->memory_period_bytes && events->memory_period_bytes != period)
        return ct_fail(err, "malloc and heap have one period: %llu and %llu bytes were given",
                       (unsigned long long)events->memory_period_bytes, (unsigned long long)period);
    if (text || !events->memory_period_bytes)
        events->memory_period_bytes = period;
    return CT_OK;
}

static int add_event(char *text, struct arena_events *events, struct ct_error *err)
{
    static const struct {
        const char *name;
        uint32_t event;
    } names[] = {{"cpu", EVENT_CPU},   {"wall", EVENT_WALL}, {"malloc", EVENT_MALLOC},
                 {"heap", EVENT_HEAP}, {"lock", EVENT_LOCK}, {"io", EVENT_IO}};
    char *period = strchr(text, '/');
    if (period)
        *period++ = '\0';
    if (strncmp(text, "perf:", 5) == 0)
        return add_perf(text + 5, period, events, err);
    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(text, names[i].name) != 0)
            continue;
        if (names[i].event & EVENTS_OF_MEMORY)
            CT_TRY(set_memory_period(text, period, events, err));
        else if (period)
            return ct_fail(err, "'%s' has no period; malloc, heap and perf events have", text);
        events->mask |= names[i].event;
        return CT_OK;
    }
    return ct_fail(
        err, "there is no event '%s'; there are: cpu, wall, malloc, heap, lock, io, perf:NAME",
        text);
}

int events_parse(const char *list, struct arena_events *events, struct ct_error *err)
{
    char *copy = must_strdup(list), *rest = copy, *one;
    int status = CT_OK;
    while (status == CT_OK && (one = strsep(&rest, ",")))
        status = add_event(one, events, err);
    free(copy);
    return status;
}
