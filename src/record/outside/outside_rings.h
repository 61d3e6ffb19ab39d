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
    uint64_t size;   /* a power of two */
    bool is_retired; /* events with a larger window write to another */
    uint64_t head;   /* as it was when it was last looked at */
    bool in_place;   /* records stay in the ring until their turn. The first, if it is known: */
    bool has_next;
    struct outside_record next;
    uint64_t next_bytes;
    struct outside_waiting *copy; /* of one that goes over the end; or NULL */
};

/*
 * Maps those that are not mapped yet: those of samples with so many bytes, or as many as may be
 * locked. All or none; false: errno says why.
 */
bool outside_rings_map(struct outside_ring *rings, size_t count, uint64_t samples_bytes);
void outside_ring_close(struct outside_ring *ring);

/* How much there should be for samples, if a window has so many bytes: for a second of them. */
uint64_t outside_ring_bytes(uint64_t period_ns, uint64_t window_bytes);

void outside_waiting_free(struct outside_events *events);

#endif
