#include "flow/routine.h"

#include "base/search.h"
#include "flow/flow_plan.h"

#include <string.h>

static bool bit_at(const struct flow_module *m, const uint64_t *bits, uint32_t offset)
{
    const struct targets *t = &m->targets;
    return offset >= t->start && offset < t->end &&
           (bits[(offset - t->start) / 64] >> (offset - t->start) % 64 & 1);
}

bool flow_is_landing(const struct flow_module *m, uint32_t offset)
{
    return targets_is_entry(&m->targets, offset) || bit_at(m, m->landings, offset);
}

struct flow_summary *flow_summary_at(const struct flow_module *m, uint32_t start)
{
    size_t i;
    SEARCH(i, m->summaries.count, m->summaries.items[i].start < start);
    return i < m->summaries.count && m->summaries.items[i].start == start ? &m->summaries.items[i]
                                                                          : NULL;
}

bool flow_is_taken(const struct flow_module *m, uint32_t offset)
{
    return bit_at(m, m->taken, offset);
}

uint32_t flow_padding(const struct flow_module *m, uint32_t offset, uint32_t end)
{
    const struct code_range *code = elf_code_at(m->file, m->file->base + offset);
    uint32_t at = offset;
    if (!code || end > code->end - m->file->base)
        return 0;
    const uint8_t *bytes = code->bytes + (m->file->base + offset - code->start);
    while (at < end && !flow_is_taken(m, at)) {
        ZydisDecodedInstruction d;
        if (!ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&m->decoder, NULL, bytes + (at - offset),
                                                        end - at, &d)) ||
            (d.mnemonic != ZYDIS_MNEMONIC_NOP && d.mnemonic != ZYDIS_MNEMONIC_INT3))
            break;
        at += d.length;
    }
    return at - offset;
}

uint32_t routine_find(const struct routine *r, uint32_t offset)
{
    size_t i;
    SEARCH(i, r->insns.count, r->insns.items[i].offset < offset);
    return i < r->insns.count && r->insns.items[i].offset == offset ? (uint32_t)i : FLOW_NONE;
}

const uint8_t *routine_bytes(const struct routine *r, uint32_t offset)
{
    uint64_t address = r->module->file->base + offset;
    const struct code_range *code = elf_code_at(r->module->file, address);
    return code->bytes + (address - code->start);
}

static bool is_inside(const struct routine *r, uint64_t offset)
{
    for (unsigned k = 0; k < r->part_count; k++)
        if (offset >= r->parts[k].start && offset < r->parts[k].end)
            return true;
    return false;
}

/* --- instructions ----------------------------------------------------------------------------- */

static bool is_counted(ZydisMnemonic m)
{
    return m == ZYDIS_MNEMONIC_LOOP || m == ZYDIS_MNEMONIC_LOOPE || m == ZYDIS_MNEMONIC_LOOPNE ||
           m == ZYDIS_MNEMONIC_JRCXZ || m == ZYDIS_MNEMONIC_JECXZ;
}

/* What it does to the flow of control; false: something that cannot be moved. */
static bool set_kind(const ZydisDecodedInstruction *d, struct flow_insn *i)
{
    bool is_direct = d->raw.imm[0].is_relative;
    if (is_direct)
        i->target = i->offset + d->length + (uint32_t)d->raw.imm[0].value.s;
    switch (d->meta.category) {
    case ZYDIS_CATEGORY_CALL:
        i->kind = INSN_CALL;
        i->is_direct = is_direct;
        /* A call of what is behind it reads its own address. */
        return d->meta.branch_type != ZYDIS_BRANCH_TYPE_FAR &&
               !(is_direct && i->target == i->offset + d->length);
    case ZYDIS_CATEGORY_UNCOND_BR:
        i->kind = is_direct ? INSN_JUMP : INSN_INDIRECT;
        return d->meta.branch_type != ZYDIS_BRANCH_TYPE_FAR && d->mnemonic != ZYDIS_MNEMONIC_XABORT;
    case ZYDIS_CATEGORY_COND_BR:
        i->kind = is_counted(d->mnemonic) ? INSN_COUNTED : INSN_BRANCH;
        return is_direct && d->mnemonic != ZYDIS_MNEMONIC_XBEGIN;
    case ZYDIS_CATEGORY_RET:
        i->kind = INSN_RETURN;
        return d->mnemonic == ZYDIS_MNEMONIC_RET;
    default:
        if (d->mnemonic == ZYDIS_MNEMONIC_UD2 || d->mnemonic == ZYDIS_MNEMONIC_HLT)
            i->kind = INSN_STOP;
        return !is_direct && d->mnemonic != ZYDIS_MNEMONIC_XBEGIN;
    }
}

