/*
 * A short site cannot hold a jump of five bytes, so instructions before it move with it. What moves
 * is copied as it is: an instruction may depend on its place only by one rel32. At a call, what
 * moves runs with the return address already on the stack, so it must not touch the stack; at a
 * tail jump it may, and at a call that becomes a jump.
 *
 * Where fewer than five bytes can move, the site hops to padding nearby. Where there is none,
 * instructions nearby move out of the way. Where they cannot, the site becomes a jump whose last
 * bytes are those of the instruction behind it: a pun. These bytes stay as they are, so the jump
 * leads to one of a few places, at which the runtime finds memory.
 */
#include "base/search.h"
#include "edit/finder.h"
#include "map/decode.h"

#include <string.h>

enum { JUMP_BYTES = 5, HOP_BYTES = 2 };

/* The instructions that move with a site: from before[first] on. */
struct moved {
    unsigned first, bytes;
};

/*
 * An operand relative to rsp, in code that runs with the return address already pushed: the
 * distance grows by 8, if there is room for it where it is.
 */
static bool can_shift(const ZydisDecodedInstruction *d)
{
    return (d->raw.disp.size == 8 && d->raw.disp.value + 8 <= INT8_MAX) ||
           (d->raw.disp.size == 32 && d->raw.disp.value + 8 <= INT32_MAX);
}

static bool is_rsp(ZydisRegister r)
{
    return ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, r) == ZYDIS_REGISTER_RSP;
}

static bool is_relative_to_rsp(const ZydisDecodedInstruction *d)
{
    return (d->attributes & ZYDIS_ATTRIB_HAS_MODRM) && d->raw.modrm.mod != 3 &&
           d->raw.modrm.rm == 4 && d->raw.sib.base == 4 && !d->raw.rex.B;
}

/* Does an instruction keep its meaning in another place, here with the stack as at a call? */
static bool is_movable(struct finder *f, const struct instruction *i, bool stack_may_move,
                       bool *needs_fixup)
{
    ZydisDecodedOperand o[ZYDIS_MAX_OPERAND_COUNT];
    const ZydisDecodedInstruction *d = &i->decoded;
    uint64_t ignored;
    if (is_jump(i) || is_padding(i) || d->meta.category == ZYDIS_CATEGORY_CALL ||
        d->meta.category == ZYDIS_CATEGORY_RET || d->meta.category == ZYDIS_CATEGORY_SYSCALL ||
        d->meta.category == ZYDIS_CATEGORY_INTERRUPT || d->raw.imm[0].is_relative ||
        d->mnemonic == ZYDIS_MNEMONIC_ENDBR64 ||
        !ZYAN_SUCCESS(ZydisDecoderDecodeOperands(&f->decoder, &i->context, d, o, d->operand_count)))
        return false;
    *needs_fixup = is_rip_relative(i, &ignored);
    for (unsigned k = 0; k < d->operand_count && !stack_may_move; k++) {
        bool is_visible = o[k].visibility == ZYDIS_OPERAND_VISIBILITY_EXPLICIT;
        if (o[k].type == ZYDIS_OPERAND_TYPE_REGISTER && is_rsp(o[k].reg.value))
            return false;
        if (o[k].type == ZYDIS_OPERAND_TYPE_MEMORY && is_rsp(o[k].mem.base) &&
            (!is_visible || !can_shift(d)))
            return false;
    }
    return true;
}

/* Copies an instruction to the code of a displaced site. */
static void move(struct finder *f, const struct instruction *i, bool is_shifted,
                 struct plan_site *site)
{
    const ZydisDecodedInstruction *d = &i->decoded;
    uint64_t target;
    if (is_rip_relative(i, &target)) { /* an immediate may lie between the distance and its end */
        uint32_t behind = d->length - d->raw.disp.offset - 4u;
        site->fixup = (uint8_t)(site->code_bytes + d->raw.disp.offset + 1);
        site->fixup_target = (uint32_t)target - behind;
    }
    size_t start = f->out->code.count;
    for (unsigned k = 0; k < d->length; k++)
        vec_push(&f->out->code, i->bytes[k]);
    if (is_shifted && is_relative_to_rsp(d)) {
        int32_t shifted = (int32_t)d->raw.disp.value + 8;
        memcpy(f->out->code.items + start + d->raw.disp.offset, &shifted, d->raw.disp.size / 8);
    }
    site->code_bytes = (uint8_t)(site->code_bytes + d->length);
}

