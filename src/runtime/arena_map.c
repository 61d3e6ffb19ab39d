/*
 * Where the arena lies in the program's address space, and how much of it. The address space is the
 * program's: where it has a limit, all but a small part of that is left to it, and the child of a
 * fork has its arena in the place of its parent's.
 *
 * An arena that its engine wants low lies below 4 GB, so that an address takes four bytes; and
 * above 2 GB, where programs have nothing that asks for low memory. Those that want a fixed place
 * there want a round one, 2 GB: it is as far up as it may get large. It is mapped piece by piece,
 * all others at once, as nothing keeps the place behind them free.
 */
#include "runtime/arena_map.h"

#include "arch/x86_64/syscall.h"
#include "base/page.h"
#include "runtime/confined.h"
#include "runtime/guest.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>

enum { PIECE = 32 << 20, LEAST_BYTES = 4 << 20, PART_OF_LIMIT = 8 };

static struct {
    uint64_t start, bytes; /* in the child of a fork at first its parent's */
    uint64_t most;         /* that it may have there */
    bool is_low;
} mapped;

static uint64_t round_to_piece(uint64_t bytes)
{
    return (bytes + PIECE - 1) & ~(uint64_t)(PIECE - 1);
}

uint64_t arena_limit(void)
{
    struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};
    raw_syscall4(SYS_prlimit64, 0, RLIMIT_AS, 0, (long)&limit);
    return limit.rlim_cur;
}

/* What a limit for the address space leaves of so many bytes. */
static uint64_t within_limit(uint64_t bytes)
{
    uint64_t part = arena_limit() / PART_OF_LIMIT;
    part = part > LEAST_BYTES ? page_start(part) : LEAST_BYTES;
    return bytes < part ? bytes : part;
}

static void note(uint64_t start, uint64_t bytes, uint64_t most, bool is_low)
{
    mapped.start = start;
    mapped.bytes = guest->arena_mapped = bytes;
    mapped.most = most;
    mapped.is_low = is_low;
}

static void *map_low(int fd, uint64_t most)
{
    const uint64_t step = UINT64_C(1) << 26, first = UINT64_C(1) << 31;
    const uint64_t last = (ARENA_LOW_END - most) & ~(step - 1), parents = mapped.start;
    const uint64_t bytes = within_limit(most < PIECE ? most : PIECE);
    if (parents)
        raw_syscall3(SYS_munmap, (long)parents, (long)mapped.bytes, 0);
    mapped.start = 0;
    for (uint64_t at = mapped.is_low ? parents : last; at >= first; at -= step) {
        long got = raw_syscall6(SYS_mmap, (long)at, (long)bytes, PROT_READ | PROT_WRITE,
                                MAP_SHARED | MAP_FIXED_NOREPLACE, fd, 0);
        if (got == (long)at) {
            note(at, bytes, within_limit(ARENA_LOW_END - at), true);
            return (void *)got;
        }
        if (got > 0) /* an old kernel takes the address for a wish */
            raw_syscall3(SYS_munmap, got, (long)bytes, 0);
    }
    return NULL;
}

static void *map_anywhere(int fd, uint64_t most)
{
    uint64_t bytes = within_limit(most), parents = mapped.is_low ? 0 : mapped.start;
    if (parents && mapped.bytes < bytes)
        bytes = mapped.bytes;
    long got = raw_syscall6(SYS_mmap, (long)parents, (long)bytes, PROT_READ | PROT_WRITE,
                            MAP_SHARED | (parents ? MAP_FIXED : 0), fd, 0);
    if (got < 0)
        return NULL;
    if (parents && bytes < mapped.bytes)
        raw_syscall3(SYS_munmap, (long)(parents + bytes), (long)(mapped.bytes - bytes), 0);
    note((uint64_t)got, bytes, bytes, false);
    return (void *)got;
}

struct arena_header *arena_map(int fd, uint64_t most, bool wants_low)
{
    void *arena = wants_low ? map_low(fd, most) : NULL;
    if (!arena)
        arena = map_anywhere(fd, most);
    raw_syscall3(SYS_close, fd, 0, 0);
    return arena;
}

bool arena_map_more(uint64_t least)
{
    if (is_confined() || !mapped.start || least > mapped.most ||
        __atomic_exchange_n((uint32_t *)&guest->arena_lock, 1, __ATOMIC_ACQUIRE))
        return false; /* or another thread maps more: there is room a moment later */
    uint64_t bytes = round_to_piece(least);
    if (bytes > mapped.most)
        bytes = mapped.most;
    if (bytes > mapped.bytes) {
        if (raw_syscall4(SYS_mremap, (long)mapped.start, (long)mapped.bytes, (long)bytes, 0) > 0)
            mapped.bytes = guest->arena_mapped = bytes;
        else
            mapped.most = mapped.bytes; /* something lies behind it */
    }
    __atomic_store_n((uint32_t *)&guest->arena_lock, 0, __ATOMIC_RELEASE);
    return least <= mapped.bytes;
}

bool arena_may_map(uint64_t least)
{
    return !is_confined() && least <= mapped.most;
}

/*
 * The program has a limit for its address space from now on: what is not in use goes. Other threads
 * may be about to take memory by the size that was: they find that the counter has changed, and
 * look again.
 */
void arena_limited(void)
{
    if (within_limit(mapped.most) == mapped.most)
        return;
    while (__atomic_exchange_n((uint32_t *)&guest->arena_lock, 1, __ATOMIC_ACQUIRE))
        raw_syscall3(SYS_sched_yield, 0, 0, 0);
    uint64_t most = within_limit(mapped.most);
    uint64_t keep = most < mapped.bytes ? most : mapped.bytes;
    __atomic_store_n(&guest->arena_mapped, keep, __ATOMIC_SEQ_CST);
    uint64_t used = __atomic_add_fetch((uint64_t *)&guest->arena->used, 8, __ATOMIC_SEQ_CST);
    if (used > keep)
        keep = page_round_up(used);
    if (keep < mapped.bytes)
        raw_syscall3(SYS_munmap, (long)(mapped.start + keep), (long)(mapped.bytes - keep), 0);
    mapped.bytes = guest->arena_mapped = keep;
    mapped.most = most > keep ? most : keep;
    __atomic_store_n((uint32_t *)&guest->arena_lock, 0, __ATOMIC_RELEASE);
}

bool arena_has_low(uint64_t start, uint64_t end)
{
    return mapped.is_low && mapped.start && start < mapped.start + mapped.bytes &&
           mapped.start < end;
}

/* A second mapping of the same memory, and the first goes. It cannot become larger there. */
bool arena_move(uint64_t *by)
{
    uint64_t bytes = mapped.bytes;
    if (bytes < ARENA_WITH_FILTER_BYTES)
        bytes = within_limit(ARENA_WITH_FILTER_BYTES);
    if (bytes < mapped.bytes)
        bytes = mapped.bytes;
    long got = raw_syscall4(SYS_mremap, (long)mapped.start, 0, (long)bytes, MREMAP_MAYMOVE);
    if (got < 0)
        return false;
    raw_syscall3(SYS_munmap, (long)mapped.start, (long)mapped.bytes, 0);
    *by = (uint64_t)got - mapped.start;
    note((uint64_t)got, bytes, bytes, false);
    return true;
}
