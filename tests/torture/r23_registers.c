/* Row 23: every register that a call may leave alone is as it was: a caller that knows its callee
 * keeps values in all of them (-fipa-ra), and the callee here changes none. */
#include "torture.h"

#include <stdint.h>
#include <string.h>

/* Changes nothing at all, and calls another that does not either. */
__asm__(".text\n.type innermost, @function\ninnermost:\n.cfi_startproc\n ret\n.cfi_endproc\n"
        ".size innermost, . - innermost\n"
        ".type quiet, @function\nquiet:\n.cfi_startproc\n sub $8, %rsp\n.cfi_adjust_cfa_offset 8\n"
        " call innermost\n add $8, %rsp\n.cfi_adjust_cfa_offset -8\n ret\n.cfi_endproc\n"
        ".size quiet, . - quiet\n"
        ".type quiet_tail, @function\nquiet_tail:\n.cfi_startproc\n jmp quiet\n.cfi_endproc\n"
        ".size quiet_tail, . - quiet_tail\n");

struct registers {
    uint64_t general[14];
    uint8_t vectors[16][32];
    uint16_t x87;
    uint32_t mxcsr;
};

/* Fills all registers, calls in three ways, and stores them: void probe(in, out, target) */
__asm__(".text\n.type probe, @function\nprobe:\n.cfi_startproc\n"
        " push %rbx\n.cfi_adjust_cfa_offset 8\n push %rbp\n.cfi_adjust_cfa_offset 8\n"
        " push %r12\n.cfi_adjust_cfa_offset 8\n push %r13\n.cfi_adjust_cfa_offset 8\n"
        " push %r14\n.cfi_adjust_cfa_offset 8\n push %r15\n.cfi_adjust_cfa_offset 8\n"
        " push %rsi\n.cfi_adjust_cfa_offset 8\n push %rdx\n.cfi_adjust_cfa_offset 8\n"
        " sub $8, %rsp\n.cfi_adjust_cfa_offset 8\n"
        " .set i, 0\n"
        " vmovdqu 112+0*32(%rdi), %ymm0\n vmovdqu 112+1*32(%rdi), %ymm1\n"
        " vmovdqu 112+2*32(%rdi), %ymm2\n vmovdqu 112+3*32(%rdi), %ymm3\n"
        " vmovdqu 112+4*32(%rdi), %ymm4\n vmovdqu 112+5*32(%rdi), %ymm5\n"
        " vmovdqu 112+6*32(%rdi), %ymm6\n vmovdqu 112+7*32(%rdi), %ymm7\n"
        " vmovdqu 112+8*32(%rdi), %ymm8\n vmovdqu 112+9*32(%rdi), %ymm9\n"
        " vmovdqu 112+10*32(%rdi), %ymm10\n vmovdqu 112+11*32(%rdi), %ymm11\n"
        " vmovdqu 112+12*32(%rdi), %ymm12\n vmovdqu 112+13*32(%rdi), %ymm13\n"
        " vmovdqu 112+14*32(%rdi), %ymm14\n vmovdqu 112+15*32(%rdi), %ymm15\n"
        " mov 0(%rdi), %rax\n mov 8(%rdi), %rbx\n mov 16(%rdi), %rcx\n mov 24(%rdi), %rdx\n"
        " mov 32(%rdi), %rsi\n mov 48(%rdi), %rbp\n mov 56(%rdi), %r8\n mov 64(%rdi), %r9\n"
        " mov 72(%rdi), %r10\n mov 80(%rdi), %r11\n mov 88(%rdi), %r12\n mov 96(%rdi), %r13\n"
        " mov 104(%rdi), %r14\n mov 40(%rdi), %rdi\n"
        " call quiet\n call quiet_tail\n call *8(%rsp)\n"
        " mov 16(%rsp), %r15\n mov %rdi, 40(%r15)\n mov %r15, %rdi\n"
        " mov %rax, 0(%rdi)\n mov %rbx, 8(%rdi)\n mov %rcx, 16(%rdi)\n mov %rdx, 24(%rdi)\n"
        " mov %rsi, 32(%rdi)\n mov %rbp, 48(%rdi)\n mov %r8, 56(%rdi)\n mov %r9, 64(%rdi)\n"
        " mov %r10, 72(%rdi)\n mov %r11, 80(%rdi)\n mov %r12, 88(%rdi)\n mov %r13, 96(%rdi)\n"
        " mov %r14, 104(%rdi)\n"
        " vmovdqu %ymm0, 112+0*32(%rdi)\n vmovdqu %ymm1, 112+1*32(%rdi)\n"
        " vmovdqu %ymm2, 112+2*32(%rdi)\n vmovdqu %ymm3, 112+3*32(%rdi)\n"
        " vmovdqu %ymm4, 112+4*32(%rdi)\n vmovdqu %ymm5, 112+5*32(%rdi)\n"
        " vmovdqu %ymm6, 112+6*32(%rdi)\n vmovdqu %ymm7, 112+7*32(%rdi)\n"
        " vmovdqu %ymm8, 112+8*32(%rdi)\n vmovdqu %ymm9, 112+9*32(%rdi)\n"
        " vmovdqu %ymm10, 112+10*32(%rdi)\n vmovdqu %ymm11, 112+11*32(%rdi)\n"
        " vmovdqu %ymm12, 112+12*32(%rdi)\n vmovdqu %ymm13, 112+13*32(%rdi)\n"
        " vmovdqu %ymm14, 112+14*32(%rdi)\n vmovdqu %ymm15, 112+15*32(%rdi)\n"
        " fnstcw 112+16*32(%rdi)\n stmxcsr 112+16*32+4(%rdi)\n"
        " add $24, %rsp\n.cfi_adjust_cfa_offset -24\n"
        " pop %r15\n.cfi_adjust_cfa_offset -8\n pop %r14\n.cfi_adjust_cfa_offset -8\n"
        " pop %r13\n.cfi_adjust_cfa_offset -8\n pop %r12\n.cfi_adjust_cfa_offset -8\n"
        " pop %rbp\n.cfi_adjust_cfa_offset -8\n pop %rbx\n.cfi_adjust_cfa_offset -8\n"
        " vzeroupper\n ret\n.cfi_endproc\n.size probe, . - probe\n");

void probe(const struct registers *in, struct registers *out, void (*target)(void));
void quiet(void);

/* The first call from each depth makes a new context, and takes the long way. */
__attribute__((noinline)) static int deeper(int depth, uint64_t seed)
{
    struct registers in, out;
    uint8_t *bytes = (uint8_t *)&in;
    for (size_t i = 0; i < sizeof in; i++)
        bytes[i] = (uint8_t)((seed = seed * 6364136223846793005u + 1442695040888963407u) >> 33);
    int wrong = 0;
    for (int i = 0; i < 50; i++) {
        memset(&out, 0, sizeof out);
        probe(&in, &out, quiet);
        wrong += memcmp(in.general, out.general, sizeof in.general) != 0;
        wrong += memcmp(in.vectors, out.vectors, sizeof in.vectors) != 0;
        wrong += out.x87 != 0x37f || (out.mxcsr & 0xffc0) != 0x1f80;
    }
    return wrong + (depth ? deeper(depth - 1, seed) : 0);
}

int main(void)
{
    if (!__builtin_cpu_supports("avx2")) {
        printf("0 wrong\n");
        return 0;
    }
    int wrong = 0;
    for (int i = 0; i < 60; i++)
        wrong += deeper(60, (uint64_t)i);
    printf("%d wrong\n", wrong);
    return wrong != 0;
}
