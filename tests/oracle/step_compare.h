/*
 * One walk against the truth.
 *
 * A walk is right if all its frames are those of the true stack, in order, and it says that it is
 * complete. It is incomplete if it says why it ended, and all its frames are right. All else is
 * wrong, with two exceptions. Code that is about to leave its frame by other means than its own
 * return (longjmp, the unwinder's landing in a catching frame) describes itself as called from
 * where it will go. Such a walk is held back until the next transfer of control out of there: if
 * that leads to exactly the frames that the walk named, it was ahead of the truth, not wrong. The
 * other: the unwinder of exceptions, just before it lands, writes the registers and the return
 * address of the frame to land in over those that its own frame has saved. No walker can know what
 * was there. That is found out by walking again from the innermost call instruction, with the
 * registers and the frames of that moment: if that walk was right then and is not right now, memory
 * has been replaced. Both exceptions are counted and listed apart.
 *
 * The faster walks, with a cache of rules and with a memory of the last walk, have to give the same
 * as the plain one, whatever that is.
 */
#ifndef STEP_COMPARE_H
#define STEP_COMPARE_H

#include "step_memory.h"
#include "step_report.h"

#include "unwind/stack.h"

enum break_kind {
    BREAK_NOTHING,
    BREAK_PC,
    BREAK_RBP,
    BREAK_SHORT,
    BREAK_LONG,
    BREAK_SLOT,
    BREAK_SKIP,
    BREAK_FAST
};

struct held_walk {
    bool active;
    uint64_t count; /* walks that said the same */
    unsigned steps; /* since the first of them */
    VEC(struct walk_frame) frames;
    struct finding finding;
    char *text; /* what to print if it was wrong after all */
};

struct comparer {
    const char *program;
    const struct step_modules *modules;
    struct walk_frame *frames; /* room for a walk */
    struct walk_frame *spare_frames;
    struct walk_cache cache;
    struct thread_stack stack;
    struct walk_frame *last_stack; /* its frames, as they were after the walk before */
    uint32_t last_stack_count;
    uint64_t joined; /* remembered walks that kept frames of the last one */
    struct findings findings;
    struct held_walk held;
    uint64_t compared;
    uint64_t right_at;          /* the last step whose walk was right */
    enum break_kind break_kind; /* lie once in break_every walks, to see the driver fail */
    uint64_t break_every;
};

void comparer_begin(struct comparer *comparer, const char *program,
                    const struct step_modules *modules);
void comparer_free(struct comparer *comparer);

/* To be called after every instruction, before comparing: settles a walk that was held back. */
void compare_settle(struct comparer *comparer, const struct truth *truth, const struct insn *insn,
                    const struct user_regs_struct *regs);

/* Nothing more will be executed: a walk that is still held back was wrong. */
void compare_end(struct comparer *comparer);

/* Walks from the given registers, and compares. */
void compare_walk(struct comparer *comparer, struct truth *truth, struct stack_mirror *mirror,
                  const struct user_regs_struct *regs, uint64_t step);

#endif
