/*
 * Unwind rows for code that no CFI describes: _init and _fini, hand-written assembly, whole
 * programs that were compiled without. The instructions are followed from each entry, keeping
 * account of where the return address is and where registers were saved.
 *
 * A wrong row is worse than none. Where two ways to an instruction disagree, where the stack
 * pointer is computed, and where a function would return with the stack not as it found it, the
 * rows say nothing. What comes out is marked as guessed.
 */
#ifndef MAP_DECODE_H
#define MAP_DECODE_H

#include "map/unwind.h"

/*
 * Appends rows for [start, end), offsets within one code range. `entries` are offsets where
 * functions are known to begin. Returns the number of bytes that got a usable row.
 */
uint32_t decode_rows(struct unwind_table *table, const struct elf_file *file, uint32_t start,
                     uint32_t end, const uint32_t *entries, size_t entry_count);

/* How many bytes of padding (nop, int3, zero) there are at `offset`, at most up to `end`. */
uint32_t decode_padding(const struct elf_file *file, uint32_t offset, uint32_t end);

/* Where the code from `offset` on goes elsewhere for good: behind the first jump, ret or trap. */
uint32_t decode_straight_line(const struct elf_file *file, uint32_t offset, uint32_t end);

/* DWARF's number of a general register, or of the one that it is a part of; X86_NONE: no such. */
uint8_t decode_register(int zydis_register);

#endif
