#include "runtime/exact/exact.h"

#include "arch/x86_64/syscall.h"
#include "runtime/arena.h"
#include "runtime/confined.h"
#include "runtime/edit/called.h"
#include "runtime/edit/stubs.h"
#include "runtime/exact/agrees.h"
#include "runtime/exact/burst.h"
#include "runtime/exact/mirror.h"
#include "runtime/exact/records.h"
#include "runtime/modules.h"
#include "runtime/thread.h"
#include "unwind/memory.h"

#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum { MOST_FRAMES = 1 << 16, STACK_BYTES = 64 << 10, MOST_UNBOUND = 32, CALLEES = 1 << 13 };

/* Where every thread begins: nothing matches, so the first site of a thread takes the slow way. */
static char nothing[MIRROR_MAPPED];

#define STATE_AT_FIRST ((struct exact_state){.mirror = nothing, .calls = BURST_NONE})

__thread struct exact_state exact_state
    __attribute__((tls_model("initial-exec"))) = {.mirror = nothing, .calls = BURST_NONE};

/* A function that was called through the PLT before it was bound: what it is, is known later. */
struct unbound {
    struct arena_record *record;
    const uint64_t *got;
    uint32_t module_id; /* whose that is */
};

/* What else belongs to a thread; made when its first call comes. */
struct exact_thread {
    struct records records;
    char *mirror; /* MIRROR_SHIFT bytes before its first entry */
    struct thread *thread;
    uint32_t number;     /* not the guest's: this is the child of a fork */
    uint32_t generation; /* of the modules, when the thread ended */
    struct walk_frame *frames;
    struct walk_cache cache;
    struct unbound unbound[MOST_UNBOUND];
    uint32_t unbound_count;
    struct arena_trace_chunk *trace; /* NULL: none yet */
    struct callee callees[CALLEES];  /* by a hash of the target */
    bool busy;
    uint8_t stack[STACK_BYTES] __attribute__((aligned(16))); /* the slow path's own */
};

enum { THREAD_BYTES = sizeof(struct exact_thread) + MOST_FRAMES * sizeof(struct walk_frame) };

static __thread struct exact_thread *mine __attribute__((tls_model("initial-exec")));

void exact_forget(void)
{
    mine = NULL; /* its records are the parent's */
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
    return mine = t;
}

/* Stubs have addresses in four bytes: nothing is counted any more. */
void exact_arena_moved(void)
{
    if (mine && mine->number == guest->number)
        free_thread(mine);
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
    if (mine && mine->number == guest->number)
        return mine;
    if (without_memory == guest->number)
        return NULL;
    if (thread->of_engine)
        return go_on_with(thread->of_engine, thread);
    bool is_low = (uint64_t)guest->arena < ARENA_LOW_END;
    mine = is_confined() || !is_low ? NULL : map_private(THREAD_BYTES);
    if (!mine)
        without_memory = guest->number;
    return mine;
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
    t->number = guest->number;
    return true;
}

/* On the program's stack again: `mine` has too little. */
static void give_up(void)
{
    without_memory = guest->number;
    free_thread(mine);
    exact_forget();
}

/* --- the mirror ------------------------------------------------------------------------------- */

struct arena_record *mirror_find(uint64_t slot)
{
    return find_in_mirror(slot);
}

struct records *exact_records(void)
{
    bool counts = mine && mine->number == guest->number && !mine->busy && exact_state.arena;
    return counts ? &mine->records : NULL;
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
        if (is_plt_binder(*u.got))
            t->unbound[left++] = u;
        else
            u.record->callee = code_function_key(guest->modules, *u.got);
    }
    t->unbound_count = left;
}

void exact_forget_stack(void)
{
    if (exact_records())
        raw_syscall3(SYS_madvise, (long)mine->mirror, MIRROR_MAPPED, MADV_DONTNEED);
}

void exact_thread_ends(struct thread *thread)
{
    struct exact_thread *t = mine;
    burst_last(thread);
    mine = NULL;
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
        resolve_unbound(mine);
}

