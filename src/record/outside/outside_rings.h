/* The memory that the kernel writes records to, and those that have been taken from there. */
#ifndef RECORD_OUTSIDE_RINGS_H
#define RECORD_OUTSIDE_RINGS_H

#include "record/outside/outside_events.h"

struct perf_event_mmap_page;

struct outside_ring {
    int cpu;
    bool has_samples; /* or else what is told of processes */
    int fd;
    struct perf_event_mmap_page *page;
    char *bytes;
    uint64_t size; /* a power of two */
};

/* Maps them all, as large as may be locked. False: errno says why. */
bool outside_rings_map(struct outside_ring *rings, size_t count);
void outside_ring_close(struct outside_ring *ring);

void outside_waiting_free(struct outside_events *events);

#endif
