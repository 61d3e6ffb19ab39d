/* The code that is put into copies: see copy.c. */
#include "flow/copier.h"

enum { MASK = PLAN_MIRROR_BYTES - 8, MIRROR_NUMBER = PLAN_MIRROR_BYTES, COUNTER_BYTES = 8 };

/* --- pieces ----------------------------------------------------------------------------------- */

static void add_piece(struct copier *c, uint32_t start, uint32_t offset, bool moves)
{
    enum { MOST = 0xff00 };
    uint32_t end = code_here(c->code);
    while (start < end) {
        uint32_t bytes = end - start < MOST ? end - start : MOST;
        vec_push(&c->out->pieces, (struct plan_piece){start, offset, (uint16_t)bytes, moves});
        start += bytes;
        offset += moves ? bytes : 0;
    }
}

void copy_end_piece(struct copier *c)
{
    if (c->run_offset != FLOW_NONE)
        add_piece(c, c->run, c->run_offset, true);
    if (c->inserted_for != FLOW_NONE)
        add_piece(c, c->inserted, c->inserted_for, false);
    c->run_offset = c->inserted_for = FLOW_NONE;
}

/* Code is put in that stands for a place of the module. */
void copy_insert(struct copier *c, uint32_t offset)
{
    if (c->inserted_for == offset)
        return;
    copy_end_piece(c);
    c->inserted = code_here(c->code);
    c->inserted_for = offset;
}

void copy_fix(struct copier *c, uint32_t at, enum copy_fix kind)
{
    vec_push(&c->out->fixes, at << COPY_FIX_BITS | (uint32_t)kind);
}

/* A rel32 leads to a place of the module. */
void copy_lead_to(struct copier *c, uint32_t at, uint32_t end, uint32_t offset)
{
    code_set_u32(c->code, at, offset - end);
    copy_fix(c, at, FIX_MODULE);
}

void copy_jump_out(struct copier *c, uint32_t offset)
{
    uint32_t at = code_jump(c->code, ALWAYS);
    copy_lead_to(c, at, at + 4, offset);
}

void copy_jump_to_block(struct copier *c, uint32_t at, uint32_t block)
{
    vec_push(&c->jumps, (struct jump_to){at, block});
}

/* --- registers -------------------------------------------------------------------------------- */

static int free_register(const struct copier *c, flow_set live)
{
    static const uint8_t order[] = {REG_R11, REG_R10, REG_R9,  REG_R8,  REG_RCX,
                                    REG_RDX, REG_RSI, REG_RDI, REG_RAX, 3,
                                    5,       12,      13,      14,      15};
    for (unsigned k = 0; k < sizeof order; k++)
        if (!(live >> order[k] & 1) && order[k] != c->number)
            return order[k];
    return -1;
}

void copy_need(struct copier *c, bool has_it)
{
    c->has_failed |= !has_it;
}

/* A register for what is put in; rax is kept in a vector register if none is free. */
static unsigned begin_scratch(struct copier *c, flow_set live)
{
    int r = free_register(c, live);
    c->keeps_rax = r < 0;
    if (r >= 0)
        return (unsigned)r;
    copy_need(c, c->spare[0] >= 0);
    if (!c->has_failed)
        code_movq(c->code, 0x6e, vector(c->spare[0]), REG_RAX);
    return REG_RAX;
}

static void end_scratch(struct copier *c)
{
    if (c->keeps_rax && !c->has_failed)
        code_movq(c->code, 0x7e, vector(c->spare[0]), REG_RAX);
    c->keeps_rax = false;
}

/* The same where flags may change meanwhile. */
static unsigned begin_change(struct copier *c, flow_set live, bool wants_register)
{
    c->keeps_flags = live >> REG_FLAGS & 1;
    if (!c->keeps_flags)
        return wants_register ? begin_scratch(c, live) : 0;
    copy_need(c, c->spare[1] >= 0);
    if (c->has_failed)
        return REG_RAX;
    c->keeps_rax = true;
    code_movq(c->code, 0x6e, vector(c->spare[0]), REG_RAX);
    code_bytes(c->code, "\x9f\x0f\x90\xc0", 4); /* lahf; seto al */
    code_movq(c->code, 0x6e, vector(c->spare[1]), REG_RAX);
    return REG_RAX;
}

static void end_change(struct copier *c)
{
    if (c->keeps_flags && !c->has_failed) {
        code_movq(c->code, 0x7e, vector(c->spare[1]), REG_RAX);
        code_bytes(c->code, "\x04\x7f\x9e", 3); /* add al, 127; sahf */
    }
    c->keeps_flags = false;
    end_scratch(c);
}

/* --- what is counted -------------------------------------------------------------------------- */

/* A counter's address into a register. */
void copy_address(struct copier *c, unsigned r, uint32_t counter)
{
    copy_fix(c, code_fs(c->code, 0x8b, r), FIX_TABLE);
    code_rm(c->code, 0x8b, r, r, 0);
    copy_fix(c, code_here(c->code) - 4, FIX_SLOT);
    code_rm(c->code, 0x8d, r, r, counter * COUNTER_BYTES);
}

static void emit_begin(struct copier *c, int64_t step, flow_set live)
{
    uint32_t counter = c->counters + (uint32_t)step;
    if (!is_vector(c)) {
        copy_address(c, (unsigned)c->number, counter);
        return;
    }
    unsigned scratch = begin_scratch(c, live);
    copy_address(c, scratch, counter);
    code_movq(c->code, 0x6e, vector(c->number), scratch);
    end_scratch(c);
}

