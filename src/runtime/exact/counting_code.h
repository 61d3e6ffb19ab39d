/* What the stubs that count are made of, with the time of calls or without. */
#ifndef RUNTIME_EXACT_COUNTING_CODE_H
#define RUNTIME_EXACT_COUNTING_CODE_H

#include "runtime/edit/edited.h"
#include "runtime/edit/emit.h"
#include "runtime/edit/stubs.h"
#include "runtime/exact/exact.h"
#include "runtime/exact/mirror.h"

enum {
    RECORD_ENTER = offsetof(struct arena_record, enter),
    RECORD_COUNT = offsetof(struct arena_record, count),
    RECORD_FIRST = offsetof(struct arena_record, first_site),
    RECORD_SITES = offsetof(struct arena_record, site_count),
    RECORD_TARGET = offsetof(struct arena_record, target),
    RECORD_SLOT = offsetof(struct arena_record, slot),
    RECORD_FLAGS = offsetof(struct arena_record, flags),
    RECORD_CHILD = offsetof(struct arena_record, child_by_site)
};

enum { FROM_RCX = 1, FROM_RSP = 4, FROM_RBP = 5, SIB_RSP = 0x24 }; /* in a ModRM byte */

ALWAYS_INLINE bool is_tail(const struct plan_site *s)
{
    return s->kind >= SITE_TAIL;
}

ALWAYS_INLINE bool is_indirect(const struct plan_site *s)
{
    return s->kind == SITE_CALL_INDIRECT || s->kind == SITE_TAIL_INDIRECT;
}

/*
 * May a call enter another record than the one that counts it? With --fold-recursion that of an
 * earlier call, with --k one below fewer callers. After a tail jump that may always be so.
 */
ALWAYS_INLINE bool enters_another(void)
{
    return (exact_settings()->flags & EXACT_FOLDS) || exact_settings()->k;
}

/* Where the site's place is in a record of its function. */
ALWAYS_INLINE int32_t place_in_record(const struct plan_site *s)
{
    const uint32_t first = arena_record_first_place(exact_settings());
    return (int32_t)(RECORD_CHILD + 4 * (first + s->rank - s->first_rank));
}

/* lea rax, [the function's own slot], with `pushed` bytes on the stack that were not there before.
 */
ALWAYS_INLINE void emit_own_slot(struct emitter *e, const struct plan_site *s, int32_t pushed)
{
    EMIT(e, "\x48\x8d");
    if (s->slot_base == SLOT_RSP)
        emit_distance(e, FROM_RSP, SIB_RSP, pushed + s->slot_bytes);
    else
        emit_distance(e, FROM_RBP, -1, s->slot_bytes);
}

/* rcx: from the low half of a slot's address to its tag in the mirror. */
ALWAYS_INLINE void emit_entry_in_rcx(struct emitter *e)
{
    EMIT(e, "\x81\xe1"); /* and ecx, mask */
    emit_u32(e, MIRROR_MASK);
    EMIT(e, "\x64\x48\x03\x0c\x25"); /* add rcx, fs:[mirror] */
    emit_fs(e, &exact_state.mirror);
}

/* Goes on to the callee; through the PLT, by its slot, without the jump there. */
ALWAYS_INLINE void emit_leave(struct emitter *e, const struct edited_module *m,
                              const struct plan_site *s)
{
    if (is_indirect(s)) {                /* no signal writes to the 128 bytes below rsp */
        EMIT(e, "\x48\x8d\x64\x24\x08"); /* lea rsp, [rsp + 8] */
        emit_words(e, -1);
        EMIT(e, "\xff\x64\x24\xf8"); /* jmp [rsp - 8] */
    } else if (s->got) {
        EMIT(e, "\xff\x25"); /* jmp [got] */
        emit_relative(e, (const uint8_t *)m->base + s->got);
    } else {
        emit_jump(e, (const uint8_t *)m->base + s->target);
    }
}

/*
 * Another callee than the first: the table knows its record. In rcx is the function's record, in
 * rdx the target. The jumps are taken where the table has none, or one whose library has gone.
 */
ALWAYS_INLINE void emit_others(struct emitter *e, const struct plan_site *s, uint8_t *not_there[2])
{
    EMIT(e, "\x48\x8d"); /* lea rcx, [rcx + the site's place] */
    emit_distance(e, FROM_RCX | FROM_RCX << 3, -1, place_in_record(s));
    EMIT(e, "\x31\xc0"                 /* xor eax, eax */
            "\xf2\x48\x0f\x38\xf1\xc1" /* crc32 rax, rcx */
            "\xf2\x48\x0f\x38\xf1\xc2" /* crc32 rax, rdx */
            "\x48\xc1\xe0\x05"         /* shl rax, 5 */
            "\x64\x48\x23\x04\x25");   /* and rax, fs:[others_mask] */
    emit_fs(e, &exact_state.others_mask);
    EMIT(e, "\x64\x48\x03\x04\x25"); /* add rax, fs:[others] */
    emit_fs(e, &exact_state.others);
    const uint8_t *again = e->at;
    EMIT(e, "\x48\x39\x08"); /* cmp [rax], rcx */
    uint8_t *next = emit_short(e, 0x75);
    EMIT(e, "\x48\x39\x50\x08"); /* cmp [rax + 8], rdx */
    uint8_t *found = emit_short(e, 0x74);
    land(e, next);
    EMIT(e, "\x48\x83\x38\x00"); /* cmp qword [rax], 0: free, so there is none */
    not_there[0] = emit_near(e, 0x84);
    EMIT(e, "\x48\x83\xc0\x20"); /* add rax, 32 */
    emit_jump(e, again);
    land(e, found);
    EMIT(e, "\x48\x8b\x40\x18" /* mov rax, [rax + 24]: record */
            "\x48\x39\x50");   /* cmp [rax + target], rdx */
    emit_u8(e, RECORD_TARGET);
    not_there[1] = emit_near(e, 0x85);
}

/* Leads from all stubs of a module to the slow path and back. The site's number is in rcx. */
void counting_common(struct emitter *emitter);

#endif
