/*
 * Where control may arrive other than from the instruction before: branches, jump tables, addresses
 * that are taken, landing pads. More than there are is safe, fewer is not.
 */
#ifndef EDIT_TARGETS_H
#define EDIT_TARGETS_H

#include "elf/elf_file.h"
#include "map/map.h"

struct targets {
    uint64_t *bits;    /* one for each byte of code */
    uint64_t *labels;  /* of those, those that the data leads to */
    uint64_t *entries; /* and those at which it may arrive from outside of their function */
    uint64_t *taken;   /* bytes that are written over: they cannot be used for anything else */
    uint32_t start, end;
};

/* A function, or a part of one that lies elsewhere. */
struct part {
    uint32_t whole; /* where its function begins */
    uint32_t start, end;
};

/* All that can be found without decoding; branches are added by the code that decodes. */
void targets_begin(struct targets *targets, const struct elf_file *file, const struct map *map);
void targets_free(struct targets *targets);

static inline void targets_add(struct targets *t, uint64_t offset)
{
    if (offset >= t->start && offset < t->end)
        t->bits[(offset - t->start) / 64] |= UINT64_C(1) << (offset - t->start) % 64;
}

static inline bool targets_has(const struct targets *t, uint64_t offset)
{
    return offset >= t->start && offset < t->end &&
           (t->bits[(offset - t->start) / 64] >> (offset - t->start) % 64 & 1);
}

static inline bool targets_is_entry(const struct targets *t, uint64_t offset)
{
    return offset >= t->start && offset < t->end &&
           (t->entries[(offset - t->start) / 64] >> (offset - t->start) % 64 & 1);
}

void targets_take(struct targets *t, uint64_t start, uint64_t end);

/* May the bytes be written over, by code that takes care of jumps to the first of them? */
bool targets_are_free(const struct targets *t, uint64_t start, uint64_t end);

/* Does the data lead to a place inside a function, behind its start? Jumps within it need that. */
bool targets_has_label(const struct targets *t, uint32_t start, uint32_t end);

/*
 * The entries of a table of 32-bit distances from its own start, as position-independent code has
 * them, as far as they lead to code: not all parts of a function may be known as such. It is none
 * if no entry leads to a known part of the function that uses it: text in UTF-16 looks like one
 * that leads to code. It ends before the next place that code knows, `end`: tables lie side by
 * side. Tables of addresses are found in the data.
 */
void targets_add_table(struct targets *t, const struct elf_file *file, uint64_t start, uint64_t end,
                       const struct part *parts, unsigned part_count);

#endif
