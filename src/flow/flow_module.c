/*
 * What must be known of a whole module before any of its functions is copied: where control gets
 * into functions other than at their starts, and what callers keep in registers over direct calls.
 *
 * A compiler that sees both functions may keep a value in a register that callees may change as a
 * rule, since it knows that this one does not (gcc's -fipa-ra). What is in use behind a direct call
 * is therefore held while the callee runs, and while those run that it calls directly.
 */
#include "flow/flow_plan.h"
#include "flow/routine.h"

#include <string.h>

struct place { /* whose address code knows, perhaps a table of where to jump to */
    uint32_t offset, whole;
};

struct scan {
    struct flow_module *m;
    VEC(struct place) places;
    const struct map_function *function;
    uint32_t whole;
};

static void mark(const struct flow_module *m, uint64_t *bits, uint64_t offset)
{
    const struct targets *t = &m->targets;
    if (offset >= t->start && offset < t->end)
        bits[(offset - t->start) / 64] |= UINT64_C(1) << (offset - t->start) % 64;
}

/* Is it inside of a function, behind its start? `whole` is then where that begins. */
static bool is_interior(const struct flow_module *m, uint64_t offset, uint32_t *whole)
{
    const struct map_function *there =
        offset < m->targets.end ? map_find_function(m->map, offset) : NULL;
    if (!there)
        return false;
    *whole = map_whole_of(m->map, there)->start;
    return *whole != offset;
}

static void look_at_addresses(struct scan *s, const ZydisDecodedInstruction *d, uint32_t offset)
{
    struct flow_module *m = s->m;
    uint32_t whole;
    bool has_rip =
        (d->attributes & ZYDIS_ATTRIB_HAS_MODRM) && d->raw.modrm.mod == 0 && d->raw.modrm.rm == 5;
    if (d->mnemonic == ZYDIS_MNEMONIC_LEA && has_rip) {
        uint32_t to = offset + d->length + (uint32_t)d->raw.disp.value;
        vec_push(&s->places, (struct place){to, s->whole});
        mark(m, m->taken, to);
    }
    /* An address of four bytes, in programs that have a fixed place. */
    uint64_t value = (uint32_t)d->raw.imm[0].value.u - m->file->base;
    if (d->raw.imm[0].size == 32 && !d->raw.imm[0].is_relative && m->file->base &&
        is_interior(m, value, &whole) && whole == s->whole)
        mark(m, m->taken, value);
}

static void look_at(struct scan *s, const ZydisDecodedInstruction *d, uint32_t offset)
{
    uint32_t whole;
    if (!d->raw.imm[0].is_relative) {
        look_at_addresses(s, d, offset);
        return;
    }
    uint32_t to = offset + d->length + (uint32_t)d->raw.imm[0].value.s;
    if (is_interior(s->m, to, &whole) &&
        (whole != s->whole || d->meta.category == ZYDIS_CATEGORY_CALL))
        mark(s->m, s->m->landings, to);
}

static void scan_function(struct scan *s)
{
    const struct flow_module *m = s->m;
    const struct map_function *fn = s->function;
    const struct code_range *code = elf_code_at(m->file, m->file->base + fn->start);
    if (!code || fn->size > code->end - m->file->base - fn->start)
        return;
    const uint8_t *bytes = code->bytes + (m->file->base + fn->start - code->start);
    for (uint32_t at = 0; at < fn->size;) {
        ZydisDecodedInstruction d;
        if (!ZYAN_SUCCESS(
                ZydisDecoderDecodeInstruction(&m->decoder, NULL, bytes + at, fn->size - at, &d)))
            return;
        look_at(s, &d, fn->start + at);
        at += d.length;
    }
}

static int compare_places(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    return x->whole < y->whole ? -1 : x->whole > y->whole;
}

static int compare_parts(const void *a, const void *b)
{
    const struct part *x = a, *y = b;
    if (x->whole != y->whole)
        return x->whole < y->whole ? -1 : 1;
    return x->start < y->start ? -1 : x->start > y->start;
}

/* Jump tables; each ends before the next place that code knows. */
static void find_tables(struct scan *s)
{
    struct flow_module *m = s->m;
    struct place *p = s->places.items;
    size_t count = s->places.count, behind = 0;
    if (count)
        qsort(p, count, sizeof *p, compare_places);
    for (size_t k = 0; k < count; k++) {
        while (behind < count && p[behind].offset <= p[k].offset)
            behind++;
        if (k && compare_places(&p[k - 1], &p[k]) == 0)
            continue;
        size_t first;
        SEARCH(first, m->parts.count, m->parts.items[first].whole < p[k].whole);
        unsigned parts = 0;
        while (first + parts < m->parts.count && m->parts.items[first + parts].whole == p[k].whole)
            parts++;
        targets_add_table(&m->targets, m->file, p[k].offset,
                          behind < count ? p[behind].offset : UINT32_MAX, m->parts.items + first,
                          parts);
    }
}

