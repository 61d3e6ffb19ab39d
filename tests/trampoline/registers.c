/*
 * Every register across a return through the trampoline: general, flags, ymm or zmm with the mask
 * registers, x87 stack, mxcsr and the x87 control word. A function that has marked its own slot
 * loads all of them and returns; its caller stores all of them.
 */
#include "marks.h"

uint64_t general_in[16], general_out[16], flags_in, flags_out, masks_in[8], masks_out[8];
unsigned char vector_in[32][64], vector_out[32][64];
long double x87_in[2] = {3.25L, -7.5L}, x87_out[2];
uint32_t mxcsr_in, mxcsr_out;
uint16_t control_in, control_out;
uint64_t has_avx512;

void call_leaf(void);
extern char leaf_body[];

/* The leaf's slot is at `rsp` when it is interrupted at leaf_body. */
void mark_leaf(uint64_t rsp, uint64_t rbp)
{
    ucontext_t context;
    memset(&context, 0, sizeof context);
    context.uc_mcontext.gregs[REG_RIP] = (greg_t)(uintptr_t)leaf_body;
    context.uc_mcontext.gregs[REG_RSP] = (greg_t)rsp;
    context.uc_mcontext.gregs[REG_RBP] = (greg_t)rbp;
    sample(&context);
}

__asm__(".text\n.type call_leaf, @function\ncall_leaf: .cfi_startproc\n"
        ".irp r, rbx, rbp, r12, r13, r14, r15\n push %\\r\n .cfi_adjust_cfa_offset 8\n"
        " .cfi_rel_offset \\r, 0\n.endr\n sub $8, %rsp\n .cfi_adjust_cfa_offset 8\n"
        " call leaf\n"
        " mov %rax, general_out(%rip)\n pushfq\n .cfi_adjust_cfa_offset 8\n pop %rax\n"
        " .cfi_adjust_cfa_offset -8\n mov %rax, flags_out(%rip)\n"
        " mov %rbx, general_out+8(%rip)\n mov %rcx, general_out+16(%rip)\n"
        " mov %rdx, general_out+24(%rip)\n mov %rsi, general_out+32(%rip)\n"
        " mov %rdi, general_out+40(%rip)\n mov %rbp, general_out+48(%rip)\n"
        ".irp n, 8, 9, 10, 11, 12, 13, 14, 15\n mov %r\\n, general_out+8*\\n(%rip)\n.endr\n"
        " stmxcsr mxcsr_out(%rip)\n fnstcw control_out(%rip)\n"
        " cmpq $0, has_avx512(%rip)\n je 1f\n"
        ".irp n, "
        "0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31\n"
        " vmovups %zmm\\n, vector_out+64*\\n(%rip)\n.endr\n"
        ".irp n, 1, 2, 3, 4, 5, 6, 7\n kmovq %k\\n, masks_out+8*\\n(%rip)\n.endr\n jmp 2f\n"
        "1:\n.irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n"
        " vmovups %ymm\\n, vector_out+64*\\n(%rip)\n.endr\n"
        "2: fstpt x87_out(%rip)\n fstpt x87_out+16(%rip)\n fninit\n vzeroupper\n"
        " add $8, %rsp\n .cfi_adjust_cfa_offset -8\n"
        ".irp r, r15, r14, r13, r12, rbp, rbx\n pop %\\r\n .cfi_adjust_cfa_offset -8\n"
        " .cfi_restore \\r\n.endr\n ret\n .cfi_endproc\n .size call_leaf, . - call_leaf\n"
        ".type leaf, @function\nleaf: .cfi_startproc\n mov %rsp, %rdi\n mov %rbp, %rsi\n"
        " sub $8, %rsp\n .cfi_adjust_cfa_offset 8\n call mark_leaf\n add $8, %rsp\n"
        " .cfi_adjust_cfa_offset -8\n"
        ".globl leaf_body\nleaf_body:\n"
        " cmpq $0, has_avx512(%rip)\n je 1f\n"
        ".irp n, "
        "0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31\n"
        " vmovups vector_in+64*\\n(%rip), %zmm\\n\n.endr\n"
        ".irp n, 1, 2, 3, 4, 5, 6, 7\n kmovq masks_in+8*\\n(%rip), %k\\n\n.endr\n jmp 2f\n"
        "1:\n.irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n"
        " vmovups vector_in+64*\\n(%rip), %ymm\\n\n.endr\n"
        "2: fninit\n fldcw control_in(%rip)\n ldmxcsr mxcsr_in(%rip)\n"
        " fldt x87_in+16(%rip)\n fldt x87_in(%rip)\n"
        ".irp n, 8, 9, 10, 11, 12, 13, 14, 15\n mov general_in+8*\\n(%rip), %r\\n\n.endr\n"
        " mov general_in+8(%rip), %rbx\n mov general_in+16(%rip), %rcx\n"
        " mov general_in+24(%rip), %rdx\n mov general_in+32(%rip), %rsi\n"
        " mov general_in+40(%rip), %rdi\n mov general_in+48(%rip), %rbp\n"
        " mov general_in(%rip), %rax\n"
        " push flags_in(%rip)\n .cfi_adjust_cfa_offset 8\n popfq\n .cfi_adjust_cfa_offset -8\n"
        " ret\n .cfi_endproc\n .size leaf, . - leaf\n");

static uint64_t some(void)
{
    return (uint64_t)rand() << 42 ^ (uint64_t)rand() << 21 ^ (uint64_t)rand();
}

int main(void)
{
    enum { ROUNDS = 2000, FLAGS = 0x8d5 /* CF, PF, AF, ZF, SF, OF */ };
    marks_begin();
    __builtin_cpu_init();
    has_avx512 = __builtin_cpu_supports("avx512bw");
    uint32_t mxcsr;
    __asm__("stmxcsr %0" : "=m"(mxcsr));
    int bad = 0;
    size_t vectors = has_avx512 ? 32 : 16, width = has_avx512 ? 64 : 32;
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < 16; i++)
            general_in[i] = i == 7 ? 0 : some();
        for (int i = 1; i < 8; i++)
            masks_in[i] = has_avx512 ? some() : 0;
        for (size_t i = 0; i < vectors; i++)
            for (size_t k = 0; k < width; k++)
                vector_in[i][k] = (unsigned char)rand();
        flags_in = 0x202 | (some() & FLAGS);
        mxcsr_in = (mxcsr & ~0x6000u) | (uint32_t)(rand() & 3) << 13; /* rounding */
        control_in = (uint16_t)(0x37f | (rand() & 3) << 10);
        call_leaf();
        __asm__("ldmxcsr %0" : : "m"(mxcsr));
        bad += memcmp(general_in, general_out, sizeof general_in) ||
               memcmp(vector_in, vector_out, sizeof vector_in) ||
               memcmp(masks_in, masks_out, sizeof masks_in) || x87_in[0] != x87_out[0] ||
               x87_in[1] != x87_out[1] || (flags_in & FLAGS) != (flags_out & FLAGS) ||
               mxcsr_in != mxcsr_out || control_in != control_out;
    }
    printf("%d of %d as without marks\n", ROUNDS - bad, ROUNDS);
    return bad != 0;
}
