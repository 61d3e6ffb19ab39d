#include "runtime/sample/times.h"

#include "runtime/arena.h"
#include "runtime/guest.h"

/* A chunk, where that leaves contexts what they may need; and not for ever. */
static struct arena_times *take_chunk(void)
{
    struct arena_header *arena = guest->arena;
    uint64_t end = arena->used + sizeof(struct arena_times) + TIME_LEAVES_BYTES;
    if (end > arena->allocated)
        return NULL; /* the supervisor makes room ahead of use: the next ones may have it */
    uint64_t left = arena->time_chunks_left;
    do {
        if (left == 0)
            return NULL;
    } while (!__atomic_compare_exchange_n((uint64_t *)&arena->time_chunks_left, &left, left - 1,
                                          false, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return arena_take(sizeof(struct arena_times));
}

static bool has_room(const struct arena_times *times, uint64_t stamp, uint32_t entries)
{
    return times && times->count + entries <= TIME_CHUNK_ENTRIES && stamp >= times->stamp &&
           (stamp - times->stamp) >> TIME_SHIFT <= UINT32_MAX;
}

static void add(struct arena_times *times, uint32_t node, uint32_t at)
{
    times->items[times->count] = (struct arena_time){node, at};
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    times->count++; /* complete from here on */
}

void times_keep(struct thread *t, uint32_t node, uint64_t weight)
{
    uint64_t stamp = t->tick_stamp;
    uint32_t entries = weight > 1 ? 2 : 1;
    if (!guest->arena->clock_stamp)
        return; /* times are not wanted */
    if (stamp && !has_room(t->times, stamp, entries)) {
        struct arena_times *chunk = take_chunk();
        if (chunk) {
            chunk->stamp = stamp;
            chunk->next = t->record->first_times;
            t->record->first_times = arena_place(chunk);
        }
        t->times = chunk;
    }
    if (!stamp || !t->times) {
        t->record->times_lost += weight;
        return;
    }
    add(t->times, node, (uint32_t)((stamp - t->times->stamp) >> TIME_SHIFT));
    if (weight > 1)
        add(t->times, 0, (uint32_t)(weight - 1));
}
