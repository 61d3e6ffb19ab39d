/*
 * Unwind rows for code that no CFI describes: _init and _fini, the PLT of linkers that emit none,
 * hand-written assembly. The instructions are followed from each entry, keeping account of where
 * the return address is. Where two ways disagree, or the stack pointer is computed, the rows say
 * unknown.
 *
 * What comes out is marked as guessed.
 */
#ifndef MAP_DECODE_H
#define MAP_DECODE_H

#include "map/unwind.h"

/*
 * Appends rows for [start, end), offsets within one code range. `entries` are offsets where
 * functions are known to begin; with guess_entries, aligned code behind padding counts as well (for
 * stripped files). Returns the number of bytes that got a usable row.
 */
uint32_t decode_rows(struct unwind_table *table, const struct elf_file *file, uint32_t start,
                     uint32_t end, const uint32_t *entries, size_t entry_count, bool guess_entries);

/* How many bytes of padding (nop, int3, zero) there are at `offset`, at most up to `end`. */
uint32_t decode_padding(const struct elf_file *file, uint32_t offset, uint32_t end);

#endif
