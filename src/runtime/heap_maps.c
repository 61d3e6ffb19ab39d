/*
 * Memory that the program maps: mmap without a file. Unlike the blocks of malloc it is given back
 * by any range, which may cut a mapping short at either end or in two; what is left keeps its share
 * of the bytes. Mappings with a point are few, so the list is searched from end to end.
 *
 * Memory that may not be touched (PROT_NONE) is only a range of addresses, and no memory in use.
 */
#undef _FILE_OFFSET_BITS /* or mmap and mmap64 were one */
#include "arch/x86_64/syscall.h"
#include "base/page.h"
#include "runtime/confined.h"
#include "runtime/give_way.h"
#include "runtime/heap.h"
#include "runtime/standins.h"

#include <stdarg.h>
#include <sys/mman.h>
#include <sys/types.h>

enum { FIRST_ROOM = 1024 };

struct heap_map {
    uint64_t start, end;
    struct heap_block block;
};

/* Under the lock. */
static void add_map(const struct heap_map *map)
{
    struct heap_state *h = &guest->heap;
    if (h->map_count == h->map_room) {
        uint64_t room = h->map_room ? h->map_room * 2 : FIRST_ROOM;
        struct heap_map *maps = raw_mmap(room * sizeof *maps, PROT_READ | PROT_WRITE,
                                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
        if (!maps)
            return;
        for (uint64_t i = 0; i < h->map_count; i++)
            maps[i] = h->maps[i];
        if (h->maps)
            raw_syscall3(SYS_munmap, (long)h->maps, (long)(h->map_room * sizeof *maps), 0);
        h->maps = maps;
        h->map_room = room;
    }
    h->maps[h->map_count++] = *map;
    heap_change(map->block.node, map->block.bytes, map->block.calls);
}

/* The part [start, end) of a mapping, with its share of the bytes; the call is the first part's. */
static void add_part(const struct heap_map *map, uint64_t start, uint64_t end, bool *has_call)
{
    if (start >= end)
        return;
    struct heap_map part = {.start = start, .end = end, .block = map->block};
    part.block.bytes =
        (uint64_t)((unsigned __int128)map->block.bytes * (end - start) / (map->end - map->start));
    part.block.calls = *has_call ? 0 : map->block.calls;
    *has_call = true;
    add_map(&part);
}

static void forget_range(uint64_t start, uint64_t end)
{
    struct heap_state *h = &guest->heap;
    if (!guest->arena || !h->map_count || is_confined())
        return;
    uint64_t mask = heap_lock();
    for (uint64_t i = 0; i < h->map_count;) {
        struct heap_map map = h->maps[i];
        if (map.start >= end || start >= map.end) {
            i++;
            continue;
        }
        bool has_call = false;
        h->maps[i] = h->maps[--h->map_count];
        heap_change(map.block.node, -map.block.bytes, -map.block.calls);
        add_part(&map, map.start, start < map.start ? map.start : start, &has_call);
        add_part(&map, end > map.end ? map.end : end, map.end, &has_call);
    }
    heap_unlock(mask);
}

static void count_map(void *memory, uint64_t bytes, const void *function)
{
    struct heap_map map = {.start = (uint64_t)memory,
                           .end = (uint64_t)memory + page_round_up(bytes)};
    if (!heap_charge(map.start, bytes, function, &map.block))
        return;
    uint64_t mask = heap_lock();
    add_map(&map);
    heap_unlock(mask);
}

static void *mapped(void *memory, uint64_t bytes, int protection, int flags, const void *function,
                    const void *caller)
{
    if (memory == MAP_FAILED || !guest->arena || !(guest->arena->events.mask & EVENTS_OF_MEMORY))
        return memory;
    if (flags & (MAP_FIXED | MAP_FIXED_NOREPLACE)) /* what was there is gone */
        forget_range((uint64_t)memory, (uint64_t)memory + page_round_up(bytes));
    if ((flags & MAP_ANONYMOUS) && protection != PROT_NONE && charge_wanted(EVENTS_OF_MEMORY) &&
        !heap_is_allocator(caller))
        count_map(memory, bytes, function);
    return memory;
}

#define MAPS(name, offset_type)                                                                    \
    STANDS_IN_FOR(void *, name, (void *, size_t, int, int, int, offset_type))                      \
    EXPORTED void *name(void *at, size_t bytes, int protection, int flags, int fd,                 \
                        offset_type from)                                                          \
    {                                                                                              \
        if (!arena_give_way(at, bytes, flags))                                                     \
            return MAP_FAILED;                                                                     \
        void *memory = REAL(name)(at, bytes, protection, flags, fd, from);                         \
        return mapped(memory, bytes, protection, flags, (const void *)real_##name,                 \
                      __builtin_return_address(0));                                                \
    }

MAPS(mmap, off_t)
MAPS(mmap64, off64_t)

/* Forgotten before: another thread may get the range at once. */
STANDS_IN_FOR(int, munmap, (void *, size_t))
EXPORTED int munmap(void *memory, size_t bytes)
{
    forget_range((uint64_t)memory, (uint64_t)memory + page_round_up(bytes));
    return REAL(munmap)(memory, bytes);
}

STANDS_IN_FOR(void *, mremap, (void *, size_t, size_t, int, ...))
EXPORTED void *mremap(void *memory, size_t bytes, size_t new_bytes, int flags, ...)
{
    va_list rest;
    va_start(rest, flags);
    void *wanted = flags & MREMAP_FIXED ? va_arg(rest, void *) : NULL;
    va_end(rest);
    bool was_known = false;
    for (uint64_t i = 0; guest->arena && i < guest->heap.map_count && !was_known; i++)
        was_known = guest->heap.maps[i].start == (uint64_t)memory;
    void *moved = REAL(mremap)(memory, bytes, new_bytes, flags, wanted);
    if (moved == MAP_FAILED)
        return moved;
    forget_range((uint64_t)memory, (uint64_t)memory + page_round_up(bytes));
    forget_range((uint64_t)moved, (uint64_t)moved + page_round_up(new_bytes));
    if (was_known && charge_wanted(EVENTS_OF_MEMORY))
        count_map(moved, new_bytes, (const void *)real_mremap);
    return moved;
}
