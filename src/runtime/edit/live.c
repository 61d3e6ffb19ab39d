/*
 * Changing code while other threads run it: live_replace, and why it is right.
 *
 * 1. Pages are swapped, bytes are never written where they are run. A copy of a page, with the new
 *    bytes, takes the place of the old one by mremap. The kernel does that with the lock of the
 *    address space held for writing: it takes the old page out, has all processors forget it (each
 *    is interrupted, which drops what it had fetched ahead), and puts the new one in. A thread that
 *    fetches an instruction there meanwhile gets a page fault and waits for the lock, in the
 *    kernel, with no signal and no system call involved. So each instruction is fetched from the
 *    old page or from the new one, whole, also where it lies on two pages, which are swapped as one
 *    piece; and a fork, which takes the same lock, copies one or the other.
 *
 * 2. So what decides is where a thread's pc can be when pages are swapped. A change is right for a
 *    thread at the start of a site: it does the old or the new instruction. It is right for all
 *    that are not in the site. It is wrong for one that is behind the site's first instruction and
 *    goes on with what are now the last bytes of another. Where the old bytes are one instruction,
 *    or no thread stands behind the first, there is no such thread, whatever the threads of the
 *    process do, and whether or not they are known: one swap does it.
 *
 * 3. Otherwise the entrance is closed first: the site's first instruction, and that one alone,
 *    becomes a jump. If the new bytes begin with a jump that is not longer, that one: it leads to
 *    where the moved instructions are. Otherwise a jump to itself, for which two bytes are enough;
 *    a site whose first instruction has one byte is refused. By 2 this is right at any time. From
 *    then on no thread gets behind the first instruction: nothing jumps there (a condition), no
 * call returns there, no thread begins there. A thread that is there goes on with the old bytes,
 *    which are all in place, and leaves after a few instructions.
 *
 * 4. Then each thread must be seen outside, once; being outside is for good by 3. What can bring a
 *    thread back is the frame of a signal that came while it was inside, and whose handler has not
 *    returned. New frames of that kind need a thread inside. So a thread that is outside, and in
 *    the frames of whose stack no such pc is saved, is out of it for good. observe.c sees both at
 *    one moment. These are all states that a thread can be in:
 *      - asleep in the kernel, or stopped: the kernel says where its pc is. It wakes there, at
 *        whatever time, and not inside. In a page fault of an instruction inside, it is inside.
 *      - running, or waiting for a processor: seen when the kernel next ticks in its user code.
 *        Signals have no part in that, so it may have blocked all of them.
 *      - in vfork: its child uses the same memory, and is no thread of this process. It is waited
 *        for until it has executed a program or ended; in vain if it is at a closed entrance.
 *      - created since: it began outside. Ending or gone: it never comes back.
 *      - the thread that makes the change: outside, but its frames are looked at; no signal is
 *        delivered to it meanwhile, so that no handler can jump out of here.
 *    When all have been seen, the rest of the bytes is swapped in: no thread is inside, and at the
 *    start there is one instruction before and after.
 *
 * 5. If time runs out first, the first instruction is put back: right by 2. It always does where a
 *    handler on top of a thread inside comes upon a jump to itself, and waits for us.
 *
 * 6. A child that is forked while an entrance is closed puts it back itself (live_forked), since
 * the thread that would do so is not there. Its only thread is on its way out of fork.
 *
 * What this does not see: processes that share the memory by clone without CLONE_THREAD, other than
 * by vfork; and contexts that a handler has copied from its frame to somewhere else and that are
 * gone back to later, as in preemptive coroutines. And where the entrance is a jump to itself, a
 * child waits there for ever that is forked in that moment without libc, by an instruction in the
 * program, or that comes upon it in libc's own way out of fork. Sites that are one instruction are
 * right in all of these, too. A page that was locked in memory is not any more.
 *
 * Costs (tests/edit/live_cost.c, two processors): 12 us for a page, with 2 threads or with 64; 1000
 * sites take 26 us on 4 pages and 0.2 ms on 100. Where threads must be seen, 0.3 ms with two of
 * them and 5 ms with 64 that mostly sleep; those that do not must each get a processor once: 90 ms
 * with 16 of them. A store into the code and membarrier take 3 us, but only for what lies in one
 * cache line, on a page that can be written and run at the same time, and on processors whose
 * makers promise that an instruction is not fetched in two halves.
 */