void exact_process_ends(void)
{
    if (thread_self() && thread_self()->of == guest && thread_self()->record)
        burst_last(thread_self());
    exact_resolve_unbound();
}

/* --- resynchronisation ------------------------------------------------------------------------ */

ALWAYS_INLINE struct callee *callee_place(struct exact_thread *t, uint64_t target)
{
    uint64_t h = 0;
    __asm__("crc32q %1, %0" : "+r"(h) : "r"(target));
    return &t->callees[h & (CALLEES - 1)];
}

static const struct callee *find_callee(struct exact_thread *t, uint64_t target)
{
    struct callee *c = callee_place(t, target);
    if (c->target == target && c->generation == modules_generation)
        return c;
    bool is_final;
    *c = (struct callee){.target = target};
    c->function = code_function_behind(guest->modules, target, &is_final);
    c->key = code_key(guest->modules, c->function, KEY_IS_PC);
    edited_sites_of(c->function, &c->first_site, &c->site_count);
    if (is_final)
        c->generation = modules_generation;
    return c;
}

/* How the function of a frame was entered, by the return address of the frame above it. */
static struct entered entered_by(struct exact_thread *t, uint64_t call, uint32_t call_flags,
                                 uint64_t function)
{
    const struct walk_modules *modules = guest->modules;
    struct entered how = {.site = call && !call_flags ? edited_site_behind(call) : 0,
                          .target = function,
                          .site_key = call ? code_key(modules, call, call_flags) : 0,
                          .callee = *find_callee(t, function)};
    if (!how.site)
        return how;
    how.ret = call;
    how.is_indirect = true;
    const struct edited_module *m = edited_by_site(how.site);
    const struct plan_site *s = edited_site(m, how.site);
    if (s->kind == SITE_CALL) {
        how.target = site_target(m, s);
        how.is_indirect = false;
        /* A direct call to another function, which then went on here by a tail jump. */
        if (find_callee(t, how.target)->function != function)
            how.site = 0;
    }
    if (s->flags & SITE_TO_LEAF)
        how.ret = 0;
    return how;
}

static struct walk_result walk(struct exact_thread *t, const struct walk_registers *r,
                               uint64_t restored_below, uint32_t most)
{
    struct thread *thread = t->thread;
    uint64_t sp = r->value[X86_RSP];
    bool is_known = sp >= thread->stack_start && sp < thread->stack_end;
    struct walk_memory memory = memory_of_this_process(is_known ? thread->stack_start : 0,
                                                       is_known ? thread->stack_end : 0);
    memory.restored_below = restored_below;
    memory.leave_code = exact_leave_code;
    memory.is_at_call = true;
    struct walk_result walked =
        walk_frames_cached(&t->cache, guest->modules, r, &memory, t->frames, most);
    if (walked.end == WALK_COMPLETE && memory.start <= thread->first_sp &&
        thread->first_sp < memory.end &&
        (memory.start < thread->stack_start || !thread->stack_end)) {
        thread->stack_start = memory.start;
        thread->stack_end = memory.end;
    }
    return walked;
}

static struct arena_record *entered_record(const struct arena_record *counter)
{
    return (struct arena_record *)(uintptr_t)counter->enter;
}

static void note_height(struct arena_record *record, uint32_t slot)
{
    if (record->slot != slot)
        record->flags |= RECORD_VARIES;
}

static uint64_t function_of(const struct walk_modules *modules, const struct walk_frame *f)
{
    return modules_function(modules, f->pc - !(f->flags & FRAME_IS_PC));
}

/* The innermost of the frames that the mirror knows; `count`: none. The first one it does not. */
static uint32_t find_known(const struct walk_modules *modules, const struct walk_frame *frames,
                           uint32_t count)
{
    for (uint32_t i = 1; i < count; i++) {
        if (modules_role(modules, frames[i].module) == ROLE_OURS)
            continue;
        const struct arena_record *record = mirror_find(frames[i].slot);
        if (record &&
            (record->flags & RECORD_OVERFLOW ||
             record->callee == code_key(modules, function_of(modules, &frames[i]), KEY_IS_PC)))
            return i;
    }
    return count;
}

