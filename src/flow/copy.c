/*
 * The copy of a function, with code that counts the paths through it.
 *
 * A register has the address of the counter that the path would have if it ended now. Steps are
 * added to it on chords; where a path ends, the counter is one more. It is a general register that
 * nothing in the function touches, and that none of its callers keeps a value in, or else a vector
 * register of that kind. At calls it is put into the thread's mirror of the stack, in the place of
 * the stack pointer, and found there again behind them: the mirror says which call it was for, so
 * that control that comes from elsewhere (longjmp) finds nothing. The rest of that path is then
 * counted as one whose beginning is not known. Where an indirect jump leads to a call, that is in
 * the old code: the jump has left a mark in the mirror, and the path begins behind the call.
 *
 * What is put in changes no flags where those are in use, no memory of the program's and no stack;
 * where it needs a register and none is free, it keeps one in a vector register.
 */
#include "flow/copier.h"

enum { MOST_LOST = 1 << 16, SHORT_LOOP = 2, JUMP_BYTES = 5 };

/*
 * Where the next block begins with a call, control does not come to the copy in between: what is
 * done on the edge to it is done before the first of the two calls.
 */
static const struct flow_block *emit_to_call(struct copier *c, const struct flow_block *b,
                                             flow_set live)
{
    const struct flow_block *next = &c->r->blocks.items[b->fall_block];
    copy_edge(c, b->fall, live | copy_live_at(c, b->fall_block));
    return next;
}

static bool leads_to_call(const struct routine *r, const struct flow_block *b, uint32_t end)
{
    return end + 1 == b->end && b->fall_block != FLOW_NONE &&
           r->insns.items[r->blocks.items[b->fall_block].first].kind == INSN_CALL;
}

/* Instructions up to the last call of a chain stay in the old code. Returns that, or the last one
 * of its block. */
static uint32_t emit_call(struct copier *c, uint32_t block, uint32_t k)
{
    const struct routine *r = c->r;
    const struct flow_block *first = &r->blocks.items[block], *b = first;
    const struct flow_insn *call = &r->insns.items[k];
    uint32_t end = flow_last_of_chain(r, b, k);
    copy_insert(c, call->offset);
    for (uint32_t most = 0; leads_to_call(r, b, end) && most < r->blocks.count; most++) {
        b = emit_to_call(c, b, call->live);
        end = flow_last_of_chain(r, b, b->first);
    }
    const struct flow_insn *last = &r->insns.items[end];
    const uint32_t behind = last->offset + last->length;
    const flow_set live = end + 1 < b->end ? last[1].live : b->live_out;
    bool comes_back = routine_find(r, behind) != FLOW_NONE;
    bool is_landing = comes_back && end + 1 == b->end && flow_is_landing(r->module, behind);
    copy_need(c, !(live >> REG_FLAGS & 1));
    copy_save(c, call->live, behind);
    copy_jump_out(c, call->offset);
    if (b != first)
        return first->end - 1;
    if (!comes_back)
        return end;
    copy_insert(c, behind);
    flow_set_target(c->r, &c->entrances, behind, code_here(c->code));
    copy_restore(c, live, behind, is_landing ? b->fall_block : block, is_landing,
                 k == b->first && copy_is_call_landing(c, block));
    return end;
}

/* --- blocks ----------------------------------------------------------------------------------- */

static void move(struct copier *c, const struct flow_insn *i)
{
    if (c->run_offset == FLOW_NONE) {
        copy_end_piece(c);
        c->run = code_here(c->code);
        c->run_offset = i->offset;
    }
    uint32_t start = code_here(c->code);
    code_bytes(c->code, routine_bytes(c->r, i->offset), i->length);
    if (i->disp_at)
        copy_lead_to(c, start + i->disp_at, start + i->length, i->target);
}

/* The condition of a jump, without its prefixes. */
static unsigned condition_of(const struct copier *c, const struct flow_insn *i)
{
    const uint8_t *at = routine_bytes(c->r, i->offset);
    for (unsigned k = 0; k < i->length; k++) {
        if (at[k] == 0x0f)
            return at[k + 1] & 15u;
        if ((at[k] & 0xf0) == 0x70)
            return at[k] & 15u;
    }
    return 0;
}