/* Chooses what moves with the site. False: not enough for a jump, with the reason in the site. */
static bool choose_moved(struct finder *f, const struct instruction *i, bool stack_may_move,
                         struct plan_site *site, struct moved *moved)
{
    uint64_t ignored;
    unsigned fixups = is_rip_relative(i, &ignored);
    *moved = (struct moved){.first = f->before_count};
    while (moved->bytes + i->decoded.length < JUMP_BYTES) {
        bool needs_fixup = false;
        if (moved->first == 0) {
            site->reason = REASON_AT_START;
            return false;
        }
        uint32_t next = moved->first < f->before_count ? f->before[moved->first].offset : i->offset;
        if (targets_has(&f->targets, next)) {
            site->reason = REASON_BRANCH_TARGET;
            return false;
        }
        const struct instruction *b = &f->before[moved->first - 1];
        if (!is_movable(f, b, stack_may_move, &needs_fixup) || (fixups += needs_fixup) > 1) {
            site->reason = REASON_NOT_MOVABLE;
            return false;
        }
        moved->first--;
        moved->bytes += b->decoded.length;
    }
    site->reason = REASON_NONE;
    return true;
}

/* Behind a jump that is always taken there may be padding to write over. */
static bool has_padding_behind(const struct finder *f, const struct instruction *i)
{
    uint32_t end = i->offset + i->decoded.length;
    const struct code_range *code = elf_code_at(f->file, f->file->base + end);
    if (i->decoded.meta.category != ZYDIS_CATEGORY_UNCOND_BR || !code)
        return false;
    uint32_t most = (uint32_t)(code->end - f->file->base);
    if (i->offset + JUMP_BYTES > most)
        return false;
    if (targets_has(&f->targets, end) ||
        !targets_are_free(&f->targets, end, i->offset + JUMP_BYTES))
        return false;
    return decode_padding(f->file, end, most) >= i->offset + JUMP_BYTES - end;
}

/*
 * Can an indirect transfer become a `push` of its operand? That runs where the site was, or with
 * the return address already pushed, or below the red zone in a jump that may stay.
 */
static bool can_push(const struct instruction *i, const struct plan_site *site, bool return_first)
{
    const ZydisDecodedInstruction *d = &i->decoded;
    if ((d->attributes & ZYDIS_ATTRIB_HAS_OPERANDSIZE) && !d->raw.rex.W)
        return false;
    if (!is_relative_to_rsp(d))
        return true;
    return !(site->flags & SITE_MAY_STAY) && (!return_first || can_shift(d));
}

/* The push: the same bytes with another digit. */
static void add_push(struct finder *f, const struct instruction *i, bool return_first,
                     struct plan_site *site)
{
    enum { DIGIT_PUSH = 6 };
    size_t at = f->out->code.count + i->decoded.raw.modrm.offset;
    move(f, i, return_first, site);
    f->out->code.items[at] = (uint8_t)((f->out->code.items[at] & ~0x38) | DIGIT_PUSH << 3);
}

/* Takes the first bytes of a pad that a short jump from the site reaches. */
static bool find_hop(struct finder *f, const struct instruction *i, struct plan_site *site)
{
    int64_t from = (int64_t)i->offset + HOP_BYTES;
    size_t at;
    SEARCH(at, f->pads.count, (int64_t)f->pads.items[at].end < from + INT8_MIN);
    for (; at < f->pads.count && (int64_t)f->pads.items[at].start <= from + INT8_MAX; at++) {
        struct pad *p = &f->pads.items[at];
        while (p->start < p->end &&
               ((int64_t)p->start < from + INT8_MIN || targets_has(&f->targets, p->start) ||
                !targets_are_free(&f->targets, p->start, p->start + 1)))
            p->start++;
        if (p->end - p->start < JUMP_BYTES || (int64_t)p->start > from + INT8_MAX ||
            !targets_are_free(&f->targets, p->start, p->start + JUMP_BYTES))
            continue;
        site->hop = (int16_t)(p->start - i->offset);
        targets_take(&f->targets, p->start, p->start + JUMP_BYTES);
        p->start += JUMP_BYTES;
        return true;
    }
    return false;
}

/* The best tier there is, what moves with the site, and whether a call stays one. */
static enum site_tier choose_tier(struct finder *f, const struct instruction *i,
                                  struct plan_site *site, struct moved *moved)
{
    bool is_call = site->kind == SITE_CALL_INDIRECT;
    if (is_call && can_push(i, site, true) && choose_moved(f, i, false, site, moved) &&
        moved->bytes + i->decoded.length <= ZYDIS_MAX_INSTRUCTION_LENGTH)
        return TIER_DISPLACE;
    if (is_call) /* what uses the stack can move if the return address comes later */
        site->flags |= SITE_PUSHES_RETURN;
    if (site->kind != SITE_TAIL_SHORT && !can_push(i, site, false)) {
        site->reason = site->flags & SITE_MAY_STAY ? REASON_MAY_STAY : REASON_NOT_MOVABLE;
        return TIER_NONE;
    }
    if (choose_moved(f, i, true, site, moved))
        return TIER_DISPLACE;
    if (has_padding_behind(f, i)) {
        targets_take(&f->targets, i->offset + i->decoded.length, i->offset + JUMP_BYTES);
        *moved = (struct moved){.first = f->before_count};
        site->reason = REASON_NONE;
        return TIER_DISPLACE;
    }
    if (i->decoded.length >= HOP_BYTES && find_hop(f, i, site)) {
        *moved = (struct moved){.first = f->before_count};
        site->reason = REASON_NONE;
        return TIER_HOP;
    }
    return TIER_PUN; /* with all that can move: each byte gives more places to choose from */
}

