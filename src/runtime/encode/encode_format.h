/*
 * What engine `encode` keeps in an arena: its settings, and what it says of a thread. The runtime
 * writes it, the supervisor reads it.
 */
#ifndef ENCODE_FORMAT_H
#define ENCODE_FORMAT_H

#include "runtime/arena_format.h"

/* Its options, in the arena's settings. */
struct encode_settings {
    uint64_t most_ids;    /* numbers that contexts may have; 0: all there are */
    uint64_t storm_calls; /* for tests: numbers are made anew after so many slow calls; 0: not */
};

static_assert(sizeof(struct encode_settings) <= 8 * ENGINE_SETTINGS, "it has its place");

/* Of a thread. Sizes are those of its last numbering. */
struct encode_counts {
    uint64_t functions, edges, coded_edges, back_edges;
    uint64_t ids;        /* that its numbering has */
    uint64_t entries;    /* contexts of calls on edges that have no code */
    uint64_t numberings; /* how often numbers were made */
    uint64_t numbering_ns;
    uint64_t pushes;      /* calls on edges without a code, or with one that was not known yet */
    uint64_t resyncs;     /* calls in a function of which only a walk knew the context */
    uint64_t not_encoded; /* calls of which nothing could be known: in the midst of another */
    uint64_t decoded, walked; /* samples: by decoding, and by a walk alone */
    uint64_t
        frames_walked;    /* of those that were decoded: the innermost frames, which have no code */
    uint64_t entry_depth; /* of those: entries in all */
    uint64_t slow;        /* calls on the slow path */
};

static_assert(sizeof(struct encode_counts) <= 8 * ENGINE_THREAD, "it has its place");

/* Of the process. */
struct encode_process {
    _Atomic uint32_t first_log; /* place of a list, newest first */
    _Atomic uint32_t log_count;
    _Atomic uint32_t first_history; /* likewise */
    _Atomic uint32_t history_count;
};

/* How a thread's encoding went on; of the first threads that had their contexts numbered. */
enum { MOST_HISTORIES = 64, HISTORY_DEPTHS = 32, HISTORY_STEPS = 64 };

struct encode_step { /* a numbering */
    uint64_t at_ns;  /* CLOCK_MONOTONIC */
    uint32_t functions, edges, coded_edges, entries;
    uint64_t ids, pushes;
};

struct encode_history {
    uint32_t next;
    _Atomic uint32_t count;          /* of the steps; when they are full, every second one goes */
    uint64_t depths[HISTORY_DEPTHS]; /* samples by their entries; the last: so many and more */
    struct encode_step steps[HISTORY_STEPS];
};

static_assert(sizeof(struct encode_process) <= 8 * ENGINE_PROCESS, "it has its place");

/*
 * The dictionary of a thread that has taken snapshots (encoding/dictionary_format.h): its bytes lie
 * in chunks, oldest first. Of these so many are whole records.
 */
struct encode_log {
    uint32_t next;
    uint32_t number; /* in snapshots; counts from 1 */
    uint32_t tid;
    uint32_t first_chunk;
    _Atomic uint64_t bytes;
};

struct encode_chunk {
    uint32_t next;
    uint32_t room; /* bytes, which follow */
};

/* What snapshots of a process have in common. */
static inline uint64_t encode_run(const struct arena_header *h)
{
    uint64_t run = (h->start_ns + h->realtime_at_zero_ns) * UINT64_C(0x9e3779b97f4a7c15) + h->pid;
    run ^= run >> 32;
    run *= UINT64_C(0xff51afd7ed558ccd);
    run ^= run >> 29;
    return run ? run : 1;
}

static inline struct encode_process *encode_process_in(const struct arena_header *h)
{
    return (struct encode_process *)(uintptr_t)h->engine_process;
}

static inline const struct encode_settings *encode_settings_in(const uint64_t *settings)
{
    return (const void *)settings;
}

static inline struct encode_counts *encode_counts_in(const struct arena_thread *t)
{
    return (struct encode_counts *)(uintptr_t)t->engine;
}

#endif
