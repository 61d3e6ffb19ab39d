/*
 * Where a stub is, in terms of the program: what the code in stubs has done to the stack and to
 * registers, from place to place. Whoever writes stubs records it; unwinders of all kinds, our own
 * and others (stub_region.h), read it.
 *
 * At a place of stub i (layouts[i]) whose row is r, the interrupted function has
 *
 *     rsp             rsp + 8 * r.words
 *     pc              the module's base + sites[i].offset + r.pc (+ place - r.at with ROW_MOVES)
 *     rax, rcx, rdx   from the stack, where the row says so: word k lies 8 * k below that rsp
 *
 * and all other registers as they are.
 */
#ifndef RUNTIME_EDIT_ROWS_H
#define RUNTIME_EDIT_ROWS_H

#include <assert.h>
#include <stdint.h>

/*
 * ROW_MOVES: the stub's instructions here are the program's own, moved: pc advances with the place.
 * ROW_RETURNS: a call comes back to here. Who walks out of the callee does not know what will be in
 * rax, rcx and rdx, and may not ask; what is on the stack is known.
 */
enum { ROW_MOVES = 1, ROW_RETURNS = 2 };

/*
 * What a stub has done to the stack since its site, from one of its places on. Behind a call that
 * comes back to the stub, pc is the last byte of the site's call: there an unwinder finds what the
 * program does about exceptions.
 */
struct stub_row {
    uint16_t at;           /* from the stub's start; holds up to the next row's */
    int16_t pc;            /* the place in the program that it stands for, from the site's offset */
    uint8_t words;         /* on the stack that were not there at that place */
    uint8_t flags;         /* ROW_MOVES, ROW_RETURNS */
    uint8_t rax, rcx, rdx; /* which of these words holds it: 1 is the first pushed; 0: none */
    uint8_t unused[3];
};

/* Many stubs have the same rows. The last row of a shape has at == UINT16_MAX. */
struct stub_shape {
    uint32_t first_row;
};

/* One per site, in order of start. */
struct stub_layout {
    uint32_t start; /* from the start of the stubs; without a stub, that of the next */
    uint16_t shape;
    uint16_t bytes; /* 0: no stub */
};

static_assert(sizeof(struct stub_row) == 12, "layout");
static_assert(sizeof(struct stub_layout) == 8, "layout");

#endif
