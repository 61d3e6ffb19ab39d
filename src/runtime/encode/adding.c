/*
 * What the stub of a site does: it makes the callee's word from its own function's, and leaves it
 * in the mirror. On the fast path, for a call or a tail jump on an edge that has a code:
 *
 *     push rax
 *     push rcx
 *     lea rax, [its own function's slot]
 *     mov ecx, eax
 *     and ecx, mask
 *     add rcx, fs:[words]             the slot's tag
 *     add rax, [rax]                  slot and return address
 *     cmp [rcx], rax                  is the word for this frame?
 *     jne slow
 *     mov rax, [rcx + place]          the word
 *     mov rcx, fs:[codes]
 *     sub rax, [rcx + base]           is it of this function, and of these numbers?
 *     cmp rax, [rcx + numbers]
 *     jae slow
 *     add rax, [rcx + step]           the callee's word
 *     lea ecx, [its slot]
 *     and ecx, mask
 *     add rcx, fs:[words]
 *     mov [rcx + place], rax
 *     lea rax, [its slot]             (a tail jump leaves slot and return address as they are)
 *     add rax, [its slot]
 *     mov [rcx], rax
 *     pop rcx
 *     pop rax
 *     jmp the callee
 *
 * A tail jump's stub begins some words further down (TAIL_GAP_WORDS), and comes back before the
 * end. An indirect site saves rdx as well, and compares its target with the one that the step is
 * for; where it is another, it looks in a table. Edges without a code have no numbers: a call on
 * one of these looks in another table, by the caller's word and the site, for where it led before.
 *
 * No register changes but the flags, which are dead at a call, as in engine exact's stubs.
 */
#include "runtime/edit/emit.h"
#include "runtime/edit/stubs.h"
#include "runtime/encode/encode.h"

enum { FROM_RSP = 4, FROM_RBP = 5, SIB_RSP = 0x24 }; /* in a ModRM byte */

ALWAYS_INLINE bool is_tail(const struct plan_site *s)
{
    return s->kind >= SITE_TAIL;
}

ALWAYS_INLINE bool is_indirect(const struct plan_site *s)
{
    return s->kind == SITE_CALL_INDIRECT || s->kind == SITE_TAIL_INDIRECT;
}

/* Below an indirect site's target. */
ALWAYS_INLINE unsigned gap_bytes(const struct plan_site *s)
{
    return is_tail(s) ? 8 * TAIL_GAP_WORDS : 0;
}

/* --- the common code -------------------------------------------------------------------------- */

void encode_slow_entry(void) __attribute__((visibility("hidden")));

static void write_common(struct emitter *e)
{
    emit_way_to(e, encode_slow_entry);
}

/* --- pieces of the fast path -------------------------------------------------------------------
 */

/* From rsp, behind these registers, and an indirect site's target. */
ALWAYS_INLINE unsigned new_slot_at(const struct plan_site *s)
{
    return (is_indirect(s) ? 32 : 16) + gap_bytes(s);
}

/* mov rdx, [an indirect site's target]: it lies above the three registers. */
ALWAYS_INLINE void emit_target_in_rdx(struct emitter *e, const struct plan_site *s)
{
    EMIT(e, "\x48\x8b\x54\x24");
    emit_u8(e, 24 + gap_bytes(s));
}

