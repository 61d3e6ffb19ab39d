/*
 * Room for jumps to the copy, where control gets into the old code of a function. All else there is
 * dead but for its calls, which stay where they are: five bytes up to the next call or entrance are
 * enough for a jump, two for a short one to five dead bytes nearby.
 */
#include "base/search.h"
#include "flow/flow_plan.h"

#include <string.h>

enum { JUMP_BYTES = 5, SHORT_BYTES = 2, NOP = 0x90 };
enum { MOST_PADDING = 16, MARK_BYTES = 4 };

enum byte_state { BYTE_KEPT, BYTE_DEAD };

struct room {
    const struct routine *r;
    uint8_t *states; /* enum byte_state: of the parts, one behind the other, with padding */
    uint32_t first[PLAN_MOST_PARTS + 1];
    uint32_t padding[PLAN_MOST_PARTS];
};

static uint8_t *state_at(const struct room *m, uint32_t offset)
{
    for (unsigned k = 0; k < m->r->part_count; k++) {
        const struct part *p = &m->r->parts[k];
        if (offset >= p->start && offset < p->end + m->padding[k])
            return &m->states[m->first[k] + (offset - p->start)];
    }
    return NULL;
}

static void set(struct room *m, uint32_t offset, uint32_t bytes, enum byte_state state)
{
    for (uint32_t k = 0; k < bytes; k++) {
        uint8_t *at = state_at(m, offset + k);
        if (at)
            *at = (uint8_t)state;
    }
}

/* How many dead bytes there are, at most so many. */
static uint32_t dead_bytes(const struct room *m, uint32_t offset, uint32_t most)
{
    uint32_t n = 0;
    for (const uint8_t *at; n < most && (at = state_at(m, offset + n)) && *at == BYTE_DEAD; n++)
        ;
    return n;
}

static bool is_followed_by_own(const struct flow_module *m, uint32_t end, uint32_t bytes)
{
    for (uint32_t k = 0; k < bytes; k++)
        if (flow_is_landing(m, end + k) || targets_has(&m->targets, end + k))
            return true;
    return false;
}

/* Padding behind a part, which nothing leads to. */
static uint32_t padding_behind(const struct routine *r, const struct part *p)
{
    const struct flow_module *m = r->module;
    size_t i;
    SEARCH(i, m->map->function_count, m->map->functions[i].start < p->end);
    uint32_t end = p->end + MOST_PADDING;
    if (i < m->map->function_count && m->map->functions[i].start < end)
        end = m->map->functions[i].start;
    const struct code_range *code = elf_code_at(m->file, m->file->base + p->start);
    uint64_t last = code->end - m->file->base;
    end = end < last ? end : (uint32_t)last;
    uint32_t bytes = end > p->end ? flow_padding(m, p->end, end) : 0;
    return is_followed_by_own(m, p->end, bytes) ? 0 : bytes;
}

static bool begin(struct room *m, const struct routine *r)
{
    *m = (struct room){.r = r};
    if (r->part_count > PLAN_MOST_PARTS)
        return false;
    for (unsigned k = 0; k < r->part_count; k++) {
        m->padding[k] = padding_behind(r, &r->parts[k]);
        m->first[k + 1] = m->first[k] + r->parts[k].end - r->parts[k].start + m->padding[k];
    }
    m->states = must_calloc(m->first[r->part_count], 1);
    for (unsigned k = 0; k < r->part_count; k++)
        set(m, r->parts[k].end, m->padding[k], BYTE_DEAD);
    return true;
}

/* Where an indirect branch may lead the processor wants to see endbr64, and so do programs: the
 * jump to the copy stands behind it. */
static uint32_t behind_mark(const struct routine *r, uint32_t offset)
{
    static const uint8_t endbr64[MARK_BYTES] = {0xf3, 0x0f, 0x1e, 0xfa};
    uint32_t k = routine_find(r, offset);
    bool is_mark = k != FLOW_NONE && r->insns.items[k].length == sizeof endbr64 &&
                   memcmp(routine_bytes(r, offset), endbr64, sizeof endbr64) == 0;
    return is_mark ? offset + (uint32_t)sizeof endbr64 : offset;
}

/* What is copied is dead, and so is padding that nothing leads to; calls are not. */
static void find_dead(struct room *m)
{
    const struct routine *r = m->r;
    for (uint32_t n = 0; n < r->blocks.count; n++) {
        const struct flow_block *b = &r->blocks.items[n];
        const struct flow_insn *last = &r->insns.items[b->end - 1];
        const uint32_t end = last->offset + last->length;
        if (!b->is_reached) {
            set(m, b->offset, flow_padding(r->module, b->offset, end), BYTE_DEAD);
            continue;
        }
        set(m, b->offset, end - b->offset, BYTE_DEAD);
        for (uint32_t k = b->first; k < b->end; k++)
            if (r->insns.items[k].kind == INSN_CALL)
                set(m, r->insns.items[k].offset, r->insns.items[k].length, BYTE_KEPT);
    }
}

