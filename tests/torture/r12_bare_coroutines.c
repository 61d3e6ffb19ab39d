/*
 * Row 12: coroutines that switch stacks by a few instructions of their own, as Ruby's fibers do. A
 * new stack has six registers, all 0, the address of the first function, and above that 0: its
 * return address. Nothing but that says that the stack ends there.
 */
#include "torture.h"

enum { COUNT = 6, STACK_BYTES = 32 * 1024, REGISTERS = 6 };

struct coroutine {
    void **here, **caller; /* stack pointers */
    void **stack;
    int steps;
};

static struct coroutine coroutines[COUNT];
static struct coroutine *current;
static long total;

/* Pushes what belongs to the caller, leaves rsp in *from, and goes on where `to` was left. */
void switch_stack(void ***from, void **to);
__asm__(".text\n.type switch_stack, @function\nswitch_stack:\n.cfi_startproc\n"
        "push %rbp\n.cfi_adjust_cfa_offset 8\n"
        "push %rbx\n.cfi_adjust_cfa_offset 8\n"
        "push %r12\n.cfi_adjust_cfa_offset 8\n"
        "push %r13\n.cfi_adjust_cfa_offset 8\n"
        "push %r14\n.cfi_adjust_cfa_offset 8\n"
        "push %r15\n.cfi_adjust_cfa_offset 8\n"
        ".cfi_rel_offset %rbp, 40\n"
        "mov %rsp, (%rdi)\nmov %rsi, %rsp\n"
        "pop %r15\n.cfi_adjust_cfa_offset -8\n"
        "pop %r14\n.cfi_adjust_cfa_offset -8\n"
        "pop %r13\n.cfi_adjust_cfa_offset -8\n"
        "pop %r12\n.cfi_adjust_cfa_offset -8\n"
        "pop %rbx\n.cfi_adjust_cfa_offset -8\n"
        "pop %rbp\n.cfi_adjust_cfa_offset -8\n.cfi_restore %rbp\n"
        "ret\n.cfi_endproc\n.size switch_stack, . - switch_stack\n");

static NOINLINE void in_coroutine(struct coroutine *c, int depth)
{
    spin(5000);
    if (depth) {
        in_coroutine(c, depth - 1);
        __asm__ volatile("");
        return;
    }
    c->steps++;
    switch_stack(&c->here, c->caller);
    spin(5000);
}

static NOINLINE void body(void)
{
    for (int i = 0; i < 100000; i++)
        in_coroutine(current, i % 12);
}

static void begin(struct coroutine *c)
{
    c->stack = malloc(STACK_BYTES);
    void **top = c->stack + STACK_BYTES / sizeof *top;
    *--top = NULL; /* the return address of body */
    *--top = (void *)body;
    top -= REGISTERS;
    memset(top, 0, REGISTERS * sizeof *top);
    c->here = top;
}

int main(void)
{
    for (int round = 0; round < 40; round++)
        for (int i = 0; i < COUNT; i++) {
            struct coroutine *c = &coroutines[i];
            if (!c->stack)
                begin(c);
            for (int k = 0; k < 20; k++) {
                current = c;
                switch_stack(&c->caller, c->here);
            }
            total += c->steps;
            if (round % 5 == i % 5) { /* in the middle of its calls */
                free(c->stack);
                *c = (struct coroutine){0};
            }
        }
    printf("total %ld\n", total);
    return 0;
}
