/*
 * A part of a profile by time: what was sampled from one moment to another, in seconds since the
 * start of its recording.
 */
#ifndef PROFILE_TIME_RANGE_H
#define PROFILE_TIME_RANGE_H

#include "profile/profile.h"

struct time_range {
    bool has_from, has_to;
    uint64_t from_us, to_us; /* to_us itself is behind it */
};

/* Seconds, as people write them: a number from 0 to 10^9. */
bool time_range_parse(const char *text, uint64_t *us);

static inline bool time_range_is_given(const struct time_range *r)
{
    return r->has_from || r->has_to;
}

static inline uint64_t profile_time_us(const struct ctp_time_run *run, const struct ctp_time *time)
{
    return (uint64_t)run->span << 32 | time->us;
}

/* The first or the last time of a run, whatever the file says; 0 if that points nowhere. */
uint64_t profile_run_us(const struct profile *profile, const struct ctp_time_run *run, bool last);

/* The first and the last time. False: there are none. */
bool profile_time_span(const struct profile *profile, uint64_t *first_us, uint64_t *last_us);

/* Whether any sample of a metric has a time. */
bool profile_metric_has_times(const struct profile *profile, uint32_t metric);

/*
 * Makes an open profile one of this range: values are those of the samples in it. Metrics without
 * times are gone, and so are facts that count what the whole recording had. `metric` is the name
 * that was asked for, or NULL. Nothing happens where no range is given. An error: no times, or
 * none of that metric; the profile is to be closed then as always.
 */
int profile_restrict(struct profile *profile, const struct time_range *range, const char *metric,
                     struct ct_error *err);

/* Of a restricted profile's metric: how much of the whole recording's total has no time. */
uint64_t profile_without_time(const struct profile *profile, uint32_t metric, uint64_t *total);

/* The range that it is restricted to; NULL: to none. */
const struct time_range *profile_range_of(const struct profile *profile);

/* Frees what restricting has made (profile_close does so). */
void profile_unrestrict(struct profile *profile);

#endif
