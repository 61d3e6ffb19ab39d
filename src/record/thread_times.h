/* How long a thread ran in its contexts, and what of its time has none. */
#ifndef RECORD_THREAD_TIMES_H
#define RECORD_THREAD_TIMES_H

#include "record/grow.h"
#include "record/metrics.h"

/* What the arena does not say of a thread's time: the call that it is still in, and the rest. */
struct thread_times {
    uint64_t samples, sampled_ns;
    uint32_t waits_in; /* a place */
    struct node_extra waits, rest;
};

/* `now_ns`: the end of its process, or the present, for a thread that has not ended. */
struct thread_times thread_times_of(const struct server *server, const struct arena_header *layout,
                                    const struct arena_view *view,
                                    const struct arena_thread *thread,
                                    const struct grown_tree *tree, uint64_t now_ns);

/*
 * How long the thread ran there. A sample stands for a period of user time in `cpu`, and in `wall`
 * for all the CPU time from one tick to the next, of which the signals take some.
 */
uint64_t thread_running_ns(const struct thread_times *times, const struct arena_node *node);

#endif
