/*
 * The time of a call that waits, less what was charged elsewhere meanwhile: handlers of the program
 * may run in it, be sampled, and wait for something themselves. Nor does it count while measuring
 * is paused. The context is found on the way in, and noted, so that a call which never returns is
 * charged with its time, too.
 */
#include "runtime/blocking.h"

#include "arch/x86_64/syscall.h"
#include "runtime/confined.h"
#include "runtime/time_stamps.h"

#include <dlfcn.h>

static int (*real_clock_gettime)(clockid_t, struct timespec *);

/* libc's asks the kernel nothing. */
void blocking_prepare(void)
{
    *(void **)&real_clock_gettime = dlsym(RTLD_NEXT, "clock_gettime");
}

static uint64_t now_ns(void)
{
    struct timespec t;
    if (!real_clock_gettime || time_stamps_are_forbidden ||
        real_clock_gettime(CLOCK_MONOTONIC, &t) != 0)
        return clock_ns(CLOCK_MONOTONIC);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* How long the thread has waited in its innermost call. */
static uint64_t waited_ns(const struct thread *t, uint64_t end_ns)
{
    const struct arena_header *a = guest->arena;
    uint64_t start_ns = t->record->waits_since_ns;
    uint64_t elsewhere_ns = t->accounted_ns - t->wait.accounted_ns;
    elsewhere_ns += arena_paused_ns(a, end_ns) - t->wait.paused_ns;
    if (a->paused && a->paused_since_ns > start_ns)
        end_ns = a->paused_since_ns; /* --duration is over */
    uint64_t passed_ns = end_ns - start_ns;
    return passed_ns > elsewhere_ns ? passed_ns - elsewhere_ns : 0;
}

void wait_was_left(struct thread *t)
{
    uint32_t node = t->record->waits_in;
    t->record->waits_in = 0;
    t->wait.at = 0;
    if (!node || is_confined())
        return;
    uint64_t ns = waited_ns(t, now_ns());
    charge_add(node, VALUE_BLOCKED_NS, ns);
    t->accounted_ns += ns;
    if (t->record->waits_events & EVENT_LOCK) {
        charge_add(node, VALUE_LOCK_NS, ns);
        charge_add(node, VALUE_LOCK_TIMES, 1);
    }
}

/*
 * The call that the thread waits in may have been left by a jump, from a handler. Then this one is
 * not deeper than that: a handler has a signal frame between them, of more than this.
 */
static void leave_outer(struct thread *t, uint64_t at)
{
    enum { LEAST_SIGNAL_FRAME = 512 };
    if (t->wait.at && at + LEAST_SIGNAL_FRAME > t->wait.at && charge_is_own_stack(t, at) &&
        charge_is_own_stack(t, t->wait.at))
        wait_was_left(t);
}

void wait_begin(struct wait *w, const void *function, uint32_t events)
{
    w->node = 0;
    struct thread *t = thread_self();
    if (!charge_wanted(events) || !t || t->of != guest || !t->record)
        return;
    leave_outer(t, (uint64_t)w);
    w->start_ns = now_ns();
    uint32_t node = charge_context(function);
    w->outer = t->wait;
    w->outer_node = t->record->waits_in;
    w->outer_events = t->record->waits_events;
    w->outer_since_ns = t->record->waits_since_ns;
    t->wait = (struct wait_began){(uint64_t)w, t->accounted_ns, guest->arena->program_paused_ns};
    t->record->waits_since_ns = w->start_ns;
    t->record->waits_events = events;
    t->record->waits_in = node;
    w->node = node;
}

void wait_end(struct wait *w)
{
    struct thread *t = thread_self();
    if (!w->node || !t || t->of != guest || !t->record || !guest->arena)
        return; /* in a child that was forked meanwhile, the node is its parent's */
    uint64_t ns = t->wait.at == (uint64_t)w ? waited_ns(t, now_ns()) : 0;
    t->record->waits_in = w->outer_node;
    t->record->waits_events = w->outer_events;
    t->record->waits_since_ns = w->outer_since_ns;
    t->wait = w->outer;
    charge_add(w->node, VALUE_BLOCKED_NS, ns);
    t->accounted_ns += ns;
}
