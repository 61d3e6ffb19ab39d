/*
 * The code that counts, in the stub of a site:
 *
 *     push rax, rcx
 *     rax = where its function's return address lies, rcx = that slot's tag in the mirror
 *     is the entry for this slot and the return address in it?        or slow
 *     rcx = the record there; is it one of this function?             or slow
 *     rax = the record of the callee, in the site's place             or slow
 *     count; the callee's slot has this record now
 *     pop rcx, rax
 *     jump to the callee
 *     push rdx, …, call the slow path, pop rdx, rcx, rax              slow:
 *     jump to the callee
 *
 * An indirect site saves rdx as well, and also asks whether the callee is the one that came first;
 * where it is not, it looks further, in a table.
 *
 * No register changes but the flags, which are dead at a call: compilers never keep them across
 * one, whatever the callee is. Nor is anything kept below the stack pointer then.
 *
 * A function without sites never looks for its record: its callers do not write it to the mirror.
 */
#include "runtime/exact/counting.h"

#include "runtime/exact/counting_code.h"

/* Its stub has all of the code that counts. */
ALWAYS_INLINE bool is_fast(const struct plan_site *s)
{
    return !(exact_settings()->flags & EXACT_TRACES) && s->slot_base != SLOT_UNKNOWN;
}

/* --- the common code -------------------------------------------------------------------------- */

void exact_slow_entry(void) __attribute__((visibility("hidden")));

void counting_common(struct emitter *e)
{
    emit_way_to(e, exact_slow_entry);
}

/* --- the fast path ---------------------------------------------------------------------------- */

/* From rsp, behind these registers, and an indirect site's target. */
ALWAYS_INLINE unsigned new_slot_at(const struct plan_site *s)
{
    return is_indirect(s) ? 32 : 16;
}

/* With --height: is the callee's slot another than before? */
ALWAYS_INLINE void emit_height(struct emitter *e, const struct plan_site *s)
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

/* With --burst: a tag is of one burst alone. */
ALWAYS_INLINE void emit_epoch(struct emitter *e)
{
    if (!exact_settings()->burst_ns)
        return;
    EMIT(e, "\x64\x48\x03\x04\x25"); /* add rax, fs:[epoch] */
    emit_fs(e, &exact_state.epoch);
}

/* The record in rax becomes that of the callee's frame, or of this one, after a tail jump. */
ALWAYS_INLINE void emit_enter(struct emitter *e, const struct plan_site *s)
{
    if (is_tail(s) || enters_another()) {
        EMIT(e, "\x8b\x40"); /* mov eax, [rax + enter] */
        emit_u8(e, RECORD_ENTER);
    }
    EMIT(e, "\x8d\x4c\x24"); /* lea ecx, [rsp + …] */
    emit_u8(e, new_slot_at(s));
    emit_entry_in_rcx(e);
    EMIT(e, "\x48\x89\x81"); /* mov [rcx + records], rax */
    emit_u32(e, MIRROR_RECORDS);
    if (is_tail(s))
        return;
    EMIT(e, "\x48\x8d\x44\x24"); /* lea rax, [rsp + …]: the slot */
    emit_u8(e, new_slot_at(s));
    EMIT(e, "\x48\x03\x44\x24"); /* add rax, [rsp + …]: the return address */
    emit_u8(e, new_slot_at(s));
    emit_epoch(e);
    EMIT(e, "\x48\x89\x01"); /* mov [rcx], rax */
}

/* Calls the slow path, with rax, rcx and rdx on the stack, and takes them back. */
ALWAYS_INLINE void emit_call(struct emitter *e, const struct edited_module *m,
                             const struct plan_site *s)
{
    EMIT(e, "\xb9"); /* mov ecx, site */
    emit_u32(e, m->first_site + s->rank);
    EMIT(e, "\xe8"); /* call the common code */
    emit_relative(e, m->stubs);
    emit_pop_rdx(e);
    emit_pop_rcx(e);
    emit_pop_rax(e);
}

/* Counts the call of the record in rax, and goes on. */
ALWAYS_INLINE void emit_counted(struct emitter *e, const struct edited_module *m,
                                const struct plan_site *s)
{
    EMIT(e, "\x48\xff\x40"); /* inc qword [rax + count] */
    emit_u8(e, RECORD_COUNT);
    emit_height(e, s);
    if (!(s->flags & SITE_TO_LEAF))
        emit_enter(e, s);
    if (is_indirect(s))
        emit_pop_rdx(e);
    emit_pop_rcx(e);
    emit_pop_rax(e);
    emit_leave(e, m, s);
}