/*
 * The record of the frame that `r` describes, by a walk of the stack to the first frame that the
 * mirror knows. What the mirror knows, it knows with the tail jumps, which no walk can see.
 */
static struct arena_record *walk_anew(struct exact_thread *t, const struct walk_registers *r,
                                      uint64_t restored_below)
{
    enum { FEW = 16, GROWTH = 16 };
    const struct walk_modules *modules = guest->modules;
    struct walk_result walked;
    uint32_t known;
    for (uint32_t most = FEW;; most *= GROWTH) {
        walked = walk(t, r, restored_below, most);
        known = find_known(modules, t->frames, walked.count);
        if (known < walked.count || walked.end != WALK_LIMIT || most == MOST_FRAMES)
            break;
    }
    struct arena_record *record = t->records.root;
    uint64_t call = 0;       /* return address of the call that led to the frame, */
    uint32_t call_flags = 0; /* or where a signal interrupted */
    if (known < walked.count)
        record = mirror_find(t->frames[known].slot);
    else if (walked.end != WALK_COMPLETE)
        record = records_gap(&t->records, walked.end);
    for (uint32_t i = known < walked.count ? known + 1 : walked.count; i-- > 0;) {
        const struct walk_frame *f = &t->frames[i];
        if (modules_role(modules, f->module) == ROLE_OURS)
            continue;
        if (i != known) {
            struct entered how = entered_by(t, call, call_flags, function_of(modules, f));
            if (i + 1 < walked.count && t->frames[i + 1].pc != call) /* one of ours is between */
                how.ret = 0;
            how.slot = (uint32_t)f->slot;
            struct arena_record *counter = records_child(&t->records, record, &how);
            note_height(counter, how.slot);
            record = entered_record(counter);
            mirror_put(f->slot, record, how.ret);
        }
        call = f->pc;
        call_flags = f->flags & FRAME_IS_PC ? KEY_IS_PC : 0;
    }
    return record;
}

/* --- the slow path ---------------------------------------------------------------------------- */

/* A call at a site, as the stub left it. */
struct call {
    const struct edited_module *module;
    const struct plan_site *site;
    uint64_t new_slot; /* of the callee's return address */
    uint64_t sp;       /* at the site */
    uint64_t slot;     /* of the function's own return address; 0: not known */
    struct entered how;
    bool is_tail;
};

/* All but the callee. */
ALWAYS_INLINE void call_at(const struct slow_frame *f, struct call *c)
{
    uint32_t number = (uint32_t)f->site;
    const struct edited_module *m = edited_by_site(number);
    const struct plan_site *s = edited_site(m, number);
    bool is_indirect = s->kind == SITE_CALL_INDIRECT || s->kind == SITE_TAIL_INDIRECT;
    c->module = m;
    c->site = s;
    c->is_tail = s->kind >= SITE_TAIL;
    c->new_slot = (uint64_t)(uintptr_t)&f->above[is_indirect];
    c->sp = c->new_slot + (c->is_tail ? 0 : 8);
    c->slot = s->slot_base == SLOT_RSP   ? c->sp + (uint64_t)(int64_t)s->slot_bytes
              : s->slot_base == SLOT_RBP ? f->rbp + (uint64_t)(int64_t)s->slot_bytes
                                         : 0;
    uint32_t offset = c->is_tail ? s->offset : s->offset + s->length;
    c->how.site = number;
    c->how.target = is_indirect ? f->above[0] : site_target(m, s);
    c->how.is_indirect = is_indirect;
    c->how.ret = m->base + offset;
    c->how.flags = c->is_tail ? RECORD_TAIL : 0;
    c->how.is_leaf = s->flags & SITE_TO_LEAF;
    c->how.slot = (uint32_t)c->new_slot;
    c->how.site_key = KEY_MAKE(m->module_id, c->is_tail ? KEY_IS_PC : 0, offset);
}

