#include "runtime/arena.h"

#include "runtime/arena_map.h"
#include "runtime/guest.h"

enum { UNIT = 8 };

/* Memory is handed out by adding to one counter. Where nothing is left, the supervisor is told how
 * much is needed. */
void *arena_take(size_t bytes)
{
    struct arena_header *arena = guest->arena;
    if (!arena)
        return NULL;
    uint64_t size = (bytes + UNIT - 1) & ~(uint64_t)(UNIT - 1);
    uint64_t at = arena->used;
    do {
        if (at + size > arena->allocated) {
            if (arena->wanted != ARENA_CANNOT_BE_MAPPED)
                arena->wanted = at + size;
            return NULL;
        }
        if (at + size > guest->arena_mapped && !arena_map_more(at + size)) {
            if (!arena_may_map(at + size))
                arena->wanted = ARENA_CANNOT_BE_MAPPED;
            return NULL;
        }
    } while (!__atomic_compare_exchange_n((uint64_t *)&arena->used, &at, at + size, false,
                                          __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return (char *)arena + at;
}

uint32_t arena_place(const void *memory)
{
    return (uint32_t)(((const char *)memory - (const char *)guest->arena) / UNIT);
}

void *arena_at(uint32_t place)
{
    return (char *)guest->arena + (uint64_t)place * UNIT;
}

void arena_count_loss(enum arena_loss why)
{
    if (guest->arena)
        __atomic_fetch_add((uint64_t *)&guest->arena->lost[why], 1, __ATOMIC_RELAXED);
}
