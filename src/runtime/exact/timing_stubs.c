/*
 * The code that counts and reads the time, in the stub of a site. The site has become a jump, and
 * what is called comes back to the stub:
 *
 *     push rax, rcx, rdx                                              again:
 *     rcx = the record of the site's function, as in counting.c       or slow
 *     is that the one which time goes to now?                         or slow
 *     rdx = the time since the last event; that is now                or slow
 *     it belongs to the record in rcx
 *     rax = the record of the callee, in the site's place             or slow
 *     may its function be called from here?                           or slow
 *     count; the callee's slot has this record now, and time goes to it
 *     pop rdx, rcx, rax
 *     call the callee
 *     push rax, the flags, rcx, rdx                                   back:
 *     rcx = the record of the site's function                         or slow
 *     has the callee's slot the record which time goes to now?        or slow
 *     the time since the last event belongs to that
 *     time goes to the record in rcx now
 *     pop rdx, rcx, the flags, rax
 *     jump behind the site
 *
 * Whatever is out of order leads to the slow path, and there it is found out why (timing.c): a
 * longjmp or an exception has left out returns, the stack is another one, a signal has come.
 *
 * A handler of a signal may come at any moment, with calls of its own. The moment of the last event
 * is changed by one instruction, which finds out whether it is still what was read: so each
 * interval is charged once.
 *
 * The slow path comes back to one of two jumps in front of its call: to go on as the fast one, or
 * to begin again. Otherwise it comes back behind its call, and the callee is called with the site's
 * own return address: where it looks at that, and wherever nothing is known. The time of such
 * calls is their caller's.
 *
 * At a return, registers are results, and flags may be: all are kept.
 */
#include "runtime/exact/timing_stubs.h"

#include "runtime/exact/counting.h"
#include "runtime/exact/counting_code.h"
#include "runtime/exact/timing.h"

enum { RECORD_TIME = RECORD_CHILD };

static_assert(RECORD_TIME <= INT8_MAX, "one byte");

/* Jumps whose targets come later, and places that others lead back to. */
struct ways {
    uint8_t *to_slow[10];
    unsigned slow_count;
    uint8_t *to_others;    /* another callee than the first; NULL: the site is direct */
    uint8_t *in_tag;       /* lea rdx, [back]; NULL: none */
    uint8_t *back;         /* where a call comes back to */
    uint8_t *begin;        /* of the stub */
    uint8_t *counted, *go; /* the record is in rax; all is done */
    struct row_now saved;  /* three registers are on the stack */
};

static void slow_if(struct emitter *e, struct ways *w, uint8_t condition)
{
    w->to_slow[w->slow_count++] = emit_near(e, condition);
}

/* A jump whose target comes later. */
static uint8_t *emit_forward(struct emitter *e)
{
    EMIT(e, "\xe9");
    emit_u32(e, 0);
    return e->at;
}

enum { IF_BELOW = 0x82, IF_EQUAL = 0x84, IF_NOT_EQUAL = 0x85 };

static void emit_mask_and_mirror(struct emitter *e, bool in_rdx)
{
    EMIT(e, "\x81"); /* and ecx or edx, mask */
    emit_u8(e, in_rdx ? 0xe2 : 0xe1);
    emit_u32(e, MIRROR_MASK);
    EMIT(e, "\x64\x48\x03"); /* add rcx or rdx, fs:[mirror] */
    emit_u8(e, in_rdx ? 0x14 : 0x0c);
    EMIT(e, "\x25");
    emit_fs(e, &exact_state.mirror);
}

/* rcx = the record of the site's function. */
static void emit_find_own(struct emitter *e, const struct edited_module *m,
                          const struct plan_site *s, int32_t pushed, struct ways *w)
{
    emit_own_slot(e, s, pushed);
    EMIT(e, "\x89\xc1"); /* mov ecx, eax */
    emit_mask_and_mirror(e, false);
    EMIT(e, "\x48\x03\x00"   /* add rax, [rax] */
            "\x48\x39\x01"); /* cmp [rcx], rax */
    slow_if(e, w, IF_NOT_EQUAL);
    EMIT(e, "\x48\x8b\x89"); /* mov rcx, [rcx + records] */
    emit_u32(e, MIRROR_RECORDS);
    EMIT(e, "\x81\x79"); /* cmp dword [rcx + first_site], this function's */
    emit_u8(e, RECORD_FIRST);
    emit_u32(e, m->first_site + s->first_rank);
    slow_if(e, w, IF_NOT_EQUAL);
}

