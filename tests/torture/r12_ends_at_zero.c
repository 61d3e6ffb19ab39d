/*
 * Row 12: a stack of the program's own, whose first function has 0 for its return address, and
 * whatever there was before further up. Nothing called it: the walk is complete.
 */
#include "torture.h"

void run_on(void *stack);
void leave(void);

static NOINLINE void in_first(void)
{
    burn_ms(120);
}

__attribute__((used)) void first(void)
{
    in_first();
    leave();
}

__asm__("        .text\n"
        "run_on:\n"
        "        .cfi_startproc\n"
        "        push %rbp\n"
        "        .cfi_adjust_cfa_offset 8\n"
        "        push %rbx\n"
        "        .cfi_adjust_cfa_offset 8\n"
        "        push %r12\n"
        "        .cfi_adjust_cfa_offset 8\n"
        "        push %r13\n"
        "        .cfi_adjust_cfa_offset 8\n"
        "        push %r14\n"
        "        .cfi_adjust_cfa_offset 8\n"
        "        push %r15\n"
        "        .cfi_adjust_cfa_offset 8\n"
        "        mov %rsp, kept_sp(%rip)\n"
        "        mov %rdi, %rsp\n"
        "        xor %ebp, %ebp\n"
        "        jmp first\n"
        "        .cfi_endproc\n"
        "leave:\n"
        "        .cfi_startproc\n"
        "        mov kept_sp(%rip), %rsp\n"
        "        pop %r15\n"
        "        pop %r14\n"
        "        pop %r13\n"
        "        pop %r12\n"
        "        pop %rbx\n"
        "        pop %rbp\n"
        "        ret\n"
        "        .cfi_endproc\n"
        "        .local kept_sp\n"
        "        .comm kept_sp, 8, 8\n");

int main(void)
{
    enum { WORDS = 1 << 13 };
    static uint64_t stack[WORDS] __attribute__((aligned(16)));
    stack[WORDS - 1] = (uint64_t)(uintptr_t)main; /* of before */
    stack[WORDS - 2] = (uint64_t)(uintptr_t)main;
    stack[WORDS - 3] = 0;
    run_on(&stack[WORDS - 3]);
    return torture_end();
}