/* A jump on a condition, to code of its own or to where the edge leads. */
static void emit_branch(struct copier *c, uint32_t block, const struct flow_insn *i)
{
    const struct flow_block *b = &c->r->blocks.items[block];
    uint32_t at;
    copy_insert(c, i->offset);
    if (i->kind == INSN_COUNTED) {
        code_bytes(c->code, routine_bytes(c->r, i->offset), i->length - 1u);
        code_u8(c->code, SHORT_LOOP);
        code_u8(c->code, 0xeb);
        code_u8(c->code, JUMP_BYTES);
        at = code_jump(c->code, ALWAYS);
    } else {
        at = code_jump(c->code, condition_of(c, i));
    }
    if (b->taken == FLOW_NONE || copy_has_code(c, b->taken))
        vec_push(&c->later, (struct later){.kind = LATER_TAKEN, .block = block, .from = at});
    else
        copy_jump_to_block(c, at, b->taken_block);
}

static void emit_last(struct copier *c, uint32_t block, const struct flow_insn *i)
{
    const struct flow_block *b = &c->r->blocks.items[block];
    switch (i->kind) {
    case INSN_RETURN:
    case INSN_INDIRECT:
        copy_insert(c, i->offset);
        copy_edge(c, b->leaves, i->live);
        if (i->kind == INSN_INDIRECT)
            copy_mark(c, i->live);
        copy_end_piece(c);
        move(c, i);
        break;
    case INSN_JUMP:
        copy_insert(c, i->offset);
        copy_edge(c, b->taken == FLOW_NONE ? b->leaves : b->taken, i->live);
        if (b->taken == FLOW_NONE)
            copy_jump_out(c, i->target);
        else
            copy_jump_to_block(c, code_jump(c->code, ALWAYS), b->taken_block);
        break;
    case INSN_BRANCH:
    case INSN_COUNTED:
        emit_branch(c, block, i);
        break;
    default:
        move(c, i);
    }
}

/* A path begins: in front of the block if nothing falls into it, or elsewhere. */
static void emit_entrance(struct copier *c, uint32_t block)
{
    const struct flow_block *b = &c->r->blocks.items[block];
    bool falls_in = block && b[-1].is_reached && b[-1].fall_block == block;
    if (!b->is_landing || (falls_in && c->r->insns.items[b->first - 1].kind == INSN_CALL))
        return; /* behind a call, that finds out */
    if (falls_in) {
        vec_push(&c->later, (struct later){.kind = LATER_ENTER, .block = block});
        return;
    }
    copy_insert(c, b->offset);
    flow_set_target(c->r, &c->entrances, b->offset, code_here(c->code));
    copy_edge(c, b->enters, copy_live_at(c, block));
}

static void emit_block(struct copier *c, uint32_t block)
{
    const struct flow_block *b = &c->r->blocks.items[block];
    emit_entrance(c, block);
    copy_end_piece(c);
    c->places[block] = code_here(c->code);
    for (uint32_t k = b->first; k < b->end; k++) {
        const struct flow_insn *i = &c->r->insns.items[k];
        if (i->kind == INSN_CALL)
            k = emit_call(c, block, k);
        else if (k + 1 == b->end)
            emit_last(c, block, i);
        else if (i->kind == INSN_PLAIN)
            move(c, i);
    }
    const struct flow_insn *last = &c->r->insns.items[b->end - 1];
    const uint32_t behind = last->offset + last->length;
    if (b->fall != FLOW_NONE && last->kind == INSN_CALL && leads_to_call(c->r, b, b->end - 1)) {
        copy_end_piece(c); /* the call did not come back here */
    } else if (b->fall != FLOW_NONE) {
        copy_insert(c, behind);
        copy_edge(c, b->fall, copy_live_at(c, b->fall_block));
    } else if (last->kind == INSN_PLAIN || last->kind == INSN_BRANCH ||
               last->kind == INSN_COUNTED || last->kind == INSN_CALL) {
        copy_insert(c, behind);
        copy_jump_out(c, behind);
    }
    copy_end_piece(c);
}

/* --- behind them ------------------------------------------------------------------------------ */

