/* What the events of a recording are in its profile: metrics, and the values of each node. */
#ifndef RECORD_METRICS_H
#define RECORD_METRICS_H

#include "profile/profile.h"
#include "record/perf_names.h"
#include "runtime/arena_format.h"

enum { METRICS_MOST = 28 };

struct metric_set {
    struct arena_header layout; /* what an arena must look like; an arena's own word is not taken */
    uint64_t period_ns;
    uint32_t count;
    struct {
        uint32_t index;  /* in the profile */
        uint32_t source; /* what it is made from: metrics.c */
        uint64_t total;  /* so far; a damaged arena must not make it overflow */
    } items[METRICS_MOST];
    uint32_t perf[PERF_MOST_EVENTS]; /* in the profile */
    uint32_t cpu;   /* the metric that facts about samples are about, or CTP_NONE */
    uint32_t calls; /* that of engine exact, or CTP_NONE */
};

/* What there is besides the events. */
struct metrics_wanted {
    bool returns; /* of the trampoline */
    bool calls;   /* of engine exact; */
    bool bursts;  /* in bursts, so that they are an estimate */
    bool heights; /* of engine exact's contexts */
};

/* Adds the metrics to a profile that has no nodes yet. */
void metrics_add(struct metric_set *set, struct profile_writer *writer,
                 const struct arena_events *events, uint64_t period_ns,
                 const struct metrics_wanted *wanted);
void metrics_add_perf(struct metric_set *set, struct profile_writer *writer,
                      const struct perf_wanted *wanted);

/*
 * What nodes have besides the values of their arena: the time that a thread ran, the time of calls
 * that never returned, time and bytes of which no more is known, the calls that engine exact
 * counted, and perf events.
 */
struct node_extra {
    uint64_t running_ns, blocked_ns, elapsed_ns, lock_ns, lock_waits, calls, read_bytes,
        written_bytes, height, height_varies;
    const uint64_t *perf; /* of each perf event; NULL: nothing */
};

/* Writes all values of the next node. `heap_peak` is the arena's. A node of NULL has extras only.
 */
void metrics_write(struct metric_set *set, struct profile_writer *writer,
                   const struct arena_node *node, uint64_t heap_peak,
                   const struct node_extra *extra);

#endif
