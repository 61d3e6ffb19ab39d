/*
 * The trampoline: a frame's return address is replaced, so that its return is seen.
 *
 * After a sample, the innermost frame that may be is marked: the slot of its return address gets
 * the address of a stub (arch/x86_64/trampoline.S), and an entry of a table says what was there.
 * The next walk that meets the mark knows the frames above. When the marked frame returns, the stub
 * counts the return in the frame's node, marks the next frame up, and goes on to where the frame
 * would have returned to.
 *
 * What keeps the program safe:
 *
 * - The real address is found by which stub was hit, so a return there, on whatever thread, goes
 *   the right way. What a thread remembers of its mark is only used after a look at the table and
 *   at the slot.
 * - A slot is only written on the stack that is running: by the sample that has just walked it, by
 *   the bounce that returns into it, by an unwinder's personality. Memory of a stack that was
 *   switched away from, or freed, is not.
 * - A mark that was jumped over (longjmp) is dead, not free: its entry keeps the real address until
 *   it is needed again, in case a program has put a copy of the stack aside and brings it back.
 * - The slot is changed in one instruction, and only from the very address that is expected there.
 */
#ifndef RUNTIME_TRAMPOLINE_H
#define RUNTIME_TRAMPOLINE_H

#include "runtime/thread.h"
#include "unwind/walk.h"

/* In a new process: whether it is to be used; off where there is a shadow stack. */
void trampoline_begin(void);

/* Is it used in this process? */
bool trampoline_is_on(void);

/* What walks must know of marks, and which ones a walk has met. */
enum { MOST_MET = 8 };

struct marks_met {
    struct walk_marks walk; /* the first member: walks hand it back */
    bool in_trampoline;     /* a frame has returned to its mark, which has not gone on yet */
    uint32_t count;
    uint64_t slots[MOST_MET];
    uint32_t numbers[MOST_MET];
};

void trampoline_prepare_walk(struct marks_met *met);

/* The thread's mark, if it is intact, for a walk from `sp`. */
struct stack_mark trampoline_intact(const struct thread *thread, uint64_t sp);

/*
 * After a walk, when the frames' nodes are known: marks the innermost frame that may be. `intact`
 * is what the walk was given, `met` what it came by.
 */
void trampoline_mark(struct thread *thread, const struct walk_modules *modules,
                     struct stack_mark intact, const struct marks_met *met);

/* Forgets the mark without touching the stack: what is known of its frames does not hold. */
void trampoline_forget(struct thread *thread);

/* Takes the mark off, if it is above `sp` on the thread's own stack. */
void trampoline_unmark(struct thread *thread, uint64_t sp);

#endif