/* rdx = the time since the last event, which is now. Changes rax. */
static void emit_time(struct emitter *e, struct ways *w)
{
    EMIT(e, "\x0f\x31"               /* rdtsc */
            "\x48\xc1\xe2\x20"       /* shl rdx, 32 */
            "\x48\x09\xc2"           /* or rdx, rax */
            "\x64\x48\x8b\x04\x25"); /* mov rax, fs:[last] */
    emit_fs(e, &exact_state.last);
    EMIT(e, "\x48\x39\xc2"); /* cmp rdx, rax: has a handler come in between? */
    slow_if(e, w, IF_BELOW);
    EMIT(e, "\x64\x48\x0f\xb1\x14\x25"); /* cmpxchg fs:[last], rdx */
    emit_fs(e, &exact_state.last);
    slow_if(e, w, IF_NOT_EQUAL);
    EMIT(e, "\x48\x29\xc2"); /* sub rdx, rax */
}

static void emit_set_current(struct emitter *e, bool to_rcx)
{
    EMIT(e, "\x64\x48\x89"); /* mov fs:[current], rax or rcx */
    emit_u8(e, to_rcx ? 0x0c : 0x04);
    EMIT(e, "\x25");
    emit_fs(e, &exact_state.current);
}

/* From rsp, behind three registers. */
static unsigned new_slot_at(const struct plan_site *s)
{
    return is_indirect(s) ? 32 : is_tail(s) ? 24 : 16;
}

static void emit_height(struct emitter *e, const struct plan_site *s)
{
    if (!(exact_settings()->flags & EXACT_HEIGHTS))
        return;
    EMIT(e, "\x8d\x4c\x24"); /* lea ecx, [rsp + …] */
    emit_u8(e, new_slot_at(s));
    EMIT(e, "\x39\x48"); /* cmp [rax + slot], ecx */
    emit_u8(e, RECORD_SLOT);
    uint8_t *same = emit_short(e, 0x74);
    EMIT(e, "\x83\x48"); /* or dword [rax + flags], varies */
    emit_u8(e, RECORD_FLAGS);
    emit_u8(e, RECORD_VARIES);
    land(e, same);
}

/* The record in rax becomes that of the callee's frame, or of this one, after a tail jump. */
static void emit_enter(struct emitter *e, const struct plan_site *s, struct ways *w)
{
    if (is_tail(s) || enters_another()) {
        EMIT(e, "\x8b\x40"); /* mov eax, [rax + enter] */
        emit_u8(e, RECORD_ENTER);
    }
    emit_set_current(e, false);
    if ((s->flags & SITE_TO_LEAF) && !is_tail(s)) /* it never looks for its record */
        return;
    EMIT(e, "\x8d\x4c\x24"); /* lea ecx, [rsp + …] */
    emit_u8(e, new_slot_at(s));
    emit_mask_and_mirror(e, false);
    EMIT(e, "\x48\x89\x81"); /* mov [rcx + records], rax */
    emit_u32(e, MIRROR_RECORDS);
    if (is_tail(s))
        return;
    EMIT(e, "\x48\x8d\x15\x00\x00\x00\x00"); /* lea rdx, [back] */
    w->in_tag = e->at;
    EMIT(e, "\x48\x8d\x44\x14"); /* lea rax, [rsp + rdx + …]: the slot's tag */
    emit_u8(e, new_slot_at(s));
    EMIT(e, "\x48\x89\x01"); /* mov [rcx], rax */
}

static void emit_pops(struct emitter *e)
{
    emit_pop_rdx(e);
    emit_pop_rcx(e);
    emit_pop_rax(e);
}

/* Calls the callee, or goes on to it. */
static void emit_go(struct emitter *e, const struct edited_module *m, const struct plan_site *s)
{
    emit_pops(e);
    if (is_tail(s)) {
        emit_leave(e, m, s);
    } else if (is_indirect(s)) {         /* no signal writes to the 128 bytes below rsp */
        EMIT(e, "\x48\x8d\x64\x24\x10"); /* lea rsp, [rsp + 16] */
        emit_words(e, -2);
        EMIT(e, "\xff\x54\x24\xf0"); /* call [rsp - 16] */
    } else if (s->got) {
        EMIT(e, "\xff\x15"); /* call [got] */
        emit_relative(e, (const uint8_t *)m->base + s->got);
    } else {
        EMIT(e, "\xe8"); /* call the target */
        emit_relative(e, (const uint8_t *)m->base + s->target);
    }
}

