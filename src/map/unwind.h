/*
 * The unwind table under construction: rows are appended in order of pc, equal neighbours are
 * joined, special rules are kept once.
 */
#ifndef MAP_UNWIND_H
#define MAP_UNWIND_H

#include "base/vec.h"
#include "map/cfi.h"
#include "map/map_format.h"

struct unwind_table {
    VEC(struct map_row) rows;
    VEC(uint16_t) saves;
    VEC(struct map_special) specials;
    uint32_t *special_slots; /* hash table of indices in specials; 0 (never looked for) is free */
    size_t special_slot_count;
    uint64_t rows_unknown;
};

/* A rule ready to be put into a row. */
struct unwind_rule {
    uint32_t rule;
    uint16_t saves;
};

void unwind_init(struct unwind_table *table);
void unwind_free(struct unwind_table *table);

void unwind_append(struct unwind_table *table, uint32_t pc, struct unwind_rule rule);

/* The rule for one of the special rules that every map has (SPECIAL_NONE and so on). */
struct unwind_rule unwind_fixed(uint32_t special);

/* The rule for a special one, which is added if it is new. */
struct unwind_rule unwind_special(struct unwind_table *table, const struct map_special *special);

/* What a row of CFI comes to; SPECIAL_UNKNOWN when no rule can say it. */
struct unwind_rule unwind_from_cfi(struct unwind_table *table, const struct cfi_row *row,
                                   bool signal_frame);

#endif
