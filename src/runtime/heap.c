/*
 * Memory that the program asks for (-e malloc) and has in use (-e heap).
 *
 * Of all bytes that a thread asks for, in their order, one in each block of T is a point, at random
 * (T is the period). A call counts as T bytes for each point among its bytes. So every call counts,
 * on average, as what it asked for, whatever its size, and a rhythm of the program cannot hide from
 * the points. With T = 1 every byte is one. Most calls have none, and cost a subtraction.
 *
 * Memory with a point is remembered until it is freed: its address is in a table, the context that
 * asked for it has its bytes. A filter, a bit by address, tells most calls of free that they need
 * not look. The table has a lock, under which no handler of the program may run, since it
 * might ask for memory too, or never return: signals are blocked meanwhile.
 *
 * The peak. Only when the sum over all contexts is greater than ever before is there a new peak,
 * and it gets a number. Before a context's bytes change, they are saved if that has not been done
 * since the last peak. So at the end each context knows what it had at the peak: the saved bytes,
 * or, if they were not saved since, those that it has.
 */
#include "runtime/heap.h"

#include "arch/x86_64/syscall.h"
#include "base/page.h"
#include "runtime/arena.h"
#include "runtime/confined.h"
#include "runtime/modules.h"
#include "runtime/standins.h"
#include "runtime/time_stamps.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { FILTER_BITS = 1 << 20, WORD_BITS = 32, FIRST_ROOM = 4096 };

/*
 * Neighbours in memory are neighbours here: a program that frees what lies together needs few lines
 * of it in the cache. Higher bits count too, or all that is mapped by itself would have one bit, as
 * it always begins at the same place of its page.
 */
static struct {
    uint32_t maybe[FILTER_BITS / WORD_BITS];
    uint8_t count[FILTER_BITS]; /* blocks that want this bit; 255 and more stay */
} filter __attribute__((aligned(PAGE_BYTES)));

static inline uint32_t bit_of(uint64_t address)
{
    return (uint32_t)(address >> 4 ^ address >> 24) % FILTER_BITS;
}

static inline bool may_be_known(const void *memory)
{
    uint32_t bit = bit_of((uint64_t)memory);
    return filter.maybe[bit / WORD_BITS] >> bit % WORD_BITS & 1;
}

/* In the page that a fork wipes: a child has nothing of its parent's. */
static struct heap_state *state(void)
{
    return &guest->heap;
}

static uint64_t hash_of(uint64_t address)
{
    return (address >> 4) * UINT64_C(0x9e3779b97f4a7c15);
}

/* --- points ---------------------------------------------------------------------------------- */

static uint64_t random_below(const struct thread *t, uint64_t limit)
{
    uint64_t x = memory_points.random;
    x = x ? x : time_stamp_or_0() ^ (uint64_t)t->tid << 32 ^ 1;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    memory_points.random = x;
    return (uint64_t)((unsigned __int128)(x * UINT64_C(0x2545f4914f6cdd1d)) * limit >> 64);
}

/* A new block begins: so far to its point, and from there to its end. */
static void begin_block(const struct thread *t, uint64_t period, uint64_t before)
{
    uint64_t point = random_below(t, period);
    memory_points.left = before + point;
    memory_points.behind = period - 1 - point;
}

/* How many points the next so many bytes have. */
static uint64_t count_points(const struct thread *t, uint64_t bytes)
{
    uint64_t period = guest->arena->events.memory_period_bytes, points = 0;
    if (period <= 1)
        return bytes;
    if (!memory_points.random)
        begin_block(t, period, 0);
    while (bytes > memory_points.left) {
        bytes -= memory_points.left + 1;
        points++;
        uint64_t before = memory_points.behind;
        if (bytes > before) { /* and perhaps whole blocks, which have one each */
            bytes -= before;
            points += bytes / period;
            bytes %= period;
            before = 0;
        }
        begin_block(t, period, before);
    }
    memory_points.left -= bytes;
    return points;
}

/* --- the table, under its lock --------------------------------------------------------------- */

uint64_t heap_lock(void)
{
    uint64_t all = UINT64_MAX, mask = 0;
    raw_syscall4(SYS_rt_sigprocmask, SIG_SETMASK, (long)&all, (long)&mask, sizeof all);
    while (__atomic_exchange_n(&state()->lock, 1, __ATOMIC_ACQUIRE))
        raw_syscall3(SYS_sched_yield, 0, 0, 0);
    return mask;
}

void heap_unlock(uint64_t mask)
{
    __atomic_store_n(&state()->lock, 0, __ATOMIC_RELEASE);
    raw_syscall4(SYS_rt_sigprocmask, SIG_SETMASK, (long)&mask, 0, sizeof mask);
}

