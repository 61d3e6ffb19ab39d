/*
 * Functions that do more with their return address than return to it: setjmp and getcontext keep
 * it, vfork takes it off the stack, dlopen and dlsym look up whose it is, unwinders begin with it.
 * The runtime never puts a mark in its place there (pitfall 41).
 *
 * They are found by what their instructions do: an operand that is the slot of the return address,
 * or a pop of it. A function that ends in a jump to one of them, or in a jump to another module,
 * which could be one, is one of them too: its return address becomes that one's. So is all of the
 * PLT. A few names are known besides.
 */
#ifndef MAP_UNMARKABLE_H
#define MAP_UNMARKABLE_H

#include "map/cfi.h"
#include "map/functions.h"
#include "map/map_format.h"

struct unmarkable {
    VEC(struct map_range) items; /* sorted, not overlapping */
};

/* Looks at every FDE; `tables` are the finished rows. */
void unmarkable_find(const struct elf_file *file, const struct cfi *cfi,
                     const struct functions *functions, const struct map_tables *tables,
                     struct unmarkable *out);

#endif
