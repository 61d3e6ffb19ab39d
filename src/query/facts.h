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

/* What the first process was in the end: it may have become other programs (exec), each of which is
 * a process of its own in the profile. NULL: there is none. */
const struct ctp_process *first_process_at_end(const struct profile *profile);

/* How long it was there, as all of those, in seconds; 0 where that is not known. */
double first_process_life(const struct profile *profile);

/* The cost of contexts whose outermost callers are missing. */
uint64_t cost_without_callers(const struct view *view);

#endif
