/*
 * Functions are decoded in a straight line, twice: first for what branches lead to, then for the
 * sites. Code with data in it stops the decoder, and such a function is left alone as a whole.
 *
 * A short site cannot hold a jump of five bytes, so instructions before it move with it. What moves
 * is copied as it is: an instruction may depend on its place only by one rel32. At a call, what
 * moves runs with the return address already on the stack, so it must not touch the stack; at a
 * tail jump it may.
 */
#include "edit/sites.h"

#include "edit/targets.h"
#include "map/decode.h"

#include <Zydis/Zydis.h>
#include <string.h>

enum { JUMP_BYTES = 5, HOP_BYTES = 2, MOST_BEFORE = 4 };

/* Bytes that are never run: a short site hops there, and from there to its stub. */
struct pad {
    uint32_t start, end;
};

struct instruction {
    uint32_t offset;
    ZydisDecodedInstruction decoded;
    ZydisDecoderContext context;
    const uint8_t *bytes;
};

struct finder {
    const struct elf_file *file;
    const struct map *map;
    struct sites *out;
    struct targets targets;
    ZydisDecoder decoder;
    const struct map_function *function; /* the one at hand */
    uint32_t whole;                      /* start of what it is a part of, or its own */
    struct instruction before[MOST_BEFORE];
    unsigned before_count;
    VEC(struct pad) pads; /* sorted */
};

typedef void visit_fn(struct finder *f, const struct instruction *i);

static const struct map_function *whole_of(const struct map *map, const struct map_function *f)
{
    for (unsigned most = 8;
         most-- && (f->flags & FUNCTION_FRAGMENT) && f->parent < map->function_count;)
        f = &map->functions[f->parent];
    return f;
}

/* Decodes the function at hand; false when its bytes are not all instructions. */
static bool each_instruction(struct finder *f, visit_fn *visit)
{
    const struct map_function *fn = f->function;
    const struct code_range *code = elf_code_at(f->file, f->file->base + fn->start);
    if (!code || fn->size > code->end - f->file->base - fn->start)
        return false;
    const uint8_t *bytes = code->bytes + (f->file->base + fn->start - code->start);
    struct instruction i;
    f->before_count = 0;
    for (uint32_t at = 0; at < fn->size; at += i.decoded.length) {
        i.offset = fn->start + at;
        i.bytes = bytes + at;
        if (!ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&f->decoder, &i.context, i.bytes,
                                                        fn->size - at, &i.decoded)))
            return false;
        visit(f, &i);
        if (f->before_count == MOST_BEFORE)
            memmove(f->before, f->before + 1, --f->before_count * sizeof i);
        f->before[f->before_count++] = i;
    }
    return true;
}

/* A direct branch: where it leads, as an offset. */
static bool is_direct(const struct instruction *i, uint64_t *target)
{
    const ZydisDecodedInstruction *d = &i->decoded;
    if (!d->raw.imm[0].is_relative)
        return false;
    *target = i->offset + d->length + (uint64_t)d->raw.imm[0].value.s;
    return true;
}

static bool is_jump(const struct instruction *i)
{
    return i->decoded.meta.category == ZYDIS_CATEGORY_UNCOND_BR ||
           i->decoded.meta.category == ZYDIS_CATEGORY_COND_BR;
}

/* Reads the address that a rip-relative operand names, as an offset. */
static bool is_rip_relative(const struct instruction *i, uint64_t *offset)
{
    const ZydisDecodedInstruction *d = &i->decoded;
    if (!(d->attributes & ZYDIS_ATTRIB_HAS_MODRM) || d->raw.modrm.mod != 0 || d->raw.modrm.rm != 5)
        return false;
    *offset = i->offset + d->length + (uint64_t)d->raw.disp.value;
    return true;
}

static bool is_padding(const struct instruction *i)
{
    return i->decoded.mnemonic == ZYDIS_MNEMONIC_NOP || i->decoded.mnemonic == ZYDIS_MNEMONIC_INT3;
}

/* Does control never come out at the end of an instruction? */
static bool is_last(const struct instruction *i)
{
    return i->decoded.meta.category == ZYDIS_CATEGORY_UNCOND_BR ||
           i->decoded.meta.category == ZYDIS_CATEGORY_RET;
}