ALWAYS_INLINE void emit_gap(struct emitter *e, const struct plan_site *s)
{
    if (!is_tail(s))
        return;
    EMIT(e, "\x48\x8d\x64\x24"); /* lea rsp, [rsp - …] */
    emit_u8(e, 256 - 8 * TAIL_GAP_WORDS);
    emit_words(e, TAIL_GAP_WORDS);
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

/* rcx: from the low half of a slot's address to its tag. */
ALWAYS_INLINE void emit_tag_in_rcx(struct emitter *e)
{
    EMIT(e, "\x81\xe1"); /* and ecx, mask */
    emit_u32(e, WORDS_MASK);
    EMIT(e, "\x64\x48\x03\x0c\x25"); /* add rcx, fs:[words] */
    emit_fs(e, &encode_state.words);
}

/* A field of what the stub knows of its site, behind the opcode of an instruction with rcx. */
ALWAYS_INLINE void emit_code_field(struct emitter *e, unsigned modrm, uint32_t site, size_t field)
{
    emit_u8(e, modrm | 0x80u | 1u); /* [rcx + 32 bits] */
    emit_u32(e, (uint32_t)(site * sizeof(struct site_code) + field));
}

enum { MODRM_RAX = 0 << 3, MODRM_RDX = 2 << 3 };

/* The word in rax becomes that of the callee's frame, or of this one, after a tail jump. */
ALWAYS_INLINE void emit_enter(struct emitter *e, const struct plan_site *s)
{
    EMIT(e, "\x8d\x4c\x24"); /* lea ecx, [rsp + …] */
    emit_u8(e, new_slot_at(s));
    emit_tag_in_rcx(e);
    EMIT(e, "\x48\x89\x81"); /* mov [rcx + place], rax */
    emit_u32(e, WORDS_PLACE);
    if (is_tail(s))
        return;
    EMIT(e, "\x48\x8d\x44\x24"); /* lea rax, [rsp + …]: the slot */
    emit_u8(e, new_slot_at(s));
    EMIT(e, "\x48\x03\x44\x24"); /* add rax, [rsp + …]: the return address */
    emit_u8(e, new_slot_at(s));
    EMIT(e, "\x48\x89\x01"); /* mov [rcx], rax */
}

/* Goes on to the callee; through the PLT, by its slot, without the jump there. */
ALWAYS_INLINE void emit_leave(struct emitter *e, const struct edited_module *m,
                              const struct plan_site *s)
{
    const unsigned behind = gap_bytes(s) + (is_indirect(s) ? 8 : 0);
    if (behind) {
        EMIT(e, "\x48\x8d\x64\x24"); /* lea rsp, [rsp + …] */
        emit_u8(e, behind);
        emit_words(e, -(int)behind / 8);
    }
    if (is_indirect(s)) {            /* no signal writes to the 128 bytes below rsp */
        EMIT(e, "\xff\x64\x24\xf8"); /* jmp [rsp - 8] */
    } else if (s->got) {
        EMIT(e, "\xff\x25"); /* jmp [got] */
        emit_relative(e, (const uint8_t *)m->base + s->got);
    } else {
        emit_jump(e, (const uint8_t *)m->base + s->target);
    }
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

ALWAYS_INLINE void emit_entered(struct emitter *e, const struct edited_module *m,
                                const struct plan_site *s)
{
    emit_enter(e, s);
    if (is_indirect(s))
        emit_pop_rdx(e);
    emit_pop_rcx(e);
    emit_pop_rax(e);
    emit_leave(e, m, s);
}

/*
 * Another target than the step is for: the table knows it. In rax is the caller's number in its
 * range, in rdx the target. The jump is taken where the table has none.
 */
ALWAYS_INLINE uint8_t *emit_others(struct emitter *e, uint32_t site)
{
    EMIT(e, "\xb9"); /* mov ecx, site */
    emit_u32(e, site);
    EMIT(e, "\xf2\x48\x0f\x38\xf1\xca" /* crc32 rcx, rdx */
            "\x81\xe1");               /* and ecx, entries - 1 */
    emit_u32(e, OTHER_CODES - 1);
    EMIT(e, "\xc1\xe1\x05"           /* shl ecx, 5 */
            "\x64\x48\x03\x0c\x25"); /* add rcx, fs:[others] */
    emit_fs(e, &encode_state.others);
    const uint8_t *again = e->at;
    EMIT(e, "\x48\x39\x51\x08"); /* cmp [rcx + 8], rdx: its target */
    uint8_t *next = emit_short(e, 0x75);
    EMIT(e, "\x81\x39"); /* cmp dword [rcx], site */
    emit_u32(e, site);
    uint8_t *found = emit_short(e, 0x74);
    land(e, next);
    EMIT(e, "\x83\x39\x00"); /* cmp dword [rcx], 0: free, so there is none */
    uint8_t *none = emit_near(e, 0x84);
    EMIT(e, "\x48\x83\xc1\x20"); /* add rcx, 32 */
    emit_jump(e, again);
    land(e, found);
    EMIT(e, "\x48\x03\x41"); /* add rax, [rcx + step] */
    emit_u8(e, offsetof(struct other_code, step));
    return none;
}

/*
 * A call on an edge without a code: the table may know the callee's word. In rax is the caller's
 * word, less the base, in rcx fs:[codes]. The jumps are taken where it does not; returns how many
 * there are.
 */
ALWAYS_INLINE unsigned emit_pushed(struct emitter *e, const struct plan_site *s, uint32_t site,
                                   uint8_t *not_there[3])
{
    unsigned count = 0;
    EMIT(e, "\x48\x03"); /* add rax, [base] */
    emit_code_field(e, MODRM_RAX, site, offsetof(struct site_code, base));
    EMIT(e, "\xb9"); /* mov ecx, site */
    emit_u32(e, site);
    EMIT(e, "\xf2\x48\x0f\x38\xf1\xc8"); /* crc32 rcx, rax */
    if (is_indirect(s))
        emit_target_in_rdx(e, s);
    if (is_indirect(s))
        EMIT(e, "\xf2\x48\x0f\x38\xf1\xca"); /* crc32 rcx, rdx */
    EMIT(e, "\x81\xe1");                     /* and ecx, entries - 1 */
    emit_u32(e, PUSHED_CALLS - 1);
    EMIT(e, "\xc1\xe1\x06"           /* shl ecx, 6 */
            "\x64\x48\x03\x0c\x25"); /* add rcx, fs:[pushed] */
    emit_fs(e, &encode_state.pushed);
    EMIT(e, "\x48\x39\x01"); /* cmp [rcx], rax */
    not_there[count++] = emit_near(e, 0x85);
    EMIT(e, "\x81\x79"); /* cmp dword [rcx + site], site */
    emit_u8(e, offsetof(struct pushed_call, site));
    emit_u32(e, site);
    not_there[count++] = emit_near(e, 0x85);
    if (is_indirect(s)) {
        EMIT(e, "\x48\x39\x51"); /* cmp [rcx + target], rdx */
        emit_u8(e, offsetof(struct pushed_call, target));
        not_there[count++] = emit_near(e, 0x85);
    }
    EMIT(e, "\xff\x41"); /* inc dword [rcx + hits] */
    emit_u8(e, offsetof(struct pushed_call, hits));
    EMIT(e, "\x48\x8b\x41"); /* mov rax, [rcx + word] */
    emit_u8(e, offsetof(struct pushed_call, word));
    return count;
}

ALWAYS_INLINE void emit_fast(struct emitter *e, const struct edited_module *m,
                             const struct plan_site *s, uint32_t site)
{
    const bool indirect = is_indirect(s);
    const int32_t pushed = (int32_t)new_slot_at(s) + (is_tail(s) ? 0 : 8);
    emit_gap(e, s);
    emit_push_rax(e);
    emit_push_rcx(e);
    if (indirect)
        emit_push_rdx(e);
    const struct row_now saved = e->now;
    emit_own_slot(e, s, pushed);
    EMIT(e, "\x89\xc1"); /* mov ecx, eax */
    emit_tag_in_rcx(e);
    EMIT(e, "\x48\x03\x00"   /* add rax, [rax]: the return address there */
            "\x48\x39\x01"); /* cmp [rcx], rax: is it for this frame? */
    uint8_t *unknown = emit_near(e, 0x85), *another = NULL, *none = NULL;
    EMIT(e, "\x48\x8b\x81"); /* mov rax, [rcx + place] */
    emit_u32(e, WORDS_PLACE);
    EMIT(e, "\x64\x48\x8b\x0c\x25"); /* mov rcx, fs:[codes] */
    emit_fs(e, &encode_state.codes);
    EMIT(e, "\x48\x2b"); /* sub rax, [base] */
    emit_code_field(e, MODRM_RAX, site, offsetof(struct site_code, base));
    EMIT(e, "\x48\x3b"); /* cmp rax, [numbers] */
    emit_code_field(e, MODRM_RAX, site, offsetof(struct site_code, numbers));
    uint8_t *not_its = emit_near(e, 0x83);
    if (indirect) {
        emit_target_in_rdx(e, s);
        EMIT(e, "\x48\x3b"); /* cmp rdx, [target] */
        emit_code_field(e, MODRM_RDX, site, offsetof(struct site_code, target));
        another = emit_near(e, 0x85);
    }
    EMIT(e, "\x48\x03"); /* add rax, [step] */
    emit_code_field(e, MODRM_RAX, site, offsetof(struct site_code, step));
    emit_entered(e, m, s);
    if (another) {
        land_near(e, another);
        emit_row(e, saved);
        none = emit_others(e, site);
        emit_entered(e, m, s);
        emit_row(e, saved);
    }
    uint8_t *not_there[3];
    emit_row(e, saved);
    if (none) {
        land_near(e, none);
        EMIT(e, "\x64\x48\x8b\x0c\x25"); /* mov rcx, fs:[codes] */
        emit_fs(e, &encode_state.codes);
    }
    land_near(e, not_its);
    unsigned count = emit_pushed(e, s, site, not_there);
    emit_entered(e, m, s);
    emit_row(e, saved);
    for (unsigned i = 0; i < count; i++)
        land_near(e, not_there[i]);
    land_near(e, unknown);
    if (!indirect)
        emit_push_rdx(e);
    emit_call(e, m, s);
    emit_leave(e, m, s);
}

/* --- all sites ---------------------------------------------------------------------------------
 */

/* Its stub has all of the code that adds. */
ALWAYS_INLINE bool is_fast(const struct plan_site *s, uint32_t site)
{
    return s->slot_base != SLOT_UNKNOWN && site < CODED_SITES;
}

static void write_site(struct emitter *e, const struct edited_module *m, const struct plan_site *s)
{
    const uint32_t site = m->first_site + s->rank;
    struct emitter copy = *e; /* its pointer is in a register then */
    if (is_fast(s, site)) {
        emit_fast(&copy, m, s, site);
    } else {
        emit_gap(&copy, s);
        emit_push_rax(&copy);
        emit_push_rcx(&copy);
        emit_push_rdx(&copy);
        emit_call(&copy, m, s);
        emit_leave(&copy, m, s);
    }
    *e = copy;
}

static uint32_t most_bytes(const struct plan_site *s)
{
    enum { ALL = 384, TABLE = 256 };
    return is_indirect(s) ? ALL + TABLE : ALL;
}

/* What a call to a function that calls nothing leads to is known by its return address. */
static bool is_left_alone(const struct plan_site *s)
{
    return s->kind == SITE_CALL && (s->flags & SITE_TO_LEAF);
}

const struct stub_writer adding_stubs = {.most_bytes = most_bytes,
                                         .leaves_alone = is_left_alone,
                                         .common = write_common,
                                         .site = write_site};
