/*
 * Finds the sites of a module by decoding its functions, and decides how each can be changed.
 */
#ifndef EDIT_SITES_H
#define EDIT_SITES_H

#include "base/vec.h"
#include "edit/plan_format.h"
#include "elf/elf_file.h"
#include "map/map.h"

struct sites {
    VEC(struct plan_site) items; /* sorted by offset */
    VEC(uint32_t) by_rank;       /* indices, sorted by function and then by offset */
    VEC(uint8_t) code;           /* what runs in place of displaced sites */
    VEC(uint32_t) undecoded;     /* starts of functions whose bytes are not all instructions */
    uint32_t function_count;     /* with them */
    uint32_t unknown_bytes;      /* of code: theirs, and what is in no function and no padding */
};

void sites_find(const struct elf_file *file, const struct map *map, struct sites *out);

/* Sorts them by function, too: by_rank and the ranks of the sites, when `items` are all there. */
void sites_rank(struct sites *sites);
void sites_free(struct sites *sites);

#endif
