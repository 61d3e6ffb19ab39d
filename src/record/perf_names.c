#include "record/perf_names.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct fixed_name {
    const char *name;
    uint32_t type;
    uint64_t config;
    bool in_kernel_only;
};

/* Other names for one event follow it. */
static const struct fixed_name fixed_names[] = {
    {"cpu-clock", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK, false},
    {"task-clock", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK, false},
    {"page-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS, false},
    {"faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS, false},
    {"minor-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS_MIN, false},
    {"major-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS_MAJ, false},
    {"context-switches", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CONTEXT_SWITCHES, true},
    {"cs", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CONTEXT_SWITCHES, true},
    {"cpu-migrations", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_MIGRATIONS, true},
    {"migrations", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_MIGRATIONS, true},
    {"cgroup-switches", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CGROUP_SWITCHES, true},
    {"alignment-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_ALIGNMENT_FAULTS, false},
    {"emulation-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_EMULATION_FAULTS, false},
    {"cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES, false},
    {"cpu-cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES, false},
    {"instructions", PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS, false},
    {"cache-references", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_REFERENCES, false},
    {"cache-misses", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_MISSES, false},
    {"branches", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_INSTRUCTIONS, false},
    {"branch-instructions", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_INSTRUCTIONS, false},
    {"branch-misses", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_MISSES, false},
    {"bus-cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BUS_CYCLES, false},
    {"ref-cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_REF_CPU_CYCLES, false},
    {"stalled-cycles-frontend", PERF_TYPE_HARDWARE, PERF_COUNT_HW_STALLED_CYCLES_FRONTEND, false},
    {"stalled-cycles-backend", PERF_TYPE_HARDWARE, PERF_COUNT_HW_STALLED_CYCLES_BACKEND, false},
};

static bool find_fixed(const char *name, struct perf_event_wanted *e)
{
    for (unsigned i = 0; i < sizeof fixed_names / sizeof fixed_names[0]; i++) {
        const struct fixed_name *f = &fixed_names[i];
        if (strcmp(name, f->name) != 0)
            continue;
        e->type = f->type;
        e->config = f->config;
        e->in_kernel_only = f->in_kernel_only;
        e->is_hardware = f->type == PERF_TYPE_HARDWARE;
        e->is_time = f->type == PERF_TYPE_SOFTWARE && (f->config == PERF_COUNT_SW_CPU_CLOCK ||
                                                       f->config == PERF_COUNT_SW_TASK_CLOCK);
        return true;
    }
    return false;
}

/* CACHE-loads, CACHE-load-misses, and the same for stores and prefetches. */
static bool find_cache(const char *name, struct perf_event_wanted *e)
{
    static const struct {
        const char *name;
        uint64_t id;
    } caches[] = {
        {"L1-dcache", PERF_COUNT_HW_CACHE_L1D}, {"L1-icache", PERF_COUNT_HW_CACHE_L1I},
        {"LLC", PERF_COUNT_HW_CACHE_LL},        {"dTLB", PERF_COUNT_HW_CACHE_DTLB},
        {"iTLB", PERF_COUNT_HW_CACHE_ITLB},     {"branch", PERF_COUNT_HW_CACHE_BPU},
        {"node", PERF_COUNT_HW_CACHE_NODE},
    };
    static const struct {
        const char *name;
        uint64_t id;
    } uses[] = {
        {"-loads", PERF_COUNT_HW_CACHE_OP_READ},
        {"-stores", PERF_COUNT_HW_CACHE_OP_WRITE},
        {"-prefetches", PERF_COUNT_HW_CACHE_OP_PREFETCH},
        {"-load-misses", PERF_COUNT_HW_CACHE_OP_READ | PERF_COUNT_HW_CACHE_RESULT_MISS << 8},
        {"-store-misses", PERF_COUNT_HW_CACHE_OP_WRITE | PERF_COUNT_HW_CACHE_RESULT_MISS << 8},
        {"-prefetch-misses",
         PERF_COUNT_HW_CACHE_OP_PREFETCH | PERF_COUNT_HW_CACHE_RESULT_MISS << 8},
    };
    for (unsigned i = 0; i < sizeof caches / sizeof caches[0]; i++) {
        size_t length = strlen(caches[i].name);
        if (strncmp(name, caches[i].name, length) != 0)
            continue;
        for (unsigned k = 0; k < sizeof uses / sizeof uses[0]; k++) {
            if (strcmp(name + length, uses[k].name) != 0)
                continue;
            e->type = PERF_TYPE_HW_CACHE;
            e->config = caches[i].id | uses[k].id << 8;
            e->is_hardware = true;
            return true;
        }
    }
    return false;
}

/* rNNN: the processor's own number, in hexadecimal. */
static bool find_raw(const char *name, struct perf_event_wanted *e)
{
    char *end;
    if (name[0] != 'r' || !name[1] || strspn(name + 1, "0123456789abcdefABCDEF") < strlen(name + 1))
        return false;
    errno = 0;
    e->config = strtoull(name + 1, &end, 16);
    e->type = PERF_TYPE_RAW;
    e->is_hardware = true;
    return !errno && !*end;
}

/* GROUP:NAME has a folder in tracefs, with its number. */
static int find_tracepoint(const char *name, struct perf_event_wanted *e, struct ct_error *err)
{
    static const char *const places[] = {"/sys/kernel/tracing/events", "/sys/kernel/debug/tracing/"
                                                                       "events"};
    const char *colon = strchr(name, ':');
    int why = ENOENT;
    if (strchr(name, '/') || strstr(name, "..") || colon == name || !colon[1])
        return ct_fail(err, "a tracepoint is perf:GROUP:NAME, not 'perf:%s'", name);
    for (unsigned i = 0; i < sizeof places / sizeof places[0]; i++) {
        char path[256];
        unsigned long long id;
        snprintf(path, sizeof path, "%s/%.*s/%s/id", places[i], (int)(colon - name), name,
                 colon + 1);
        FILE *file = fopen(path, "re");
        if (!file) {
            why = errno == ENOENT ? why : errno;
            continue;
        }
        int fields = fscanf(file, "%llu", &id);
        fclose(file);
        if (fields != 1)
            continue;
        e->type = PERF_TYPE_TRACEPOINT;
        e->config = id;
        e->in_kernel_only = true;
        return CT_OK;
    }
    if (why != ENOENT)
        return ct_fail(err, "perf:%s: /sys/kernel/tracing is not readable: root may read it", name);
    if (access("/sys/kernel/tracing/events", F_OK) != 0)
        return ct_fail(err,
                       "perf:%s: no tracepoints here: /sys/kernel/tracing is not mounted (as root: "
                       "mount -t tracefs tracefs /sys/kernel/tracing)",
                       name);
    return ct_fail(err,
                   "perf:%s: the kernel has no such tracepoint; /sys/kernel/tracing/events "
                   "has them all",
                   name);
}

int perf_name_find(const char *name, struct perf_event_wanted *e, struct ct_error *err)
{
    *e = (struct perf_event_wanted){0};
    if (strlen(name) >= sizeof e->name)
        return ct_fail(err, "there is no event 'perf:%.60s…'", name);
    snprintf(e->name, sizeof e->name, "%s", name);
    if (find_fixed(name, e) || find_cache(name, e) || find_raw(name, e))
        return CT_OK;
    if (strchr(name, ':'))
        return find_tracepoint(name, e, err);
    return ct_fail(
        err,
        "there is no event 'perf:%s'; there are perf:page-faults, perf:context-switches, "
        "perf:cycles, … (perf list), perf:rNNN, and tracepoints, perf:GROUP:NAME",
        name);
}
