/*
 * Row 33: hand-written code that realigns its stack and knows its frame by a register that calls
 * may change: rcx, rdx or rax, which what it calls leaves alone. Samples come at its calls, mostly.
 */
#include "torture.h"

long in_rax(long n, long sum), in_rcx(long n, long sum), in_rdx(long n, long sum);

#define FRAME_IN(reg)                                                                              \
    __asm__("        .text\n"                                                                      \
            "        .globl in_" reg "\n"                                                          \
            "        .type in_" reg ", @function\n"                                                \
            "in_" reg ":\n"                                                                        \
            "        .cfi_startproc\n"                                                             \
            "        mov %rsp, %" reg "\n"                                                         \
            "        .cfi_def_cfa %" reg ", 8\n"                                                   \
            "        and $-32, %rsp\n"                                                             \
            "        sub $64, %rsp\n"                                                              \
            "1:      call adds_one\n"                                                              \
            "        call adds_one\n"                                                              \
            "        dec %rdi\n"                                                                   \
            "        jnz 1b\n"                                                                     \
            "        mov %" reg ", %rsp\n"                                                         \
            "        .cfi_def_cfa %rsp, 8\n"                                                       \
            "        mov %rsi, %rax\n"                                                             \
            "        ret\n"                                                                        \
            "        .cfi_endproc\n"                                                               \
            "        .size in_" reg ", . - in_" reg "\n")

__asm__("        .text\n"
        "        .type adds_one, @function\n"
        "adds_one:\n"
        "        .cfi_startproc\n"
        "        inc %rsi\n"
        "        ret\n"
        "        .cfi_endproc\n"
        "        .size adds_one, . - adds_one\n");
FRAME_IN("rax");
FRAME_IN("rcx");
FRAME_IN("rdx");

NOINLINE static long run(long (*of)(long n, long sum), long n)
{
    return of(n, 0);
}

int main(void)
{
    const long n = 300000;
    CHECK(run(in_rax, n) == 2 * n);
    CHECK(run(in_rcx, n) == 2 * n);
    CHECK(run(in_rdx, n) == 2 * n);
    return torture_end();
}
