/*
 * Row 27: functions that jump into the middle of another one, behind the instruction by which both
 * keep rsp in rax, as libcrypto's multiplications do: a tail call, though it leads to no function's
 * start, and though the CFA is not in rsp.
 */
#include "torture.h"

enum { ROUNDS = 300 };

void first(unsigned long kind, unsigned rounds);

NOINLINE void leaf(unsigned long kind, unsigned rounds);

NOINLINE void leaf(unsigned long kind, unsigned rounds)
{
    spin(kind ? rounds : rounds / 4);
}

__asm__(".text\n"
        ".globl first\n.type first,@function\n"
        "first:\n.cfi_startproc\n"
        "mov %rsp,%rax\n.cfi_def_cfa_register rax\n"
        "mov %edi,%r11d\nand $1,%r11d\ncmp $1,%r11d\n"
        "je .Lenter_second\n"
        "push %rbx\n.cfi_def_cfa rsp,16\n.cfi_offset rbx,-16\n"
        "call leaf\n"
        "pop %rbx\n.cfi_def_cfa_offset 8\n.cfi_restore rbx\nret\n"
        ".cfi_endproc\n.size first,.-first\n"
        ".globl second\n.type second,@function\n"
        "second:\n.cfi_startproc\n"
        "mov %rsp,%rax\n.cfi_def_cfa_register rax\n"
        ".Lenter_second:\n"
        "push %rbx\n.cfi_offset rbx,-16\n"
        "push %rbp\n.cfi_offset rbp,-24\n"
        "mov %rax,%rbp\n.cfi_def_cfa_register rbp\n"
        "sub $8,%rsp\n"
        "call leaf\n"
        "mov -8(%rbp),%rbx\n.cfi_restore rbx\n"
        "mov %rbp,%rax\n.cfi_def_cfa_register rax\n"
        "mov -16(%rax),%rbp\n.cfi_restore rbp\n"
        "lea (%rax),%rsp\n.cfi_def_cfa_register rsp\nret\n"
        ".cfi_endproc\n.size second,.-second\n");

int main(void)
{
    for (unsigned i = 0; i < ROUNDS; i++)
        first(i & 1, 400000);
    printf("calls first %d\ncalls second %d\ncalls leaf %d\n", ROUNDS, ROUNDS / 2, ROUNDS);
    return torture_end();
}