uint32_t flow_last_of_chain(const struct routine *r, const struct flow_block *b, uint32_t k)
{
    for (;;) {
        uint32_t next = k + 1;
        if (next < b->end && r->insns.items[next].length == 1 &&
            *routine_bytes(r, r->insns.items[next].offset) == NOP)
            next++;
        if (next >= b->end || r->insns.items[next].kind != INSN_CALL)
            return k;
        k = next;
    }
}

static int compare_entrances(const void *a, const void *b)
{
    const struct flow_entrance *x = a, *y = b;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

static void add(struct flow_entrances *e, uint32_t offset)
{
    vec_push(&e->items, (struct flow_entrance){.offset = offset, .target = FLOW_NONE});
}

static void list_entrances(const struct routine *r, struct flow_entrances *e)
{
    for (uint32_t n = 0; n < r->blocks.count; n++) {
        const struct flow_block *b = &r->blocks.items[n];
        if (!b->is_reached)
            continue;
        if (b->is_landing)
            add(e, behind_mark(r, b->offset));
        for (uint32_t k = b->first; k < b->end; k++) {
            if (r->insns.items[k].kind != INSN_CALL)
                continue;
            k = flow_last_of_chain(r, b, k);
            uint32_t behind = r->insns.items[k].offset + r->insns.items[k].length;
            if (routine_find(r, behind) != FLOW_NONE)
                add(e, behind_mark(r, behind));
        }
    }
    qsort(e->items.items, e->items.count, sizeof *e->items.items, compare_entrances);
    size_t kept = 0;
    for (size_t k = 0; k < e->items.count; k++)
        if (!kept || e->items.items[kept - 1].offset != e->items.items[k].offset)
            e->items.items[kept++] = e->items.items[k];
    e->items.count = kept;
}

/*
 * How long the jump at an entrance can be. Where there is no room because a call is there, or
 * behind an instruction of one byte, control goes on in the old code, up to what is kept there; the
 * path that it is on has no beginning then. That is mostly code that nothing comes to, between two
 * calls that do not return.
 */
static bool choose_bytes(struct room *m, struct flow_entrances *e, size_t index)
{
    struct flow_entrance *at = &e->items.items[index];
    uint32_t most = JUMP_BYTES;
    if (index + 1 < e->items.count && at[1].offset - at->offset < most)
        most = at[1].offset - at->offset;
    uint32_t dead = dead_bytes(m, at->offset, most);
    at->bytes = dead == JUMP_BYTES ? JUMP_BYTES : dead >= SHORT_BYTES ? SHORT_BYTES : 0;
    return at->bytes || at->offset != behind_mark(m->r, m->r->start);
}

/* Five dead bytes that a short jump reaches. */
static uint32_t find_slot(const struct room *m, uint32_t from)
{
    enum { BACK = 126, FORTH = 124 };
    for (uint32_t away = 0; away < FORTH; away++) {
        if (dead_bytes(m, from + SHORT_BYTES + away, JUMP_BYTES) == JUMP_BYTES)
            return from + SHORT_BYTES + away;
        if (away < BACK && away >= JUMP_BYTES && from > away &&
            dead_bytes(m, from - away, JUMP_BYTES) == JUMP_BYTES)
            return from - away;
    }
    return 0;
}

bool flow_place_entrances(const struct routine *r, struct flow_entrances *e)
{
    struct room m;
    bool good = begin(&m, r);
    if (good) {
        find_dead(&m);
        list_entrances(r, e);
    }
    for (size_t k = 0; k < e->items.count; k++)
        if (behind_mark(r, e->items.items[k].offset - MARK_BYTES) == e->items.items[k].offset)
            set(&m, e->items.items[k].offset - MARK_BYTES, MARK_BYTES, BYTE_KEPT);
    for (size_t k = 0; good && k < e->items.count; k++)
        good = choose_bytes(&m, e, k);
    for (size_t k = 0; good && k < e->items.count; k++) {
        const struct flow_entrance *at = &e->items.items[k];
        uint32_t insn = routine_find(r, at->offset);
        uint32_t kept = insn == FLOW_NONE ? 1 : r->insns.items[insn].length;
        set(&m, at->offset, at->bytes ? at->bytes : kept, BYTE_KEPT);
    }
    for (size_t k = 0, count = e->items.count; good && k < count; k++) {
        if (e->items.items[k].bytes != SHORT_BYTES)
            continue;
        uint32_t slot = find_slot(&m, e->items.items[k].offset);
        good = slot != 0;
        set(&m, slot, JUMP_BYTES, BYTE_KEPT);
        vec_push(&e->items,
                 (struct flow_entrance){.offset = slot, .target = FLOW_NONE, .bytes = JUMP_BYTES});
        e->items.items[k].target = slot;
    }
    free(m.states);
    return good;
}

void flow_set_target(const struct routine *r, struct flow_entrances *e, uint32_t offset,
                     uint32_t target)
{
    offset = behind_mark(r, offset);
    for (size_t k = 0; k < e->items.count; k++) {
        struct flow_entrance *at = &e->items.items[k];
        if (at->offset != offset || !at->bytes)
            continue;
        for (size_t n = 0; at->bytes == SHORT_BYTES && n < e->items.count; n++)
            if (e->items.items[n].offset == at->target)
                e->items.items[n].target = target;
        if (at->bytes == JUMP_BYTES)
            at->target = target;
    }
}
