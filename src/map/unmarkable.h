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
#include "map/instruction.h"
#include "map/map_format.h"

struct unmarkable {
    VEC(struct map_range) items; /* sorted, not overlapping */
};

/* Looks at FDEs one after the other, apart from other finders. */
struct unmarkable_finder;
struct unmarkable_finder *unmarkable_begin(const struct elf_file *file);

/* An FDE begins: the one at `index` of the CFI, within `code`. */
void unmarkable_fde(struct unmarkable_finder *finder, size_t index, const struct fde *fde,
                    const struct code_range *code);

/* Its next instruction, and what the row there says. Returns whether more are wanted. */
bool unmarkable_take(struct unmarkable_finder *finder, const struct instruction *i,
                     const struct map_special *rule);

/* Puts together what the finders have found, and frees them. */
void unmarkable_end(struct unmarkable_finder *const *finders, size_t count,
                    const struct elf_file *file, const struct cfi *cfi,
                    const struct functions *functions, struct unmarkable *out);

#endif