static void emit_fast(struct emitter *e, const struct edited_module *m, const struct plan_site *s,
                      struct ways *w)
{
    const int32_t pushed = 24 + (is_indirect(s) ? (is_tail(s) ? 8 : 16) : 0);
    emit_find_own(e, m, s, pushed, w);
    EMIT(e, "\x64\x48\x3b\x0c\x25"); /* cmp rcx, fs:[current] */
    emit_fs(e, &exact_state.current);
    slow_if(e, w, IF_NOT_EQUAL);
    emit_time(e, w);
    EMIT(e, "\x48\x01\x51"); /* add [rcx + time], rdx */
    emit_u8(e, RECORD_TIME);
    EMIT(e, "\x8b"); /* mov eax, [rcx + the site's place] */
    emit_distance(e, FROM_RCX, -1, place_in_record(s));
    EMIT(e, "\x85\xc0"); /* test eax, eax */
    slow_if(e, w, IF_EQUAL);
    if (is_indirect(s)) {
        EMIT(e, "\x48\x8b\x54\x24\x18" /* mov rdx, [rsp + 24]: target */
                "\x48\x39\x50");       /* cmp [rax + target], rdx */
        emit_u8(e, RECORD_TARGET);
        w->to_others = emit_near(e, IF_NOT_EQUAL);
    }
    w->counted = e->at;
    EMIT(e, "\xf6\x40"); /* test byte [rax + flags], untimed */
    emit_u8(e, RECORD_FLAGS);
    emit_u8(e, RECORD_UNTIMED);
    slow_if(e, w, IF_NOT_EQUAL);
    EMIT(e, "\x48\xff\x40"); /* inc qword [rax + count] */
    emit_u8(e, RECORD_COUNT);
    emit_height(e, s);
    emit_enter(e, s, w);
}

/* With the registers on the stack; the site's number goes to rcx. */
static void emit_slow_call(struct emitter *e, const struct edited_module *m, uint32_t site)
{
    EMIT(e, "\xb9"); /* mov ecx, site */
    emit_u32(e, site);
    EMIT(e, "\xe8"); /* call the common code */
    emit_relative(e, m->stubs);
}

/* A call with the site's own return address. */
static void emit_as_it_was(struct emitter *e, const struct edited_module *m,
                           const struct plan_site *s)
{
    const uint64_t address = m->base + s->offset + s->length;
    emit_pops(e);
    if (!is_indirect(s)) {
        EMIT(e, "\x68\x00\x00\x00\x00"); /* push 0: room for it */
        emit_words(e, 1);
    }
    const unsigned at = is_indirect(s) ? 8 : 0;
    EMIT(e, "\xc7\x44\x24"); /* mov dword [rsp + …], … */
    emit_u8(e, at);
    emit_u32(e, (uint32_t)address);
    EMIT(e, "\xc7\x44\x24"); /* mov dword [rsp + …], … */
    emit_u8(e, at + 4);
    emit_u32(e, (uint32_t)(address >> 32));
    emit_leave(e, m, s);
}

/* The slow path, and the jumps in front of its call that it may come back to: timing.h knows where
 * they are. */
static void emit_slow(struct emitter *e, const struct edited_module *m, const struct plan_site *s,
                      struct ways *w)
{
    uint8_t *not_there[2];
    if (w->to_others) {
        emit_row(e, w->saved);
        land_near(e, w->to_others);
        emit_others(e, s, not_there);
        emit_jump(e, w->counted);
        w->to_slow[w->slow_count++] = not_there[0];
        w->to_slow[w->slow_count++] = not_there[1];
    }
    emit_row(e, w->saved);
    uint8_t *distance = e->at;
    emit_u32(e, 0);
    emit_jump(e, w->go);
    uint8_t *again = emit_forward(e);
    for (unsigned i = 0; i < w->slow_count; i++)
        land_near(e, w->to_slow[i]);
    emit_slow_call(e, m, m->first_site + s->rank);
    struct emitter at_distance = {.at = distance};
    emit_u32(&at_distance, is_tail(s) ? 0 : (uint32_t)(w->back - e->at));
    if (is_tail(s))
        emit_jump(e, w->go);
    else
        emit_as_it_was(e, m, s);
    emit_row(e, w->saved);
    land_near(e, again);
    emit_pops(e);
    emit_jump(e, w->begin);
}

/* Takes rdx, rcx, the flags and rax from the stack, and goes on behind the site. */
static void emit_go_back(struct emitter *e, const struct edited_module *m,
                         const struct plan_site *s)
{
    emit_pop_rdx(e);
    emit_pop_rcx(e);
    EMIT(e, "\x58"); /* pop rax */
    emit_words(e, -1);
    EMIT(e, "\x04\x7f" /* add al, 127: the overflow flag */
            "\x9e");   /* sahf */
    emit_pop_rax(e);
    emit_jump(e, (const uint8_t *)m->base + s->offset + s->length);
}

