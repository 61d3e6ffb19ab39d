/*
 * The true call stack of a traced thread, kept by watching its instructions.
 *
 * A call pushes an entry: the slot that holds the return address, and that address. An entry is
 * dead as soon as the stack pointer is above its slot, however it got there: ret, longjmp, a throw,
 * a thread's exit. Nothing is ever read from unwind information.
 *
 * What is not a call, and what is not quite a return:
 *  - `call` to the next instruction only reads the pc: no entry.
 *  - `push; ret` is a jump: the slot has no entry, and none dies.
 *  - A return address popped into a register (vfork) is still where the function returns to; the
 *    entry stays, marked, until the stack pointer goes higher or the address is jumped to. An
 *    address that was written there since the call is none: the unwinder of exceptions pops the
 *    landing pad and jumps to it.
 *  - A signal pushes two entries: the pc that was interrupted, and the handler's return address.
 *    On an alternate stack they begin a segment, because its addresses are not ordered with those
 *    of the interrupted stack. rt_sigreturn drops them; so does a stack pointer outside of it.
 *
 * With an initial stack given by another unwinder (a window in the middle of a program), each
 * return to one of its frames checks it; what does not fit is trouble of the oracle, and counted.
 */
#ifndef STEP_TRUTH_H
#define STEP_TRUTH_H

#include "step_decode.h"

#include "base/vec.h"
#include "unwind/walk.h"

#include <sys/user.h>

struct truth_entry {
    uint64_t slot;        /* the entry lives while the stack pointer is not above this */
    uint64_t pc;          /* the return address; of a signal entry, the pc that was interrupted */
    uint64_t saved_pc_at; /* of a signal entry: where the kernel keeps that pc */
    bool is_signal;
    bool in_register; /* the return address has been popped */
    bool is_initial;  /* given by another unwinder, not seen pushed */
    bool was_right;   /* a walk from the call instruction was compared, and right */
    struct user_regs_struct at_call;
};

struct truth_segment {
    size_t first;        /* index of its first entry */
    uint64_t start, end; /* its stack */
};

struct truth {
    VEC(struct truth_entry) entries;    /* outermost first */
    VEC(struct truth_segment) segments; /* the first is the stack that it began on */
    uint64_t initial_rsp;               /* of a window: entries at or above are another's word */
    uint64_t ret_jumps;                 /* returns to an address that no call pushed */
    uint64_t redirected;                /* returns whose slot was overwritten, as a throw does */
    uint64_t trouble;                   /* initial entries that turned out wrong */
    bool is_lost;
    char trouble_text[256]; /* the first of them */
};

/*
 * An empty stack. A stack pointer that leaves [start, end) other than by a signal is one that the
 * truth cannot follow (a coroutine's): it is trouble, and the truth is lost.
 */
void truth_begin(struct truth *truth, uint64_t start, uint64_t end);
void truth_copy(struct truth *to, const struct truth *from);
void truth_free(struct truth *truth);

/* The instruction at before->rip has been executed and has led to `after`. */
void truth_step(struct truth *truth, pid_t pid, const struct insn *insn,
                const struct user_regs_struct *before, const struct user_regs_struct *after);

/* The entry of the innermost call, or NULL. */
struct truth_entry *truth_top(struct truth *truth);

/*
 * A signal was injected where the registers were `interrupted`. Returns true if the thread is now
 * at the first instruction of its handler, and the entries have been pushed.
 */
bool truth_signal(struct truth *truth, pid_t pid, const struct user_regs_struct *interrupted,
                  const struct user_regs_struct *handler);

/* A handler may change the pc that it returns to: reads those of all signal entries again. */
bool truth_refresh_signals(struct truth *truth, pid_t pid);

/* An entry outside those there are; used for initial stacks, outermost first. */
void truth_push_initial(struct truth *truth, struct truth_entry entry);

#endif
