/*
 * Profiles: reading, checking, summing up and writing .ctp files. ctp_format.h has the records.
 *
 * A profile is one forest of calling contexts. A node is a context: its frame, called from its
 * parent's context. Node i's parent has a lower number, so one pass upwards over the numbers sees
 * parents before children (depths), and one pass downwards sees children first (inclusive values).
 * A root is one thread in one epoch (phase); its nodes are a range of numbers that starts with the
 * root node, which stands for the thread itself and is the only one without a frame. Values are
 * exclusive: what was charged to exactly this context.
 *
 * Opening checks the header, the table of contents, and that every section lies in the file; it
 * does not look at what the sections hold, so it takes the same time for any size; code
 * that reads them verifies those that it reads. The accessors are safe on any contents instead: a
 * number that points nowhere gives an empty record, an empty string or CTP_NONE, never NULL, and
 * following parents always ends. profile_validate looks at everything.
 */
#ifndef PROFILE_PROFILE_H
#define PROFILE_PROFILE_H

#include "base/error.h"
#include "base/file.h"
#include "profile/ctp_format.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* ---- Reading -------------------------------------------------------------------------------- */

/* An array of records in the file. Newer files may have longer records than ours: hence the step.
 */
struct profile_table {
    const uint8_t *items;
    uint32_t count;
    uint32_t step_bytes;
};

/* An open profile. Fields are for the accessors below, except the counts, which all may read. */
struct profile {
    const char *strings;
    uint32_t strings_size;
    uint32_t node_count;
    uint32_t metric_count;
    const uint32_t *parents;
    const uint32_t *node_frames;
    const uint64_t **values;                   /* one array for each metric */
    struct restricted *restricted;             /* NULL: it is all that is in the file */
    struct profile_table tables[CTP_KIND_END]; /* by kind; only those of records */

    char *name; /* of the file, for messages */
    struct mapped_file file;
    const uint8_t *bytes;
    size_t size;
    const struct ctp_header *header;
    const struct ctp_section *sections;
    bool *hashed; /* by section: its hash was found to match */
};

/*
 * Maps the file and checks its frame. Fails with one line that names the file and the reason: not a
 * profile, written by a newer calltrail, truncated, damaged. On success the caller ends with
 * profile_close; on failure there is nothing to close. If the file is truncated while it is
 * open, reading it ends in SIGBUS: writers must replace files, as ours does.
 */
int profile_open(const char *path, struct profile *out, struct ct_error *err);

/* The same for bytes in memory, aligned to 8, that outlive the profile. `name` is for messages. */
int profile_from_bytes(const void *bytes, size_t size, const char *name, struct profile *out,
                       struct ct_error *err);

/* What has been read of the file need not stay in memory; a later access reads it again. */
void profile_rest(const struct profile *profile);

void profile_close(struct profile *profile);

/*
 * Reads everything and checks all that docs/format.md demands: hashes, padding, indices, order.
 * Time is linear in the size of the file. The error names the section, the index and the reason.
 * profile_validate_tables leaves out the arrays of nodes and values, which are nearly all of a big
 * file: commands that print run it first, so that damaged names are an error and not a strange
 * report.
 */
int profile_validate(const struct profile *profile, struct ct_error *err);
int profile_validate_tables(const struct profile *profile, struct ct_error *err);

/*
 * That the nodes, and the values of one metric or of all (CTP_NONE), are as they were written: who
 * reads them asks first. Only their hashes are looked at, each once for an open profile, which
 * takes less time than the page faults of reading them.
 */
int profile_verify_values(const struct profile *profile, uint32_t metric, struct ct_error *err);

/* That the times are as they were written, and in order. */
int profile_verify_times(const struct profile *profile, struct ct_error *err);

/* That the dictionaries are as they were written. */
int profile_verify_dictionaries(const struct profile *profile, struct ct_error *err);

/* The dictionary at *at, which begins as 0 and goes on to the next one; its bytes follow it. NULL:
 * there is none there. */
const struct ctp_dictionary *profile_next_dictionary(const struct profile *profile, uint64_t *at);

/* The string at an offset; "" for an offset outside. */
static inline const char *profile_string(const struct profile *p, uint64_t offset)
{
    return offset < p->strings_size ? p->strings + offset : "";
}