static void emit_taken(struct copier *c, const struct later *l)
{
    const struct flow_block *b = &c->r->blocks.items[l->block];
    const struct flow_insn *last = &c->r->insns.items[b->end - 1];
    copy_insert(c, last->target);
    if (b->taken != FLOW_NONE) {
        copy_edge(c, b->taken, copy_live_at(c, b->taken_block));
        copy_jump_to_block(c, code_jump(c->code, ALWAYS), b->taken_block);
    } else {
        bool is_function = flow_summary_at(c->r->module, last->target);
        copy_edge(c, b->leaves, last->live & ~(is_function ? REG_BIT(REG_FLAGS) : 0));
        copy_jump_out(c, last->target);
    }
}

static void emit_lost(struct copier *c, const struct later *l)
{
    unsigned r = is_vector(c) ? (unsigned)l->scratch : (unsigned)c->number;
    copy_insert(c, l->site);
    uint32_t not_marked = 0;
    if (l->kind == LATER_MARKED) {
        const struct flow_block *b = &c->r->blocks.items[l->block];
        uint32_t counter = c->counters + (uint32_t)c->r->graph.edges.items[b->enters].step;
        copy_fix(c, code_store32(c->code, 0x81, 7, r, MIRROR_SITE, c->r->start), FIX_BASE);
        not_marked = code_jump(c->code, NOT_EQUAL);
        code_store32(c->code, 0xc7, 0, r, MIRROR_SITE, 0);
        copy_address(c, r, counter);
        if (is_vector(c))
            code_movq(c->code, 0x6e, vector(c->number), r);
        code_land(c->code, code_jump(c->code, ALWAYS), l->back);
        code_land(c->code, not_marked, code_here(c->code));
    }
    copy_address(c, r, 0);
    vec_push(&c->out->lost, code_here(c->code) - 4);
    if (is_vector(c))
        code_movq(c->code, 0x6e, vector(c->number), r);
    uint32_t at = code_jump(c->code, ALWAYS);
    code_land(c->code, at, l->back);
}

static void emit_enter(struct copier *c, const struct later *l)
{
    const struct flow_block *b = &c->r->blocks.items[l->block];
    copy_insert(c, b->offset);
    if (!l->from)
        flow_set_target(c->r, &c->entrances, b->offset, code_here(c->code));
    else if (l->scratch)
        code_movq(c->code, 0x7e, vector(c->spare[0]), REG_RAX);
    copy_edge(c, b->enters, copy_live_at(c, l->block));
    copy_jump_to_block(c, code_jump(c->code, ALWAYS), l->block);
}

static void emit_later(struct copier *c)
{
    for (size_t k = 0; k < c->later.count; k++) {
        const struct later *l = &c->later.items[k];
        if (l->from)
            code_land(c->code, l->from, code_here(c->code));
        if (l->kind == LATER_TAKEN)
            emit_taken(c, l);
        else if (l->kind == LATER_LOST || l->kind == LATER_MARKED)
            emit_lost(c, l);
        else
            emit_enter(c, l);
        copy_end_piece(c);
    }
    for (size_t k = 0; k < c->jumps.count; k++)
        code_land(c->code, c->jumps.items[k].at, c->places[c->jumps.items[k].block]);
}

/* --- all of it -------------------------------------------------------------------------------- */

/* Registers that the function does not name, and that nobody keeps anything in meanwhile. */
static bool choose_registers(struct copier *c)
{
    static const uint8_t general[] = {REG_R11, REG_R10, REG_R9,  REG_R8,
                                      REG_RDI, REG_RSI, REG_RCX, REG_RDX};
    const struct routine *r = c->r;
    flow_set busy = r->mentions | r->held | flow_at_return();
    for (uint32_t n = 0; n < r->blocks.count; n++)
        for (uint32_t k = r->blocks.items[n].first; k < r->blocks.items[n].end; k++)
            busy |= r->blocks.items[n].is_reached ? r->insns.items[k].live : 0;
    c->number = c->spare[0] = c->spare[1] = -1;
    for (unsigned k = 0; k < sizeof general && c->number < 0; k++)
        if (!(busy >> general[k] & 1))
            c->number = general[k];
    for (int x = REG_XMM0 + 15; x >= REG_XMM0 + 2; x--) {
        if (busy >> x & 1)
            continue;
        int *to = c->number < 0     ? &c->number
                  : c->spare[0] < 0 ? &c->spare[0]
                  : c->spare[1] < 0 ? &c->spare[1]
                                    : NULL;
        if (to)
            *to = x;
    }
    return c->number >= 0;
}

