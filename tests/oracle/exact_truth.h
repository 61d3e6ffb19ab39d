/*
 * The true calling context of a thread under engine exact, kept by watching its instructions, and
 * compared with what the engine says at each call.
 *
 * What the program does is told by its files, not by its memory: where an instruction has been
 * changed, control goes a way through stubs, and where it comes out of them, one of the
 * instructions that the file has there has called or jumped. A call pushes a frame; a frame is gone
 * when the stack pointer is above its slot. A jump to the start of another function with the return
 * address at the top of the stack is a tail jump, and stays in its frame.
 *
 * Three ways of the engine are its definition, not its errors:
 *  - a tail jump to a function that is at this frame already goes back to that context;
 *  - the runtime's own functions, where the program calls them, do not show in contexts;
 *  - a stub of the PLT, and the dynamic linker while it binds it, belong to the call.
 *
 * One is its limit: where a tail jump is not edited, or is in a frame that was called by code that
 * is not edited, its callee shows as called from where the frame was called from. So each frame has
 * two contexts, the true one and the one that a walk of the stack finds, and calls that have the
 * second only are counted apart.
 */
#ifndef EXACT_TRUTH_H
#define EXACT_TRUTH_H

#include "exact_engine.h"

#include "step_tracee.h"

/* Whose calls they are. */
enum caller_kind {
    FROM_SITE,        /* one that has been edited: the engine must count it */
    FROM_LEFT_SITE,   /* in a module of the program, but not edited */
    FROM_CODE_AT_RUN, /* made at run time */
    FROM_LINKER,
    FROM_VDSO,
    FROM_OURS,
    CALLER_KINDS
};

/* What the mirror says of a frame. */
enum verdict {
    SAYS_RIGHT,
    SAYS_NOTHING, /* it need not know: the frame's function has no sites, or was not called by one
                   */
    LACKS_TAIL,   /* a tail jump is missing: see above */
    SAYS_TOO_LITTLE, /* it does not know a frame that was entered through a site */
    SAYS_WRONG,
    VERDICTS
};

/* Control on its way from a site to where that leads. */
struct way {
    bool is_on;
    uint64_t from; /* the first instruction that is not where it was */
    uint64_t own;  /* record that the mirror had for the caller's frame; 0: none */
};

/* A call or tail jump, whose callee may not be known yet. */
struct arrival {
    bool is_on, is_tail, is_edited;
    bool was_bound; /* just now: the engine finds out later what it called */
    uint64_t site;  /* address of the instruction */
    uint64_t ret;   /* of a call */
    uint64_t slot;
    uint64_t own; /* as in struct way */
};

struct frame {
    uint64_t slot, ret; /* of a signal's frame: the pc that was interrupted */
    uint32_t context;
    uint32_t as_walked;
    bool is_ours;
    bool was_edited; /* entered through an edited site, so the mirror knows it */
    bool is_binder;  /* the dynamic linker, which will go on to `bound` */
    bool is_signal;
    bool is_moved;          /* its function has moved its return address: the slot is not known */
    struct way interrupted; /* of a signal's frame */
    struct arrival bound;
};

struct exact_truth {
    pid_t pid;
    struct code_view *code;
    struct engine *engine;
    struct contexts contexts;
    VEC(struct frame) frames; /* outermost first */
    struct way way;
    struct arrival pending; /* in the PLT */
    uint64_t calls[CALLER_KINDS], tail_jumps[CALLER_KINDS];
    uint64_t at_site[VERDICTS];    /* of the caller's frame, just before the stub */
    uint64_t at_arrival[VERDICTS]; /* of the callee's, at its first instruction */
    uint64_t trouble;              /* what cannot be: the driver has lost the truth */
    unsigned shown, shown_left, most_shown;
};

/* A window begins in a stopped thread, outside of stubs, with the stack that libdwfl finds. */
int exact_truth_begin(struct exact_truth *t, const struct user_regs_struct *regs,
                      struct ct_error *err);
void exact_truth_free(struct exact_truth *t);

/* The instruction at before->rip has been executed and has led to `after`. */
void exact_truth_step(struct exact_truth *t, const struct user_regs_struct *before,
                      const struct user_regs_struct *after);

/* A signal came where the registers were `before`; the thread is in its handler now. */
void exact_truth_signal(struct exact_truth *t, const struct user_regs_struct *before,
                        const struct user_regs_struct *after);

/* Between two calls: what was seen and what was counted must agree. */
bool exact_truth_is_settled(const struct exact_truth *t);

/* Prints a context, outermost first. */
void exact_truth_print(const struct exact_truth *t, uint32_t context);

#endif