static void add_pad(struct finder *f, uint32_t start, uint32_t end)
{
    struct pad *last = f->pads.count ? &f->pads.items[f->pads.count - 1] : NULL;
    if (last && last->end == start)
        last->end = end;
    else if (!last || last->end < start)
        vec_push(&f->pads, (struct pad){start, end});
}

/* Padding inside a function, behind a jump or a return. */
static void find_pad(struct finder *f, const struct instruction *i)
{
    const struct instruction *before = f->before_count ? &f->before[f->before_count - 1] : NULL;
    if (!before || !is_padding(i))
        return;
    bool continues = f->pads.count && f->pads.items[f->pads.count - 1].end == i->offset;
    if (is_last(before) || (is_padding(before) && continues))
        add_pad(f, i->offset, i->offset + i->decoded.length);
}

/* Padding between the function at hand, all of which was decoded, and the next one. */
static void find_pad_behind(struct finder *f, const struct map_function *next)
{
    uint32_t end = f->function->start + f->function->size;
    const struct instruction *last = f->before_count ? &f->before[f->before_count - 1] : NULL;
    if (!last || next->start <= end || !(is_last(last) || is_padding(last)))
        return;
    bool continues = f->pads.count && f->pads.items[f->pads.count - 1].end == end;
    if ((is_last(last) || continues) &&
        decode_padding(f->file, end, next->start) == next->start - end)
        add_pad(f, end, next->start);
}

static void find_targets(struct finder *f, const struct instruction *i)
{
    uint64_t target;
    find_pad(f, i);
    if (is_direct(i, &target))
        targets_add(&f->targets, target);
    else if (i->decoded.mnemonic == ZYDIS_MNEMONIC_LEA && is_rip_relative(i, &target)) {
        targets_add(&f->targets, target); /* code whose address is taken, or a table */
        targets_add_table(&f->targets, f->file, target);
    }
}

/* CFA - rsp - 8 is 0: the return address is at the top of the stack, as at a function's entry. */
static bool is_as_at_entry(const struct map *map, uint64_t offset)
{
    int64_t row = map_find_row(&map->tables, offset);
    if (row < 0)
        return false;
    struct map_special s = map_spell_rule(&map->tables, (uint32_t)row);
    return s.cfa_kind == CFA_REG && s.reg == X86_RSP && s.offset == 8;
}

static void find_slot(const struct finder *f, uint32_t offset, struct plan_site *site)
{
    int64_t row = map_find_row(&f->map->tables, offset);
    const struct map_range *correction = map_find_correction(&f->map->tables, offset);
    if (row < 0 || correction) /* the CFI is wrong there: rare enough to leave alone */
        return;
    struct map_special s = map_spell_rule(&f->map->tables, (uint32_t)row);
    if (s.cfa_kind != CFA_REG || s.place[AT_RIP].kind != PLACE_CFA ||
        s.place[AT_RIP].offset != -8 || (s.reg != X86_RSP && s.reg != X86_RBP))
        return;
    site->slot_base = s.reg == X86_RSP ? SLOT_RSP : SLOT_RBP;
    site->slot_bytes = s.offset - 8;
}

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
        !ZYAN_SUCCESS(ZydisDecoderDecodeOperands(&f->decoder, &i->context, d, o, d->operand_count)))
        return false;
    *needs_fixup = is_rip_relative(i, &ignored);
    if (*needs_fixup && d->raw.imm[0].size) /* what the distance counts from lies behind that */
        return false;
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
    uint64_t target;
    if (is_rip_relative(i, &target)) {
        site->fixup = (uint8_t)(site->code_bytes + i->decoded.raw.disp.offset + 1);
        site->fixup_target = (uint32_t)target;
    }
    size_t start = f->out->code.count;
    for (unsigned k = 0; k < i->decoded.length; k++)
        vec_push(&f->out->code, i->bytes[k]);
    if (is_shifted && is_relative_to_rsp(&i->decoded)) {
        int32_t shifted = (int32_t)i->decoded.raw.disp.value + 8;
        memcpy(f->out->code.items + start + i->decoded.raw.disp.offset, &shifted,
               i->decoded.raw.disp.size / 8);
    }
    site->code_bytes = (uint8_t)(site->code_bytes + i->decoded.length);
}

/*
 * Chooses the instructions that move with the site: from before[first] on. Returns the number of
 * their bytes, or -1 with the reason in the site.
 */
