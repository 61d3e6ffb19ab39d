/*
 * The time of a call that waits, less what was charged elsewhere meanwhile: handlers of the program
 * may run in it, be sampled, and wait for something themselves. Nor does it count while measuring
 * is paused. The context is found on the way in, and noted, so that a call which never returns is
 * charged with its time, too.
 */
#include "runtime/blocking.h"

#include "runtime/arch/x86_64/syscall.h"

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

void wait_begin(struct wait *w, const void *function, uint32_t events)
{
    w->node = 0;
    struct thread *t = thread_self();
    if (!charge_wanted(events) || !t || t->of != guest || !t->record)
        return;
    w->start_ns = now_ns();
    uint32_t node = charge_context(function);
    w->accounted_ns = t->accounted_ns;
    w->paused_ns = guest->arena->program_paused_ns;
    w->outer_node = t->record->waits_in;
    w->outer_events = t->record->waits_events;
    w->outer_since_ns = t->record->waits_since_ns;
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
    t->record->waits_in = w->outer_node;
    t->record->waits_events = w->outer_events;
    t->record->waits_since_ns = w->outer_since_ns;
    const struct arena_header *a = guest->arena;
    uint64_t end_ns = now_ns(), elsewhere_ns = t->accounted_ns - w->accounted_ns;
    elsewhere_ns += arena_paused_ns(a, end_ns) - w->paused_ns;
    if (a->paused && a->paused_since_ns > w->start_ns)
        end_ns = a->paused_since_ns; /* --duration is over */
    uint64_t passed_ns = end_ns - w->start_ns;
    uint64_t waited_ns = passed_ns > elsewhere_ns ? passed_ns - elsewhere_ns : 0;
    charge_add(w->node, VALUE_BLOCKED_NS, waited_ns);
    t->accounted_ns += waited_ns;
}
