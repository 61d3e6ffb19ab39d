/* A copy in the making: what copy.c and copy_code.c share. */
#ifndef FLOW_COPIER_H
#define FLOW_COPIER_H

#include "flow/flow_plan.h"

enum { MIRROR_SITE = 2 * PLAN_MIRROR_BYTES };

/* Code that lies behind the function, and where it is jumped to from. */
enum later_kind { LATER_TAKEN, LATER_ENTER, LATER_LOST, LATER_MARKED };

struct later {
    uint8_t kind;
    uint32_t block;
    uint32_t from; /* the jump; 0: the entrance */
    uint32_t back; /* LATER_LOST: where it goes on, */
    uint32_t site; /* and what that stands for */
    int scratch;
};

struct jump_to {
    uint32_t at, block;
};

struct copier {
    struct flow_content *out;
    struct code *code;
    struct routine *r;
    struct flow_entrances entrances;
    uint32_t before, behind; /* counters that a lost path needs on both sides */
    uint32_t counters;       /* where the function's begin */
    int number;              /* register of the path: general, or a vector register */
    int spare[2];            /* vector registers; -1: there is none */
    uint32_t *places;        /* of blocks, in the copies */
    uint32_t run;            /* where instructions of the function's begin that are being moved */
    uint32_t run_offset;     /* and in the module; FLOW_NONE: none */
    uint32_t inserted;       /* where code that is put in begins, */
    uint32_t inserted_for;   /* and what it stands for; FLOW_NONE: none */
    bool has_failed;
    bool keeps_rax, keeps_flags;
    VEC(struct jump_to) jumps;
    VEC(struct later) later;
};

static inline bool is_vector(const struct copier *c)
{
    return c->number >= REG_XMM0;
}

static inline unsigned vector(int number)
{
    return (unsigned)number - REG_XMM0;
}

/* --- pieces of it, and what they stand for -----------------------------------------------------
 */

void copy_end_piece(struct copier *c);

/* Code is put in that stands for a place of the module. */
void copy_insert(struct copier *c, uint32_t offset);
void copy_fix(struct copier *c, uint32_t at, enum copy_fix kind);

/* A distance of four bytes, or a jump, leads to a place of the module. */
void copy_lead_to(struct copier *c, uint32_t at, uint32_t end, uint32_t offset);
void copy_jump_out(struct copier *c, uint32_t offset);
void copy_jump_to_block(struct copier *c, uint32_t at, uint32_t block);

/* It cannot be made if this is not so. */
void copy_need(struct copier *c, bool has_it);

/* --- what is counted; `live` is what must be kept ------------------------------------------------
 */

/* What is done on an edge of the graph. Is anything? */
void copy_edge(struct copier *c, uint32_t edge, flow_set live);
bool copy_has_code(const struct copier *c, uint32_t edge);
flow_set copy_live_at(const struct copier *c, uint32_t block);

/* A counter's address into a register. */
void copy_address(struct copier *c, unsigned r, uint32_t counter);

/* At a call, behind it, and before a jump that may lead to one. */
void copy_save(struct copier *c, flow_set live, uint32_t site);
void copy_restore(struct copier *c, flow_set live, uint32_t site, uint32_t block, bool is_landing,
                  bool may_be_marked);
void copy_mark(struct copier *c, flow_set live);
bool copy_is_call_landing(const struct copier *c, uint32_t block);

#endif