/* What the accessors give for an index outside: everything CTP_NONE, empty or zero. */
extern const struct ctp_module profile_no_module;
extern const struct ctp_function profile_no_function;
extern const struct ctp_line profile_no_line;
extern const struct ctp_frame profile_no_frame;
extern const struct ctp_process profile_no_process;
extern const struct ctp_thread profile_no_thread;
extern const struct ctp_epoch profile_no_epoch;
extern const struct ctp_metric profile_no_metric;
extern const struct ctp_root profile_no_root;
extern const struct ctp_fact profile_no_fact;
extern const struct ctp_time_run profile_no_time_run;

/* profile_module(p, i) and profile_module_count(p), and so on for every table. */
#define PROFILE_TABLE(noun, KIND)                                                                  \
    static inline uint32_t profile_##noun##_count(const struct profile *p)                         \
    {                                                                                              \
        return p->tables[KIND].count;                                                              \
    }                                                                                              \
    static inline const struct ctp_##noun *profile_##noun(const struct profile *p, uint32_t i)     \
    {                                                                                              \
        const struct profile_table *t = &p->tables[KIND];                                          \
        return i < t->count ? (const struct ctp_##noun *)(const void *)(t->items +                 \
                                                                        (size_t)i * t->step_bytes) \
                            : &profile_no_##noun;                                                  \
    }

PROFILE_TABLE(module, CTP_MODULES)
PROFILE_TABLE(function, CTP_FUNCTIONS)
PROFILE_TABLE(line, CTP_LINES)
PROFILE_TABLE(frame, CTP_FRAMES)
PROFILE_TABLE(process, CTP_PROCESSES)
PROFILE_TABLE(thread, CTP_THREADS)
PROFILE_TABLE(epoch, CTP_EPOCHS)
PROFILE_TABLE(metric, CTP_METRICS)
PROFILE_TABLE(root, CTP_ROOTS)
PROFILE_TABLE(fact, CTP_FACTS)
PROFILE_TABLE(time_run, CTP_TIME_RUNS)
#undef PROFILE_TABLE

/* The times, which time_runs tell apart. */
static inline const struct ctp_time *profile_times(const struct profile *p)
{
    return (const struct ctp_time *)(const void *)p->tables[CTP_TIMES].items;
}

/* The node's parent; CTP_NONE for a root, for a number outside, and for a parent out of order. */
static inline uint32_t profile_parent(const struct profile *p, uint32_t node)
{
    if (node >= p->node_count)
        return CTP_NONE;
    uint32_t parent = p->parents[node];
    return parent < node ? parent : CTP_NONE;
}

/* The index of the node's frame; CTP_NONE for a root and for a number outside. */
static inline uint32_t profile_node_frame(const struct profile *p, uint32_t node)
{
    if (node >= p->node_count)
        return CTP_NONE;
    uint32_t frame = p->node_frames[node];
    return frame < p->tables[CTP_FRAMES].count ? frame : CTP_NONE;
}

/* The node's exclusive value of a metric; 0 for numbers outside. */
static inline uint64_t profile_value(const struct profile *p, uint32_t metric, uint32_t node)
{
    return metric < p->metric_count && node < p->node_count ? p->values[metric][node] : 0;
}

/* The index of the root that the node belongs to, by binary search, or CTP_NONE. */
uint32_t profile_root_of(const struct profile *profile, uint32_t node);

/* The metric with this name, or CTP_NONE. */
uint32_t profile_find_metric(const struct profile *profile, const char *name);

/*
 * Whether the metric is of functions as they are called (calls, returns, heights), not of a place
 * in them. What was inlined is not called: such a value belongs to the function that holds the
 * code.
 */
bool profile_metric_is_of_calls(const struct profile *profile, uint32_t metric);

/* The parent of a process, or CTP_NONE: always a lower index, so that following it ends. */
uint32_t profile_process_parent(const struct profile *profile, uint32_t process);

/* The rank of a process in a job of MPI, or CTP_NONE. */
uint32_t profile_process_rank(const struct profile *profile, uint32_t process);

/* Argument `i` of a process, argv[0] being 0, or NULL when there are no more. */
const char *profile_argument(const struct profile *profile, const struct ctp_process *process,
                             uint32_t i);