#include "runtime/edit/live.h"

#include "arch/x86_64/syscall.h"
#include "base/page.h"
#include "runtime/confined.h"
#include "runtime/edit/observe.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum { JUMP_BYTES = 5, SHORT_JUMP_BYTES = 2 };

/* What the sites are to hold. */
enum stage { AS_BEFORE, CLOSED, REPLACED, STAGES };

struct change {
    const struct live_text *text;
    const struct live_site *sites;
    uint32_t count;
    uint64_t start, bytes;   /* the pages from the first site to the last */
    uint64_t own_frame;      /* of the thread that makes the change */
    uint8_t *copies[STAGES]; /* of those pages; of those that no site is on, nothing but space */
};

static _Atomic uint32_t lock;
static const struct change *under_way; /* while entrances may be closed: for a child */

#ifdef LIVE_FAULTS
enum live_fault live_fault;
void (*live_seen)(void);
#endif

static void copy(uint8_t *to, const uint8_t *from, uint64_t count)
{
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(count) : : "memory");
}

static bool are_same(const uint8_t *a, const uint8_t *b, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        if (a[i] != b[i])
            return false;
    return true;
}

static uint64_t end_of(const struct live_site *s)
{
    return s->address + s->bytes;
}

static bool has_inside(const struct live_site *s)
{
    return s->first_bytes < s->bytes;
}

/* The jump that closes the entrance of a site; its length, or 0: there is none. */
static uint32_t closing_jump(const struct live_site *s, const uint8_t **jump)
{
    static const uint8_t to_itself[SHORT_JUMP_BYTES] = {0xeb, 0xfe};
    uint32_t own = s->new_bytes[0] == 0xe9   ? JUMP_BYTES
                   : s->new_bytes[0] == 0xeb ? SHORT_JUMP_BYTES
                                             : 0;
    bool fits = own && own <= s->first_bytes;
    *jump = fits ? s->new_bytes : to_itself;
    return fits ? own : s->first_bytes >= SHORT_JUMP_BYTES ? SHORT_JUMP_BYTES : 0;
}

/* --- pages ------------------------------------------------------------------------------------ */

/*
 * Each page that was swapped is a mapping of its own, and a process has room for 65,530: a quarter
 * of them may be ours. A table of those that are, with places that are found by their address.
 */
enum { MOST_SWAPPED = 16384, SWAPPED_ROOM = 2 * MOST_SWAPPED };
static uint64_t swapped[SWAPPED_ROOM];
static uint32_t swapped_count;

static uint64_t *place_of(uint64_t page)
{
    uint64_t at = page / PAGE_BYTES * UINT64_C(0x9e3779b97f4a7c15) >> 40;
    while (swapped[at % SWAPPED_ROOM] && swapped[at % SWAPPED_ROOM] != page)
        at++;
    return &swapped[at % SWAPPED_ROOM];
}

bool live_swap(const uint8_t *from, uint64_t at, uint64_t bytes)
{
    if (raw_syscall3(SYS_mprotect, (long)from, (long)bytes, PROT_READ | PROT_EXEC) < 0)
        return false;
    return raw_syscall6(SYS_mremap, (long)from, (long)bytes, (long)bytes,
                        MREMAP_MAYMOVE | MREMAP_FIXED, (long)at, 0) == (long)at;
}

/* Pages side by side that the sites from `first` on are on. Returns the first site behind them. */
static uint32_t next_run(const struct change *c, uint32_t first, uint64_t *start, uint64_t *end)
{
    *start = page_start(c->sites[first].address);
    *end = page_start(end_of(&c->sites[first]) - 1) + PAGE_BYTES;
    uint32_t i = first + 1;
    for (; i < c->count && page_start(c->sites[i].address) <= *end; i++)
        *end = page_start(end_of(&c->sites[i]) - 1) + PAGE_BYTES;
    return i;
}

static void drop(struct change *c, enum stage stage)
{
    if (c->copies[stage])
        raw_syscall3(SYS_munmap, (long)c->copies[stage], (long)c->bytes, 0);
    c->copies[stage] = NULL;
}

