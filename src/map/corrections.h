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
#include "map/instruction.h"
#include "map/unwind.h"

struct corrections {
    VEC(struct map_correction) items; /* sorted, not overlapping */
};

/* Looks at FDEs one after the other, apart from other finders; `tables` are the finished rows. */
struct corrections_finder;
struct corrections_finder *corrections_begin(const struct map_tables *tables,
                                             const ZydisDecoder *decoder);

/* An FDE begins, with these bytes. Returns whether its instructions are wanted. */
bool corrections_fde(struct corrections_finder *finder, const struct fde *fde,
                     const uint8_t *bytes);

/* Its next instruction, and what the row there says. */
void corrections_take(struct corrections_finder *finder, const struct instruction *i,
                      const struct map_special *rule);

/* Adds what the finder has found, and frees it. Finders end in the order of their code. */
void corrections_end(struct corrections_finder *finder, struct unwind_table *table,
                     struct corrections *out);

/* When all finders have ended. */
void corrections_sort(struct corrections *corrections);

#endif
