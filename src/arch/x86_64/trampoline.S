/*
 * Where a marked frame returns to.
 *
 * There are MARK_COUNT stubs, one for each entry of trampoline_marks. The address of stub i, plus
 * 1, stands in the slot of the return address. Stubs are MARK_STUB_BYTES (32) long:
 *
 *     + 0  90                         nop      unwinders look up the return address minus 1
 *     + 1  0f 1f 84 00 'T' 'R' 'P' 'M'         a nop of 8 bytes; + 0 to + 7 are the signature
 *     + 9  ff 35 disp32               push     the real return address: the slot is as it was
 *     +15  68 imm32                   push     the stub's number
 *     +20  e9 rel32                   jmp      trampoline_common
 *
 * All stubs share one description for unwinders, without any relocation. v is the return address
 * column (register 16); b = v & ~31 is the stub. Once the slot has been put back, an unwinder that
 * keeps the column by reference (libgcc) finds the real address there: hence the signature. A
 * sample may put it back at any moment, so each expression reads the column once.
 *
 *     CFA            = rsp + (signature at b ? 8 * ((rip & 31) >= 15) + 8 * ((rip & 31) >= 20) : 0)
 *     return address   before the first push: in memory at the address that the push at b reads,
 *                      later: at CFA - 8
 */
#include "arch/x86_64/plain_flags.inc"
#include "arch/x86_64/trampoline_layout.h"

/* On the expression stack, from v: is there a stub at v & ~31? */
#define IS_STUB                                                                                    \
    .cfi_escape 0x06; /* deref */                                                                  \
    .cfi_escape 0x0e, 0x90, 0x0f, 0x1f, 0x84, 0x00, 0x54, 0x52, 0x50; /* const8u: the signature */ \
    .cfi_escape 0x29  /* eq */

    .text
    .p2align 5
    .globl trampoline_stubs, trampoline_exit
    .hidden trampoline_stubs, trampoline_exit
    .hidden trampoline_marks, trampoline_personality, trampoline_bounce, trampoline_resume
    .type trampoline_stubs, @function
trampoline_stubs:
    .cfi_startproc
    .cfi_personality 0x1b, trampoline_personality /* relative to the place, 4 bytes */

    .cfi_escape 0x0f, 33                     /* DW_CFA_def_cfa_expression, 33 bytes */
    .cfi_escape 0x77, 0x00                   /* breg7 0: rsp */
    .cfi_escape 0x80, 0x00                   /* breg16 0: v */
    .cfi_escape 0x12, 0x4f, 0x20, 0x1a       /* dup; lit31; not; and: b */
    IS_STUB
    .cfi_escape 0x16, 0x4f, 0x1a             /* swap; lit31; and: v & 31 */
    .cfi_escape 0x12, 0x3f, 0x2a             /* dup; lit15; ge */
    .cfi_escape 0x16, 0x44, 0x2a             /* swap; lit20; ge */
    .cfi_escape 0x22, 0x1e                   /* plus; mul */
    .cfi_escape 0x33, 0x24, 0x22             /* lit3; shl; plus */

    .cfi_escape 0x10, 0x10, 43               /* DW_CFA_expression, column 16, 43 bytes; [CFA] */
    .cfi_escape 0x80, 0x00                   /* breg16 0: v */
    .cfi_escape 0x12, 0x4f, 0x20, 0x1a       /* dup; lit31; not; and: [CFA, v, b] */
    .cfi_escape 0x12                         /* dup */
    IS_STUB
    .cfi_escape 0x15, 0x02                   /* pick 2: v */
    .cfi_escape 0x4f, 0x1a, 0x3f, 0x2d       /* lit31; and; lit15; lt */
    .cfi_escape 0x1a                         /* and: [CFA, v, b, in a stub and not pushed yet] */
    .cfi_escape 0x28, 7, 0                   /* bra: over the next two lines */
    .cfi_escape 0x13, 0x13, 0x38, 0x1c       /* drop; drop; lit8; minus: CFA - 8 */
    .cfi_escape 0x2f, 8, 0                   /* skip: to the end */
    .cfi_escape 0x12                         /* dup: [CFA, v, b, b] */
    .cfi_escape 0x23, 11, 0x94, 0x04         /* plus_uconst 11; deref_size 4: the displacement */
    .cfi_escape 0x22, 0x23, 15               /* plus; plus_uconst 15: from where the push ends */

    .set number, 0
    .rept MARK_COUNT
    .p2align 5, 0xcc
    nop
    .byte 0x0f, 0x1f, 0x84, 0x00, 0x54, 0x52, 0x50, 0x4d
    pushq trampoline_marks + number * MARK_BYTES(%rip)
    .byte 0x68
    .long number
    jmp trampoline_common
    .set number, number + 1
    .endr
    .p2align 5, 0xcc
    .cfi_endproc
    .size trampoline_stubs, . - trampoline_stubs

/*
 * On entry: 0(%rsp) the stub's number, 8(%rsp) the real return address, in its slot. Everything
 * else is as the function that returns has left it, and all of it is preserved: compilers may keep
 * values in any register across a call to a function that they know (-fipa-ra). Vector and x87
 * registers are not touched by the C code (-mgeneral-regs-only).
 */
    .type trampoline_common, @function
    .p2align 5
trampoline_common:
    .cfi_startproc
    .cfi_def_cfa_offset 16
    pushq %rax
    .cfi_adjust_cfa_offset 8
    lahf                       /* SF, ZF, AF, PF, CF */
    seto %al                   /* and OF */
    pushq %rax
    .cfi_adjust_cfa_offset 8
    .irp register, rcx, rdx, rsi, rdi, r8, r9, r10, r11
    pushq %\register
    .cfi_adjust_cfa_offset 8
    .endr
    FLAGS_PLAIN
    movl 96(%rsp), %edi        /* the number */
    leaq 112(%rsp), %rsi       /* rsp as the caller will have it */
    call trampoline_bounce     /* rax: 0, or an exception that goes on from here */
    testq %rax, %rax
    jne 1f
    .cfi_remember_state
    FLAGS_BACK
    .irp register, r11, r10, r9, r8, rdi, rsi, rdx, rcx
    popq %\register
    .cfi_adjust_cfa_offset -8
    .endr
    popq %rax
    .cfi_adjust_cfa_offset -8
    addb $127, %al             /* OF again */
    sahf
    popq %rax
    .cfi_adjust_cfa_offset -8
    leaq 16(%rsp), %rsp
    .cfi_adjust_cfa_offset -16
trampoline_exit:
    jmp *-8(%rsp)              /* not ret: the processor's stack of return addresses stays right */
    .cfi_restore_state
1:  movq %rax, %rdi
    call trampoline_resume
    ud2
    .cfi_endproc
    .size trampoline_common, . - trampoline_common
    .section .note.GNU-stack, "", @progbits