static uint8_t *map_copy(const struct change *c)
{
    int file = c->text ? c->text->file : -1;
    long offset = file < 0 ? 0 : (long)(c->text->offset + (c->start - c->text->start));
    long got =
        raw_syscall6(SYS_mmap, 0, (long)c->bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_NORESERVE | (file < 0 ? MAP_ANONYMOUS : 0), file, offset);
    return got > 0 ? (uint8_t *)got : NULL;
}

static void write_site(const struct live_site *s, enum stage stage, uint8_t *to)
{
    const uint8_t *jump;
    if (stage == REPLACED)
        copy(to, s->new_bytes, s->bytes);
    if (stage == CLOSED && has_inside(s) && !FAULT(FAULT_NO_CLOSE)) {
        uint32_t bytes = closing_jump(s, &jump);
        copy(to, jump, bytes);
    }
}

/* Copies of the pages as they are to be. */
static bool prepare(struct change *c, enum stage stage)
{
    uint8_t *to = c->copies[stage] = map_copy(c);
    if (!to)
        return false;
    uint64_t start, end;
    for (uint32_t i = 0; i < c->count;) {
        i = next_run(c, i, &start, &end);
        copy(to + (start - c->start), (const uint8_t *)start, end - start);
    }
    for (uint32_t i = 0; i < c->count; i++)
        write_site(&c->sites[i], stage, to + (c->sites[i].address - c->start));
    return raw_syscall3(SYS_mprotect, (long)to, (long)c->bytes, PROT_READ | PROT_EXEC) >= 0;
}

/* Some of the copies, by the addresses that they are for, are not needed any more. */
static void unmap_part(const uint8_t *copies, const struct change *c, uint64_t start, uint64_t end)
{
    if (start < end)
        raw_syscall3(SYS_munmap, (long)copies + (long)(start - c->start), (long)(end - start), 0);
}

/*
 * The copies take their places; the first `most` runs of them. Returns how many did. The holes that
 * they leave may be another thread's memory at once: what is between them is unmapped, no more.
 */
static uint32_t put(struct change *c, enum stage stage, uint32_t most)
{
    const uint8_t *copies = c->copies[stage];
    uint64_t start, end, left = c->start;
    uint32_t done = 0;
    for (uint32_t i = 0; i < c->count && done < most; done++) {
        i = next_run(c, i, &start, &end);
        unmap_part(copies, c, left, start);
        left = start;
        if (!live_swap(copies + (start - c->start), start, end - start))
            break;
        left = end;
    }
    unmap_part(copies, c, left, c->start + c->bytes);
    c->copies[stage] = NULL;
    return done;
}

/* --- the change ------------------------------------------------------------------------------- */

/* Are the sites as they should be, and can they be changed at all? */
static bool is_possible(const struct change *c, bool *needs_closing)
{
    const uint8_t *jump;
    *needs_closing = false;
    for (uint32_t i = 0; i < c->count; i++) {
        const struct live_site *s = &c->sites[i];
        if (!s->bytes || !s->first_bytes || s->first_bytes > s->bytes ||
            (i && s->address < end_of(s - 1)) ||
            !are_same((const uint8_t *)s->address, s->old_bytes, s->bytes) ||
            (has_inside(s) && !closing_jump(s, &jump)))
            return false;
        *needs_closing |= has_inside(s);
    }
    return true;
}

/* The number of runs; 0: they have too many pages. */
static uint32_t count_runs(const struct change *c)
{
    uint64_t start, end;
    uint32_t runs = 0, more = 0;
    for (uint32_t i = 0; i < c->count; runs++) {
        i = next_run(c, i, &start, &end);
        for (; start < end; start += PAGE_BYTES)
            more += !*place_of(start);
    }
    return swapped_count + more <= MOST_SWAPPED ? runs : 0;
}

/* The pages are mappings of their own from now on. */
static void note_swapped(const struct change *c)
{
    uint64_t start, end;
    for (uint32_t i = 0; i < c->count;) {
        i = next_run(c, i, &start, &end);
        for (; start < end; start += PAGE_BYTES) {
            uint64_t *place = place_of(start);
            swapped_count += !*place;
            *place = start;
        }
    }
}