static int choose_moved(struct finder *f, const struct instruction *i, bool stack_may_move,
                        struct plan_site *site, unsigned *first)
{
    unsigned moved = 0, fixups = 0;
    uint64_t ignored;
    fixups += (unsigned)is_rip_relative(i, &ignored);
    *first = f->before_count;
    while (moved + i->decoded.length < JUMP_BYTES) {
        bool needs_fixup = false;
        if (*first == 0) {
            site->reason = REASON_AT_START;
            return -1;
        }
        uint32_t next = *first < f->before_count ? f->before[*first].offset : i->offset;
        if (targets_has(&f->targets, next)) {
            site->reason = REASON_BRANCH_TARGET;
            return -1;
        }
        const struct instruction *b = &f->before[--*first];
        if (!is_movable(f, b, stack_may_move, &needs_fixup) || (fixups += needs_fixup) > 1) {
            site->reason = REASON_NOT_MOVABLE;
            return -1;
        }
        moved += b->decoded.length;
    }
    site->reason = REASON_NONE;
    return (int)moved;
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
    for (uint32_t at = end; at < i->offset + JUMP_BYTES; at++)
        if (targets_has(&f->targets, at))
            return false;
    return decode_padding(f->file, end, most) >= i->offset + JUMP_BYTES - end;
}

/* An indirect transfer becomes `push` of its operand: the same bytes with another digit. */
static bool add_push(struct finder *f, const struct instruction *i, struct plan_site *site)
{
    enum { DIGIT_PUSH = 6 };
    const ZydisDecodedInstruction *d = &i->decoded;
    bool is_shifted = site->kind == SITE_CALL_INDIRECT && is_relative_to_rsp(d);
    if ((is_shifted && !can_shift(d)) ||
        (d->attributes & (ZYDIS_ATTRIB_HAS_SEGMENT_FS | ZYDIS_ATTRIB_HAS_SEGMENT_GS)))
        return false;
    size_t at = f->out->code.count + d->raw.modrm.offset;
    move(f, i, site->kind == SITE_CALL_INDIRECT, site);
    f->out->code.items[at] = (uint8_t)((f->out->code.items[at] & ~0x38) | DIGIT_PUSH << 3);
    return true;
}

/* Bytes that are written over cannot be used for anything else. */
static void take_bytes(struct finder *f, uint32_t start, uint32_t end)
{
    for (uint32_t at = start; at < end; at++)
        targets_add(&f->targets, at);
}

/* Takes the first bytes of a pad that a short jump from the site reaches. */
static bool find_hop(struct finder *f, const struct instruction *i, struct plan_site *site)
{
    int64_t from = (int64_t)i->offset + HOP_BYTES;
    size_t low = 0, high = f->pads.count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if ((int64_t)f->pads.items[middle].end < from + INT8_MIN)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < f->pads.count && (int64_t)f->pads.items[low].start <= from + INT8_MAX; low++) {
        struct pad *p = &f->pads.items[low];
        while (p->start < p->end &&
               ((int64_t)p->start < from + INT8_MIN || targets_has(&f->targets, p->start)))
            p->start++;
        if (p->end - p->start < JUMP_BYTES || (int64_t)p->start > from + INT8_MAX)
            continue;
        bool is_free = true;
        for (uint32_t at = p->start; at < p->start + JUMP_BYTES; at++)
            is_free &= !targets_has(&f->targets, at);
        if (!is_free)
            continue;
        site->hop = (int16_t)(p->start - i->offset);
        take_bytes(f, p->start, p->start + JUMP_BYTES);
        p->start += JUMP_BYTES;
        return true;
    }
    return false;
}

