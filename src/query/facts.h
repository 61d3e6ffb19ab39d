/*
 * What a profile says of itself in numbers: how many samples, how many lost, how much CPU time.
 */
#ifndef QUERY_FACTS_H
#define QUERY_FACTS_H

#include "query/view.h"

/* Of the whole profile. False when it does not say. */
bool profile_number(const struct profile *profile, const char *key, double *out);

/* Of the view's metric, or else of the whole profile. */
bool metric_number(const struct view *view, const char *key, double *out);

/* The cost of contexts whose outermost callers are missing. */
uint64_t cost_without_callers(const struct view *view);

#endif
