/*
 * Functions by the symbol table of one file, which may be a separate debug file and then has no
 * code to go with it: what the recorder's maps cannot be made of.
 */
#ifndef NAMES_SYMBOL_NAMES_H
#define NAMES_SYMBOL_NAMES_H

#include "base/strings.h"

#include <gelf.h>

struct symbol_name {
    uint64_t offset, size;
    uint32_t name; /* in the strings */
};

struct symbol_names {
    VEC(struct symbol_name) items; /* sorted by offset, one for each */
    struct string_pool strings;
};

void symbol_names_read(struct symbol_names *names, Elf *elf, uint64_t base);
void symbol_names_free(struct symbol_names *names);

/* The index of the function that holds the offset, or -1. */
int64_t symbol_names_find(const struct symbol_names *names, uint64_t offset);

#endif