#ifdef LIVE_FAULTS
/* What one must not do: a thread may fetch any mixture of the bytes. */
static bool write_in_place(const struct change *c)
{
    raw_syscall3(SYS_mprotect, (long)c->start, (long)c->bytes, PROT_READ | PROT_WRITE | PROT_EXEC);
    for (uint32_t i = 0; i < c->count; i++)
        for (uint32_t k = 0; k < c->sites[i].bytes; k++) {
            ((volatile uint8_t *)c->sites[i].address)[k] = c->sites[i].new_bytes[k];
            live_seen();
        }
    return true;
}
#endif

static bool put_all(struct change *c, enum stage stage, uint32_t runs)
{
    uint32_t done = put(c, stage, runs);
    if (done < runs && done)
        put(c, AS_BEFORE, done);
    return done == runs;
}

/* Closes, waits, and says whether the rest may come. */
static bool close_and_wait(struct change *c, uint32_t runs, uint64_t patience_ns)
{
    if (!prepare(c, CLOSED))
        return false;
    under_way = c;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (!put_all(c, CLOSED, runs))
        return false;
    if (observe_all_outside(c->sites, c->count, c->own_frame, patience_ns))
        return true;
    put(c, AS_BEFORE, runs);
    return false;
}

static bool change(struct change *c, uint64_t patience_ns)
{
    bool needs_closing;
    uint32_t runs;
    if (!is_possible(c, &needs_closing) || !(runs = count_runs(c)))
        return false;
#ifdef LIVE_FAULTS
    if (FAULT(FAULT_IN_PLACE))
        return write_in_place(c);
#endif
    /* The way back is there before it is needed. */
    bool is_ready =
        ((runs == 1 && !needs_closing) || prepare(c, AS_BEFORE)) && prepare(c, REPLACED);
    if (is_ready)
        note_swapped(c);
    bool done = is_ready && (!needs_closing || close_and_wait(c, runs, patience_ns));
#ifdef LIVE_FAULTS
    if (done && live_seen)
        live_seen();
#endif
    done = done && put_all(c, REPLACED, runs);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    under_way = NULL;
    for (unsigned i = 0; i < STAGES; i++)
        drop(c, i);
    return done;
}

bool live_replace(const struct live_text *text, const struct live_site *sites, uint32_t count,
                  uint64_t patience_ns)
{
    if (!count)
        return true;
    if (is_confined())
        return false;
    /* A handler of the program could jump out of the middle of this, or do the same itself. */
    uint64_t all = ~UINT64_C(0), before = 0;
    raw_syscall4(SYS_rt_sigprocmask, SIG_SETMASK, (long)&all, (long)&before, sizeof all);
    bool done = false;
    if (!__atomic_exchange_n((uint32_t *)&lock, 1, __ATOMIC_ACQUIRE)) {
        struct change c = {.text = text,
                           .sites = sites,
                           .count = count,
                           .own_frame = (uint64_t)__builtin_frame_address(0)};
        c.start = page_start(sites[0].address);
        c.bytes = page_start(end_of(&sites[count - 1]) - 1) + PAGE_BYTES - c.start;
        done = change(&c, patience_ns);
        __atomic_store_n((uint32_t *)&lock, 0, __ATOMIC_RELEASE);
    }
    raw_syscall4(SYS_rt_sigprocmask, SIG_SETMASK, (long)&before, 0, sizeof before);
    return done;
}

/* Is a site's entrance closed? Its other bytes are the old ones then. */
static bool is_closed(const struct live_site *s)
{
    const uint8_t *jump;
    uint32_t bytes = has_inside(s) ? closing_jump(s, &jump) : 0;
    return bytes && are_same((const uint8_t *)s->address, jump, bytes) &&
           are_same((const uint8_t *)s->address + s->first_bytes, s->old_bytes + s->first_bytes,
                    s->bytes - s->first_bytes);
}

/* The parent's copies stay: what lies where some of them were is not known. */
void live_forked(void)
{
    const struct change *parents = under_way;
    under_way = NULL;
    lock = 0;
    if (!parents || FAULT(FAULT_NOT_FORKED))
        return;
    for (uint32_t i = 0; i < parents->count; i++) {
        const struct live_site *s = &parents->sites[i];
        if (!is_closed(s))
            continue;
        struct live_site back = {s->address, (const uint8_t *)s->address, s->old_bytes,
                                 s->first_bytes, s->first_bytes};
        live_replace(parents->text, &back, 1, 0);
    }
}
