/* Events of the kernel by the names that `perf list` has for them. */
#ifndef RECORD_PERF_NAMES_H
#define RECORD_PERF_NAMES_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

enum { PERF_MOST_EVENTS = 8, PERF_NAME_BYTES = 64 };

struct perf_event_wanted {
    char name[PERF_NAME_BYTES];
    uint32_t type; /* as in perf_event_attr */
    uint64_t config;
    bool is_hardware;
    bool in_kernel_only; /* it never happens in user mode: a context switch, most tracepoints */
    bool is_time;        /* it counts nanoseconds */
    uint64_t period;     /* 0: as many samples a second as are asked for */
};

struct perf_wanted {
    uint32_t count;
    struct perf_event_wanted items[PERF_MOST_EVENTS];
};

/* Finds the event of a name. The error is one line for the user. */
int perf_name_find(const char *name, struct perf_event_wanted *event, struct ct_error *err);

#endif
