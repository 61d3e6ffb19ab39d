/* Calls that wait: how long, and in which context (-e wall, -e lock). */
#ifndef RUNTIME_BLOCKING_H
#define RUNTIME_BLOCKING_H

#include "runtime/charge.h"

struct wait {
    uint32_t node; /* 0: not measured */
    uint32_t outer_node, outer_events;
    uint64_t start_ns, outer_since_ns;
    struct wait_began outer;
};

void blocking_prepare(void);

/* Before and after the call of a function. What waits for another thread is a lock, too. */
void wait_begin(struct wait *wait, const void *function, uint32_t events);
void wait_end(struct wait *wait);

/* The call that the thread waits in does not return: it was left by a jump, or with the thread. */
void wait_was_left(struct thread *thread);

/* The same, if what the thread runs now lies further up its stack. For the signal handler. */
static inline void wait_check(struct thread *thread, uint64_t sp)
{
    if (thread->wait.at && sp > thread->wait.at && charge_is_own_stack(thread, sp) &&
        charge_is_own_stack(thread, thread->wait.at))
        wait_was_left(thread);
}

#endif
