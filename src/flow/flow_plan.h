/*
 * Plans that relocate functions: copies of them with code that counts the paths through them, made
 * once for each module and kept in the cache, as edit plans are.
 *
 * A copy has no calls. It jumps back to the call in the old code, which returns to where it always
 * did: so return addresses are the program's own, and exceptions, unwinders and all that look at
 * them find what they know. Behind the call stands a jump to the copy. The same is done wherever
 * else control gets into a function (flow/routine.h); the rest of the old code is never run again.
 */
#ifndef FLOW_FLOW_PLAN_H
#define FLOW_FLOW_PLAN_H

#include "edit/plan.h"
#include "flow/routine.h"

/* Why a function stays where it is. */
enum flow_reason {
    FLOW_RELOCATED,
    FLOW_NO_CODE,       /* no code of a function's own: a stub of the PLT, or outside of sections */
    FLOW_OVERLAPS,      /* it lies in another */
    FLOW_NOT_DECODED,   /* not all of it are instructions that can be moved */
    FLOW_MISALIGNED,    /* a branch leads into the middle of an instruction */
    FLOW_UNKNOWN_JUMP,  /* an indirect jump whose table is not found */
    FLOW_ADDRESS_TAKEN, /* something has the address of a place inside: code, or data */
    FLOW_RETURNS_ELSEWHERE, /* a call behind which only a return stands (split stacks) */
    FLOW_TOO_MANY,          /* paths, even with each one cut wherever that is possible */
    FLOW_NO_REGISTER,       /* no register is free for the number of the path */
    FLOW_NO_ROOM,           /* two places where control gets in are too near to each other */
    FLOW_REASONS
};

const char *flow_reason_name(unsigned reason);

/* For plan_for_file_of. */
extern const struct plan_kind flow_plans;

/* What can be relocated, and why not all: for people. */
void flow_plan_print(const struct plan *plan, const char *name, FILE *out);

/* --- how it is made ------------------------------------------------------------------------------
 */

#include "flow/x86.h"

struct flow_content {
    struct code code;
    VEC(uint32_t) fixes;
    VEC(struct plan_piece) pieces;
    VEC(struct plan_hook) hooks;
    VEC(struct plan_routine) routines;
    uint32_t counter_count;
    VEC(uint32_t)
    lost; /* where in the code the way to the counters of lost paths lies, which go on
             from some place in their midst */
    uint32_t lost_before, lost_behind; /* how many counters they need there */
};

/* Where control gets into a function, and where in the copy it goes on. */
struct flow_entrance {
    uint32_t offset;
    uint32_t target;
    uint8_t bytes; /* of the jump there; 0: not decided */
};

struct flow_entrances {
    VEC(struct flow_entrance) items; /* by offset; the jumps that short ones lead to are added */
};

/*
 * Finds room for the jumps at all entrances of a function (entrances.c). False: there is none.
 * `targets` are not known yet.
 */
bool flow_place_entrances(const struct routine *routine, struct flow_entrances *out);
void flow_set_target(const struct routine *routine, struct flow_entrances *entrances,
                     uint32_t offset, uint32_t target);

/* The call whose return to the copy is that of this call, too: one that follows right behind. */
uint32_t flow_last_of_chain(const struct routine *routine, const struct flow_block *block,
                            uint32_t insn);

/* Adds the copy of a function, or returns a reason and adds nothing. `number`: the register that
 * has the number of the path. */
enum flow_reason flow_copy(struct routine *routine, struct flow_content *out, uint8_t *number);

#endif
