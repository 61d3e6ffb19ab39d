/*
 * Row 27: functions that return by a jump to the return address, which they have taken from the
 * stack, and say nothing of that to unwinders. They are no tail calls: contexts do not grow.
 */
#include "torture.h"

#define RETURNS(name, take)                                                                        \
    __asm__(".text\n"                                                                              \
            ".globl " #name "\n"                                                                   \
            ".type " #name ", @function\n" #name ":\n"                                             \
            "    .cfi_startproc\n" take "    lea 1(%rdi), %eax\n"                                  \
            "    jmp *%rcx\n"                                                                      \
            "    .cfi_endproc\n"                                                                   \
            ".size " #name ", . - " #name "\n");                                                   \
    int name(int)

RETURNS(by_pop, "    pop %rcx\n");
RETURNS(by_load, "    mov (%rsp), %rcx\n    add $8, %rsp\n");

static NOINLINE int through(int x)
{
    return by_pop(x) + by_load(x) + 1;
}

int main(void)
{
    enum { TIMES = 20000 };
    int sum = 0;
    for (int i = 0; i < TIMES; i++)
        sum = through(sum) & 0xffff;
    printf("sum %d\n", sum);
    printf("context through %d\n", TIMES);
    printf("context through;by_pop %d\n", TIMES);
    printf("context through;by_load %d\n", TIMES);
    return torture_end();
}
