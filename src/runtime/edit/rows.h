/*
 * What stubs do to the stack, by rows: the emitter writes one whenever an instruction changes it.
 * What finds a thread in a stub gets out of it by these: samples, unwinders, debuggers
 * (stub_region.h). At a place of a stub whose row is r, the interrupted function has
 *
 *     rsp             rsp + 8 * r.words
 *     pc              the site's address + r.pc (+ place - r.at with ROW_MOVES)
 *     rax, rcx, rdx   from the stack, where the row says so: word k lies 8 * k below that rsp
 *
 * and all other registers as they are. Behind a call that comes back to the stub, pc is the last
 * byte of the site's call: there an unwinder finds what the program does about exceptions.
 *
 * Stubs of many sites have the same rows, which are kept once, as a shape.
 */
#ifndef RUNTIME_ROWS_H
#define RUNTIME_ROWS_H

#include <assert.h>
#include <stdint.h>

struct walk_registers;

enum row_flags {
    ROW_MOVES = 1,   /* these instructions are the program's own, moved: pc goes with the place */
    ROW_RETURNS = 2, /* a call comes back to here: who walks out of the callee does not know what
                        will be in rax, rcx and rdx; what is on the stack is known. In registers
                        that leave it, pc is behind the site's call */
    ROW_CALLED = 4   /* common code: above the words, its return address into a stub */
};

/* What has been done to the stack since the site, from one place of a stub on. */
struct stub_row {
    uint16_t at;           /* from the stub's start; holds up to the next row's */
    int16_t pc;            /* the place in the program that it stands for, from the site's own */
    uint8_t words;         /* on the stack that are not there at that place */
    uint8_t flags;         /* enum row_flags */
    uint8_t rax, rcx, rdx; /* which of the words holds it: 1 was pushed first; 0: its register */
    uint8_t unused[3];
};

static_assert(sizeof(struct stub_row) == 12, "the expressions for unwinders know this layout");

#define ROW_LAST UINT16_MAX /* `at` of what is behind the last row of a shape */

struct stub_shape {
    uint32_t first_row;
};

/* The stub of a site; in the order of their starts. */
struct stub_layout {
    uint32_t start; /* from the start of the stubs */
    uint16_t shape;
    uint16_t bytes; /* 0: the site has none */
};

/* All that there are, in this process. */
extern const struct stub_row *const rows_all;
extern const struct stub_shape *const rows_shapes;

#define ROWS_NO_SHAPE UINT32_MAX

/* The shape of a stub of so many bytes with these rows: a number; ROWS_NO_SHAPE: no more room. */
uint32_t rows_shape(const struct stub_row *rows, uint32_t count, uint32_t bytes);

/*
 * Changes registers at a place of a stub, so many bytes behind its start, to what they are at the
 * place in the program for which that stands; `site`: the address of the stub's site.
 */
void rows_leave(uint32_t shape, uint32_t at, uint64_t site, struct walk_registers *registers);

/* Where a call comes back to, so many bytes behind the stub's start; 0: nowhere. */
uint32_t rows_return(uint32_t shape);

/* The row of a stub's instruction that was moved from so many bytes before or behind its site, and
 * where it is in the stub; NULL: there is none. */
const struct stub_row *rows_enter(uint32_t shape, int64_t from_site, uint32_t *at);

#endif
