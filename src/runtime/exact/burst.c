/*
 * Engine exact in bursts: every call is counted for a short time, then none for a longer one.
 *
 * A stub begins with one instruction that adds to exact_state.calls and goes on to the callee if
 * the sum is negative, which it is between bursts. So the number of all calls is known, whether
 * their contexts are counted or not: it says what those that are counted stand for.
 *
 * Between bursts the mirror is not written. Its tags have the burst's number in them, so that it is
 * never believed in a later one: the first call in each frame walks the stack.
 */
#include "runtime/exact/burst.h"

#include "arch/x86_64/syscall.h"
#include "runtime/confined.h"
#include "runtime/event.h"
#include "runtime/exact/exact.h"
#include "runtime/thread.h"
#include "runtime/time_stamps.h"

static const uint64_t EPOCH_STEP = UINT64_C(0x9e3779b97f4a7c15);

/* Calls up to now go to the thread's record; from here on there is a burst, or not. */
static void begin_or_end(struct thread *t, int64_t first)
{
    int64_t calls = __atomic_exchange_n(&exact_state.calls, first, __ATOMIC_RELAXED);
    struct exact_counts *counts = exact_counts_in(t->record);
    if (calls < 0)
        counts->calls_between += (uint64_t)calls - (uint64_t)BURST_NONE;
    else
        counts->calls_in_bursts += (uint64_t)calls;
}

/* Between bursts as long as the settings say, on average: never in step with the program. */
static uint64_t pause_ns(const struct thread *t)
{
    uint64_t mean_ns = guest->arena->period_ns - exact_settings()->burst_ns;
    uint64_t x = (time_stamp_or_0() + t->tid) * UINT64_C(0xbf58476d1ce4e5b9);
    return mean_ns / 2 + (x ^ x >> 29) % mean_ns;
}

void burst_tick(struct thread *t)
{
    bool begins = exact_state.calls < 0 && !is_confined();
    if (begins) {
        exact_state.epoch += EPOCH_STEP;
        exact_counts_in(t->record)->bursts++;
    }
    begin_or_end(t, begins ? 0 : BURST_NONE);
    event_once_more(t, begins ? exact_settings()->burst_ns : pause_ns(t));
}

void burst_last(struct thread *t)
{
    begin_or_end(t, BURST_NONE);
}