static bool read_one(struct routine *r, const uint8_t *bytes, uint32_t left, uint32_t offset,
                     struct flow_insn *i)
{
    ZydisDecodedInstruction d;
    ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
    if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&r->module->decoder, bytes, left, &d, operands)))
        return false;
    *i = (struct flow_insn){.offset = offset, .length = d.length};
    if ((d.attributes & ZYDIS_ATTRIB_HAS_MODRM) && d.raw.modrm.mod == 0 && d.raw.modrm.rm == 5) {
        i->disp_at = d.raw.disp.offset;
        i->target = offset + d.length + (uint32_t)d.raw.disp.value;
        if (d.address_width != 64)
            return false;
    }
    flow_effects(&d, operands, i, &r->mentions);
    return set_kind(&d, i);
}

static void read_insns(struct routine *r)
{
    for (unsigned k = 0; k < r->part_count && !r->reason; k++) {
        const struct part *p = &r->parts[k];
        const struct code_range *code =
            elf_code_at(r->module->file, r->module->file->base + p->start);
        if (!code || p->end > code->end - r->module->file->base || elf_is_plt(code)) {
            r->reason = FLOW_NO_CODE;
            return;
        }
        if (k && p->start < p[-1].end) {
            r->reason = FLOW_OVERLAPS;
            return;
        }
        const uint8_t *bytes = routine_bytes(r, p->start);
        for (uint32_t at = p->start; at < p->end;) {
            struct flow_insn i;
            if (!read_one(r, bytes + (at - p->start), p->end - at, at, &i)) {
                r->reason = FLOW_NOT_DECODED;
                return;
            }
            vec_push(&r->insns, i);
            at += i.length;
        }
    }
}

/* --- blocks ----------------------------------------------------------------------------------- */

static bool ends_block(const struct flow_insn *i)
{
    return i->kind != INSN_PLAIN && i->kind != INSN_CALL;
}

static bool is_branch(const struct flow_insn *i)
{
    return i->kind == INSN_JUMP || i->kind == INSN_BRANCH || i->kind == INSN_COUNTED;
}

/* Where blocks begin, one byte for each instruction. */
static uint8_t *find_leaders(struct routine *r)
{
    enum { LEADER = 1, LANDING = 2 };
    uint8_t *is = must_calloc(r->insns.count + 1, 1);
    for (uint32_t k = 0; k < r->insns.count; k++) {
        const struct flow_insn *i = &r->insns.items[k];
        bool is_apart = k && i[-1].offset + i[-1].length != i->offset;
        if (!k || is_apart || ends_block(&i[-1]))
            is[k] |= LEADER;
        if (i->offset == r->start || flow_is_landing(r->module, i->offset))
            is[k] |= LEADER | LANDING;
        if (!is_branch(i) || !is_inside(r, i->target))
            continue;
        uint32_t to = routine_find(r, i->target);
        if (to == FLOW_NONE)
            r->reason = FLOW_MISALIGNED;
        else
            is[to] |= LEADER;
    }
    return is;
}

static uint32_t block_at(const struct routine *r, uint32_t offset)
{
    size_t i;
    SEARCH(i, r->blocks.count, r->blocks.items[i].offset < offset);
    return i < r->blocks.count && r->blocks.items[i].offset == offset ? (uint32_t)i : FLOW_NONE;
}

