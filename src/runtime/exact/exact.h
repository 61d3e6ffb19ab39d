/*
 * Engine `exact`: every call counted in its full context.
 *
 * A record is a calling context: a function, entered through a chain of call sites. Each thread has
 * its records in the arena, and a mirror of its stack: a table, indexed by the address of a
 * return-address slot, with the record of the frame that the slot belongs to.
 *
 * Returns have no code. At a site, the stub knows where its own function's return address lies, and
 * so where the mirror has the function's record. What is found there is right if it is for this
 * slot and for the return address in it: whatever wrote that return address last was the call at
 * that site, whose stub wrote the record at the same time. If it is not so, the stack is walked to
 * the first frame outside that the mirror knows: after a call from code that is not edited, in the
 * handler of a signal, or where two stacks share a place of the mirror. Frames that are entered
 * from code that is not edited are never known by the mirror alone.
 *
 *   engine_exact.c  when what happens
 *   counting.c      what is done at a site: the fast path, in machine code
 *   exact.c         the slow path: contexts that are new, stacks that must be walked
 *   mirror.h        what a thread knows of its stack
 *   records.c       a thread's records, and how they are found
 *   exact_walk.c    contexts by walks
 *   burst.c         counting for a short time now and then
 *   timing.c        the time in each context, and timing_stubs.c what is done for it at a site
 *   agrees.c        --verify
 *
 * The code of the program is changed by the editor (runtime/edit).
 */
#ifndef RUNTIME_EXACT_H
#define RUNTIME_EXACT_H

#include "runtime/exact/exact_format.h"
#include "runtime/guest.h"

#define ALWAYS_INLINE static inline __attribute__((always_inline))

static inline const struct exact_settings *exact_settings(void)
{
    return exact_settings_in(guest->settings);
}

#define BURST_NONE INT64_MIN

/* What stubs reach through %fs. */
struct exact_state {
    char *mirror;               /* its first tag */
    struct arena_header *arena; /* NULL: this thread does not count */
    struct other_entry *others;
    uint64_t others_mask; /* (entries - 1) * sizeof(struct other_entry) */
    int64_t calls;  /* with --burst: those since it began, or, between bursts, BURST_NONE more */
    uint64_t epoch; /* with --burst: another number for each; part of the tags */
    struct arena_record *current; /* with times: that of the function that runs; NULL: none yet */
    uint64_t last;                /* the time stamp of the last event */
};

extern __thread struct exact_state exact_state __attribute__((tls_model("initial-exec")));

void exact_forget(void); /* in a child that was forked */
void exact_arena_moved(void);
void exact_thread_ends(struct thread *thread);
void exact_process_ends(void);

/* The calling thread's records; NULL: nothing is counted now. */
struct records *exact_records(void);

/* Functions that were not bound when they were called first are known by now, perhaps. */
void exact_resolve_unbound(void);

/* What the mirror of the calling thread says holds no more. */
void exact_forget_stack(void);

/* The program pauses its measurement, and goes on. */
void exact_pauses(void);
void exact_goes_on(void);

#endif
