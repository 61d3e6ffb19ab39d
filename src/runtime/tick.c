/*
 * The signal of a thread's event: one tick of its clock. What it is for, the engine knows; this
 * sees to it that little of the program's time goes there. event.c has what makes the kernel send
 * it.
 */

#include "arch/x86_64/sample_layout.h"
#include "arch/x86_64/syscall.h"
#include "base/page.h"
#include "runtime/arena.h"
#include "runtime/blocking.h"
#include "runtime/channel_format.h"
#include "runtime/charge.h"
#include "runtime/confined.h"
#include "runtime/engine.h"
#include "runtime/event.h"
#include "runtime/masks.h"
#include "runtime/own_stack.h"
#include "runtime/sample_signal.h"
#include "runtime/ticks_owed.h"
#include "runtime/time_stamps.h"

#include <string.h>

static_assert(SAMPLE_SIGNAL_NUMBER == SAMPLE_SIGNAL && SAMPLE_ROOM < PAGE_BYTES &&
                  offsetof(struct thread, stack_start) == THREAD_STACK_START &&
                  offsetof(struct thread, stack_end) == THREAD_STACK_END &&
                  SIG_SETMASK_NUMBER == SIG_SETMASK &&
                  offsetof(struct forwarded, distance) == FORWARDED_DISTANCE &&
                  offsetof(struct forwarded, handler) == FORWARDED_HANDLER &&
                  offsetof(struct forwarded, mask) == FORWARDED_MASK &&
                  sizeof(struct forwarded) == FORWARDED_BYTES,
              "the assembly has these numbers");

/*
 * More than the last sample can have cost. What the clock says beyond that was spent on something
 * else: another thread had the processor. In time stamps, of which there are at most 5 in a ns.
 */
static uint64_t most_ticks(const struct thread *t)
{
    enum { TICKS = 5, FIXED_NS = 20000, NEW_NS = 500, KEPT_NS = 20, VERIFY_NS = 2000 };
    uint64_t all = t->stack.count, kept = t->stack.kept;
    uint64_t ns = FIXED_NS + (all - kept) * NEW_NS + kept * KEPT_NS;
    if (guest->flags & CHANNEL_VERIFY)
        ns += all * VERIFY_NS;
    return ns * TICKS;
}

/* Called by sample_entry, which has seen that there is stack for it, and whether that is ours. */
void sample_on_signal(int number, siginfo_t *info, void *context, const struct own_stack *own)
    __attribute__((visibility("hidden")));

void sample_on_signal(int number, siginfo_t *info, void *context, const struct own_stack *own)
{
    (void)number;
    uint64_t start = time_stamp_or_0();
    if (!guest->arena)
        return;
    if (own && !own_stack_has_libc_thread(own)) { /* nothing that is thread-local is there */
        arena_count_loss(LOST_NO_THREAD);
        return;
    }
    struct thread *t = own ? own->thread : thread_self();
    if (!t || t->of != guest || !t->record) {
        arena_count_loss(LOST_NO_THREAD);
        return;
    }
    event_count_fired(t);
    t->record->arrived++;
    if ((guest->arena->languages & LANGUAGE_GO) && !is_confined()) { /* it has been loaded since */
        event_stop(t);
        guest->arena->threads_not_sampled++;
        return;
    }
    if (ENGINE_ASK(false, tick, t))
        return;
    if (t->first_period_ns) {
        if (!event_first_tick(t))
            return;
        start = start ? time_stamp() : 0; /* once in a thread's life: no reason to pause after it */
    }
    uint64_t sp = (uint64_t)((const ucontext_t *)context)->uc_mcontext.gregs[REG_RSP];
    if (guest->arena->paused || guest->arena->program_paused || guest->arena->detach) {
        t->busy = 1;
        ENGINE_CALL(rests, t, sp);
        t->busy = 0;
        return;
    }
    if (!(guest->arena->events.mask & EVENTS_BY_SAMPLES))
        return;
    wait_check(t, sp);
    /* However deep the stack, little of the time is ours: the program must get on. */
    enum { SHARE = 8, SHARE_WITHOUT_ROOM = 1 };
    uint64_t ticks = t->timer < 0 ? 1 : event_timer_ticks(t, info);
    if (!ticks)
        return;
    if (start - t->handler_end < t->pause_ticks || charge_is_under_way(t, sp)) {
        tick_owe(t, LOST_BUSY, ticks);
        return;
    }
    t->busy = 1;
    t->tick_stamp = start;
    unsigned share = engine()->sample(t, context, ticks) ? SHARE : SHARE_WITHOUT_ROOM;
    t->handler_end = start ? time_stamp() : 0;
    uint64_t took = t->handler_end - start;
    t->pause_ticks = share * (took < most_ticks(t) ? took : most_ticks(t));
    t->record->handler_ticks += took;
    t->record->handler_histogram[histogram_bucket(took)]++;
    event_keep_rate(t);
    t->busy = 0;
}