/*
 * What follows from a node leads at most so many counters down, and up, as the sum of steps on some
 * way to it is, and as there are paths above that. False: too far.
 */
static bool find_lost(struct copier *c)
{
    const struct flow_graph *g = &c->r->graph;
    int64_t most = 0, least = 0;
    bool *is_known = must_calloc(g->node_count, sizeof *is_known);
    VEC(uint32_t) to_do = {0};
    int64_t *sums = must_calloc(g->node_count, sizeof *sums);
    vec_push(&to_do, FLOW_ENTRY);
    is_known[FLOW_ENTRY] = true;
    while (to_do.count) {
        uint32_t node = to_do.items[--to_do.count];
        most = sums[node] > most ? sums[node] : most;
        least = sums[node] < least ? sums[node] : least;
        for (uint32_t k = g->first_out[node]; k < g->first_out[node + 1]; k++) {
            const struct flow_edge *e = &g->edges.items[g->out[k]];
            if (e->kind == FLOW_CUT || is_known[e->to])
                continue;
            is_known[e->to] = true;
            sums[e->to] = sums[node] + e->step;
            vec_push(&to_do, e->to);
        }
    }
    vec_free(&to_do);
    free(sums);
    free(is_known);
    c->before = (uint32_t)most;
    c->behind = (uint32_t)((int64_t)g->paths - least);
    return most <= MOST_LOST && -least <= MOST_LOST;
}

static void emit_all(struct copier *c)
{
    enum { ALIGN = 16, NOP = 0x90 };
    while (code_here(c->code) % ALIGN)
        code_u8(c->code, NOP);
    for (uint32_t n = 0; n < c->r->blocks.count; n++)
        if (c->r->blocks.items[n].is_reached)
            emit_block(c, n);
    emit_later(c);
}

static void take_back(struct flow_content *out, const struct flow_content *before)
{
    out->code.bytes.count = before->code.bytes.count;
    out->fixes.count = before->fixes.count;
    out->pieces.count = before->pieces.count;
    out->lost.count = before->lost.count;
    out->hooks.count = before->hooks.count;
}

static void count(const struct copier *c)
{
    struct flow_content *out = c->out;
    out->counter_count += (uint32_t)c->r->graph.paths;
    out->lost_before = c->before > out->lost_before ? c->before : out->lost_before;
    out->lost_behind = c->behind > out->lost_behind ? c->behind : out->lost_behind;
}

enum flow_reason flow_copy(struct routine *r, struct flow_content *out, uint8_t *number)
{
    struct copier c = {.out = out,
                       .code = &out->code,
                       .r = r,
                       .counters = out->counter_count,
                       .run_offset = FLOW_NONE,
                       .inserted_for = FLOW_NONE};
    const struct flow_content before = *out;
    if (!routine_number(r, PLAN_MOST_PATHS) || !find_lost(&c))
        return FLOW_TOO_MANY;
    if (!choose_registers(&c))
        return FLOW_NO_REGISTER;
    *number = (uint8_t)c.number;
    if (!flow_place_entrances(r, &c.entrances)) {
        vec_free(&c.entrances.items);
        return FLOW_NO_ROOM;
    }
    c.places = must_calloc(r->blocks.count, sizeof *c.places);
    emit_all(&c);
    for (size_t k = 0; k < c.entrances.items.count && !c.has_failed; k++) {
        const struct flow_entrance *e = &c.entrances.items.items[k];
        copy_need(&c, !e->bytes || e->target != FLOW_NONE);
        if (e->bytes)
            vec_push(&out->hooks, (struct plan_hook){e->offset, e->target, e->bytes});
    }
    if (c.has_failed)
        take_back(out, &before);
    else
        count(&c);
    vec_free(&c.entrances.items);
    vec_free(&c.jumps);
    vec_free(&c.later);
    free(c.places);
    return c.has_failed ? FLOW_NO_REGISTER : FLOW_RELOCATED;
}
