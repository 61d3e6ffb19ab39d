/* Samples by walking the stack: the engine of that name, and what others use of it. */
#ifndef RUNTIME_SAMPLE_SAMPLE_H
#define RUNTIME_SAMPLE_SAMPLE_H

#include "runtime/thread.h"
#include "unwind/walk.h"

#include <ucontext.h>

/* Samples are walked stacks: for engines that have no other way. */
bool sample_take(struct thread *thread, const ucontext_t *context, uint64_t ticks);

struct stack_mark;

struct walk_memory sample_memory(const struct thread *thread, uint64_t sp);
void sample_learn_stack(struct thread *thread, const struct walk_memory *memory, uint64_t sp);
void sample_walk(struct thread *thread, const struct walk_modules *modules,
                 const struct walk_registers *registers, struct walk_memory *memory,
                 struct stack_mark mark);

/* The registers that a signal has interrupted. */
void sample_registers(const ucontext_t *context, struct walk_registers *registers);

/* The key of a frame. */
uint64_t sample_key(const struct walk_modules *modules, const struct walk_frame *frame);

/* Contexts begin at the node of the phase that the program is in. False: there is no room. */
bool sample_enter_phase(struct thread *thread);

/* The node of the stack that `of` has walked, in the tree of `thread`. */
uint32_t sample_node(struct thread *thread, struct thread *of, const struct walk_modules *modules);

/* So many samples of a context, whose walk ended so. */
void sample_account(struct thread *thread, uint32_t node, uint64_t weight, enum walk_end end);

#endif
