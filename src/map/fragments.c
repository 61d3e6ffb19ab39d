/*
 * Jumps and calls are found by their bytes, not by disassembling everything: E9, E8 or 0F 80-8F and
 * a rel32 that leads to the start of a candidate. That a jump's unwind rule must equal the rule at
 * its target (both are in one frame) leaves nothing to chance hits, and makes this a matter of
 * milliseconds.
 */
#include "map/fragments.h"

#include "base/search.h"

#include <string.h>

/* Candidates by start, in an open-addressing table; an entry is an index in functions plus one. */
struct candidates {
    uint32_t *slots;
    size_t mask;
    size_t count;
};

#define SEVERAL_PARENTS (NO_PARENT - 1)
#define IS_CALLED       (NO_PARENT - 2)

/* A jump from one of the functions to a candidate: indices. */
struct jump {
    uint32_t from;
    uint32_t to;
};

struct jumps {
    VEC(struct jump) items;
};

static bool begins_like_a_function(const struct map_tables *t, int64_t row)
{
    const uint32_t at_entry = RULE_RSP | 1u << 12; /* CFA = rsp + 8, nothing saved */
    return row < 0 || RULE_KIND(t->rows[row].rule) == RULE_SPECIAL ||
           (t->rows[row].rule == at_entry && t->saves[row] == 0);
}

static size_t slot_of(const struct candidates *c, const struct functions *f, uint32_t start)
{
    size_t i = (size_t)(start * UINT64_C(0x9e3779b97f4a7c15) >> 32) & c->mask;
    while (c->slots[i] && f->items.items[c->slots[i] - 1].start != start)
        i = (i + 1) & c->mask;
    return i;
}

static void collect(struct candidates *c, const struct map_tables *t, const struct functions *f)
{
    VEC(uint32_t) found = {0};
    for (size_t i = 0; i < f->items.count; i++) {
        const struct map_function *fn = &f->items.items[i];
        bool by_name = fn->flags & FUNCTION_FRAGMENT;
        bool unclear = !(fn->flags & FUNCTION_HAS_SYMBOL) ||
                       functions_part_suffix(strings_get(&f->strings, fn->name));
        if (by_name || (unclear && !begins_like_a_function(t, map_find_row(t, fn->start))))
            vec_push(&found, (uint32_t)i);
    }
    size_t room = 16;
    while (room < found.count * 4)
        room *= 2;
    c->mask = room - 1;
    c->slots = must_calloc(room, sizeof *c->slots);
    c->count = found.count;
    for (size_t i = 0; i < found.count; i++)
        c->slots[slot_of(c, f, f->items.items[found.items[i]].start)] = found.items[i] + 1;
    vec_free(&found);
}

static struct map_function *function_with(struct functions *f, uint32_t offset)
{
    size_t i;
    SEARCH(i, f->items.count, f->items.items[i].start <= offset);
    struct map_function *fn = i ? &f->items.items[i - 1] : NULL;
    return fn && offset - fn->start < fn->size ? fn : NULL;
}

/* A call leads to the candidate: it is a function of its own. */
static void take_call(struct functions *f, uint32_t index)
{
    f->items.items[index].flags &= ~(uint32_t)FUNCTION_FRAGMENT;
    f->items.items[index].parent = IS_CALLED;
}

/* A jump at `from` (the offset of its first byte) leads to the candidate `index`. */
static void take_jump(const struct map_tables *t, struct functions *f, struct jumps *jumps,
                      uint32_t from, uint32_t index)
{
    struct map_function *part = &f->items.items[index];
    if (part->flags & FUNCTION_FRAGMENT) /* its name has said whose it is */
        return;
    int64_t here = map_find_row(t, from), there = map_find_row(t, part->start);
    if (here < 0 || there < 0 || t->rows[here].rule != t->rows[there].rule ||
        t->saves[here] != t->saves[there])
        return;
    const struct map_function *source = function_with(f, from);
    if (source && source != part)
        vec_push(&jumps->items, (struct jump){(uint32_t)(source - f->items.items), index});
}

static bool is_candidate(const struct candidates *c, const struct functions *f, uint32_t index)
{
    return c->slots[slot_of(c, f, f->items.items[index].start)] == index + 1;
}

/*
 * A part may be reached from other parts only. Each takes the function that those who jump to it
 * belong to, as far as that is known, until nothing changes: from no parent to one, to several.
 */
static void find_parents(const struct candidates *c, struct functions *f, const struct jumps *jumps)
{
    for (bool changed = true; changed;) {
        changed = false;
        for (size_t i = 0; i < jumps->items.count; i++) {
            const struct jump *jump = &jumps->items.items[i];
            struct map_function *part = &f->items.items[jump->to];
            uint32_t parent =
                is_candidate(c, f, jump->from) ? f->items.items[jump->from].parent : jump->from;
            parent = parent == IS_CALLED ? jump->from : parent;
            if (parent == NO_PARENT || parent == part->parent || part->parent == SEVERAL_PARENTS ||
                part->parent == IS_CALLED)
                continue;
            part->parent = part->parent == NO_PARENT ? parent : SEVERAL_PARENTS;
            changed = true;
        }
    }
}

static void scan(const struct elf_file *file, const struct code_range *code,
                 const struct candidates *c, const struct map_tables *t, struct functions *f,
                 struct jumps *jumps)
{
    uint64_t size = code->end - code->start;
    uint32_t base = (uint32_t)(code->start - file->base);
    for (uint64_t i = 0; i + 5 <= size; i++) {
        const uint8_t *at = code->bytes + i;
        uint64_t length;
        if (at[0] == 0xe9 || at[0] == 0xe8)
            length = 5;
        else if (at[0] == 0x0f && (at[1] & 0xf0) == 0x80 && i + 6 <= size)
            length = 6;
        else
            continue;
        int32_t relative;
        memcpy(&relative, at + length - 4, sizeof relative);
        uint32_t target = base + (uint32_t)(i + length) + (uint32_t)relative;
        uint32_t hit = c->slots[slot_of(c, f, target)];
        if (hit && at[0] == 0xe8)
            take_call(f, hit - 1);
        else if (hit)
            take_jump(t, f, jumps, base + (uint32_t)i, hit - 1);
    }
}

void fragments_join(const struct elf_file *file, const struct map_tables *tables,
                    struct functions *functions)
{
    struct candidates c;
    struct jumps jumps = {0};
    collect(&c, tables, functions);
    for (size_t i = 0; c.count && i < file->code.count; i++)
        scan(file, &file->code.items[i], &c, tables, functions, &jumps);
    find_parents(&c, functions, &jumps);
    vec_free(&jumps.items);
    for (size_t i = 0; i <= c.mask; i++) {
        if (!c.slots[i])
            continue;
        struct map_function *part = &functions->items.items[c.slots[i] - 1];
        if (part->parent == SEVERAL_PARENTS || part->parent == IS_CALLED)
            part->parent = NO_PARENT;
        if (part->parent != NO_PARENT)
            part->flags |= FUNCTION_FRAGMENT;
    }
    free(c.slots);
}