static void displace(struct finder *f, const struct instruction *i, struct plan_site *site)
{
    bool is_call = site->kind == SITE_CALL_INDIRECT;
    bool is_indirect = is_call || site->kind == SITE_TAIL_INDIRECT;
    unsigned first;
    int moved = choose_moved(f, i, !is_call, site, &first);
    if (moved < 0 && is_call) { /* what uses the stack can move if the return address comes later */
        moved = choose_moved(f, i, true, site, &first);
        site->flags = SITE_PUSHES_RETURN;
    }
    if (moved < 0 && has_padding_behind(f, i)) {
        take_bytes(f, i->offset + i->decoded.length, i->offset + JUMP_BYTES);
        site->reason = REASON_NONE;
        first = f->before_count;
        moved = 0;
    }
    site->tier = TIER_TRAP;
    if (moved < 0) {
        enum site_reason why = site->reason;
        if (i->decoded.length < HOP_BYTES || !find_hop(f, i, site))
            return;
        site->tier = TIER_HOP;
        site->flags = is_call ? SITE_PUSHES_RETURN : 0;
        site->code = (uint32_t)f->out->code.count;
        site->reason = REASON_NONE;
        if (is_indirect && !add_push(f, i, site)) {
            site->tier = TIER_TRAP;
            site->reason = (uint8_t)why;
        }
        return;
    }
    size_t code = f->out->code.count;
    site->code = (uint32_t)code;
    for (unsigned k = first; k < f->before_count; k++)
        move(f, &f->before[k], is_call && !site->flags, site);
    if (is_indirect && !add_push(f, i, site)) {
        f->out->code.count = code;
        site->code_bytes = site->fixup = 0;
        site->fixup_target = site->code = 0;
        site->reason = REASON_NOT_MOVABLE;
        return;
    }
    site->moved_bytes = (uint8_t)moved;
    site->tier = TIER_DISPLACE;
}

static bool is_plt(const struct finder *f, uint32_t offset)
{
    const struct code_range *code = elf_code_at(f->file, f->file->base + offset);
    return code && strncmp(code->section, ".plt", 4) == 0;
}

/* The slot that a stub of the PLT jumps through; 0 when the target is none. */
static uint32_t got_of(const struct finder *f, uint64_t target)
{
    const struct code_range *code = elf_code_at(f->file, f->file->base + target);
    if (!code || strncmp(code->section, ".plt", 4) != 0)
        return 0;
    const uint8_t *at = code->bytes + (f->file->base + target - code->start);
    uint64_t left = code->end - f->file->base - target, next = target;
    if (left >= 4 && memcmp(at, "\xf3\x0f\x1e\xfa", 4) == 0) { /* endbr64 */
        at += 4;
        next += 4;
        left -= 4;
    }
    if (left && *at == 0xf2) { /* bnd */
        at++;
        next++;
        left--;
    }
    int32_t relative;
    if (left < 6 || at[0] != 0xff || at[1] != 0x25)
        return 0;
    memcpy(&relative, at + 2, sizeof relative);
    return (uint32_t)(next + 6 + (uint64_t)(int64_t)relative);
}

/* May a jump stay in its function? Only where the data leads to places inside it. */
static bool may_stay_inside(const struct finder *f)
{
    const struct map_function *fn = f->function;
    return targets_has_label(&f->targets, fn->start, fn->start + fn->size);
}

static void add_site(struct finder *f, const struct instruction *i, enum site_kind kind,
                     uint64_t target)
{
    struct plan_site site = {.offset = i->offset,
                             .target = (uint32_t)target,
                             .function = f->whole,
                             .length = i->decoded.length,
                             .kind = (uint8_t)kind};
    find_slot(f, i->offset, &site);
    if (kind == SITE_CALL || kind == SITE_TAIL) {
        site.tier = TIER_RETARGET;
        site.got = got_of(f, target);
    } else if (kind == SITE_TAIL_INDIRECT && may_stay_inside(f)) {
        site.tier = TIER_NONE;
        site.reason = REASON_MAY_STAY;
    } else {
        displace(f, i, &site);
    }
    if (site.slot_base == SLOT_UNKNOWN && site.tier != TIER_NONE)
        site.reason = REASON_NO_SLOT; /* it must walk the stack each time */
    vec_push(&f->out->items, site);
}

/* Does a jump leave its function for another, as a call that returns to our caller? */
static bool is_tail(const struct finder *f, const struct instruction *i, uint64_t target)
{
    const struct map_function *there = map_find_function(f->map, target);
    if (there && whole_of(f->map, there)->start == f->whole)
        return target == f->whole && is_as_at_entry(f->map, i->offset) &&
               f->function->start != target;
    bool is_start = there && there->start == target && !(there->flags & FUNCTION_FRAGMENT);
    return is_as_at_entry(f->map, i->offset) &&
           ((is_start && is_as_at_entry(f->map, target)) || got_of(f, target));
}

/*
 * An indirect jump with the return address at the top of the stack is a tail call, or a switch in a
 * function without a frame. Compilers make switches of three forms: marked as such (notrack), from
 * a table of distances, to which the table's address is added just before, and through a table of
 * addresses.
 */
