/*
 * Events that the program's own calls make: bytes, calls and times that are charged to the context
 * of the caller. Unlike samples they come in the program's own code, where anything may happen:
 *
 * - A sample may come in between. It finds that the thread is at its tree, and is taken the next
 *   time (as one for which there is no time).
 * - A handler of the program may come in between, and make calls of its own: what they cost is
 *   charged to the thread's root, and counted as without context.
 * - That handler may never come back (longjmp). Then the frame that was at the tree is gone: seen
 *   by the next call that is further up the same stack.
 *
 * Nothing here allocates, locks, or sets errno. A thread has a second set of arrays for these
 * walks, so that what the samples know of its stack, and their marks, stay as they are.
 */
#ifndef RUNTIME_CHARGE_H
#define RUNTIME_CHARGE_H

#include "runtime/thread.h"

#include <ucontext.h>

/* Is any of these events measured in this process, now? */
static inline bool charge_wanted(uint32_t events)
{
    const struct arena_header *arena = guest->arena;
    return arena && (arena->events.mask & events) && !arena->paused && !arena->program_paused &&
           !arena->is_silent;
}

/*
 * The node of the context that has called our stand-in, with the function that it stands in for as
 * its innermost frame. Where that cannot be had, the thread's root; 0 where there is not even that.
 */
uint32_t charge_context(const void *function);

/* A node below that one, for a word. */
uint32_t charge_label(uint32_t node, enum arena_label label);

/* Adds to a value of a node (0: nowhere). */
void charge_add(uint32_t node, enum arena_value value, uint64_t amount);

/* The calling thread's way through the points of memory (heap.c), in thread-local memory: every
 * call looks.
 */
struct memory_points {
    uint64_t left;   /* bytes to the next point; 0: unknown thread, or each byte is one */
    uint64_t behind; /* from there to the end of its block */
    uint64_t calls;  /* that did not simply go on, so far */
    uint64_t random; /* 0: no block has begun */
};
extern __thread struct memory_points memory_points
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* A thread that is known to the runtime begins, and ends. */
void charge_thread_begins(struct thread *thread);
void charge_thread_ends(struct thread *thread);

/* Does the address lie on the thread's own stack, as far as that is known? */
static inline bool charge_is_own_stack(const struct thread *thread, uint64_t address)
{
    return address >= thread->stack_start && address < thread->first_sp;
}

/* Is the thread in the middle of charging, seen from a signal handler that interrupted it at sp? */
bool charge_is_under_way(struct thread *thread, uint64_t sp);

#endif
