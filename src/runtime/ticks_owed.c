#include "runtime/ticks_owed.h"

#include "runtime/thread.h"

/*
 * Ticks for which there is no time or no room yet are lost if nothing better comes; the thread's
 * next sample stands for them as well, once there is room. In an arena that cannot grow they are
 * lost: it is new contexts that find no room, and the next sample would be of one that was there
 * before.
 */
void tick_owe(struct thread *t, enum arena_loss why, uint64_t ticks)
{
    if (why != LOST_NO_ROOM || !guest->arena->is_full)
        t->owed[why] += (uint32_t)ticks;
    __atomic_fetch_add((uint64_t *)&guest->arena->lost[why], ticks, __ATOMIC_RELAXED);
}

uint64_t tick_settle(struct thread *t)
{
    static const enum arena_loss reasons[] = {LOST_BUSY, LOST_NO_ROOM};
    uint64_t ticks = 0;
    bool is_short = guest->arena->wanted > guest->arena->allocated;
    if (guest->arena->is_full)
        t->owed[LOST_NO_ROOM] = 0;
    for (unsigned i = 0; i < 2; i++) {
        if (reasons[i] == LOST_NO_ROOM && is_short)
            continue;
        /* A tick may come in between, where this is asked for outside of the handler. */
        uint32_t owed = __atomic_exchange_n(&t->owed[reasons[i]], 0, __ATOMIC_RELAXED);
        if (!owed)
            continue;
        ticks += owed;
        __atomic_fetch_sub((uint64_t *)&guest->arena->lost[reasons[i]], owed, __ATOMIC_RELAXED);
    }
    t->record->merged += ticks;
    return ticks;
}