static bool is_switch(const struct finder *f, const struct instruction *i)
{
    const ZydisDecodedInstruction *d = &i->decoded;
    if (d->attributes & ZYDIS_ATTRIB_HAS_NOTRACK)
        return true;
    bool is_memory = d->raw.modrm.mod != 3;
    if (is_memory) /* disp32(,index,8) */
        return d->raw.modrm.mod == 0 && d->raw.modrm.rm == 4 && d->raw.sib.base == 5 &&
               d->raw.sib.scale == 3;
    const struct instruction *before = f->before_count ? &f->before[f->before_count - 1] : NULL;
    if (!before || before->decoded.mnemonic != ZYDIS_MNEMONIC_ADD ||
        before->decoded.raw.modrm.mod != 3)
        return false;
    /* add register, register: 01 /r has its destination in rm, 03 /r in reg */
    const ZydisDecodedInstruction *a = &before->decoded;
    unsigned to = a->opcode == 0x03 ? a->raw.modrm.reg | (unsigned)a->raw.rex.R << 3
                                    : a->raw.modrm.rm | (unsigned)a->raw.rex.B << 3;
    return to == (d->raw.modrm.rm | (unsigned)d->raw.rex.B << 3);
}

static void find_sites(struct finder *f, const struct instruction *i)
{
    const ZydisDecodedInstruction *d = &i->decoded;
    uint64_t target = 0;
    bool direct = is_direct(i, &target);
    if (d->meta.category == ZYDIS_CATEGORY_CALL) {
        if (direct && target != i->offset + d->length) /* call to the next: it reads its own pc */
            add_site(f, i, SITE_CALL, target);
        else if (!direct)
            add_site(f, i, SITE_CALL_INDIRECT, 0);
    } else if (is_jump(i) && direct && is_tail(f, i, target)) {
        add_site(f, i, d->raw.imm[0].size == 32 ? SITE_TAIL : SITE_TAIL_SHORT, target);
    } else if (d->mnemonic == ZYDIS_MNEMONIC_JMP && !direct && is_as_at_entry(f->map, i->offset) &&
               !is_switch(f, i)) {
        add_site(f, i, SITE_TAIL_INDIRECT, 0);
    }
}

static int compare_ranks(const void *a, const void *b, void *items)
{
    const struct plan_site *x = (const struct plan_site *)items + *(const uint32_t *)a;
    const struct plan_site *y = (const struct plan_site *)items + *(const uint32_t *)b;
    if (x->function != y->function)
        return x->function < y->function ? -1 : 1;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

static void rank_sites(struct sites *s)
{
    for (uint32_t i = 0; i < s->items.count; i++)
        vec_push(&s->by_rank, i);
    if (s->items.count)
        qsort_r(s->by_rank.items, s->by_rank.count, sizeof(uint32_t), compare_ranks,
                s->items.items);
    for (uint32_t rank = 0; rank < s->by_rank.count; rank++)
        s->items.items[s->by_rank.items[rank]].rank = rank;
}

void sites_find(const struct elf_file *file, const struct map *map, struct sites *out)
{
    struct finder f = {.file = file, .map = map, .out = out};
    *out = (struct sites){0};
    ZydisDecoderInit(&f.decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    targets_begin(&f.targets, file, map);
    for (uint32_t k = 0; k < map->function_count; k++) {
        f.function = &map->functions[k];
        if (each_instruction(&f, find_targets) && k + 1 < map->function_count)
            find_pad_behind(&f, &map->functions[k + 1]);
    }
    uint32_t done = 0; /* functions may overlap: each byte is looked at once */
    for (uint32_t k = 0; k < map->function_count; k++) {
        f.function = &map->functions[k];
        f.whole = whole_of(map, f.function)->start;
        size_t sites = out->items.count, code = out->code.count;
        if (f.function->start < done || !f.function->size || is_plt(&f, f.function->start))
            continue;
        done = f.function->start + f.function->size;
        out->function_count++;
        if (!each_instruction(&f, find_sites)) {
            out->functions_undecoded++;
            out->items.count = sites;
            out->code.count = code;
        }
    }
    rank_sites(out);
    targets_free(&f.targets);
    vec_free(&f.pads);
}

void sites_free(struct sites *sites)
{
    vec_free(&sites->items);
    vec_free(&sites->by_rank);
    vec_free(&sites->code);
}
