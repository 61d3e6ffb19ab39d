/*
 * What the dynamic linker has loaded, from its own lists: one for each namespace, of which dlmopen
 * makes more.
 */
#ifndef RUNTIME_LOADED_H
#define RUNTIME_LOADED_H

#include <link.h>
#include <stdbool.h>
#include <stdint.h>

/* A module as the dynamic linker has loaded it. */
struct loaded {
    uint64_t start, end, bias;
    const ElfW(Phdr) * headers;
    unsigned header_count;
    const char *path; /* the linker's own text, or one that stays */
    uint32_t kind;    /* enum arena_module_kind */
};

/* The linker's own first list, once loaded_find_linker has been called. */
extern const struct r_debug *loaded_linker;
void loaded_find_linker(void);

/* Is none of the lists being changed? */
bool loaded_is_settled(void);

/*
 * All modules; returns how many. With `was_known`, nothing is read of what a list says: that says
 * where a module is, and whether it is known at all.
 */
uint32_t loaded_list(struct loaded *out, uint32_t most, bool (*was_known)(struct loaded *));

#endif