ALWAYS_INLINE void emit_fast(struct emitter *e, const struct edited_module *m,
                             const struct plan_site *s)
{
    const bool indirect = is_indirect(s);
    const int32_t pushed = (indirect ? 32 : 16) + (is_tail(s) ? 0 : 8);
    emit_push_rax(e);
    emit_push_rcx(e);
    if (indirect)
        emit_push_rdx(e);
    const struct row_now saved = e->now;
    emit_own_slot(e, s, pushed);
    EMIT(e, "\x89\xc1"); /* mov ecx, eax */
    emit_entry_in_rcx(e);
    EMIT(e, "\x48\x03\x00"); /* add rax, [rax]: the return address there */
    emit_epoch(e);
    EMIT(e, "\x48\x39\x01");                         /* cmp [rcx], rax: is it for this frame? */
    uint8_t *unknown = emit_away(e, 0x75, indirect); /* jne slow */
    EMIT(e, "\x48\x8b\x89");                         /* mov rcx, [rcx + records] */
    emit_u32(e, MIRROR_RECORDS);
    EMIT(e, "\x81\x79"); /* cmp dword [rcx + first_site], this function's */
    emit_u8(e, RECORD_FIRST);
    emit_u32(e, m->first_site + s->first_rank);
    uint8_t *wrong_function = emit_away(e, 0x75, indirect);
    EMIT(e, "\x8b"); /* mov eax, [rcx + the site's place] */
    emit_distance(e, FROM_RCX, -1, place_in_record(s));
    EMIT(e, "\x85\xc0"); /* test eax, eax */
    uint8_t *none = emit_away(e, 0x74, indirect), *another = NULL;
    if (indirect) {
        EMIT(e, "\x48\x8b\x54\x24\x18" /* mov rdx, [rsp + 24]: target */
                "\x48\x39\x50");       /* cmp [rax + target], rdx */
        emit_u8(e, RECORD_TARGET);
        another = emit_near(e, 0x85);
    }
    emit_counted(e, m, s);
    if (another) {
        land_near(e, another);
        emit_row(e, saved);
        uint8_t *not_there[2];
        emit_others(e, s, not_there);
        emit_counted(e, m, s);
        land_near(e, not_there[0]);
        land_near(e, not_there[1]);
    }
    emit_row(e, saved);
    land_away(e, unknown, indirect);
    land_away(e, wrong_function, indirect);
    land_away(e, none, indirect);
    if (!indirect)
        emit_push_rdx(e);
    emit_call(e, m, s);
    emit_leave(e, m, s);
}

/* --- all sites ----------------------------------------------------------------------------------
 */

/* Half a million times for a large program: inlined, and with a copy of the emitter, whose pointer
 * is in a register then. */
ALWAYS_INLINE void write_stub(struct emitter *e, const struct edited_module *m,
                              const struct plan_site *s)
{
    if (exact_settings()->burst_ns) { /* samples and --duration do not go with it: none is here */
        const struct row_now at_site = e->now;
        EMIT(e, "\x64\x48\xff\x04\x25"); /* inc qword fs:[calls] */
        emit_fs(e, &exact_state.calls);
        uint8_t *in_burst = emit_short(e, 0x79); /* jns */
        emit_leave(e, m, s);
        land(e, in_burst);
        emit_row(e, at_site);
    }
    if (is_fast(s)) {
        emit_fast(e, m, s);
        return;
    }
    emit_push_rax(e);
    emit_push_rcx(e);
    emit_push_rdx(e);
    emit_call(e, m, s);
    emit_leave(e, m, s);
}

static void write_site(struct emitter *e, const struct edited_module *m, const struct plan_site *s)
{
    struct emitter copy = *e;
    write_stub(&copy, m, s);
    *e = copy;
}

/* With every option on, and some more. */
static uint32_t most_bytes(const struct plan_site *s)
{
    enum { ALL = 256, TABLE = 192 };
    return is_indirect(s) ? ALL + TABLE : ALL;
}

const struct stub_writer counting_stubs = {
    .most_bytes = most_bytes, .common = counting_common, .site = write_site};