static void make_blocks(struct routine *r)
{
    uint8_t *leaders = find_leaders(r);
    for (uint32_t k = 0; k < r->insns.count; k++) {
        if (leaders[k])
            vec_push(&r->blocks, (struct flow_block){.first = k,
                                                     .offset = r->insns.items[k].offset,
                                                     .is_landing = leaders[k] > 1,
                                                     .taken_block = FLOW_NONE,
                                                     .fall_block = FLOW_NONE,
                                                     .taken = FLOW_NONE,
                                                     .fall = FLOW_NONE,
                                                     .leaves = FLOW_NONE,
                                                     .enters = FLOW_NONE});
        r->blocks.items[r->blocks.count - 1].end = k + 1;
    }
    free(leaders);
    for (uint32_t n = 0; n < r->blocks.count; n++) {
        struct flow_block *b = &r->blocks.items[n];
        const struct flow_insn *last = &r->insns.items[b->end - 1];
        if (is_branch(last))
            b->taken_block = block_at(r, last->target);
        bool falls = !ends_block(last) || last->kind == INSN_BRANCH || last->kind == INSN_COUNTED;
        if (falls && n + 1 < r->blocks.count && b[1].offset == last->offset + last->length)
            b->fall_block = n + 1;
    }
}

static void mark_reached(struct routine *r)
{
    VEC(uint32_t) to_do = {0};
    for (uint32_t n = 0; n < r->blocks.count; n++)
        if (r->blocks.items[n].is_landing)
            vec_push(&to_do, n);
    while (to_do.count) {
        uint32_t n = to_do.items[--to_do.count];
        struct flow_block *b = &r->blocks.items[n];
        if (b->is_reached)
            continue;
        b->is_reached = true;
        if (b->taken_block != FLOW_NONE)
            vec_push(&to_do, b->taken_block);
        if (b->fall_block != FLOW_NONE)
            vec_push(&to_do, b->fall_block);
    }
    vec_free(&to_do);
}

/* An indirect jump whose table is not found could lead anywhere in its function. */
static bool has_unknown_jump(const struct routine *r)
{
    bool has_label = false;
    for (unsigned k = 0; k < r->part_count; k++)
        has_label |= targets_has_label(&r->module->targets, r->parts[k].start, r->parts[k].end);
    for (uint32_t n = 0; n < r->blocks.count && !has_label; n++) {
        const struct flow_block *b = &r->blocks.items[n];
        const struct flow_insn *last = &r->insns.items[b->end - 1];
        if (!b->is_reached || last->kind != INSN_INDIRECT)
            continue;
        int64_t row = map_find_row(&r->module->map->tables, last->offset);
        struct map_special s = {0};
        if (row >= 0)
            s = map_spell_rule(&r->module->map->tables, (uint32_t)row);
        if (s.cfa_kind != CFA_REG || s.reg != X86_RSP || s.offset != 8)
            return true; /* no tail call: the return address is not at the top of the stack */
    }
    return false;
}

/* Does anything know the address of a place inside that may be data? The data's own labels are
 * code where a jump leads to them. */
static bool has_taken_address(const struct routine *r)
{
    bool has_label = false, has_jump = false;
    for (unsigned k = 0; k < r->part_count; k++) {
        const struct part *p = &r->parts[k];
        has_label |= targets_has_label(&r->module->targets, p->start, p->end);
        for (uint32_t at = p->start; at < p->end; at++)
            if (at != r->start && flow_is_taken(r->module, at))
                return true;
    }
    for (uint32_t k = 0; k < r->insns.count && !has_jump; k++)
        has_jump = r->insns.items[k].kind == INSN_INDIRECT;
    return has_label && !has_jump;
}

/* With split stacks, a function that finds little room on its stack calls one that calls it back
 * behind the return that follows. */
