/*
 * What the reader, the validator and the writer of profiles share; no other file includes this.
 */
#ifndef PROFILE_CHECK_H
#define PROFILE_CHECK_H

#include "base/strings.h"
#include "base/vec.h"
#include "profile/profile.h"

/* A range of bytes of the file that something owns. */
struct profile_span {
    uint64_t start, end;
    uint32_t kind; /* 0: the header or the table of contents */
};

/* All spans that are not empty, sorted by start. The caller frees it. */
struct profile_span *profile_sorted_spans(const struct profile *profile, size_t *count);

/* Size of one element as this version writes it; 0 for a kind that it does not know. */
uint32_t profile_element_size(uint32_t kind);

/*
 * Every rule for the contents of the small tables and the strings. The nodes need not be there,
 * only their number, so that the writer can ask before it has written anything.
 */
int profile_check_tables(const struct profile *profile, struct ct_error *err);

/* Puts facts in the order that files have them in; their keys are in the pool. */
void profile_sort_facts(struct ctp_fact *facts, size_t count, struct string_pool *strings);

/* The rules for nodes, checked as they come, in chunks. Starts as zeros; free `roots` with
 * vec_free. */
struct node_check {
    uint32_t next;         /* number of the next node */
    uint32_t root_first;   /* of the root that it belongs to */
    uint32_t frame_max;    /* the highest frame number so far, and */
    uint32_t frame_max_at; /* the node that has it: frames may be added after nodes */
    VEC(uint32_t) roots;   /* nodes without a parent */
};
int node_check_chunk(struct node_check *check, const char *name, const uint32_t *parents,
                     const uint32_t *frames, size_t count, struct ct_error *err);
int node_check_frames(const struct node_check *check, const char *name, uint32_t frame_count,
                      struct ct_error *err);

/* The rules for the entries of times, of runs that profile_check_tables has found to be right. */
int profile_check_times(const struct profile *profile, struct ct_error *err);

/* Adds values to a total; false when it does not fit in 64 bits. */
bool add_values(uint64_t *total, const uint64_t *values, size_t count);

#endif
