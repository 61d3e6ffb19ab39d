/*
 * Everything that is found by looking at each instruction of the code that FDEs describe, in one
 * pass: where the CFI is wrong (corrections.h), and which functions must not be marked
 * (unmarkable.h). Large modules are looked at in several threads; what comes out does not depend on
 * how many there are.
 */
#ifndef MAP_CODE_PASS_H
#define MAP_CODE_PASS_H

#include "map/corrections.h"
#include "map/unmarkable.h"

/* `tables` are the finished rows of the table, to which the corrections' rules are added. */
void code_pass(const struct elf_file *file, const struct cfi *cfi,
               const struct functions *functions, const struct map_tables *tables,
               struct unwind_table *table, struct corrections *corrections,
               struct unmarkable *unmarkable);

#endif