static void emit_end(struct copier *c, int64_t step, flow_set live)
{
    uint32_t distance = (uint32_t)step * COUNTER_BYTES;
    unsigned scratch = begin_change(c, live, is_vector(c));
    if (is_vector(c)) {
        code_movq(c->code, 0x7e, vector(c->number), scratch);
        code_inc(c->code, scratch, distance);
    } else {
        code_inc(c->code, (unsigned)c->number, distance);
    }
    end_change(c);
}

static void emit_step(struct copier *c, int64_t step, flow_set live)
{
    uint32_t distance = (uint32_t)step * COUNTER_BYTES;
    if (!step)
        return;
    if (!is_vector(c)) {
        code_rm(c->code, 0x8d, (unsigned)c->number, (unsigned)c->number, distance);
        return;
    }
    unsigned scratch = begin_scratch(c, live);
    code_movq(c->code, 0x7e, vector(c->number), scratch);
    code_rm(c->code, 0x8d, scratch, scratch, distance);
    code_movq(c->code, 0x6e, vector(c->number), scratch);
    end_scratch(c);
}

/* What is done on an edge of the graph; whatever is live where it leads to is kept. */
void copy_edge(struct copier *c, uint32_t edge, flow_set live)
{
    const struct flow_graph *g = &c->r->graph;
    const struct flow_edge *e = &g->edges.items[edge];
    if (e->kind == FLOW_CUT) {
        emit_end(c, g->edges.items[g->ends[e->from]].step, live);
        emit_begin(c, g->edges.items[g->starts[e->to]].step, live);
    } else if (e->to == FLOW_EXIT) {
        emit_end(c, e->step, live);
    } else if (e->from == FLOW_ENTRY) {
        emit_begin(c, e->step, live);
    } else {
        emit_step(c, e->step, live);
    }
}

bool copy_has_code(const struct copier *c, uint32_t edge)
{
    const struct flow_edge *e = &c->r->graph.edges.items[edge];
    return e->kind == FLOW_CUT || e->to == FLOW_EXIT || e->step;
}

flow_set copy_live_at(const struct copier *c, uint32_t block)
{
    return c->r->insns.items[c->r->blocks.items[block].first].live;
}

/* --- calls ------------------------------------------------------------------------------------ */

void copy_save(struct copier *c, flow_set live, uint32_t site)
{
    unsigned t = begin_scratch(c, live);
    code_stack_place(c->code, t, MASK);
    copy_fix(c, code_fs(c->code, 0x03, t), FIX_MIRROR);
    code_rm(c->code, 0x89, REG_RSP, t, 0);
    if (is_vector(c))
        code_movq_store(c->code, vector(c->number), t, MIRROR_NUMBER);
    else
        code_rm(c->code, 0x89, (unsigned)c->number, t, MIRROR_NUMBER);
    copy_fix(c, code_store32(c->code, 0xc7, 0, t, MIRROR_SITE, site), FIX_BASE);
    end_scratch(c);
}

/* Does an indirect jump perhaps lead to a call, where there is no room for a jump to the copy? */
bool copy_is_call_landing(const struct copier *c, uint32_t block)
{
    const struct flow_block *b = &c->r->blocks.items[block];
    return b->is_reached && b->is_landing && b->offset != c->r->start &&
           c->r->insns.items[b->first].kind == INSN_CALL;
}

void copy_mark(struct copier *c, flow_set live)
{
    bool is_wanted = false;
    for (uint32_t n = 0; n < c->r->blocks.count; n++)
        is_wanted |= copy_is_call_landing(c, n);
    if (!is_wanted)
        return;
    unsigned t = begin_change(c, live, true);
    code_stack_place(c->code, t, MASK);
    copy_fix(c, code_fs(c->code, 0x03, t), FIX_MIRROR);
    code_rm(c->code, 0x89, REG_RSP, t, 0);
    copy_fix(c, code_store32(c->code, 0xc7, 0, t, MIRROR_SITE, c->r->start), FIX_BASE);
    end_change(c);
}

void copy_restore(struct copier *c, flow_set live, uint32_t site, uint32_t block, bool is_landing,
                  bool may_be_marked)
{
    unsigned t = is_vector(c) ? begin_scratch(c, live) : (unsigned)c->number;
    code_stack_place(c->code, t, MASK);
    copy_fix(c, code_fs(c->code, 0x03, t), FIX_MIRROR);
    code_rm(c->code, 0x39, REG_RSP, t, 0);
    uint32_t other_stack = code_jump(c->code, NOT_EQUAL);
    copy_fix(c, code_store32(c->code, 0x81, 7, t, MIRROR_SITE, site), FIX_BASE);
    uint32_t other_site = code_jump(c->code, NOT_EQUAL);
    code_store32(c->code, 0xc7, 0, t, MIRROR_SITE, 0); /* it holds once */
    if (is_vector(c))
        code_movq_load(c->code, vector(c->number), t, MIRROR_NUMBER);
    else
        code_rm(c->code, 0x8b, t, t, MIRROR_NUMBER);
    struct later lost = {.kind = LATER_LOST, .block = block, .site = site, .scratch = (int)t};
    lost.back = code_here(c->code);
    if (is_landing) { /* control comes from elsewhere, too: a path begins */
        lost.kind = LATER_ENTER;
        lost.scratch = c->keeps_rax;
    }
    lost.from = other_stack;
    vec_push(&c->later, lost);
    lost.from = other_site;
    if (may_be_marked && !is_landing)
        lost.kind = LATER_MARKED;
    vec_push(&c->later, lost);
    end_scratch(c);
}
