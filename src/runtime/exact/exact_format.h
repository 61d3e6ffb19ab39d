/*
 * What engine `exact` keeps in an arena: its contexts, and what it says of a process and a thread.
 * The runtime writes it, the supervisor reads it.
 */
#ifndef EXACT_FORMAT_H
#define EXACT_FORMAT_H

#include "runtime/arena_format.h"

enum exact_flags {
    EXACT_FOLDS = 1,   /* recursions share their records */
    EXACT_HEIGHTS = 2, /* do contexts have other stack heights at times? */
    EXACT_TRACES = 4,  /* each call is written down, too */
    EXACT_TIMES = 8    /* contexts have the time that was spent in them */
};

/* Its options, in the arena's settings. */
struct exact_settings {
    uint64_t flags;        /* enum exact_flags */
    uint64_t most_records; /* how many contexts there may be; 0: as many as fit */
    uint64_t burst_ns;     /* calls are counted for so long in each period; 0: always */
    uint32_t k;            /* callers that are kept of each call, at least; 0: all */
    uint32_t unused;
};

static_assert(sizeof(struct exact_settings) <= 8 * ENGINE_SETTINGS, "it has its place");

struct exact_process {
    _Atomic uint64_t records; /* contexts so far */
};

static_assert(sizeof(struct exact_process) <= 8 * ENGINE_PROCESS, "it has its place");

/* Why a call did not go the fast way. */
enum slow_reason {
    SLOW_NEW,       /* a context that was not there before */
    SLOW_RESYNC,    /* the stack had to be walked */
    SLOW_UNCOUNTED, /* nothing could be done: in the midst of another, or without memory */
    SLOW_OTHER,     /* none of that: the context was there */
    SLOW_REASONS
};

struct exact_counts {
    _Atomic uint32_t first_record_chunk; /* places of lists, newest first */
    _Atomic uint32_t first_trace_chunk;
    uint64_t slow[SLOW_REASONS]; /* calls that went the slow way, by enum slow_reason */
    uint64_t trace_lost;         /* calls for which there was no room in a trace */
    uint64_t bursts, calls_in_bursts, calls_between; /* of them: all calls, counted or not */
    uint64_t calls_not_timed;                        /* their time is their caller's */
};

static_assert(sizeof(struct exact_counts) <= 8 * ENGINE_THREAD, "it has its place");

static inline const struct exact_settings *exact_settings_in(const uint64_t *settings)
{
    return (const void *)settings;
}

static inline struct exact_process *exact_process_in(const struct arena_header *h)
{
    return (struct exact_process *)(uintptr_t)h->engine_process;
}

static inline struct exact_counts *exact_counts_in(const struct arena_thread *t)
{
    return (struct exact_counts *)(uintptr_t)t->engine;
}

/*
 * A calling context, and how often it was entered. Each site of its function has a
 * place for the context that it leads to, an address in the process's own memory. The stubs look at
 * the last 16 bytes and at these places, and at the target of an indirect call.
 */
struct arena_record {
    uint64_t site;    /* key of the return address of the call, or of the tail jump */
    uint64_t callee;  /* key of the function that was entered */
    uint32_t parent;  /* place; 0: the thread itself */
    uint32_t flags;   /* enum record_flags, and above them the depth in its tree, if that matters */
    uint32_t next;    /* address of a context that the site led to before */
    uint32_t is_made; /* 0: its bytes were taken, and it was not made; in the first ALIGN */
    uint32_t site_count; /* 0 too where its code is not edited */
    uint32_t slot;       /* low half of its return address's, when it was entered first */
    uint64_t target;     /* where the call led: at an indirect site one of several; 0: unloaded */
    uint64_t count;
    uint32_t first_site; /* of its function's, which are numbered in a row */
    uint32_t enter; /* address of the context that is entered: this one, but for RECORD_BACK, and
                       where earlier callers are cut off */
    uint32_t child_by_site[]; /* addresses */
};

static_assert(sizeof(struct arena_record) == 64, "layout");

/*
 * Records are this far apart, or a multiple; and their `count` is at a multiple of it, so that what
 * the stubs look at, with four places or twelve, is in one line of the cache.
 */
enum { ARENA_RECORD_ALIGN = 32, ARENA_RECORD_SHIFT = 16 };

static_assert((ARENA_RECORD_SHIFT + offsetof(struct arena_record, count)) % ARENA_RECORD_ALIGN == 0,
              "in one line");

/* With EXACT_TIMES the first two places are its time, in ticks of the time stamp counter, without
 * that of the contexts below; those of its sites come behind. */
enum { RECORD_TIME_PLACES = 2 };

static inline uint32_t arena_record_first_place(const struct exact_settings *settings)
{
    return settings->flags & EXACT_TIMES ? RECORD_TIME_PLACES : 0;
}

static inline uint64_t arena_record_bytes(uint32_t place_count)
{
    uint64_t bytes = sizeof(struct arena_record) + (uint64_t)place_count * sizeof(uint32_t);
    return (bytes + ARENA_RECORD_ALIGN - 1) & ~(uint64_t)(ARENA_RECORD_ALIGN - 1);
}

enum record_flags {
    RECORD_TAIL = 1,
    RECORD_BACK = 2,     /* the call led back to a context that was there: this only counts */
    RECORD_OVERFLOW = 4, /* counts whatever there was no room for */
    RECORD_VARIES = 8,   /* with --height: it was entered with other slots, too */
    RECORD_UNTIMED = 16  /* its function looks at its return address, or may: that stays */
};

/* Those that say how the calls were made, not which record this is. */
enum { RECORD_OF_CALL = RECORD_TAIL | RECORD_VARIES };

enum { RECORD_DEPTH_SHIFT = 8 };

/* The gap below which chains begin whose earlier callers are cut off; others are enum walk_end. */
enum { ARENA_GAP_CUT = 10 };

/*
 * Records of one thread, one behind the other. `used`, which may be more than there is room, is
 * raised before a record is made: bytes without `is_made` are none, and are passed over in steps of
 * ARENA_RECORD_ALIGN.
 */
struct arena_record_chunk {
    uint32_t next;
    uint32_t start; /* of the first record, from the start of the chunk, in bytes */
    uint32_t room;  /* bytes from there on */
    _Atomic uint32_t used;
};

/* With --trace: what counted each call of a thread, one after the other. */
enum { ARENA_TRACE_CALLS = 16382 };

struct arena_trace_chunk {
    uint32_t next;
    _Atomic uint32_t count;
    uint32_t places[ARENA_TRACE_CALLS];
};

#endif
