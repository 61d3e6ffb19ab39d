/* What the events of a recording are in its profile: metrics, and the values of each node. */
#ifndef RECORD_METRICS_H
#define RECORD_METRICS_H

#include "profile/profile.h"
#include "record/perf_names.h"
#include "runtime/arena_format.h"

enum { METRICS_MOST = 28, ENGINE_METRICS = 8 };

static_assert(METRICS_MOST >= 12 + ENGINE_METRICS + PERF_MOST_EVENTS, "12 are of events");

struct metric_kind {
    const char *name, *unit, *description;
    enum ctp_metric_kind kind;
    uint64_t period; /* what a sample stands for; 0: that differs, or there are none */
};

struct metric_set;
struct node_extra;

/* A node whose values are asked for: NULL, it has extras only. */
struct metric_node {
    const struct metric_set *set;
    const struct arena_node *node;
    uint64_t heap_peak; /* the arena's */
    const struct node_extra *extra;
};

/* A column's value for a node; `number`: which of those that share the function. */
typedef uint64_t metric_value_fn(const struct metric_node *node, uint32_t number);

struct metric_set {
    struct arena_header layout; /* what an arena must look like; an arena's own word is not taken */
    uint64_t period_ns;
    uint32_t count;
    struct {
        uint32_t index; /* in the profile */
        uint32_t number;
        metric_value_fn *value;
        uint64_t total; /* so far; a damaged arena must not make it overflow */
    } items[METRICS_MOST];
    uint32_t perf[PERF_MOST_EVENTS]; /* in the profile */
    uint32_t cpu;    /* the metric that facts about samples are about, or CTP_NONE */
    uint32_t engine; /* the first of the engine, or CTP_NONE */
};

/* Adds the metrics of events to a profile that has no nodes yet; then those of the engine, and of
 * perf. */
void metrics_add(struct metric_set *set, struct profile_writer *writer,
                 const struct arena_events *events, uint64_t period_ns);
void metrics_add_engine(struct metric_set *set, struct profile_writer *writer,
                        const struct metric_kind *kinds, uint32_t count);
void metrics_add_perf(struct metric_set *set, struct profile_writer *writer,
                      const struct perf_wanted *wanted);

/*
 * What nodes have besides the values of their arena: the time that a thread ran, the time of calls
 * that never returned, time and bytes of which no more is known, what the engine has, and perf
 * events.
 */
struct node_extra {
    uint64_t running_ns, blocked_ns, elapsed_ns, lock_ns, lock_waits, read_bytes, written_bytes;
    const uint64_t *engine; /* of each of its metrics; NULL: nothing */
    const uint64_t *perf;   /* of each perf event; NULL: nothing */
};

/* Writes all values of the next node. */
void metrics_write(struct metric_set *set, struct profile_writer *writer,
                   const struct arena_node *node, uint64_t heap_peak,
                   const struct node_extra *extra);

#endif