/* Takes flags for registers that are on the stack: rax is there already. */
static void emit_push_results(struct emitter *e, const struct plan_site *s)
{
    emit_row(e, row_of(0, s->length - 1, ROW_RETURNS));
    EMIT(e, "\x50"); /* push rax */
    struct row_now row = row_of(1, s->length, 0);
    row.low |= UINT64_C(1) << LOW_RAX;
    emit_row(e, row);
    EMIT(e, "\x9f"         /* lahf */
            "\x0f\x90\xc0" /* seto al */
            "\x50");       /* push rax */
    emit_words(e, 1);
    emit_push_rcx(e);
    emit_push_rdx(e);
}

/* rdx = the record of what comes back. */
static void emit_find_callee(struct emitter *e, const struct plan_site *s, unsigned pushed)
{
    if (s->flags & SITE_TO_LEAF) { /* the mirror is not told of such */
        EMIT(e, "\x8b");           /* mov edx, [rcx + the site's place] */
        emit_distance(e, FROM_RCX | 2 << 3, -1, place_in_record(s));
        return;
    }
    EMIT(e, "\x8d\x54\x24"); /* lea edx, [rsp + …]: the slot */
    emit_u8(e, pushed - 8);
    emit_mask_and_mirror(e, true);
    EMIT(e, "\x48\x8b\x92"); /* mov rdx, [rdx + records] */
    emit_u32(e, MIRROR_RECORDS);
}

static void emit_back(struct emitter *e, const struct edited_module *m, const struct plan_site *s,
                      uint8_t *in_tag)
{
    enum { PUSHED = 32 };
    struct ways w = {0};
    if (in_tag)
        land_near(e, in_tag);
    emit_push_results(e, s);
    w.saved = e->now;
    if (s->slot_base != SLOT_UNKNOWN) {
        emit_find_own(e, m, s, PUSHED, &w);
        emit_find_callee(e, s, PUSHED);
        EMIT(e, "\x64\x48\x3b\x14\x25"); /* cmp rdx, fs:[current] */
        emit_fs(e, &exact_state.current);
        slow_if(e, &w, IF_NOT_EQUAL);
        const unsigned before = w.slow_count;
        EMIT(e, "\x52"); /* push rdx */
        emit_words(e, 1);
        const struct row_now with_callee = e->now;
        emit_time(e, &w);
        EMIT(e, "\x58"); /* pop rax */
        emit_words(e, -1);
        EMIT(e, "\x48\x01\x50"); /* add [rax + time], rdx */
        emit_u8(e, RECORD_TIME);
        emit_set_current(e, true);
        emit_go_back(e, m, s);
        emit_row(e, with_callee);
        while (w.slow_count > before)
            land_near(e, w.to_slow[--w.slow_count]);
        EMIT(e, "\x48\x8d\x64\x24\x08"); /* lea rsp, [rsp + 8] */
    }
    emit_row(e, w.saved);
    while (w.slow_count)
        land_near(e, w.to_slow[--w.slow_count]);
    emit_slow_call(e, m, (m->first_site + s->rank) | TIMING_RETURN);
    emit_go_back(e, m, s);
}

/* Half a million times for a large program: with a copy of the emitter, whose pointer is in a
 * register then. */
static void write_stub(struct emitter *emitter, const struct edited_module *m,
                       const struct plan_site *s)
{
    struct emitter copy = *emitter, *e = &copy;
    struct ways w = {.begin = e->at};
    emit_push_rax(e);
    emit_push_rcx(e);
    emit_push_rdx(e);
    w.saved = e->now;
    if (s->slot_base != SLOT_UNKNOWN)
        emit_fast(e, m, s, &w);
    else
        w.to_slow[w.slow_count++] = emit_forward(e);
    w.go = e->at;
    emit_go(e, m, s);
    w.back = e->at;
    if (!is_tail(s))
        emit_back(e, m, s, w.in_tag);
    emit_slow(e, m, s, &w);
    *emitter = copy;
}

/* Code that is found by its return addresses, by a runtime of its own, is counted alone. */
static bool comes_back(const struct edited_module *m, const struct plan_site *s)
{
    (void)s;
    return !m->from.languages;
}

static void write_site(struct emitter *e, const struct edited_module *m, const struct plan_site *s)
{
    if (m->from.languages)
        counting_stubs.site(e, m, s);
    else
        write_stub(e, m, s);
}

static uint32_t most_bytes(const struct plan_site *s)
{
    enum { ALL = 640, TABLE = 192 };
    return is_indirect(s) ? ALL + TABLE : ALL;
}

const struct stub_writer timing_stubs = {.most_bytes = most_bytes,
                                         .comes_back = comes_back,
                                         .common = counting_common,
                                         .site = write_site};
