/* What the parts of engine exact share that work for one thread. */
#ifndef RUNTIME_EXACT_INSIDE_H
#define RUNTIME_EXACT_INSIDE_H

#include "runtime/edit/called.h"
#include "runtime/exact/exact.h"
#include "runtime/exact/records.h"
#include "runtime/thread.h"

enum { MOST_FRAMES = 1 << 16, STACK_BYTES = 64 << 10, MOST_UNBOUND = 32, CALLEES = 1 << 13 };

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
    bool is_timed;               /* it may read time stamps */
    bool goes;                   /* the call of the slow path is to come back to its stub */
    struct arena_record *joined; /* which the last walk came to; NULL: none that was known */
    uint8_t stack[STACK_BYTES] __attribute__((aligned(16))); /* the slow path's own */
};

enum { THREAD_BYTES = sizeof(struct exact_thread) + MOST_FRAMES * sizeof(struct walk_frame) };

extern __thread struct exact_thread *exact_mine
    __attribute__((visibility("hidden"), tls_model("initial-exec")));

/*
 * In a stub that calls come back to, from where the slow path comes back to: two jumps, and how far
 * it is from there to where calls come back. (timing_stubs.c)
 */
enum { STUB_AGAIN = 15, STUB_GO = 20, STUB_BACK = 24 };

/* A call at a site, as the stub left it. */
struct call {
    const struct edited_module *module;
    const struct plan_site *site;
    uint64_t new_slot; /* of the callee's return address */
    uint64_t sp;       /* at the site */
    uint64_t slot;     /* of the function's own return address; 0: not known */
    struct entered how;
    bool is_tail;
    bool comes_back; /* its stub has code for that, */
    uint64_t back;   /* which is there; 0: at a tail jump */
};

ALWAYS_INLINE uint64_t slot_at(const struct plan_site *s, uint64_t sp, uint64_t rbp)
{
    return s->slot_base == SLOT_RSP   ? sp + (uint64_t)(int64_t)s->slot_bytes
           : s->slot_base == SLOT_RBP ? rbp + (uint64_t)(int64_t)s->slot_bytes
                                      : 0;
}

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
    c->comes_back = (exact_settings()->flags & EXACT_TIMES) && !m->from.languages;
    c->back = 0;
    if (c->comes_back && !c->is_tail) {
        c->new_slot -= is_indirect ? 0 : 8; /* nothing has been pushed yet */
        c->back = f->stub + (uint64_t)(int64_t) * (const int32_t *)(f->stub - STUB_BACK);
    }
    c->sp = c->new_slot + (c->is_tail ? 0 : 8);
    c->slot = slot_at(s, c->sp, f->rbp);
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

ALWAYS_INLINE struct callee *callee_place(struct exact_thread *t, uint64_t target)
{
    uint64_t h = 0;
    __asm__("crc32q %1, %0" : "+r"(h) : "r"(target));
    return &t->callees[h & (CALLEES - 1)];
}

ALWAYS_INLINE struct arena_record *record_above(const struct arena_record *record)
{
    return (struct arena_record *)(void *)((char *)exact_state.arena + 8ul * record->parent);
}

/* What is known of the function at an address (exact_walk.c, as the two that follow). */
const struct callee *find_callee(struct exact_thread *thread, uint64_t target);

/*
 * The record of the frame that `registers` describe, by a walk of the stack to the first frame that
 * the mirror knows. What the mirror knows, it knows with the tail jumps, which no walk can see.
 */
struct arena_record *walk_anew(struct exact_thread *thread, const struct walk_registers *registers,
                               uint64_t restored_below);

/* The record of the function whose site it is. */
struct arena_record *find_own(struct exact_thread *thread, const struct slow_frame *frame,
                              const struct call *call, enum slow_reason *why);

static inline struct arena_record *entered_record(const struct arena_record *counter)
{
    return (struct arena_record *)(uintptr_t)counter->enter;
}

static inline void note_height(struct arena_record *record, uint32_t slot)
{
    if (record->slot != slot)
        record->flags |= RECORD_VARIES;
}

#endif
