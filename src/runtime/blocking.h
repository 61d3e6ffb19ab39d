/* Calls that wait: how long, and in which context (-e wall, -e lock). */
#ifndef RUNTIME_BLOCKING_H
#define RUNTIME_BLOCKING_H

#include "runtime/charge.h"

struct wait {
    uint32_t node; /* 0: not measured */
    uint32_t outer_node, outer_events;
    uint64_t start_ns, outer_since_ns;
    uint64_t accounted_ns; /* of the thread, before */
    uint64_t paused_ns;    /* by the program, before */
};

void blocking_prepare(void);

/* Before and after the call of a function. What waits for another thread is a lock, too. */
void wait_begin(struct wait *wait, const void *function, uint32_t events);
void wait_end(struct wait *wait);

#endif
