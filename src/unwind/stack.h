/*
 * The stack of a thread as its last walk found it. Walking again costs the frames that are new, and
 * for each of the others a look at whether the words that it was found by are the same.
 */
#ifndef UNWIND_STACK_H
#define UNWIND_STACK_H

#include "unwind/walk.h"

/*
 * Frames are outermost first, so that those which stay keep their index: what a caller knows of the
 * frames [0, kept) from the last time (their nodes in a tree) still holds.
 */
struct thread_stack {
    uint32_t room;   /* of each of the three arrays, which the caller provides */
    uint32_t count;  /* frames of the last walk */
    uint32_t kept;   /* how many of them, from the outermost on, were there before */
    uint32_t serial; /* of the walk */
    enum walk_end end;
    uint32_t past_count;          /* frames that the next walk may join */
    struct walk_past_frame *past; /* what they were found by */
    struct walk_frame *frames;    /* the frames, as walk_frames gives them, but outermost first */
    struct walk_frame *fresh;     /* room for the new part of a walk */
    struct walk_cache cache;
};

/* A mark in the slot of one of the frames: while it is there, the frames outside are, too. */
struct stack_mark {
    uint64_t word; /* what the slot holds; 0: there is no mark */
    uint64_t slot;
    uint32_t frame;
};

/* Walks the stack anew, up to the mark if there is one; the result is in `stack`. */
void stack_walk(struct thread_stack *stack, const struct walk_modules *modules,
                const struct walk_registers *registers, struct walk_memory *memory,
                struct stack_mark mark);

#endif