/* Line `i` of a frame, the innermost inlined function being 0, or NULL when there are no more. */
const struct ctp_line *profile_frame_line(const struct profile *profile,
                                          const struct ctp_frame *frame, uint32_t i);

/* The facts about one thing: indices [first, end), found by binary search. */
struct profile_range {
    uint32_t first, end;
};
struct profile_range profile_facts_of(const struct profile *profile, enum ctp_scope scope,
                                      uint32_t index);

/* The fact with this key, or NULL. */
const struct ctp_fact *profile_find_fact(const struct profile *profile, enum ctp_scope scope,
                                         uint32_t index, const char *key);

/* How many threads a thread of the profile stands for, one after the other: many have ended. */
uint64_t profile_thread_lives(const struct profile *profile, uint32_t thread);

/* How many processes one of the profile stands for: many have ended. */
uint64_t profile_process_lives(const struct profile *profile, uint32_t process);

/* The value of a fact of type CTP_F64. */
double profile_fact_double(const struct ctp_fact *fact);

/* Words for the enumerations; "unknown" for values that this version does not know. */
const char *profile_section_name(uint32_t kind);
const char *profile_module_kind_name(uint32_t kind);
const char *profile_metric_kind_name(uint32_t kind);
const char *profile_gap_name(uint32_t gap);

/*
 * The name of a node for people, into `room` bytes, cut if need be: the function; else the module's
 * file and the offset; else the address; for missing callers the reason; for a root the thread's
 * name. Returns `text`.
 */
const char *profile_node_name(const struct profile *profile, uint32_t node, char *text,
                              size_t room);

/* ---- Summing up ------------------------------------------------------------------------------ */

struct metric_stats {
    uint64_t total;         /* UINT64_MAX when it is more, which a valid profile's never is */
    uint32_t contexts;      /* nodes whose value is not 0 */
    uint32_t heaviest_node; /* the first with the greatest value, or CTP_NONE when all are 0 */
};

struct profile_stats {
    uint32_t leaves;              /* nodes without children */
    uint32_t max_depth;           /* frames on the longest path: a root's depth is 0 */
    uint32_t deepest_node;        /* the first at that depth, or CTP_NONE when there are no nodes */
    double mean_depth;            /* over all nodes */
    struct metric_stats *metrics; /* one for each metric */
};

/* One pass over the nodes; 4 bytes of memory for each while it runs. Free with profile_stats_free.
 */
void profile_stats(const struct profile *profile, struct profile_stats *out);
void profile_stats_free(struct profile_stats *stats);

/* What `calltrail info` prints: in short, or with every fact. Errors of the stream are the caller's
 * to ask for. */
void profile_print_text(const struct profile *profile, bool all, FILE *out);
void profile_print_json(const struct profile *profile, FILE *out);

/* ---- Writing --------------------------------------------------------------------------------- */

/*
 * A profile under construction. Nothing but profile_writer_commit reports errors: the first thing
 * that goes wrong (bad input, full disk) is remembered, everything after it is ignored, and commit
 * says what it was. Until then the file at `path` is what it was before.
 *
 * The order of calls: metrics before profile_begin_nodes; records before those that point at them
 * only where this says so; the rest as it suits. The small tables are kept in memory until
 * the commit; nodes and values go to the file as they come, through a buffer for each array.
 */
struct profile_writer;

int profile_writer_open(const char *path, struct profile_writer **out, struct ct_error *err);

/* Checks what is left to check, writes the tables and puts the file in place. Frees the writer,
 * whatever happens. A profile that profile_validate would not accept is never written. */
int profile_writer_commit(struct profile_writer *writer, struct ct_error *err);

/* All of the commit but putting the file in its place, so that the commit does only that. Frees the
 * writer if it fails. */
int profile_writer_finish(struct profile_writer *writer, struct ct_error *err);

/* The commit leaves the file that it replaces as `path`.old. */
void profile_writer_keep_old(struct profile_writer *writer);

/* Forgets everything; nothing is left on disk. */
void profile_writer_abandon(struct profile_writer *writer);

/* The offset of a string, which is kept once. NULL counts as "". */
uint32_t profile_add_string(struct profile_writer *writer, const char *text);

