/*
 * Counts: what a cost can be divided by.
 *
 * A quotient means something only where both were measured of the same things. The calls of engine
 * exact are all calls, and go with any cost. The returns of engine sample are those of calls that
 * were under way at a sample, and go with what the samples measure. A wait, a piece of memory has a
 * count of its own.
 */
#ifndef QUERY_COUNT_H
#define QUERY_COUNT_H

#include "profile/profile.h"

struct count_kind {
    const char *cost;   /* name of a metric; NULL: any that has a unit of cost */
    const char *metric; /* that counts */
    const char *heading;
    const char *per_heading, *per_key;
    bool is_inclusive; /* what is called counts, too, as in the cost; else the function's own calls
                        */
    bool is_at_least;  /* shorter calls are not all counted: each costs at most the quotient */
};

/* What to divide this metric by, or NULL. */
const struct count_kind *count_find(const struct profile *profile, uint32_t metric);

#endif
