/*
 * Merging: many profiles as one.
 *
 * Whatever the order and grouping in which profiles are merged, the result is the same: things are
 * the same by what they are and not by where they stand, sums do not depend on their order, and
 * everything is written in one order.
 *
 * - Code is the same if the module's build-id (without one, its path) and the offset are; of
 * several descriptions of one place the one that says most is kept.
 * - Metrics are the same if name, unit and kind are (exact and at least become at least). Values
 * are in units, so they add up whatever the periods were; the merged period is the one by which a
 * value gives the number of samples.
 * - Processes are the same if their program is, and their rank where they have one (a job of MPI),
 *   threads of a process if their name is. What differs among the merged, such as numbers and
 *   arguments, is forgotten. With `keep_threads` they are the
 *   same only if all that is known of them is, which is hardly ever.
 * - Times of samples, which are since the start of their recording, stay as they are. When there
 *   are more than MERGE_TIMES_MOST in all, none stay, and a fact says how many there were.
 * - Facts that are whole numbers, or seconds, are summed; others stay if all agree.
 *
 * Memory is that of the result, and of the one profile being added: it does not grow with the
 * number of profiles.
 */
#ifndef PROFILE_MERGE_H
#define PROFILE_MERGE_H

#include "profile/profile.h"

/* Keys of facts that merging itself needs, about a metric and the profile. */
#define FACT_PERIOD_MIN "period_min"
#define FACT_PERIOD_MAX "period_max"
#define FACT_SAMPLES    "samples_estimated"
#define FACT_PROFILES   "profiles_merged"
#define FACT_DROPPED    "times_dropped"

/* 800 MB. */
enum { MERGE_TIMES_MOST = 100000000 };

struct merge;

struct merge_options {
    bool keep_threads;
    bool join_ranks; /* processes of different ranks can be the same, too */
    bool parts; /* of one recording: what the first says of it and its metrics, it says of all */
};

struct merge *merge_begin(const struct merge_options *options);

/* Adds a valid profile (profile_validate), which may be closed then. Fails if the same metric has
 * another unit or kind there. */
int merge_add(struct merge *merge, const struct profile *profile, struct ct_error *err);

/* How many samples a metric has: as a merged profile says, or its total by its period. */
uint64_t merge_samples_of(const struct profile *profile, uint32_t metric);

/*
 * Adds the contexts and values of a profile, and nothing else: its processes, threads, epochs and
 * metrics were added before, by profiles that may have had no nodes. For callers that keep sums of
 * values apart from what profiles say of themselves.
 */
int merge_add_costs(struct merge *merge, const struct profile *profile, struct ct_error *err);

/* Writes the result into a profile under construction, which the caller commits. */
void merge_fill(struct merge *merge, struct profile_writer *writer);

/* Writes the result. */
int merge_write(struct merge *merge, const char *path, struct ct_error *err);

void merge_free(struct merge *merge);

#endif