static struct heap_block *find_block(uint64_t address)
{
    struct heap_state *h = state();
    uint64_t mask = h->room - 1, i = hash_of(address) >> 16 & mask;
    while (h->blocks[i].address && h->blocks[i].address != address)
        i = (i + 1) & mask;
    return &h->blocks[i];
}

static bool make_room(void)
{
    struct heap_state *h = state();
    if (h->blocks && h->count * 2 < h->room)
        return true;
    struct heap_block *old = h->blocks;
    uint64_t old_room = h->room, room = old ? old_room * 2 : FIRST_ROOM;
    struct heap_block *blocks = raw_mmap(room * sizeof *blocks, PROT_READ | PROT_WRITE,
                                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
    if (!blocks)
        return false;
    if (!old) /* a child begins with none of its parent's blocks, and with an empty filter */
        raw_syscall3(SYS_madvise, (long)&filter, sizeof filter, MADV_WIPEONFORK);
    h->blocks = blocks;
    h->room = room;
    for (uint64_t i = 0; i < old_room; i++)
        if (old[i].address)
            *find_block(old[i].address) = old[i];
    if (old)
        raw_syscall3(SYS_munmap, (long)old, (long)(old_room * sizeof *old), 0);
    return true;
}

/* Closes the gap: blocks that were moved on by this one come back. */
static void remove_block(struct heap_block *gap)
{
    struct heap_state *h = state();
    uint64_t mask = h->room - 1, hole = (uint64_t)(gap - h->blocks);
    for (uint64_t i = (hole + 1) & mask; h->blocks[i].address; i = (i + 1) & mask) {
        uint64_t home = hash_of(h->blocks[i].address) >> 16 & mask;
        if (((i - home) & mask) >= ((i - hole) & mask)) {
            h->blocks[hole] = h->blocks[i];
            hole = i;
        }
    }
    h->blocks[hole].address = 0;
    h->count--;
}

void heap_change(uint64_t place, uint64_t bytes, uint64_t calls)
{
    struct arena_header *a = guest->arena;
    const struct arena_node *node = arena_at((uint32_t)place);
    uint64_t *live = node_value(a, node, VALUE_HEAP_LIVE);
    uint64_t *peak = node_value(a, node, VALUE_HEAP_PEAK);
    if (*peak != a->heap_peak) {
        *node_value(a, node, VALUE_HEAP_SAVED) = *live;
        *peak = a->heap_peak;
    }
    *live += bytes;
    *node_value(a, node, VALUE_HEAP_BLOCKS) += calls;
    a->heap_live += bytes;
    if ((int64_t)bytes > 0 && a->heap_live > a->heap_most) {
        a->heap_most = a->heap_live;
        a->heap_peak++;
    }
}

static void filter_add(uint64_t address)
{
    uint32_t bit = bit_of(address);
    filter.count[bit] = (uint8_t)(filter.count[bit] + (filter.count[bit] != UINT8_MAX));
    filter.maybe[bit / WORD_BITS] |= 1u << bit % WORD_BITS;
}

/* A count that was full is not known to be empty again. */
static void filter_remove(uint64_t address)
{
    uint32_t bit = bit_of(address);
    if (filter.count[bit] != UINT8_MAX && --filter.count[bit] == 0)
        filter.maybe[bit / WORD_BITS] &= ~(1u << bit % WORD_BITS);
}

static void forget(struct heap_block *block)
{
    filter_remove(block->address);
    heap_change(block->node, -block->bytes, -block->calls);
    remove_block(block);
}

static void remember(const struct heap_block *block)
{
    uint64_t mask = heap_lock();
    if (make_room()) {
        struct heap_block *slot = find_block(block->address);
        if (slot->address) { /* freed where no stand-in saw it */
            forget(slot);
            slot = find_block(block->address);
        }
        *slot = *block;
        state()->count++;
        filter_add(block->address);
        heap_change(block->node, block->bytes, block->calls);
    }
    heap_unlock(mask);
}

/* --- what is asked for, and given back -------------------------------------------------------- */

bool heap_charge(uint64_t address, uint64_t bytes, const void *function, struct heap_block *block)
{
    struct thread *t = thread_self();
    if (!charge_wanted(EVENTS_OF_MEMORY) || !t || t->of != guest || !t->record)
        return false;
    uint64_t period = guest->arena->events.memory_period_bytes;
    uint64_t points = count_points(t, bytes);
    if (is_confined() || (!points && period > 1))
        return false;
    *block = (struct heap_block){.address = address, .bytes = points * period};
    block->calls = period > 1 ? block->bytes * CALLS_ONE / bytes : CALLS_ONE;
    block->node = charge_context(function);
    charge_add((uint32_t)block->node, VALUE_MALLOC_BYTES, block->bytes);
    charge_add((uint32_t)block->node, VALUE_MALLOC_CALLS, block->calls);
    return block->node && (guest->arena->events.mask & EVENT_HEAP);
}

static void *count_slowly(void *memory, uint64_t bytes, const void *function)
{
    struct heap_block block;
    if (heap_charge((uint64_t)memory, bytes, function, &block))
        remember(&block);
    return memory;
}

/* Most memory has no point, which is known before it is there: then the call goes straight on. */
static inline bool has_no_point(uint64_t bytes)
{
    if (bytes >= memory_points.left)
        return false;
    memory_points.left -= bytes;
    return true;
}

static inline void *count(void *memory, uint64_t bytes, const void *function)
{
    if (has_no_point(bytes))
        return memory;
    memory_points.calls++;
    if (!memory || !charge_wanted(EVENTS_OF_MEMORY))
        return memory;
    return count_slowly(memory, bytes, function);
}

void *heap_count(void *memory, uint64_t bytes, const void *function)
{
    return count(memory, bytes, function);
}

static void give_back_slowly(void *memory, struct heap_block *was)
{
    uint64_t mask = heap_lock();
    struct heap_block *block = state()->blocks ? find_block((uint64_t)memory) : NULL;
    if (block && block->address) {
        *was = *block;
        forget(block);
    }
    heap_unlock(mask);
}

/* What was known of it, if anything, so that it can be had back. */
static inline struct heap_block give_back(void *memory)
{
    struct heap_block was = {0};
    if (may_be_known(memory) && guest->arena && !is_confined())
        give_back_slowly(memory, &was);
    return was;
}

void heap_give_back(void *memory)
{
    give_back(memory);
}

STANDS_IN_FOR(void *, malloc, (size_t))
STANDS_IN_FOR(void *, calloc, (size_t, size_t))
STANDS_IN_FOR(void *, realloc, (void *, size_t))
STANDS_IN_FOR(void, free, (void *))
STANDS_IN_FOR(void *, aligned_alloc, (size_t, size_t))
STANDS_IN_FOR(void *, memalign, (size_t, size_t))
STANDS_IN_FOR(void *, valloc, (size_t))
STANDS_IN_FOR(void *, pvalloc, (size_t))
STANDS_IN_FOR(int, posix_memalign, (void **, size_t, size_t))

bool heap_is_allocator(const void *address)
{
    const struct walk_modules *modules = guest->modules;
    uint32_t module = modules ? modules_find(modules, (uint64_t)REAL(malloc)) : UINT32_MAX;
    return module != UINT32_MAX && modules_find(modules, (uint64_t)address) == module;
}

/* The usual way is a jump to the real function, without a frame; the other ways are functions. A
 * thread that has come so far that it knows its next point has found the real functions. */
static __attribute__((noinline)) void *malloc_slowly(size_t bytes)
{
    return count(REAL(malloc)(bytes), bytes, (const void *)real_malloc);
}

EXPORTED void *malloc(size_t bytes)
{
    return has_no_point(bytes) ? real_malloc(bytes) : malloc_slowly(bytes);
}

static __attribute__((noinline)) void *calloc_slowly(size_t number, size_t each)
{
    return count(REAL(calloc)(number, each), number * each, (const void *)real_calloc);
}

EXPORTED void *calloc(size_t number, size_t each)
{
    return has_no_point(number * each) ? real_calloc(number, each) : calloc_slowly(number, each);
}

static __attribute__((noinline)) void free_slowly(void *memory)
{
    give_back(memory);
    REAL(free)(memory);
}

EXPORTED void free(void *memory)
{
    if (!real_free || may_be_known(memory))
        free_slowly(memory);
    else
        real_free(memory);
}

/* Once it has been given back, another thread may get that address: it is forgotten before. */
EXPORTED void *realloc(void *memory, size_t bytes)
{
    struct heap_block was = give_back(memory);
    void *moved = REAL(realloc)(memory, bytes);
    if (!moved && bytes && was.address)
        remember(&was);
    return count(moved, bytes, (const void *)real_realloc);
}

EXPORTED void *aligned_alloc(size_t alignment, size_t bytes)
{
    return count(REAL(aligned_alloc)(alignment, bytes), bytes, (const void *)real_aligned_alloc);
}

EXPORTED void *memalign(size_t alignment, size_t bytes)
{
    return count(REAL(memalign)(alignment, bytes), bytes, (const void *)real_memalign);
}

EXPORTED void *valloc(size_t bytes)
{
    return count(REAL(valloc)(bytes), bytes, (const void *)real_valloc);
}

EXPORTED void *pvalloc(size_t bytes)
{
    return count(REAL(pvalloc)(bytes), bytes, (const void *)real_pvalloc);
}

EXPORTED int posix_memalign(void **memory, size_t alignment, size_t bytes)
{
    int status = REAL(posix_memalign)(memory, alignment, bytes);
    if (status == 0)
        count(*memory, bytes, (const void *)real_posix_memalign);
    return status;
}
