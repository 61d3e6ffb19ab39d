/* A thread that is sampled. The structure is private memory of the process, not part of the arena.
 */
#ifndef RUNTIME_THREAD_H
#define RUNTIME_THREAD_H

#include "runtime/cct.h"
#include "runtime/process.h"
#include "runtime/stack.h"

enum { THREAD_MOST_FRAMES = 8192 };

struct thread {
    struct thread *next;   /* in the list of all, or of those to be used again */
    struct guest *of;      /* whose it is; after a fork nobody's */
    _Atomic uint32_t busy; /* in the signal handler */
    uint32_t tid;
    struct arena_thread *record;
    struct tree tree;
    struct thread_stack stack;
    uint64_t handler_end, handler_ticks; /* of the last sample, by the time stamp counter */
    uint32_t *nodes;                     /* the tree's node of each frame of the stack */

    /* The thread's own stack, as far as walks have seen it. Unlike a coroutine's it stays. */
    uint64_t first_sp, stack_start, stack_end;

    void *event_page; /* keeps the perf event alive when its descriptor is closed */
    int event_fd;     /* -1: closed */
    int timer;        /* -1: none */

    void *(*start)(void *); /* for a thread that is being made */
    void *argument;
};

/* Notes the name that the thread has now. */
void thread_read_name(struct thread *thread);

/* The calling thread's; NULL when it is not known. */
struct thread *thread_self(void);

#endif
