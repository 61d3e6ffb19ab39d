/*
 * Waiting that is not a cost: threads that only waited, and the place where a server's thread
 * waits for work. In `wall` there is more of it than of anything else.
 */
#ifndef QUERY_IDLE_H
#define QUERY_IDLE_H

#include "profile/profile.h"

#include <stdbool.h>

struct idle {
    bool *threads;  /* by thread: it waited from its start to its end */
    bool *nodes;    /* by node: where its thread waits for work, most of its time */
    uint32_t count; /* threads that only waited */
};

/* What there is of it in this metric: nothing but in `wall`. Damaged values are an error. */
int idle_find(const struct profile *profile, uint32_t metric, struct idle *out,
              struct ct_error *err);
void idle_free(struct idle *idle);

#endif