static void scan_all(struct flow_module *m)
{
    struct scan s = {.m = m};
    for (uint32_t k = 0; k < m->map->function_count; k++) {
        s.function = &m->map->functions[k];
        s.whole = map_whole_of(m->map, s.function)->start;
        if (s.function->size)
            scan_function(&s);
    }
    find_tables(&s);
    vec_free(&s.places);
}

/* --- functions and their calls ---------------------------------------------------------------- */

static void add_functions(struct flow_module *m)
{
    uint32_t done = 0;
    for (uint32_t k = 0; k < m->map->function_count; k++) {
        const struct map_function *fn = &m->map->functions[k];
        uint32_t whole = map_whole_of(m->map, fn)->start;
        if (!fn->size)
            continue;
        vec_push(&m->parts, (struct part){whole, fn->start, fn->start + fn->size});
        bool overlaps = fn->start < done;
        if (whole == fn->start)
            vec_push(&m->summaries,
                     (struct flow_summary){.start = fn->start,
                                           .reason = overlaps ? FLOW_OVERLAPS : FLOW_RELOCATED});
        done = fn->start + fn->size > done ? fn->start + fn->size : done;
    }
    if (m->parts.count)
        qsort(m->parts.items, m->parts.count, sizeof *m->parts.items, compare_parts);
}

static void add_call(struct flow_module *m, uint32_t from, uint32_t to, flow_set live)
{
    if (flow_summary_at(m, to))
        vec_push(&m->calls, (struct flow_call){from, to, live & ~flow_at_return()});
}

typedef VEC(struct flow_landing) landings;

static void summarize(struct flow_module *m, struct flow_summary *s, landings *found)
{
    struct routine r;
    if (s->reason)
        return;
    routine_read(m, s->start, 0, &r);
    s->reason = r.reason;
    s->mentions = r.mentions;
    if (r.blocks.count && !r.reason)
        s->needs =
            r.insns.items[r.blocks.items[0].first].live & (REG_BIT(REG_R10) | REG_BIT(REG_R11));
    for (uint32_t n = 0; n < r.blocks.count && !r.reason; n++) {
        const struct flow_block *b = &r.blocks.items[n];
        for (uint32_t k = b->first; k < b->end && b->is_reached; k++) {
            const struct flow_insn *i = &r.insns.items[k];
            if (i->kind == INSN_CALL && i->is_direct)
                add_call(m, s->start, i->target, k + 1 < b->end ? i[1].live : b->live_out);
        }
        if (b->is_landing && b->offset != s->start)
            vec_push(found, (struct flow_landing){b->offset, r.insns.items[b->first].live});
        const struct flow_insn *last = &r.insns.items[b->end - 1];
        if (b->is_reached && b->taken_block == FLOW_NONE && last->kind <= INSN_COUNTED &&
            last->kind != INSN_PLAIN)
            add_call(m, s->start, last->target, 0);
    }
    routine_free(&r);
}

/* What is held over a call is held over all that the callee calls, and what a callee needs goes
 * through those that call it and do not have it themselves. */
static void spread(struct flow_module *m)
{
    for (bool again = true; again;) {
        again = false;
        for (size_t k = m->calls.count; k-- > 0;) {
            const struct flow_call *c = &m->calls.items[k];
            struct flow_summary *from = flow_summary_at(m, c->from),
                                *to = flow_summary_at(m, c->to);
            flow_set held = to->held | from->held | c->live;
            flow_set needs = from->needs | (to->needs & ~from->mentions);
            again |= held != to->held || needs != from->needs;
            to->held = held;
            from->needs = needs;
        }
    }
}

static int compare_landings(const void *a, const void *b)
{
    const struct flow_landing *x = a, *y = b;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

static void read_all(struct flow_module *m)
{
    landings found = {0};
    m->calls.count = 0;
    for (size_t k = 0; k < m->summaries.count; k++)
        summarize(m, &m->summaries.items[k], &found);
    if (found.count)
        qsort(found.items, found.count, sizeof *found.items, compare_landings);
    vec_free(&m->live_landings);
    m->live_landings.items = found.items;
    m->live_landings.count = found.count;
    m->live_landings.room = found.room;
}

void flow_module_open(struct flow_module *m, const struct elf_file *file, const struct map *map)
{
    *m = (struct flow_module){.file = file, .map = map};
    ZydisDecoderInit(&m->decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    targets_begin(&m->targets, file, map);
    size_t words = (m->targets.end - m->targets.start) / 64 + 1;
    m->landings = must_calloc(words, sizeof *m->landings);
    m->taken = must_calloc(words, sizeof *m->taken);
    add_functions(m);
    scan_all(m);
}

void flow_module_begin(struct flow_module *m, const struct elf_file *file, const struct map *map)
{
    flow_module_open(m, file, map);
    read_all(m);
    read_all(m); /* now it is known what is in use at all landings */
    spread(m);
}

void flow_module_end(struct flow_module *m)
{
    targets_free(&m->targets);
    free(m->landings);
    free(m->taken);
    vec_free(&m->parts);
    vec_free(&m->summaries);
    vec_free(&m->calls);
    vec_free(&m->live_landings);
}
