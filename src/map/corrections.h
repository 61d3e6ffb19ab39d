/*
 * Where a module's own CFI is wrong, by what its instructions do.
 *
 * Some shipped code has it wrong for a few instructions: glibc's __mpn_addmul_1 pushes two
 * registers and does not say so, gcc forgets in realigned frames that rbp is back after leave,
 * OpenSSL has a sign error before a ret. The rows stay what the CFI says; these are exceptions to
 * them, and count only for a pc at which execution was interrupted, never for a return address.
 */
#ifndef MAP_CORRECTIONS_H
#define MAP_CORRECTIONS_H

#include "map/cfi.h"
#include "map/unwind.h"

struct corrections {
    VEC(struct map_correction) items; /* sorted, not overlapping */
};

/* Looks at every FDE; `tables` are the finished rows of the table. */
void corrections_find(const struct elf_file *file, const struct cfi *cfi,
                      const struct map_tables *tables, struct unwind_table *table,
                      struct corrections *out);

#endif
