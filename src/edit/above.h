/*
 * Which functions never look at what lies above their frame: neither their return address nor what
 * their caller has there. Such a function runs the same when there is more stack between its caller
 * and itself, so that a call of it can be made from a place that has grown the stack.
 *
 * In doubt a function is one that looks: every instruction of it must be known, and every row.
 */
#ifndef EDIT_ABOVE_H
#define EDIT_ABOVE_H

#include "base/key_set.h"
#include "edit/depth.h"
#include "edit/plan.h"

enum above {
    ABOVE_NOTHING,   /* it never does */
    ABOVE_NO_START,  /* no function begins there */
    ABOVE_UNDECODED, /* its bytes are not all instructions */
    ABOVE_NO_ROWS,   /* where its frame is cannot be told at every instruction */
    ABOVE_RETURN,    /* its return address */
    ABOVE_ARGUMENTS, /* what its caller has put there; or it may */
    ABOVE_MOVES,     /* it sets the stack pointer to what is not known */
    ABOVE_JUMPS,     /* it ends in a jump to what may, or is not known */
    ABOVE_KINDS
};

/* Words for people. */
extern const char *const above_names[ABOVE_KINDS];

struct above_finder {
    const struct elf_file *file;
    const struct map *map;
    const struct plan *plan;
    struct depths depths;
    struct key_set functions; /* uint32_t: starts, of those that were asked for, */
    VEC(uint8_t) found;       /* and what they do: enum above */
    VEC(uint32_t) parts;      /* indices of the map's functions, by what they are a part of */
    VEC(uint32_t) jumps; /* starts that functions end in a jump to, one's behind the other's, */
    VEC(uint32_t) first_jump; /* and where those of each begin */
};

void above_begin(struct above_finder *finder, const struct elf_file *file, const struct map *map,
                 const struct plan *plan);
void above_end(struct above_finder *finder);

/* The function that begins at an offset. */
enum above above_of(struct above_finder *finder, uint32_t function);

#endif
