/*
 * Which instructions control can come to. Functions are decoded in a straight line, and there may
 * be data between their instructions, behind a jump or a return, whose bytes look like calls: what
 * nothing leads to must stay as it is. Where an indirect jump or call may lead is not known for
 * sure: all of its function is reached. An address that is taken is that of data where unwind
 * tables cover it, as code would be a function or in a table; elsewhere, in assembly, it is that of
 * code if the instructions from there on end in a jump or a return.
 */
#ifndef EDIT_REACH_H
#define EDIT_REACH_H

#include "base/vec.h"
#include "edit/targets.h"

/* Instructions one after the other, up to a jump or a return. */
struct reach_run {
    uint32_t start, end;
    uint32_t from;     /* from here on they are reached */
    uint32_t function; /* where theirs begins */
    uint32_t branch;   /* the first branch from here or later */
    bool is_ended;     /* by a jump or a return */
    bool is_whole;     /* the first run of a function, all of which is reached or to be */
};

struct reach_branch {
    uint32_t from, to; /* to: or REACH_ANYWHERE in its function */
};

#define REACH_ANYWHERE UINT32_MAX

struct reach {
    VEC(struct reach_run) runs;
    VEC(struct reach_branch) branches;
    VEC(uint32_t) taken; /* addresses outside of unwind tables */
    VEC(uint32_t) index; /* for each so many bytes the first run that is not before them */
};

/* Each instruction in its order. A run begins where control does not come from the one before. */
void reach_begin(struct reach *reach, uint32_t function, uint32_t offset);
void reach_add(struct reach *reach, uint32_t end, bool is_last);
void reach_add_branch(struct reach *reach, uint32_t from, uint64_t to);
void reach_add_taken(struct reach *reach, uint32_t address);

/* When all have been added: follows them from where control may arrive from outside. */
void reach_follow(struct reach *reach, const struct targets *targets);

bool reach_has(const struct reach *reach, uint32_t offset);
void reach_free(struct reach *reach);

#endif