/*
 * Each adds a copy of the record and returns its index. Strings in it are offsets from
 * profile_add_string; unused references must be CTP_NONE where the format allows that, since 0 is
 * the first record. Duplicates are the caller's business.
 */
uint32_t profile_add_module(struct profile_writer *writer, const struct ctp_module *module);
uint32_t profile_add_function(struct profile_writer *writer, const struct ctp_function *function);
uint32_t profile_add_line(struct profile_writer *writer, const struct ctp_line *line);
uint32_t profile_add_frame(struct profile_writer *writer, const struct ctp_frame *frame);
uint32_t profile_add_thread(struct profile_writer *writer, const struct ctp_thread *thread);
uint32_t profile_add_epoch(struct profile_writer *writer, const char *name);
uint32_t profile_add_metric(struct profile_writer *writer, const struct ctp_metric *metric);

/* The arguments are given here; the record's own run is filled in. Parents come first. */
uint32_t profile_add_process(struct profile_writer *writer, const struct ctp_process *process,
                             uint32_t argument_count, const char *const *arguments);

/*
 * What was added so far, for code that completes records before the commit (names come last).
 * Adding a record of a kind moves those that are there: ask again.
 */
struct ctp_module *profile_added_modules(struct profile_writer *writer, uint32_t *count);
struct ctp_function *profile_added_functions(struct profile_writer *writer, uint32_t *count);
struct ctp_frame *profile_added_frames(struct profile_writer *writer, uint32_t *count);
const char *profile_added_string(const struct profile_writer *writer, uint32_t offset);

/* Adds all that an open profile holds to a writer that holds nothing yet, nodes and values too. The
 * profile's tables must be valid; its nodes are checked as all nodes are. */
void profile_copy(const struct profile *from, struct profile_writer *writer);

/* Adds all but the nodes and values. `nodes` says which number each node will have in the writer,
 * or CTP_NONE. */
void profile_copy_tables(const struct profile *from, struct profile_writer *writer,
                         const uint32_t *nodes);

/*
 * Adds what the profile says of itself, without contexts: no functions, lines, frames and nodes.
 * Merging such a one, and its costs (merge_add_costs), is merging the profile; only who created a
 * thread is not known any more.
 */
void profile_copy_skeleton(const struct profile *from, struct profile_writer *writer);

/* Facts come in any order; the writer sorts them. A key twice for the same thing is an error. */
void profile_fact_u64(struct profile_writer *writer, enum ctp_scope scope, uint32_t index,
                      const char *key, uint64_t value);
void profile_fact_i64(struct profile_writer *writer, enum ctp_scope scope, uint32_t index,
                      const char *key, int64_t value);
void profile_fact_f64(struct profile_writer *writer, enum ctp_scope scope, uint32_t index,
                      const char *key, double value);
void profile_fact_string(struct profile_writer *writer, enum ctp_scope scope, uint32_t index,
                         const char *key, const char *value);

/* Adds times of samples: entries of one metric, value and span (`first` and `count` of the run do
 * not matter). They may come in any order and in any pieces; the commit puts them in theirs. */
void profile_add_times(struct profile_writer *writer, const struct ctp_time_run *run,
                       const struct ctp_time *items, size_t count);

/* Adds a dictionary, whose bytes are given here. */
void profile_add_dictionary(struct profile_writer *writer, const struct ctp_dictionary *dictionary,
                            const void *bytes);

/* Says how many nodes there will be. From here on metrics cannot be added. */
void profile_begin_nodes(struct profile_writer *writer, uint32_t node_count);

/* The i-th root added describes the i-th node whose parent is CTP_NONE, and the nodes from there to
 * the next such node. It may be added before or after that node. */
void profile_add_root(struct profile_writer *writer, uint32_t thread, uint32_t epoch);

/*
 * Appends nodes, in chunks of any size. parents[i] is the number of an earlier node of the same
 * root, or CTP_NONE for a root; frames[i] is CTP_NONE for exactly the roots.
 */
void profile_write_nodes(struct profile_writer *writer, const uint32_t *parents,
                         const uint32_t *frames, size_t count);

/* Appends values of one metric, in chunks that need not be those of the nodes. Values that are not
 * written before the commit are 0. */
void profile_write_values(struct profile_writer *writer, uint32_t metric, const uint64_t *values,
                          size_t count);

#endif
