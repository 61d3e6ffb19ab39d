/* The registers of the function that this is inlined in, as a walk needs them. */
#ifndef RUNTIME_REGISTERS_HERE_H
#define RUNTIME_REGISTERS_HERE_H

#include "unwind/walk.h"

/* What a walk from this very instruction needs: its own frame's rule is in our module's table. */
static inline __attribute__((always_inline)) void take_registers_here(struct walk_registers *r)
{
    for (unsigned i = 0; i < X86_COUNT; i++)
        r->value[i] = 0;
    __asm__ volatile("0: leaq 0b(%%rip), %%rax\n\t"
                     "movq %%rax, %c[rip](%[r])\n\t"
                     "movq %%rsp, %c[rsp](%[r])\n\t"
                     "movq %%rbp, %c[rbp](%[r])\n\t"
                     "movq %%rbx, %c[rbx](%[r])\n\t"
                     "movq %%r12, %c[r12](%[r])\n\t"
                     "movq %%r13, %c[r13](%[r])\n\t"
                     "movq %%r14, %c[r14](%[r])\n\t"
                     "movq %%r15, %c[r15](%[r])"
                     :
                     : [r] "r"(r->value), [rip] "i"(X86_RIP * 8), [rsp] "i"(X86_RSP * 8),
                       [rbp] "i"(X86_RBP * 8), [rbx] "i"(X86_RBX * 8), [r12] "i"(X86_R12 * 8),
                       [r13] "i"(X86_R13 * 8), [r14] "i"(X86_R14 * 8), [r15] "i"(X86_R15 * 8)
                     : "rax", "memory");
}

#endif