/* The record of the function whose site it is. */
static struct arena_record *find_own(struct exact_thread *t, const struct slow_frame *f,
                                     const struct call *c, enum slow_reason *why)
{
    struct arena_record *known = c->slot ? mirror_find(c->slot) : NULL;
    if (known &&
        (known == t->records.overflow || c->how.site - known->first_site < known->site_count))
        return known;
    const struct callee *function = find_callee(t, c->module->base + c->site->function);
    if (known && !known->site_count && known->callee == function->key) {
        struct arena_record *bound = records_bound(&t->records, known, function);
        if (bound) {
            mirror_put(c->slot, bound, *(const uint64_t *)c->slot);
            return bound;
        }
    }
    struct walk_registers r = registers_at_site(f, c->module->base + c->site->offset, c->sp);
    *why = SLOW_RESYNC;
    return walk_anew(t, &r, c->is_tail ? c->sp : 0);
}

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
    if (!c.is_tail)
        mirror_put(c.new_slot, entered_record(counter),
                   c.site->flags & SITE_TO_LEAF ? 0 : c.how.ret);
    else if (mirror_find(c.new_slot)) /* the frame stays */
        *record_of(c.new_slot) = entered_record(counter);
    return why;
}

static void count(const struct slow_frame *f)
{
    struct exact_thread *t = mine;
    if (!t->number && !begin(t))
        return;
    t->busy = true;
    uint32_t was_busy = t->thread->busy;
    t->thread->busy = 1; /* the modules must not change now */
    exact_counts_in(t->records.thread)->slow[count_call(t, f)]++;
    t->thread->busy = was_busy;
    exact_state.others = t->records.others;
    exact_state.others_mask = (uint64_t)(t->records.room - 1) * sizeof *t->records.others;
    t->busy = false;
}

static __attribute__((noinline)) void count_or_not(const struct slow_frame *f)
{
    struct exact_thread *t = find_or_map();
    if (!t) {
        if (mine) /* of the parent of a fork that was not seen */
            exact_forget();
    } else if (t->busy) {
        exact_counts_in(t->records.thread)->slow[SLOW_UNCOUNTED]++;
    } else {
        slow_on_stack(t->stack + STACK_BYTES, count, f);
        if (!t->number)
            give_up();
    }
}

/*
 * The usual reason to be here, a context that is new below one that is known, with signals: to mask
 * them takes longer than all the rest. What is written is in order after each instruction. The
 * record that is made counts the call and is entered: with --k none is made that would be cut.
 */
STUB_TEXT static bool count_quickly(struct exact_thread *t, const struct slow_frame *f)
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
    struct arena_record *new = records_quick_child(&t->records, own, &c.how);
    if (!new)
        return false;
    new->count++;
    if (!(c.site->flags & SITE_TO_LEAF))
        put_in_mirror(c.new_slot, new, c.how.ret);
    exact_counts_in(t->records.thread)->slow[SLOW_NEW]++;
    return true;
}

/*
 * Where the slow path is entered and left. All else is done without signals: a handler could leave
 * by longjmp; and on a stack of its own, since the program's may be a small one for signals.
 */
void exact_slow(const struct slow_frame *f) __attribute__((visibility("hidden"))) STUB_TEXT;

void exact_slow(const struct slow_frame *f)
{
    uint64_t all = UINT64_MAX, before = 0;
    if (!mine && (!guest->arena || without_memory == guest->number))
        return; /* nothing is counted, and that quickly */
    if (may_call_nothing())
        return;
    if (mine && mine->number == guest->number && exact_state.arena && !mine->busy &&
        count_quickly(mine, f))
        return;
    raw_syscall4(SYS_rt_sigprocmask, SIG_SETMASK, (long)&all, (long)&before, 8);
    count_or_not(f);
    raw_syscall4(SYS_rt_sigprocmask, SIG_SETMASK, (long)&before, 0, 8);
}
