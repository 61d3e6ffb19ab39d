#include "runtime/exact/exact.h"

#include "arch/x86_64/syscall.h"
#include "runtime/arena.h"
#include "runtime/confined.h"
#include "runtime/edit/no_mirror.h"
#include "runtime/edit/stubs.h"
#include "runtime/exact/agrees.h"
#include "runtime/exact/burst.h"
#include "runtime/exact/exact_inside.h"
#include "runtime/exact/mirror.h"
#include "runtime/exact/timing.h"
#include "runtime/modules.h"
#include "unwind/memory.h"

#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

static_assert((int)MIRROR_MAPPED <= (int)NO_MIRROR_BYTES, "every thread begins with that");

#define STATE_AT_FIRST ((struct exact_state){.mirror = no_mirror, .calls = BURST_NONE})

__thread struct exact_state exact_state
    __attribute__((tls_model("initial-exec"))) = {.mirror = no_mirror, .calls = BURST_NONE};

__thread struct exact_thread *exact_mine __attribute__((tls_model("initial-exec")));

void exact_forget(void)
{
    exact_mine = NULL; /* its records are the parent's */
    exact_state = STATE_AT_FIRST;
}

static void *map_private(uint64_t bytes)
{
    return raw_mmap(bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
}

/*
 * In the child of a fork that was not seen the mirror is empty: every stub takes the slow
 * way, and none writes to the parent's arena (pitfall 42).
 */
static char *map_mirror(void)
{
    char *memory = map_private(MIRROR_MAPPED);
    if (memory)
        raw_syscall3(SYS_madvise, (long)memory, MIRROR_MAPPED, MADV_WIPEONFORK);
    return memory;
}

static void free_thread(struct exact_thread *t)
{
    records_end(&t->records);
    if (t->mirror)
        raw_syscall3(SYS_munmap, (long)t->mirror, MIRROR_MAPPED, 0);
    raw_syscall3(SYS_munmap, (long)t, THREAD_BYTES, 0);
}

/* Where a thread found no memory, later ones do not even try: every call would. */
static uint32_t without_memory; /* the guest's number */

/* What a thread that has ended left, for the one that goes on with its record. */
static struct exact_thread *go_on_with(struct exact_thread *t, struct thread *thread)
{
    thread->of_engine = NULL;
    t->thread = thread;
    t->busy = false;
    if (t->generation != modules_generation)
        records_forget_all_targets(&t->records);
    exact_state.arena = guest->arena;
    exact_state.mirror = (void *)(t->mirror + MIRROR_SHIFT);
    timing_begin(t);
    return exact_mine = t;
}

/* Stubs have addresses in four bytes: nothing is counted any more. */
void exact_arena_moved(void)
{
    if (exact_mine && exact_mine->number == guest->number)
        free_thread(exact_mine);
    exact_forget();
    without_memory = guest->number;
}

/*
 * What the calling thread has, or memory for it, in which nothing is yet. Only this is done on the
 * program's stack: of that a few hundred bytes may be left, at the first call that is counted, too.
 */
static struct exact_thread *find_or_map(void)
{
    struct thread *thread = thread_self();
    if (!guest->arena || !guest->modules || !thread || thread->of != guest || !thread->record)
        return NULL;
    if (exact_mine && exact_mine->number == guest->number)
        return exact_mine;
    if (without_memory == guest->number)
        return NULL;
    if (thread->of_engine)
        return go_on_with(thread->of_engine, thread);
    bool is_low = (uint64_t)guest->arena < ARENA_LOW_END;
    exact_mine = is_confined() || !is_low ? NULL : map_private(THREAD_BYTES);
    if (!exact_mine)
        without_memory = guest->number;
    return exact_mine;
}

/* On the stack in that memory. Its number says in the end that all is there. */
static bool begin(struct exact_thread *t)
{
    t->frames = (void *)(t + 1);
    t->thread = thread_self();
    t->mirror = map_mirror();
    exact_state.arena = guest->arena;
    if (!t->mirror || !records_begin(&t->records, t->thread->record))
        return false;
    exact_state.mirror = (void *)(t->mirror + MIRROR_SHIFT);
    timing_begin(t);
    t->number = guest->number;
    return true;
}

/* On the program's stack again: `exact_mine` has too little. */
static void give_up(void)
{
    without_memory = guest->number;
    free_thread(exact_mine);
    exact_forget();
}

/* --- the mirror ------------------------------------------------------------------------------- */

struct arena_record *mirror_find(uint64_t slot)
{
    return find_in_mirror(slot);
}

struct records *exact_records(void)
{
    bool counts =
        exact_mine && exact_mine->number == guest->number && !exact_mine->busy && exact_state.arena;
    return counts ? &exact_mine->records : NULL;
}

/* --- functions that were not bound --- */

/* Another thread may have unloaded the module, which is known a moment after it has happened. */
static bool is_loaded(const struct unbound *u)
{
    const struct walk_modules *modules = guest->modules;
    uint64_t address = (uint64_t)(uintptr_t)u->got;
    uint32_t index = modules_find(modules, address);
    return index != UINT32_MAX && modules_id(modules, index) == u->module_id &&
           memory_can_be_read(address);
}

static void resolve_unbound(struct exact_thread *t)
{
    uint32_t left = 0;
    for (uint32_t i = 0; i < t->unbound_count; i++) {
        struct unbound u = t->unbound[i];
        if (!is_loaded(&u))
            continue;
        if (is_plt_binder(*u.got)) {
            t->unbound[left++] = u;
            continue;
        }
        u.record->callee = code_function_key(guest->modules, *u.got);
        if (!find_callee(t, *u.got)->is_untimed)
            u.record->flags &= ~(uint32_t)RECORD_UNTIMED;
    }
    t->unbound_count = left;
}

void exact_forget_stack(void)
{
    if (exact_records())
        raw_syscall3(SYS_madvise, (long)exact_mine->mirror, MIRROR_MAPPED, MADV_DONTNEED);
}

void exact_thread_ends(struct thread *thread)
{
    struct exact_thread *t = exact_mine;
    burst_last(thread);
    if (t && t->number == guest->number)
        timing_end(t);
    exact_mine = NULL;
    exact_state = STATE_AT_FIRST;
    if (!t || t->number != guest->number || is_confined())
        return;
    resolve_unbound(t);
    if (!thread->will_go_on) {
        free_thread(t);
        return;
    }
    raw_syscall3(SYS_madvise, (long)t->mirror, MIRROR_MAPPED, MADV_DONTNEED);
    t->generation = modules_generation;
    thread->of_engine = t;
}

void exact_resolve_unbound(void)
{
    if (exact_records())
        resolve_unbound(exact_mine);
}

void exact_process_ends(void)
{
    if (thread_self() && thread_self()->of == guest && thread_self()->record)
        burst_last(thread_self());
    exact_resolve_unbound();
    if (exact_records() && exact_mine->is_timed && exact_state.current)
        time_passes(exact_state.current);
}

void exact_pauses(void)
{
    if (exact_records())
        timing_end(exact_mine);
}

void exact_goes_on(void)
{
    exact_forget_stack(); /* frames may have come and gone in the same places */
    if (exact_records())
        timing_begin(exact_mine);
}

/* --- the slow path ---------------------------------------------------------------------------- */

static void note_unbound(struct exact_thread *t, struct arena_record *record, const struct call *c)
{
    const uint64_t *got = (const uint64_t *)(c->module->base + c->site->got);
    if (t->unbound_count < MOST_UNBOUND)
        t->unbound[t->unbound_count++] = (struct unbound){record, got, c->module->module_id};
}

static void trace_call(struct exact_thread *t, const struct arena_record *counter)
{
    struct arena_trace_chunk *chunk = t->trace;
    if (!chunk || chunk->count == ARENA_TRACE_CALLS) {
        struct arena_trace_chunk *next = records_memory(sizeof *next);
        struct exact_counts *counts = exact_counts_in(t->records.thread);
        if (!next) {
            counts->trace_lost++;
            return;
        }
        next->next = counts->first_trace_chunk;
        counts->first_trace_chunk = arena_place(next);
        t->trace = chunk = next;
    }
    chunk->places[chunk->count] = arena_place(counter);
    chunk->count++;
}

static enum slow_reason count_call(struct exact_thread *t, const struct slow_frame *f)
{
    enum slow_reason why = SLOW_OTHER;
    resolve_unbound(t);
    struct call c;
    call_at(f, &c);
    struct arena_record *own = find_own(t, f, &c, &why);
    if (t->is_timed) /* what was current may have called by code that is not edited */
        time_passes(t->joined && t->joined == exact_state.current ? t->joined : own);
    c.how.callee = *find_callee(t, c.how.target);
    struct arena_record *counter = records_child(&t->records, own, &c.how);
    if (t->records.is_new) {
        why = why == SLOW_OTHER ? SLOW_NEW : why;
        if (c.site->got && is_plt_binder(c.how.target)) {
            note_unbound(t, counter, &c);
            if (t->records.k && entered_record(counter) != counter)
                note_unbound(t, entered_record(counter), &c);
        }
    }
    counter->count++;
    if (exact_settings()->flags & EXACT_TRACES)
        trace_call(t, counter);
    note_height(counter, c.how.slot);
    t->goes = timing_enter(t, &c, own, entered_record(counter));
    uint64_t ret = t->goes ? c.back : c.how.ret;
    if (!c.is_tail)
        mirror_put(c.new_slot, entered_record(counter), c.site->flags & SITE_TO_LEAF ? 0 : ret);
    else if (mirror_find(c.new_slot)) /* the frame stays */
        *record_of(c.new_slot) = entered_record(counter);
    return why;
}

static void count(const struct slow_frame *f)
{
    struct exact_thread *t = exact_mine;
    if (!t->number && !begin(t))
        return;
    t->busy = true;
    uint32_t was_busy = t->thread->busy;
    t->thread->busy = 1; /* the modules must not change now */
    if (f->site & TIMING_RETURN)
        timing_come_back(t, f);
    else
        exact_counts_in(t->records.thread)->slow[count_call(t, f)]++;
    t->thread->busy = was_busy;
    exact_state.others = t->records.others;
    exact_state.others_mask = (uint64_t)(t->records.room - 1) * sizeof *t->records.others;
    t->busy = false;
    if (t->is_timed)
        time_skips();
}

static __attribute__((noinline)) void count_or_not(struct slow_frame *f)
{
    struct exact_thread *t = find_or_map();
    if (!t) {
        if (exact_mine) /* of the parent of a fork that was not seen */
            exact_forget();
    } else if (t->busy) {
        exact_counts_in(t->records.thread)->slow[SLOW_UNCOUNTED]++;
    } else {
        t->goes = false;
        slow_on_stack(t->stack + STACK_BYTES, count, f);
        f->stub -= t->goes ? STUB_GO : 0;
        if (!t->number)
            give_up();
    }
}

/*
 * The usual reason to be here, a context that is new below one that is known, with signals: to mask
 * them takes longer than all the rest. What is written is in order after each instruction. The
 * record that is made counts the call and is entered: with --k none is made that would be cut.
 */
STUB_TEXT static bool count_quickly(struct exact_thread *t, struct slow_frame *f)
{
    struct call c;
    call_at(f, &c);
    struct arena_record *own = c.slot ? find_in_mirror(c.slot) : NULL;
    if (!own || c.how.site - own->first_site >= own->site_count || c.is_tail ||
        (exact_settings()->flags & (EXACT_FOLDS | EXACT_TRACES)))
        return false;
    const struct callee *callee = callee_place(t, c.how.target);
    c.how.callee = *callee;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    /* Looked at last: a handler may have changed it all while it was copied. */
    if (callee->target != c.how.target || callee->generation != modules_generation)
        return false;
    if (t->is_timed)
        time_passes(own);
    struct arena_record *new = records_quick_child(&t->records, own, &c.how);
    if (!new)
        return false;
    new->count++;
    bool goes = timing_enter(t, &c, own, new);
    if (!(c.site->flags & SITE_TO_LEAF))
        put_in_mirror(c.new_slot, new, goes ? c.back : c.how.ret);
    exact_counts_in(t->records.thread)->slow[SLOW_NEW]++;
    f->stub -= goes ? STUB_GO : 0;
    if (t->is_timed)
        time_skips();
    return true;
}

/*
 * Where the slow path is entered and left. All else is done without signals: a handler could leave
 * by longjmp; and on a stack of its own, since the program's may be a small one for signals.
 */
void exact_slow(struct slow_frame *f) __attribute__((visibility("hidden"))) STUB_TEXT;

void exact_slow(struct slow_frame *f)
{
    uint64_t all = UINT64_MAX, before = 0;
    struct exact_thread *t = exact_mine;
    bool has_begun = t && t->number == guest->number && exact_state.arena && !t->busy;
    if (!t && (!guest->arena || without_memory == guest->number))
        return; /* nothing is counted, and that quickly */
    if (has_begun && timing_is_on() && timing_quickly(t, f))
        return;
    if (may_call_nothing())
        return;
    if (has_begun && !(f->site & TIMING_RETURN) && count_quickly(t, f))
        return;
    raw_syscall4(SYS_rt_sigprocmask, SIG_SETMASK, (long)&all, (long)&before, 8);
    count_or_not(f);
    raw_syscall4(SYS_rt_sigprocmask, SIG_SETMASK, (long)&before, 0, 8);
}
