/*
 * What engines need to know at an edited site whose stub has called them: the registers there, what
 * is called, and the keys of code.
 */
#ifndef RUNTIME_EDIT_CALLED_H
#define RUNTIME_EDIT_CALLED_H

#include "runtime/edit/edited.h"
#include "unwind/walk.h"

/* What the slow path saves, as arch/x86_64/slow_entry.inc pushes it. */
struct slow_frame {
    uint64_t r15, r14, r13, r12, rbx, rbp, r11, r10, r9, r8, rdi, rsi;
    uint64_t back; /* into the common code */
    uint64_t site;
    uint64_t stub; /* where it goes on */
    uint64_t rdx, rcx, rax;
    uint64_t above[]; /* at an indirect site its target; at a call the return address */
};

/* The program's registers at its site. */
struct walk_registers registers_at_site(const struct slow_frame *frame, uint64_t pc, uint64_t sp);

/* What a direct site leads to; through the PLT, what that is bound to. */
static inline __attribute__((always_inline)) uint64_t site_target(const struct edited_module *m,
                                                                  const struct plan_site *s)
{
    return s->got ? *(const uint64_t *)(m->base + s->got) : m->base + s->target;
}

/* Is this in the PLT, on the way to the binder? */
bool is_plt_binder(uint64_t callee);

/*
 * The function behind an address that was called: of a stub of the PLT, what it is bound to. Not
 * final: it is not bound yet.
 */
uint64_t code_function_behind(const struct walk_modules *modules, uint64_t target, bool *is_final);

uint64_t code_key(const struct walk_modules *modules, uint64_t address, uint32_t flags);
uint64_t code_function_key(const struct walk_modules *modules, uint64_t address);

/* Calls work(argument) with another stack, whose top is given (slow_on_stack.S). */
void slow_on_stack(void *stack, void (*work)(const struct slow_frame *),
                   const struct slow_frame *argument) __attribute__((visibility("hidden")));

#endif
