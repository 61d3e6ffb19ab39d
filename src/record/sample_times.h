/* When samples came: from the logs of arenas into the profile. */
#ifndef RECORD_SAMPLE_TIMES_H
#define RECORD_SAMPLE_TIMES_H

#include "profile/profile.h"
#include "record/arena_view.h"

struct times {
    struct profile_writer *writer;
    uint32_t metric;    /* that samples are of; CTP_NONE: none, and no times */
    uint64_t period_ns; /* what a sample stands for */
    uint64_t start_ns;  /* of the recording, by the arenas' clock */
    uint64_t now_ns, now_stamp;
    double ticks_per_ns; /* where it is not known better */
    uint64_t left;       /* how many more the profile may have */
    uint64_t lost;       /* samples without a time */
    /* Of the current arena: */
    uint64_t bytes_left; /* that its logs may have */
    double ns_per_stamp;
    VEC(struct ctp_time) items; /* of the current thread and span */
};

void times_begin(struct times *times, struct profile_writer *writer, const struct server *server,
                 double ticks_per_ns);

void times_begin_arena(struct times *times, const struct arena_view *view);

/* Adds the times of a thread; `number` gives the profile's node of a place in the arena, or
 * CTP_NONE. */
typedef uint32_t times_node_fn(const void *context, const struct arena_view *view, uint32_t place);
void times_add_thread(struct times *times, const struct arena_view *view,
                      const struct arena_thread *thread, times_node_fn *number,
                      const void *context);

/* Says how many samples have none. */
void times_end(struct times *times);

#endif
