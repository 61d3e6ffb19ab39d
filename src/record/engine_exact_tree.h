/* The calls that engine `exact` counted, in the tree of a thread. */
#ifndef RECORD_ENGINE_EXACT_TREE_H
#define RECORD_ENGINE_EXACT_TREE_H

#include "record/grow.h"
#include "runtime/exact/exact_format.h"

enum exact_sum {
    SUM_CALLS,
    SUM_RECORDS,
    SUM_FIRST_SLOW, /* as many as there are reasons */
    SUM_BURSTS = SUM_FIRST_SLOW + SLOW_REASONS,
    SUM_CALLS_IN_BURSTS,
    SUM_CALLS_BETWEEN,
    SUM_CALLS_NOT_TIMED,
    EXACT_SUMS
};

static_assert((unsigned)EXACT_SUMS <= (unsigned)ENGINE_SUMS, "they have their places");

/* As record_engine's metrics, arena_begins, grow and arena_ends. */
uint32_t exact_tree_metrics(const struct server *server, struct metric_kind out[ENGINE_METRICS]);
void *exact_tree_begin(const struct server *server, const struct arena_view *view);
void exact_tree_grow(void *state, const struct arena_view *view, const struct arena_thread *thread,
                     struct grown_tree *tree);
void exact_tree_end(void *state);

#endif
