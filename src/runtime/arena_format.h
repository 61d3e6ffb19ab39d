/*
 * The arena: what one process measured, in a file that it shares with the supervisor. Whatever has
 * been written is safe from the process's death; nothing is ever flushed.
 *
 * The file begins with the header. Behind it, memory is handed out from the front by a counter that
 * never goes back; all references are offsets from the start of the file, in units of 8 bytes (a
 * "place"), 0 meaning none. The supervisor allocates the file's blocks ahead of use and says in
 * `allocated` how far the process may write.
 *
 * Records are complete before they are linked, so a reader sees whole ones only. A reader trusts
 * nothing: every place is checked against the size of the file.
 */
#ifndef ARENA_FORMAT_H
#define ARENA_FORMAT_H

#include "runtime/engine_format.h"

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#define ARENA_MAGIC   UINT64_C(0x0a616e6572616c6c) /* "llarena\n" */
#define ARENA_VERSION 15

enum {
    ARENA_NAME_BYTES = 16,
    ARENA_ENDS = 16,
    ARENA_CHUNK_NODES = 256,
    ARENA_HISTOGRAM = 96,
    ARENA_PROGRAM_BYTES = 1024
};

/* Why samples were not taken. */
enum arena_loss {
    LOST_NO_ROOM,   /* the arena was full */
    LOST_NO_THREAD, /* the signal came to a thread that is not known */
    LOST_BUSY,      /* no time: the samples before it were expensive; made good by the next one */
    LOST_IN_RING,   /* the kernel had no room for it (from outside) */
    ARENA_LOSSES = 8
};

/* What is measured: bits. Without any but EVENT_CPU, an arena has no values behind its nodes. */
enum arena_event {
    EVENT_CPU = 1,
    EVENT_WALL = 2,
    EVENT_MALLOC = 4,
    EVENT_HEAP = 8,
    EVENT_LOCK = 16,
    EVENT_IO = 32,
    EVENTS_BY_SAMPLES = EVENT_CPU | EVENT_WALL,
    EVENTS_OF_MEMORY = EVENT_MALLOC | EVENT_HEAP
};

/* Where CPU time is counted; in the kernel only from outside. */
enum cpu_modes { CPU_USER = 1, CPU_KERNEL = 2 };

enum { CALLS_ONE = 1 << 16 };

/*
 * What is counted in a context besides samples and returns. Behind each node lie as many 64-bit
 * values as the events of the recording need, in this order; value_at in the header says where.
 */
enum arena_value {
    VALUE_BLOCKED_NS,   /* wall: time in calls that wait */
    VALUE_MALLOC_BYTES, /* requested */
    VALUE_MALLOC_CALLS, /* in units of 1 / CALLS_ONE: a sample may stand for a part of a call */
    VALUE_HEAP_LIVE,    /* bytes that are not freed yet */
    VALUE_HEAP_BLOCKS,  /* as the calls */
    VALUE_HEAP_SAVED,   /* VALUE_HEAP_LIVE at the peak, if it changed since: if */
    VALUE_HEAP_PEAK,    /* this is the number of the peak (heap_peak in the header) */
    VALUE_LOCK_NS,      /* time waited for other threads */
    VALUE_LOCK_TIMES,
    VALUE_READ_BYTES,
    VALUE_WRITTEN_BYTES,
    ARENA_VALUES
};

struct arena_events {
    uint32_t mask;
    uint32_t cpu_modes;           /* EVENT_CPU: enum cpu_modes; 0: user mode */
    uint64_t memory_period_bytes; /* of memory between two samples of it */
};

/* What the program said of itself at some time: for samples that are looked at later. */
struct arena_change {
    _Atomic uint64_t at_ns; /* CLOCK_MONOTONIC */
    uint32_t phase, paused;
};

enum { ARENA_CHANGES = 256 };

/* Where an arena lies that its engine wants low. */
enum arena_height {
    ARENA_IS_LOW,
    ARENA_WITHOUT_ROOM, /* there was no room: nothing is edited */
    ARENA_GAVE_WAY, /* the program mapped memory in its place: nothing was counted from then on */
    ARENA_STOOD_IN_THE_WAY /* the same, and the program could not have it: it had other threads */
};

