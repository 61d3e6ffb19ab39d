/*
 * Alternate signal stacks of ours. The kernel writes a frame of over 3 KB before the first
 * instruction of a handler runs, and the stack that a sample interrupts may not have them: so each
 * known thread has one of ours, which our handler runs on (pitfalls 5 and 48).
 *
 * The program sees nothing of it:
 *
 * - sigaltstack keeps what the program says beside our stack, and answers with that.
 * - A handler with SA_ONSTACK would now run on ours. It is installed as a stub (handler_entry.S),
 *   which moves the frame to where it belongs, the program's own alternate stack or else the
 *   interrupted one, and goes on to the handler there. A stub stands for one handler for good.
 * - Another signal that came meanwhile would have its handler run on ours, which is small and which
 *   no reader of stacks knows. So the kernel blocks all signals before a stub, which
 *   blocks those that the program has said when it has left our stack.
 * - A stack with SS_AUTODISARM is the kernel's affair: it is set as the program says, in place of
 *   ours, and samples run on it, if it is large enough.
 *
 * It also says which thread a handler is in without any use of %fs, which is the program's.
 */
#ifndef RUNTIME_OWN_STACK_H
#define RUNTIME_OWN_STACK_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <ucontext.h>

struct thread;

/* Lies right above the stack. */
struct own_stack {
    uint64_t magic;
    struct thread *thread; /* NULL: it has ended, or is one of the parent's of a forked child */
    uint64_t fs_base;      /* its thread pointer, as libc has set it */
    uint64_t said_start;   /* the program's alternate stack, */
    uint64_t said_bytes;   /* 0: it has none */
    const sigset_t *waits; /* the mask of a call that waits with another one; NULL: none */
};

/* The calling thread gets one. False: it cannot. */
bool own_stack_begin(struct thread *thread);

/* The kernel has the program's own again. */
void own_stack_end(struct thread *thread);

/* In a child that was forked: the thread that it was is the parent's. */
void own_stack_forget(void);

/* Is %fs what libc has made it, so that thread-local variables are there? */
bool own_stack_has_libc_thread(const struct own_stack *own);

/* sigaltstack as the program means it; a negative errno on failure. */
long own_stack_change(const stack_t *stack, stack_t *old);

/*
 * Moves the signal frame from our stack to where the kernel would have put it for a handler, with
 * or without SA_ONSTACK; returns how far (0: it stays).
 */
uint64_t own_stack_move(uint64_t frame, const struct own_stack *own, bool on_stack);

/* The thread waits with this mask, or not any more (NULL). Returns what it did before. */
const sigset_t *own_stack_wait(const sigset_t *mask);

/* What was blocked when a signal came: to its frame, the kernel writes what is blocked after it. */
uint64_t own_stack_mask(const ucontext_t *context, const struct own_stack *own);

/*
 * The action of a handler, as it is to be installed: with SA_ONSTACK or for faults (faults.h) as a
 * stub; and an installed action, as the program has said it. `before` is what own_stack_said_mask
 * gave before it was replaced.
 */
void own_stack_take_action(int number, void **handler, uint64_t *mask, uint64_t flags);
void own_stack_say_action(void **handler, uint64_t *mask, uint64_t before);
uint64_t own_stack_said_mask(int number);

#endif
