/*
 * The time that is spent in each context, by the time stamp counter: from one event of a thread to
 * the next, an event being a counted call or the return from one.
 *
 * Time goes to one record at any moment: exact_state.current, that of the function that runs. At an
 * event the stub knows by the mirror whose function it is in, so that what is out of order is seen:
 *
 * - An exception, a longjmp, another stack or the end of a handler have left out returns. The
 *   interval up to the first event behind belongs to the function that this event is in.
 * - Code that is not edited has called, or a signal has come, and there is no record that the
 * mirror has. The interval belongs to the record that was current, if the stack leads to it.
 *
 * What is called with its own return address, because it looks at it, is a part of its caller until
 * it makes a call itself.
 */
#ifndef RUNTIME_EXACT_TIMING_H
#define RUNTIME_EXACT_TIMING_H

#include "arch/x86_64/syscall.h"
#include "runtime/exact/exact_inside.h"

/* The site's number in rcx, where what it called has come back. */
#define TIMING_RETURN 0x80000000u

static inline bool timing_is_on(void)
{
    return exact_settings()->flags & EXACT_TIMES;
}

ALWAYS_INLINE uint64_t *time_of(struct arena_record *record)
{
    return (uint64_t *)(void *)record->child_by_site;
}

/* An event: the time since the last one belongs to a record. A handler may come at any moment. */
ALWAYS_INLINE void time_passes(struct arena_record *to)
{
    uint64_t before, now;
    bool is_done = false;
    do {
        before = exact_state.last;
        now = time_stamp();
        __asm__ volatile("cmpxchgq %3, %1"
                         : "=@ccz"(is_done), "+m"(exact_state.last), "+a"(before)
                         : "r"(now)
                         : "memory");
    } while (!is_done);
    if (now > before)
        __asm__ volatile("addq %1, %0" : "+m"(*time_of(to)) : "r"(now - before) : "memory");
}

/* What has passed since is our own work, and nobody's time. */
ALWAYS_INLINE void time_skips(void)
{
    uint64_t before = exact_state.last;
    __asm__ volatile("cmpxchgq %2, %0"
                     : "+m"(exact_state.last), "+a"(before)
                     : "r"(time_stamp())
                     : "cc", "memory");
}

/* As in struct engine: no call of the thread has been counted yet. */
void timing_thread_begins(struct thread *thread);

/* The calling thread begins, or goes on; it is over, or pauses. */
void timing_begin(struct exact_thread *thread);
void timing_end(struct exact_thread *thread);

/* As in struct engine. */
void timing_time_stamps_go(void);

/* Out of order, but nothing has to be looked for: with signals. False: it is not so. */
bool timing_quickly(struct exact_thread *thread, struct slow_frame *frame);

/* A call has come back; without signals. */
void timing_come_back(struct exact_thread *thread, const struct slow_frame *frame);

/* Does a function, called by that address, look at its return address, or may it? */
bool timing_must_not(uint64_t target, uint64_t function, bool is_final);

/*
 * A tail jump to a function that looks at its return address: it is the site's own again, from
 * which the frame was called. Time goes to that frame's caller.
 */
void timing_put_back(const struct call *call, struct arena_record *own,
                     struct arena_record *entered);

/* Time goes to what is entered by a call. True: that is to come back to the stub. */
ALWAYS_INLINE bool timing_enter(struct exact_thread *t, const struct call *c,
                                struct arena_record *own, struct arena_record *entered)
{
    if (!t->is_timed)
        return false;
    bool is_timed =
        c->comes_back && !c->how.callee.is_untimed && !(entered->flags & RECORD_UNTIMED);
    if (is_timed)
        exact_state.current = entered;
    else if (c->is_tail)
        timing_put_back(c, own, entered);
    else
        exact_state.current = own;
    exact_counts_in(t->records.thread)->calls_not_timed += !is_timed;
    return is_timed;
}

#endif