struct arena_header {
    uint64_t magic;
    uint32_t version;
    uint32_t header_bytes;
    _Atomic uint64_t allocated; /* bytes that may be written; grows; written by the supervisor */
    _Atomic uint64_t used;      /* bytes handed out */
    _Atomic uint64_t wanted;    /* how far it should reach, when something did not fit */
    uint32_t pid;
    uint32_t parent_pid;
    uint64_t start_ns;                    /* CLOCK_MONOTONIC */
    uint64_t realtime_at_zero_ns;         /* what CLOCK_REALTIME was when that clock was 0 */
    uint64_t period_ns;                   /* of user CPU time between two samples */
    uint32_t source;                      /* enum sample_source */
    _Atomic uint32_t threads_not_sampled; /* no event could be had for them */
    _Atomic uint32_t first_thread;        /* places of lists, newest first */
    _Atomic uint32_t first_module;
    _Atomic uint64_t lost[ARENA_LOSSES];
    uint64_t utime_ns, stime_ns; /* CPU time so far, when the process last said so */
    uint64_t said_ns;            /* when that was: at its end, if all went well */
    _Atomic uint32_t paused;     /* the supervisor's word: no samples now */
    uint32_t outer_pid;          /* its pid, as the supervisor's namespace has it */
    uint32_t flags;              /* enum channel_flags */
    uint32_t tick_cost_ns;       /* CPU time of a tick's signal that is no user time, about */
    uint32_t engine;             /* enum engine_number */
    uint32_t window_bytes;       /* of the stack that samples from outside came with */
    uint32_t is_silent;          /* a filter for system calls has ended all measuring */
    _Atomic uint32_t is_full;    /* the supervisor's word: it cannot grow now */
    uint64_t settings[ENGINE_SETTINGS];       /* the engine's options */
    uint64_t engine_process[ENGINE_PROCESS];  /* what it says of the process */
    _Atomic uint64_t sites, sites_not_edited; /* of the modules that were edited */
    _Atomic uint64_t unknown_bytes;           /* of their code, in which no site was looked for, */
    _Atomic uint32_t functions_not_edited; /* and their functions that are not all instructions */
    _Atomic uint32_t modules_not_edited;   /* of those that were to be */
    uint32_t not_resumed; /* the program paused and went on, and its calls are not counted since */
    _Atomic uint32_t detach;    /* the supervisor's word: put the code back */
    uint32_t is_detached;       /* and it is */
    uint32_t is_too_high;       /* the engine wants it low, and it is not: enum arena_height */
    _Atomic uint32_t languages; /* bits of enum arena_language: of the modules, so far */
    char program[ARENA_PROGRAM_BYTES]; /* what it runs, by the supervisor */

    struct arena_events events;
    uint32_t node_bytes;              /* of a node with the values behind it */
    uint8_t value_at[ARENA_VALUES];   /* 1 is the first; 0: not measured */
    uint8_t is_debugged;              /* from the start, and not sampled for that */
    uint32_t was_paused;              /* the program has paused it: */
    uint64_t program_paused_ns;       /* for so long, up to the last time that it went on, */
    uint64_t program_paused_since_ns; /* and since then; 0: it goes on */
    uint64_t paused_since_ns;         /* when the supervisor last said so */
    _Atomic uint32_t phase;           /* that the program says it is in; 0: none */
    _Atomic uint32_t first_phase;     /* place of the list, newest first */
    _Atomic uint32_t program_paused;  /* the program's word */
    _Atomic uint32_t without_context; /* events whose context could not be had: the root's */
    uint64_t heap_live, heap_most;    /* bytes, of the process: now, and at the peak */
    uint64_t heap_peak;               /* number of the peak */
    uint64_t io_read, io_written;     /* bytes with a context that the kernel counts, too */
    _Atomic uint32_t change_count;    /* the last so many of them are below, in turn */
    uint32_t not_paused;              /* the program paused, and its calls were counted on */
    struct arena_change changes[ARENA_CHANGES];
    /* The time stamp counter at some moment, by the supervisor; 0: times are not wanted. */
    uint64_t clock_stamp, clock_ns;
    _Atomic uint64_t time_chunks_left; /* chunks of times that may still be made */
    uint64_t process_start; /* as /proc/PID/stat has it: no other process of that number has it */
};

/* For how long the program had paused by then. */
static inline uint64_t arena_paused_ns(const struct arena_header *h, uint64_t now_ns)
{
    uint64_t since_ns = h->program_paused_since_ns;
    return h->program_paused_ns + (since_ns && now_ns > since_ns ? now_ns - since_ns : 0);
}

/* A phase that the program has named. */
struct arena_phase {
    uint32_t next;
    uint32_t number;     /* counts from 1 */
    uint32_t name_bytes; /* the name follows */
    uint32_t unused;
};

/* Where values are, and how long nodes with them. */
static inline void arena_lay_out(struct arena_header *h)
{
    static const struct {
        uint32_t event, first, end;
    } values[] = {{EVENT_WALL, VALUE_BLOCKED_NS, VALUE_MALLOC_BYTES},
                  {EVENT_MALLOC, VALUE_MALLOC_BYTES, VALUE_HEAP_LIVE},
                  {EVENT_HEAP, VALUE_HEAP_LIVE, VALUE_LOCK_NS},
                  {EVENT_LOCK, VALUE_LOCK_NS, VALUE_READ_BYTES},
                  {EVENT_IO, VALUE_READ_BYTES, ARENA_VALUES}};
    uint32_t count = 0;
    for (unsigned i = 0; i < sizeof values / sizeof values[0]; i++)
        for (uint32_t v = values[i].first; v < values[i].end; v++)
            if (h->events.mask & values[i].event)
                h->value_at[v] = (uint8_t)++count;
    h->node_bytes = 24 + 8 * count;
}

