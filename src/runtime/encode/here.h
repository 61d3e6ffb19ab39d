/*
 * Snapshots: the calling context of a thread, as the program itself asks for it
 * (include/calltrail.h), and what is needed to decode them.
 *
 *   here.c    takes them: the slow way of ct_here, contexts of signals, and of new threads
 *   log.c     the dictionary of a thread that has taken one, in the arena
 *   tasks.c   work that is handed from thread to thread
 *   path.c    decodes and prints them, and makes keys
 *
 * The fast way is in the program, which reads the mirror of its own thread through `encode_reader`.
 * Nobody makes numbers anew meanwhile: that is done by the thread itself, at a call, and not while
 * a handler of a signal is on its stack.
 */
#ifndef RUNTIME_ENCODE_HERE_H
#define RUNTIME_ENCODE_HERE_H

#include "encoding/dictionary.h"
#include "runtime/encode/encode.h"

/* What ct_here reads of its thread; the header knows the layout. Zeros, and a mirror in which
 * nothing is: it takes the slow way. */
struct encode_reader {
    const char *words; /* the mirror's first tag */
    uint64_t run, stamp, task;
};

extern __thread struct encode_reader encode_reader __attribute__((tls_model("initial-exec")));

/* It has no snapshot to give any more. */
void encode_reader_forget(void);

/* Calls work(thread, argument) on the engine's stack, without signals, with what the calling thread
 * has, which is made if need be. False: it has nothing, or is at work. */
bool encode_at_work(void (*work)(struct encode_thread *thread, void *argument), void *argument);

/* --- log.c ------------------------------------------------------------------------------------ */

struct log_state {
    struct encode_log *log; /* NULL: no snapshot was taken yet */
    struct encode_chunk *chunk;
    uint32_t used;                      /* of the chunk */
    bool is_full;                       /* there was no room: there are no snapshots any more */
    uint64_t bytes;                     /* with the record that is being written */
    uint32_t functions, edges, entries; /* that are in it */
    uint32_t numbered;
    uint32_t *ranks;  /* of functions, in the last numbering that is in it */
    uint64_t *hashes; /* of the edges of each */
    uint32_t places;
    uint64_t last_places[64];
};

/* The dictionary as it is now: from here on all that is new is added. False: there is no room. */
bool encode_log_begin(struct encode_thread *thread);
void encode_log_end(struct encode_thread *thread);

/* Adds what is new; numbers that are new. */
void encode_log_follow(struct encode_thread *thread);
void encode_log_numbers(struct encode_thread *thread);

bool encode_log_task(struct encode_thread *thread, const struct dictionary_snapshot *task);
void encode_log_place(struct encode_thread *thread, uint64_t key);

/* The log of a snapshot of this process, also of a thread that has ended; NULL: there is none. */
struct encode_log *encode_log_find(uint32_t number);
struct dictionary_bytes encode_log_bytes(const struct encode_log *log);

/* --- tasks.c ---------------------------------------------------------------------------------- */

#define TASK_UNKNOWN UINT32_MAX

enum { MOST_TASKS = 1 << 15, TASKS_NESTED = 64 };

struct task {
    struct dictionary_snapshot from; /* with the address of its place, not the key */
    uint64_t key;                    /* of its context; 0: not asked for yet */
};

struct task_state {
    struct task *tasks; /* counting from 1 */
    uint32_t count;
    uint32_t depth;
    uint32_t outer[TASKS_NESTED];
};

bool encode_tasks_begin(struct encode_thread *thread);
void encode_tasks_end(struct encode_thread *thread);

/* --- here.c ----------------------------------------------------------------------------------- */

/* All that the calling thread has for snapshots; made when the first one is taken. */
struct here_state {
    struct log_state log;
    struct task_state tasks;
    struct known_key *keys;  /* of words */
    struct dictionary other; /* of another thread or numbering, the last that was needed: */
    uint64_t other_stamp, other_bytes;
    struct memory_part {
        void *at;
        uint64_t bytes;
    } other_parts[16];
    uint32_t other_count;
};

struct known_key {
    uint64_t word;
    uint64_t task;
    uint64_t key;
    uint64_t unused;
};

enum { KNOWN_KEYS = 1 << 12 };

/* False: it has no snapshots. */
bool encode_here_ready(struct encode_thread *thread);
void encode_here_end(struct encode_thread *thread);
void encode_here_numbered(struct encode_thread *thread);

void encode_thread_made(struct thread *made); /* as in struct engine */

/* --- path.c ----------------------------------------------------------------------------------- */

/* As the header has them (include/calltrail.h). */
enum snapshot_status {
    SNAPSHOT_EMPTY = -1,         /* it was never taken */
    SNAPSHOT_OTHER_RUN = -2,     /* it is of another process */
    SNAPSHOT_NO_DICTIONARY = -3, /* that of its thread is not there */
    SNAPSHOT_DAMAGED = -4,       /* it is no context */
    SNAPSHOT_BUSY = -5           /* the engine is at work in this thread, or has no memory */
};

enum snapshot_frame_flags {
    SNAPSHOT_FRAME_CALL = 1,   /* a return address */
    SNAPSHOT_FRAME_TAIL = 2,   /* a tail call: its frame is gone */
    SNAPSHOT_FRAME_SIGNAL = 4, /* what a signal interrupted */
    SNAPSHOT_FRAME_TASK = 8,   /* from here on outwards, another thread */
    SNAPSHOT_FRAME_GAP = 16    /* the callers are not known */
};

struct snapshot_frame {
    const char *module;   /* path; NULL: none */
    const char *function; /* NULL: it has no name that is known here */
    uint64_t offset;      /* in the module; an address where there is none */
    uint32_t flags;
    uint32_t unused;
};

int calltrail_decode(const struct dictionary_snapshot *snapshot, struct snapshot_frame *frames,
                     size_t room);
uint64_t calltrail_key(const struct dictionary_snapshot *snapshot);
int calltrail_print(const struct dictionary_snapshot *snapshot, char *text, size_t room);
int calltrail_task_begin(const struct dictionary_snapshot *snapshot);
void calltrail_task_end(void);

struct encode_api {
    int (*here)(struct dictionary_snapshot *to, const void *frame, long *place);
    int (*at)(struct dictionary_snapshot *to, const void *context);
    uint64_t (*key)(const struct dictionary_snapshot *snapshot);
    int (*decode)(const struct dictionary_snapshot *snapshot, struct snapshot_frame *frames,
                  size_t room);
    int (*print)(const struct dictionary_snapshot *snapshot, char *text, size_t room);
    int (*task_begin)(const struct dictionary_snapshot *snapshot);
    void (*task_end)(void);
};

/* Gives back what was read of other dictionaries. */
void dictionary_memory_end(struct here_state *here);

/* The key of an address: of a place in the program, or a return address. */
uint64_t encode_place_key(uint64_t address);

ALWAYS_INLINE uint64_t stamp_of(const struct encode_thread *t, const struct encode_log *log)
{
    return (uint64_t)log->number << 32 | (uint32_t)t->counts->numberings;
}

#endif