void displace(struct finder *f, const struct instruction *i, struct plan_site *site)
{
    struct moved moved;
    site->tier = (uint8_t)choose_tier(f, i, site, &moved);
    if (site->tier == TIER_NONE)
        return;
    bool return_first = site->kind == SITE_CALL_INDIRECT && !(site->flags & SITE_PUSHES_RETURN);
    site->code = (uint32_t)f->out->code.count;
    site->moved_bytes = (uint8_t)moved.bytes;
    for (unsigned k = moved.first; k < f->before_count; k++)
        move(f, &f->before[k], return_first, site);
    if (site->kind != SITE_TAIL_SHORT)
        add_push(f, i, return_first, site);
    targets_take(&f->targets, i->offset - moved.bytes, i->offset + i->decoded.length);
}

/* --- room where there is no padding ----------------------------------------------------------- */

/* How many instructions from all[first] on can move out of the way of two jumps; 0: none. */
static size_t count_in_the_way(struct finder *f, const struct instruction *all, size_t count,
                               size_t first)
{
    unsigned bytes = 0, fixups = 0;
    for (size_t k = first; k < count; k++) {
        bool needs_fixup = false;
        if (!is_movable(f, &all[k], true, &needs_fixup) || (fixups += needs_fixup) > 1 ||
            !reach_has(&f->reach, all[k].offset)) /* it may be data */
            return 0;
        bytes += all[k].decoded.length;
        if (!targets_are_free(&f->targets, all[first].offset, all[first].offset + bytes))
            return 0;
        if (bytes >= 2 * JUMP_BYTES)
            return k + 1 - first;
    }
    return 0;
}

/* What moves out of the way, as the plan has it. */
static void add_room(struct finder *f, const struct instruction *all, size_t count)
{
    struct plan_site as_if = {0}; /* for its fixup and its code */
    size_t start = f->out->code.count;
    for (unsigned k = 0; k < PLAN_ROOM_HEADER_BYTES; k++)
        vec_push(&f->out->code, 0);
    for (size_t k = 0; k < count; k++)
        move(f, &all[k], false, &as_if);
    uint8_t *header = f->out->code.items + start;
    header[0] = as_if.code_bytes;
    header[1] = as_if.fixup;
    memcpy(header + 2, &as_if.fixup_target, sizeof as_if.fixup_target);
    targets_take(&f->targets, all[0].offset, all[0].offset + as_if.code_bytes);
}

bool make_room(struct finder *f, const struct instruction *all, size_t count, size_t at,
               struct plan_site *site)
{
    const int64_t from = (int64_t)site->offset + HOP_BYTES;
    size_t first = at, moving = 0;
    while (first > 0 && (int64_t)all[first - 1].offset + JUMP_BYTES >= from + INT8_MIN)
        first--;
    for (; first < count && (int64_t)all[first].offset + JUMP_BYTES <= from + INT8_MAX; first++)
        if ((moving = count_in_the_way(f, all, count, first)))
            break;
    if (!moving)
        return false;
    size_t parts = site->code + site->code_bytes; /* of a site that may stay in its function */
    size_t parts_bytes = site->flags & SITE_MAY_STAY ? 1 + 8ul * f->out->code.items[parts] : 0;
    site->tier = TIER_HOP;
    site->reason = site->slot_base == SLOT_UNKNOWN ? REASON_NO_SLOT : REASON_NONE;
    site->flags |= SITE_MAKES_ROOM;
    site->hop = (int16_t)(all[first].offset + JUMP_BYTES - site->offset);
    site->code = (uint32_t)f->out->code.count;
    site->code_bytes = site->moved_bytes = site->fixup = 0;
    if (site->kind != SITE_TAIL_SHORT)
        add_push(f, &all[at], false, site);
    for (size_t k = parts; k < parts + parts_bytes; k++) {
        uint8_t byte = f->out->code.items[k];
        vec_push(&f->out->code, byte);
    }
    add_room(f, &all[first], moving);
    return true;
}