/*
 * The clock of the timers, where perf events are not permitted: the thread's own time in user mode
 * (CPUCLOCK_VIRT of the calling thread, for which there is no name). It only moves when a tick of
 * the kernel finds the thread in user mode, so that no system call is interrupted, and as slowly.
 */
enum { SAMPLE_TIMER_CLOCK = -3 };

enum sample_source { SOURCE_NONE, SOURCE_PERF, SOURCE_TIMER, SOURCE_OUTSIDE };

/* A module as long as it is loaded; loading it again makes a new record. */
struct arena_module {
    uint32_t next;
    uint32_t id; /* counts from 1; keys of frames refer to it */
    uint64_t start, end;
    uint64_t base;       /* load address of the map's offset 0 */
    uint32_t kind;       /* enum arena_module_kind */
    uint32_t path_bytes; /* the path follows */
    uint32_t unused;
    uint64_t device, inode; /* MODULE_OUTSIDE: of the file that its map is of; 0: it has none */
    uint64_t map_hash;      /* MODULE_FILE: the header_hash of the map it was walked by; 0: none */
};

/*
 * What a path leads to when the run has ended may be another file than the one that was loaded. Of
 * a MODULE_FILE it is that one only if its map is the same.
 * MODULE_OUTSIDE: a file as another process has it mapped, whose root may be another. What its path
 * leads to is that file only if it has its inode.
 */
enum arena_module_kind { MODULE_FILE, MODULE_VDSO, MODULE_OUTSIDE, MODULE_KERNEL };

/* Whose runtimes find frames by their return addresses: nothing is marked. Go's threads are not
 * sampled: its signal handlers and stacks are its own. */
enum arena_language { LANGUAGE_GO = 1, LANGUAGE_OCAML = 2 };

/*
 * When samples of a thread came. An entry without a node says how many more samples the one before
 * it stands for. Stamps are of the time stamp counter (from outside, nanoseconds), in steps of
 * 1 << TIME_SHIFT from the chunk's own.
 */
enum { TIME_SHIFT = 10, TIME_CHUNK_ENTRIES = 253, TIME_MOST_CHUNKS = 65536 };

struct arena_time {
    uint32_t node; /* place */
    uint32_t at;
};

struct arena_times {
    uint32_t next;
    _Atomic uint32_t count; /* raised after an entry is complete */
    uint64_t stamp;
    uint64_t unused;
    struct arena_time items[TIME_CHUNK_ENTRIES];
};

/* Memory is first of all for contexts: times are only kept where so much is left for those. */
enum { TIME_LEAVES_BYTES = 1 << 16 };

/* Threads that begin when many have ended go on with what one of those left: `lives` of them. */
struct arena_thread {
    uint32_t next;
    uint32_t tid; /* of the last one, as its name and the times when its sample or wait began */
    char name[ARENA_NAME_BYTES];
    uint64_t start_ns;
    uint64_t end_ns;                /* 0: it was still there */
    uint32_t root;                  /* place of its first node */
    _Atomic uint32_t first_chunk;   /* of nodes, newest first */
    uint64_t engine[ENGINE_THREAD]; /* what the engine says of it */
    _Atomic uint64_t samples;
    uint64_t ends[ARENA_ENDS]; /* samples by how the walk ended, enum walk_end */
    uint64_t fired, arrived;   /* how often the event fired, and how many signals came of it */
    uint64_t frames_walked;    /* those that were new; all others were only looked at */
    uint64_t merged;           /* samples that were counted with the next one */
    uint64_t sampled_ns;       /* CPU time between the ticks: with what their signals took of it */
    uint64_t verify_checked, verify_differ;
    uint64_t verify_by_cfi, verify_by_frame_pointers; /* of these, whose opinion it was */
    uint64_t handler_ticks;      /* all time spent in the handler, by the time stamp counter */
    uint64_t marks_set, bounces; /* of the trampoline; a bounce is a return through it */
    uint64_t frames_reused;      /* known from a mark, and not even looked at */
    uint64_t stale_marks;        /* samples that found a mark jumped over or on another stack */
    _Atomic uint32_t waits_in;   /* node of the call that it waits in; 0: in none */
    uint32_t waits_events;       /* what that call is charged to: EVENT_LOCK if for a thread */
    uint64_t waits_since_ns;
    uint64_t paused_before_ns; /* how long the program had paused when the thread began, */
    uint64_t paused_ns;        /* and when it ended */
    uint64_t absent_ns;        /* measured time between the end of one and the start of the next */
    uint32_t lives;
    uint32_t has_other_names;                    /* not all of them had the same */
    uint32_t handler_histogram[ARENA_HISTOGRAM]; /* by the logarithm: see histogram_bucket */
    _Atomic uint32_t first_times;                /* place of a list, newest first */
    uint32_t unused;
    uint64_t times_lost; /* samples whose time is not known */
};

