/*
 * What the parts of merging share; no other file includes this. Strings are offsets in the pool of
 * the merge; all other references are numbers in the sets below.
 */
#ifndef PROFILE_MERGE_STATE_H
#define PROFILE_MERGE_STATE_H

#include "base/key_set.h"
#include "base/strings.h"
#include "profile/merge.h"
#include "profile/time_blocks.h"

/* ---- By what things are the same ------------------------------------------------------------- */

struct module_key {
    uint8_t build_id[CTP_BUILD_ID_ROOM];
    uint64_t base;
    uint32_t build_id_size;
    uint32_t kind;
    uint32_t path; /* 0 when there is a build-id */
    uint32_t zero;
};

struct function_key {
    uint64_t offset, size;
    uint32_t name, module, file, line;
};

struct frame_key {
    uint64_t offset;
    uint32_t module, flags, gap;
    uint32_t function; /* CTP_NONE when there is a build-id */
};

struct process_key {
    uint64_t start_ns, end_ns; /* from here on only where threads are kept, except the command */
    uint32_t command;
    uint32_t arguments, pid, parent, flags, exit_kind, exit_value;
    uint32_t rank; /* and one more; 0: none. Of all processes, unless ranks are joined */
};

struct thread_key {
    uint64_t start_ns, end_ns;
    uint32_t process, name, tid;
    uint32_t zero;
};

struct root_key {
    uint32_t thread, epoch;
};

struct fact_key {
    uint32_t scope, index, key, type;
};

/* ---- What is known of them ------------------------------------------------------------------- */

struct merged_metric {
    uint32_t name, unit, description, kind;
    uint64_t period_min, period_max;
    uint64_t samples; /* total / period of every profile, rounded there */
    uint64_t total;
    VEC(uint64_t) values; /* by node; those behind the end are 0 */
};

struct merged_module {
    uint32_t path;
    uint64_t size;
};

struct merged_frame {
    uint32_t function;
    uint32_t first_line, line_count; /* in the lines of the merge */
};

struct merged_fact {
    uint64_t value;
    uint32_t seen; /* in how many of what was merged */
    bool differs;
};

struct merge {
    bool keep_threads, join_ranks, parts;
    uint32_t profiles;
    struct string_pool texts;
    uint32_t samples_text, seconds_text; /* keys of facts that a rate is made of */
    struct key_set modules, functions, frames, epochs, processes, threads, roots, facts;
    VEC(struct merged_metric) metrics;
    VEC(struct merged_module) module_records;
    VEC(struct merged_frame) frame_records;
    VEC(struct ctp_line) lines;
    VEC(struct ctp_process) process_records; /* first_argument is a text: all of them */
    VEC(struct ctp_thread) thread_records;
    VEC(struct merged_fact) fact_records;
    struct time_blocks times;               /* with numbers of metrics and nodes of the merge */
    uint64_t times_dropped;                 /* there were too many: all of them, so far */
    VEC(uint32_t) instances[CTP_SCOPE_END]; /* how many were merged into each */

    /* The tree; the frame of a root's node is the root. */
    VEC(uint32_t) parents;
    VEC(uint32_t) frames_of_nodes;
    uint32_t *slots; /* children by frame: open addressing, node + 1 */
    size_t slot_count;
};

static inline const char *merge_text(const struct merge *merge, uint32_t offset)
{
    return strings_get(&merge->texts, offset);
}

/* Another of these was merged into `index`. */
void merge_count_instance(struct merge *merge, enum ctp_scope scope, uint32_t index);

/* Adds the facts of a profile; `maps` say what its processes, metrics, threads and modules became.
 */
void merge_add_facts(struct merge *merge, const struct profile *profile,
                     uint32_t *const maps[CTP_SCOPE_END]);

/* Writes the facts that are left; `ranks` are the places of what they are about. */
void merge_write_facts(const struct merge *merge, struct profile_writer *writer,
                       uint32_t *const ranks[CTP_SCOPE_END]);

/* Adds the times of a profile; the maps say what its metrics and nodes became. And writes those of
 * all, by their places in what is written; it takes them out of the merge. */
void merge_add_times(struct merge *merge, const struct profile *profile, const uint32_t *metrics,
                     const uint32_t *nodes);
void merge_write_times(const struct merge *merge, struct profile_writer *writer,
                       const uint32_t *metrics, const uint32_t *nodes);

/* Compares what two frames say of their place: above 0 if the first says more. */
int merge_compare_functions(const struct merge *merge, uint32_t a, uint32_t b);
int merge_compare_lines(const struct merge *merge, const struct merged_frame *a,
                        const struct merged_frame *b);

#endif
