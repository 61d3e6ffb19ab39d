/* A thread that is sampled. The structure is private memory of the process, not part of the arena.
 */
#ifndef RUNTIME_THREAD_H
#define RUNTIME_THREAD_H

#include "runtime/cct.h"
#include "runtime/guest.h"
#include "unwind/stack.h"

struct own_stack;

/* Room for frames, at first, and at most: a recursion a million deep. */
enum { THREAD_FIRST_FRAMES = 4096, THREAD_MOST_FRAMES = 1 << 20 };

struct thread {
    struct thread *next; /* in the list of all, or of those to be used again */

    /* The thread's own stack, as far as walks have seen it. Unlike a coroutine's it stays. */
    uint64_t stack_start, stack_end; /* sample_entry.S knows where these are */
    uint64_t first_sp;

    /* The outermost return address and where it lies on that stack, for heights; 0: not known. */
    struct {
        uint64_t slot, word;
    } outermost;

    struct guest *of;      /* whose it is; after a fork no guest's */
    _Atomic uint32_t busy; /* in the signal handler */
    uint32_t tid;
    bool saw_detach;                    /* it had a tick since the sites were put back */
    uint64_t ran_before_ns;             /* its time on processors when they were, for ct_pause */
    struct own_stack *own_stack;        /* that signals come to; stays for who has this next */
    struct arena_thread *record;        /* may have been another's before that has ended */
    const void *kind;                   /* the function that it began in; NULL: not known */
    char name_before[ARENA_NAME_BYTES]; /* of that one */
    bool will_go_on;                    /* it ends, and another one gets its record, */
    void *of_engine;                    /* and what the engine has for that */
    struct cct tree;
    struct thread_stack stack;
    uint64_t handler_end;        /* of the last sample, by the time stamp counter */
    uint64_t pause_ticks;        /* for so long there is none */
    uint32_t owed[ARENA_LOSSES]; /* ticks that count as lost until the next sample */
    uint32_t *nodes;             /* the tree's node of each frame of the stack */
    size_t array_bytes;          /* of the stack's arrays and the nodes, in one piece */
    struct arena_times *times;   /* where the next sample's goes; NULL: none yet */
    uint64_t tick_stamp;         /* of the current tick; 0: not known */
    uint32_t phase, base; /* the phase of the last sample, and its node: contexts begin there */

    /* For events that the program's own calls make; see charge.h. */
    struct thread *second; /* its stack and nodes only: the handler must not find ours half made */
    uint64_t charging_at;  /* the frame that is at the tree; 0: none */
    uint64_t accounted_ns; /* of wall time: samples, and calls that waited */
    struct wait_began {
        uint64_t at; /* of the innermost call that waits: in its frame; 0: none */
        uint64_t accounted_ns, paused_ns; /* of the thread, and by the program, before */
    } wait;

    /* The first sample comes after a random part of a period, so that short threads count. */
    uint64_t first_period_ns; /* 0: it has come */
    uint64_t first_cpu_ns;    /* the thread's CPU time when its event began */

    /* How the event keeps its rate; see event_keep_rate. */
    struct {
        uint64_t period_ns;     /* of the event, longer than that of the samples */
        uint64_t fired_first;   /* ticks before it began, */
        uint64_t user_first_ns; /* the thread's user time then, */
        uint64_t fired_changed; /* ticks before its period was last changed, */
        uint64_t passed_ns;     /* and what they stood for: all periods up to then */
        uint64_t look;          /* the number of ticks at which to look again */
    } rate;

    /* The mark in one of the stack's frames; only to be believed when the table agrees. */
    struct {
        bool set;
        uint32_t number, frame;
        uint32_t stamp, last_stamp;
        uint64_t slot;
        uint64_t base_slot; /* of the outermost call of the stack that it is on */
    } mark;

    /* This mapping keeps the event alive when its descriptor is closed. */
    struct perf_event_mmap_page *event_page;
    uint64_t event_bytes;
    uint64_t fired_before; /* by the event that this one follows */
    int timer;             /* -1: none */
    uint64_t counted_ns;   /* the user time that samples by a timer stand for so far */

    void *(*start)(void *); /* for a thread that is being made */
    void *argument;
    uint64_t origin[5]; /* the engine's: where it was made; zeros: not known */
};

/* The list of all threads, which does not change until it is unlocked. */
struct thread *threads_lock(void);
void threads_unlock(void);

/* No handler that began before this is still running. */
void threads_wait_for_handlers(void);

/* Its first return address; 0: not known at this time. */
uint64_t thread_stack_top(uint32_t tid);

/* More room for frames, if there is memory. What the last walk found is lost. */
bool thread_grow(struct thread *thread, uint32_t frames);

/* Notes the name that the thread has now. */
void thread_read_name(struct thread *thread);

/* Lets others run, where a system call may be made. */
void thread_give_way(void);

/* The calling thread's; NULL when it is not known. Asked at every call for memory: inline. */
extern __thread struct thread *thread_current
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

static inline struct thread *thread_self(void)
{
    return thread_current;
}

#endif