/*
 * The key of a frame: the module's id (24 bits), flags (8 bits), offset in the module (32 bits).
 * Code outside every module has its address instead, the upper half in place of the module. A gap,
 * where the walk ended too early, has the reason in place of the offset.
 */
enum key_flags {
    KEY_IS_PC = 1,
    KEY_GUESSED = 2,
    KEY_GAP = 4,
    KEY_ROOT = 8,
    KEY_ADDRESS = 16,
    KEY_PHASE = 32, /* below the root: all that was measured in a phase; the offset is its number */
    KEY_LABEL = 64  /* no code but a word: the offset is an enum arena_label */
};

/* Reasons of gaps besides the walker's own; and where samples by their ends are counted. */
enum arena_gap {
    ARENA_GAP_OTHER = 9,
    ARENA_GAP_WINDOW = 12,
    ARENA_GAP_HEIGHT = 13 /* the stack's height, in words, is in place of the module */
};

/* What a file is that was read or written; and what is known to have passed, but not where. */
enum arena_label {
    LABEL_FILE,
    LABEL_SOCKET,
    LABEL_PIPE,
    LABEL_TERMINAL,
    LABEL_OTHER,
    LABEL_NOT_ATTRIBUTED,
    ARENA_LABELS
};

#define KEY_MAKE(module, flags, offset)                                                            \
    ((uint64_t)(module) << 40 | (uint64_t)(flags) << 32 | (uint32_t)(offset))
#define KEY_MODULE(key) ((uint32_t)((key) >> 40))
#define KEY_FLAGS(key)  ((uint32_t)((key) >> 32) & 255u)
#define KEY_OFFSET(key) ((uint32_t)(key))

struct arena_node {
    uint64_t key;
    uint32_t parent;  /* place; 0 for the root */
    uint32_t hash;    /* of all keys from the root to here; the runtime's own */
    uint32_t count;   /* samples whose innermost frame this is: enough for 49 days at 999 Hz */
    uint32_t returns; /* of frames in this context that were marked */
};

/* Engines that keep addresses in four bytes have their arena below this. */
#define ARENA_LOW_END (UINT64_C(1) << 32)

/* As what is wanted: the process cannot map more of it, however large the file becomes. */
#define ARENA_CANNOT_BE_MAPPED UINT64_MAX

/* Nodes of one thread follow, each node_bytes long. `count` is raised after one is complete. */
struct arena_chunk {
    uint32_t next;
    _Atomic uint32_t count;
};

static_assert(sizeof(struct arena_node) == 24, "layout");
static_assert(sizeof(struct arena_chunk) == 8, "layout");
static_assert(sizeof(struct arena_times) == 2048, "layout");

static inline struct arena_node *chunk_node(const struct arena_chunk *chunk, uint32_t node_bytes,
                                            uint32_t i)
{
    return (struct arena_node *)((char *)(uintptr_t)(chunk + 1) + (uint64_t)i * node_bytes);
}

/* Chunks are about as long, whatever the nodes: each thread has one. */
static inline uint32_t chunk_nodes(uint32_t node_bytes)
{
    return ARENA_CHUNK_NODES * (uint32_t)sizeof(struct arena_node) / node_bytes;
}

static inline uint64_t chunk_bytes(uint32_t node_bytes)
{
    return sizeof(struct arena_chunk) + (uint64_t)chunk_nodes(node_bytes) * node_bytes;
}

/* A value of a node; NULL where it is not measured. */
static inline uint64_t *node_value(const struct arena_header *h, const struct arena_node *node,
                                   uint32_t value)
{
    uint8_t at = h->value_at[value];
    return at ? (uint64_t *)(uintptr_t)(node + 1) + at - 1 : 0;
}

/* Four buckets for each power of two. */
static inline unsigned histogram_bucket(uint64_t ticks)
{
    if (ticks < 4)
        return (unsigned)ticks;
    unsigned log = 63u - (unsigned)__builtin_clzll(ticks);
    unsigned bucket = (log - 1) * 4 + (unsigned)(ticks >> (log - 2) & 3);
    return bucket < ARENA_HISTOGRAM ? bucket : ARENA_HISTOGRAM - 1;
}

/* The least that belongs in a bucket. */
static inline uint64_t histogram_least(unsigned bucket)
{
    return bucket < 4 ? bucket : (uint64_t)(4 + bucket % 4) << (bucket / 4 - 1);
}

#endif