static bool returns_elsewhere(const struct routine *r)
{
    for (uint32_t k = 1; k < r->insns.count; k++) {
        const struct flow_insn *i = &r->insns.items[k];
        if (i->kind == INSN_RETURN && i[-1].kind == INSN_CALL && i[-1].is_direct &&
            i[-1].offset + i[-1].length == i->offset)
            return true;
    }
    return false;
}

void routine_read(struct flow_module *m, uint32_t start, flow_set held, struct routine *r)
{
    size_t i;
    SEARCH(i, m->parts.count, m->parts.items[i].whole < start);
    *r = (struct routine){.module = m, .start = start, .parts = m->parts.items + i, .held = held};
    while (i + r->part_count < m->parts.count && m->parts.items[i + r->part_count].whole == start)
        r->part_count++;
    read_insns(r);
    if (r->reason || !r->insns.count) {
        r->reason = r->reason ? r->reason : FLOW_NO_CODE;
        return;
    }
    if (returns_elsewhere(r)) {
        r->reason = FLOW_RETURNS_ELSEWHERE;
        return;
    }
    if (has_taken_address(r)) {
        r->reason = FLOW_ADDRESS_TAKEN;
        return;
    }
    make_blocks(r);
    if (r->reason)
        return;
    mark_reached(r);
    if (has_unknown_jump(r))
        r->reason = FLOW_UNKNOWN_JUMP;
    routine_live(r);
}

/* --- the graph -------------------------------------------------------------------------------- */

/* A guess at how often a block runs: the deeper in loops, the more. */
static uint32_t *guess_weights(const struct routine *r)
{
    enum { LOOP = 8, DEEPEST = 6 };
    uint32_t count = (uint32_t)r->blocks.count, *weights = must_calloc(count + 1, sizeof *weights);
    int32_t *depths = must_calloc(count + 2, sizeof *depths);
    for (uint32_t n = 0; n < count; n++) {
        uint32_t to = r->blocks.items[n].taken_block;
        if (!r->blocks.items[n].is_reached || to == FLOW_NONE || to > n)
            continue;
        depths[to]++;
        depths[n + 1]--;
    }
    int32_t depth = 0;
    for (uint32_t n = 0; n < count; n++) {
        depth += depths[n];
        weights[n] = 4;
        for (int32_t k = 0; k < depth && k < DEEPEST; k++)
            weights[n] *= LOOP;
    }
    free(depths);
    return weights;
}

static uint32_t add_edge(struct routine *r, uint32_t from, uint32_t to, uint32_t weight)
{
    flow_add(&r->graph, from, to, weight);
    return (uint32_t)r->graph.edges.count - 1;
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

bool routine_number(struct routine *r, uint64_t most)
{
    uint32_t *weights = guess_weights(r);
    r->graph.node_count = FLOW_FIRST + (uint32_t)r->blocks.count;
    for (uint32_t n = 0; n < r->blocks.count; n++) {
        struct flow_block *b = &r->blocks.items[n];
        const struct flow_insn *last = &r->insns.items[b->end - 1];
        const uint32_t node = FLOW_FIRST + n, weight = weights[n];
        if (!b->is_reached)
            continue;
        if (b->is_landing)
            b->enters = add_edge(r, FLOW_ENTRY, node, b->offset == r->start ? 4 : 1);
        if (b->taken_block != FLOW_NONE)
            b->taken = add_edge(r, node, FLOW_FIRST + b->taken_block,
                                least(weight, weights[b->taken_block]) * 3 / 4);
        if (b->fall_block != FLOW_NONE)
            b->fall = add_edge(r, node, FLOW_FIRST + b->fall_block,
                               least(weight, weights[b->fall_block]));
        bool leaves = last->kind == INSN_RETURN || last->kind == INSN_INDIRECT ||
                      (is_branch(last) && b->taken_block == FLOW_NONE);
        if (leaves)
            b->leaves = add_edge(r, node, FLOW_EXIT, 1);
    }
    free(weights);
    return flow_number(&r->graph, most);
}

void routine_free(struct routine *r)
{
    vec_free(&r->insns);
    vec_free(&r->blocks);
    flow_free(&r->graph);
}
