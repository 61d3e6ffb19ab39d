/*
 * A program may map memory at any place that it likes, also where an arena lies that its engine
 * wants low. The arena moves then: the program gets what it asked for, and no calls are counted
 * from there on. With other threads that cannot be done, since one may be writing to it: the call
 * fails, and a message says why.
 */
#undef _FILE_OFFSET_BITS /* mmap and mmap64 are two functions */
#include "runtime/give_way.h"

#include "arch/x86_64/syscall.h"
#include "runtime/arena_map.h"
#include "runtime/confined.h"
#include "runtime/engine.h"
#include "runtime/standins.h"
#include "runtime/status.h"
#include "runtime/thread.h"
#include "runtime/threads.h"
#include "runtime/threads_ended.h"

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/types.h>

/* A pointer into the arena, which is elsewhere now. */
#define MOVE(pointer, by)                                                                          \
    ((pointer) = (pointer) ? (void *)((uint64_t)(uintptr_t)(pointer) + (by)) : NULL)

static void move_pointers(uint64_t by)
{
    MOVE(guest->arena, by);
    for (struct thread *t = threads_lock(); t; t = t->next) {
        MOVE(t->record, by);
        MOVE(t->tree.thread, by);
        MOVE(t->tree.chunk, by);
        MOVE(t->tree.slots, by);
        MOVE(t->times, by);
    }
    threads_unlock();
    threads_ended_forget(); /* no thread goes on with the records of those that have ended */
    ENGINE_CALL(arena_moved);
    guest->arena->is_too_high = ARENA_GAVE_WAY;
}

static bool move_away(void)
{
    uint64_t all = UINT64_MAX, before = 0, by;
    if (!status_is_alone()) {
        guest->arena->is_too_high = ARENA_STOOD_IN_THE_WAY;
        return false;
    }
    raw_syscall4(SYS_rt_sigprocmask, SIG_SETMASK, (long)&all, (long)&before, 8);
    bool has_moved = arena_move(&by);
    if (has_moved)
        move_pointers(by);
    raw_syscall4(SYS_rt_sigprocmask, SIG_SETMASK, (long)&before, 0, 8);
    return has_moved;
}

bool arena_give_way(const void *place, size_t bytes, int flags)
{
    uint64_t start = (uint64_t)place, end = start + bytes;
    if (!(flags & (MAP_FIXED | MAP_FIXED_NOREPLACE)) || end < start || !guest || !guest->arena ||
        is_confined() || has_borrowed_memory() || !arena_has_low(start, end) || move_away())
        return true;
    errno = ENOMEM;
    return false;
}

/* Weak: those that also see events of memory have stand-ins of their own (heap_maps.c). */
#define MAPS(name, offset_type)                                                                    \
    STANDS_IN_FOR(void *, name, (void *, size_t, int, int, int, offset_type))                      \
    __attribute__((weak)) EXPORTED void *name(void *at, size_t bytes, int protection, int flags,   \
                                              int fd, offset_type from)                            \
    {                                                                                              \
        if (!arena_give_way(at, bytes, flags))                                                     \
            return MAP_FAILED;                                                                     \
        return REAL(name)(at, bytes, protection, flags, fd, from);                                 \
    }

MAPS(mmap, off_t)
MAPS(mmap64, off64_t)
