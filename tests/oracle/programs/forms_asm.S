/*
 * Functions whose unwind information is right at every instruction, in forms that compilers emit
 * seldom or only hand-written code has. Each takes a callback in rdi and a value in rsi (those
 * without a callback: the value in rdi), and returns a value in rax.
 */
        .text

        .macro  begin name
        .globl  \name
        .type   \name, @function
        .p2align 4
\name:
        .cfi_startproc
        .endm

        .macro  finish name
        .cfi_endproc
        .size   \name, . - \name
        .endm

/* The CFA in a register that callees save, over a realigned frame and a call. */
        .macro  cfa_in name, reg
        begin   \name
        push    \reg                            /* the caller's value */
        .cfi_adjust_cfa_offset 8
        .cfi_rel_offset \reg, 0
        lea     16(%rsp), \reg                  /* reg = CFA */
        .cfi_def_cfa \reg, 0
        and     $-64, %rsp
        sub     $64, %rsp
        mov     %rdi, %rax
        mov     %rsi, %rdi
        mov     %rdi, (%rsp)
        call    *%rax                           /* callback(x) */
        add     (%rsp), %rax
        lea     -16(\reg), %rsp
        .cfi_def_cfa %rsp, 16
        pop     \reg
        .cfi_adjust_cfa_offset -8
        .cfi_restore \reg
        ret
        finish  \name
        .endm

        cfa_in  form_cfa_rbx, %rbx
        cfa_in  form_cfa_r12, %r12
        cfa_in  form_cfa_r13, %r13
        cfa_in  form_cfa_r14, %r14
        cfa_in  form_cfa_r15, %r15

/* The CFA in a register that is not saved, in a leaf that moves the stack pointer about. */
        .macro  leaf_cfa_in name, reg
        begin   \name
        mov     %rsp, \reg
        .cfi_def_cfa \reg, 8
        and     $-128, %rsp
        sub     $256, %rsp
        mov     %rdi, (%rsp)
        mov     %rdi, 128(%rsp)
        mov     (%rsp), %rdx
        add     128(%rsp), %rdx
        mov     \reg, %rsp
        .cfi_def_cfa %rsp, 8
        mov     %rdx, %rax
        ret
        finish  \name
        .endm

        leaf_cfa_in form_cfa_rax, %rax
        leaf_cfa_in form_cfa_r10, %r10

/* The CFA kept in memory at rsp + 8, as in hand-written cryptography code. */
        begin   form_cfa_memory
        mov     %rsp, %rax
        .cfi_def_cfa_register %rax
        and     $-64, %rsp
        sub     $64, %rsp
        mov     %rax, 8(%rsp)
        /* DW_CFA_def_cfa_expression: breg7 (rsp) + 8; deref; plus_uconst 8 */
        .cfi_escape 0x0f, 0x05, 0x77, 0x08, 0x06, 0x23, 0x08
        mov     %rdi, %rax
        mov     %rsi, %rdi
        call    *%rax                           /* callback(x) */
        mov     8(%rsp), %rsp
        .cfi_def_cfa %rsp, 8
        ret
        finish  form_cfa_memory

/* The CFA kept in memory at rsp + 8 * r12: a register times eight in the address of it. */
        begin   form_cfa_indexed
        push    %r12
        .cfi_adjust_cfa_offset 8
        .cfi_rel_offset %r12, 0
        lea     16(%rsp), %rax                  /* rax = CFA */
        .cfi_def_cfa %rax, 0
        sub     $64, %rsp                       /* keeps rsp on 16 bytes */
        mov     $5, %r12d
        mov     %rax, (%rsp, %r12, 8)
        /* DW_CFA_def_cfa_expression: breg7 (rsp) + 0; breg12 + 0; lit8; mul; plus; deref */
        .cfi_escape 0x0f, 0x08, 0x77, 0x00, 0x7c, 0x00, 0x38, 0x1e, 0x22, 0x06
        mov     %rdi, %rax
        mov     %rsi, %rdi
        call    *%rax                           /* callback(x) */
        mov     (%rsp, %r12, 8), %rdx
        .cfi_def_cfa %rdx, 0
        lea     -16(%rdx), %rsp
        .cfi_def_cfa %rsp, 16
        pop     %r12
        .cfi_adjust_cfa_offset -8
        .cfi_restore %r12
        ret
        finish  form_cfa_indexed

/* rbp and rbx saved further from the CFA than five bits of words reach, r12 further than four. */
        begin   form_far_saves
        sub     $488, %rsp
        .cfi_adjust_cfa_offset 488
        mov     %rbp, 16(%rsp)
        .cfi_rel_offset %rbp, 16
        mov     %rbx, 8(%rsp)
        .cfi_rel_offset %rbx, 8
        mov     %r12, 24(%rsp)
        .cfi_rel_offset %r12, 24
        mov     %rsi, %rbx
        xor     %ebp, %ebp
        xor     %r12d, %r12d
        mov     %rdi, %rax
        mov     %rsi, %rdi
        call    *%rax                           /* callback(x) */
        add     %rbx, %rax
        mov     24(%rsp), %r12
        .cfi_restore %r12
        mov     8(%rsp), %rbx
        .cfi_restore %rbx
        mov     16(%rsp), %rbp
        .cfi_restore %rbp
        add     $488, %rsp
        .cfi_adjust_cfa_offset -488
        ret
        finish  form_far_saves

/* Registers saved at places that are given by expressions, as in glibc's vector math. */
        begin   form_saved_expression
        push    %rbp
        .cfi_adjust_cfa_offset 8
        .cfi_rel_offset %rbp, 0
        mov     %rsp, %rbp
        .cfi_def_cfa_register %rbp
        and     $-64, %rsp
        sub     $128, %rsp
        mov     %rbx, 16(%rsp)
        mov     %rbx, -8(%rbp)                  /* and where the expression says */
        /* DW_CFA_expression: rbx (3) at breg6 (rbp) - 8 */
        .cfi_escape 0x10, 0x03, 0x02, 0x76, 0x78
        mov     %rsi, %rbx
        mov     %rdi, %rax
        mov     %rsi, %rdi
        call    *%rax                           /* callback(x) */
        xor     %rbx, %rax
        mov     16(%rsp), %rbx
        .cfi_restore %rbx
        mov     %rbp, %rsp
        .cfi_def_cfa_register %rsp
        pop     %rbp
        .cfi_adjust_cfa_offset -8
        .cfi_restore %rbp
        ret
        finish  form_saved_expression

/* A leaf that saves below the stack pointer, in the red zone. */
        begin   form_red_zone_saves
        mov     %rbx, -8(%rsp)
        .cfi_offset %rbx, -16
        mov     %rbp, -16(%rsp)
        .cfi_offset %rbp, -24
        mov     %rdi, %rbx
        mov     $7, %ebp
        imul    %rbp, %rbx
        mov     %rbx, %rax
        mov     -16(%rsp), %rbp
        .cfi_restore %rbp
        mov     -8(%rsp), %rbx
        .cfi_restore %rbx
        ret
        finish  form_red_zone_saves

/* rbp kept in a register that a leaf may use. */
        begin   form_rbp_in_register
        mov     %rbp, %r11
        .cfi_register %rbp, %r11
        mov     %rdi, %rbp
        lea     9(%rbp, %rbp, 2), %rax
        mov     %r11, %rbp
        .cfi_restore %rbp
        ret
        finish  form_rbp_in_register

/* rbp as an ordinary register: it points nowhere. */
        begin   form_rbp_general
        push    %rbp
        .cfi_adjust_cfa_offset 8
        .cfi_rel_offset %rbp, 0
        mov     $0x1234, %ebp
        mov     %rdi, %rax
        mov     %rsi, %rdi
        call    *%rax                           /* callback(x) */
        add     %rbp, %rax
        pop     %rbp
        .cfi_adjust_cfa_offset -8
        .cfi_restore %rbp
        ret
        finish  form_rbp_general

/* The return address taken off the stack, as vfork does. */
        begin   form_return_in_register
        pop     %rdx
        .cfi_adjust_cfa_offset -8
        .cfi_register %rip, %rdx
        lea     3(%rdi, %rdi), %rax
        push    %rdx
        .cfi_adjust_cfa_offset 8
        .cfi_rel_offset %rip, 0
        add     $1, %rax
        pop     %rdx
        .cfi_adjust_cfa_offset -8
        .cfi_register %rip, %rdx
        nop
        jmp     *%rdx
        finish  form_return_in_register

/* A call that only reads the pc. */
        begin   form_read_pc
        call    1f
1:      .cfi_adjust_cfa_offset 8
        mov     %rdi, %rcx
        pop     %rax
        .cfi_adjust_cfa_offset -8
        lea     1b(%rip), %rdx
        sub     %rdx, %rax
        add     %rcx, %rax
        ret
        finish  form_read_pc

/* A jump by way of push and ret. */
        begin   form_push_return
        lea     2f(%rip), %rax
        push    %rax
        .cfi_adjust_cfa_offset 8
        nop
        ret
        .cfi_adjust_cfa_offset -8
2:      lea     11(%rdi), %rax
        ret
        finish  form_push_return

/* A callee that pops its own stack arguments. */
        .type   takes_two, @function
takes_two:
        .cfi_startproc
        mov     8(%rsp), %rdi                   /* x */
        sub     $8, %rsp
        .cfi_adjust_cfa_offset 8
        call    *24(%rsp)                       /* callback(x) */
        add     $8, %rsp
        .cfi_adjust_cfa_offset -8
        ret     $16
        .cfi_endproc
        .size   takes_two, . - takes_two

        begin   form_pops_arguments
        sub     $8, %rsp
        .cfi_adjust_cfa_offset 8
        push    %rdi
        .cfi_adjust_cfa_offset 8
        push    %rsi
        .cfi_adjust_cfa_offset 8
        call    takes_two
        .cfi_adjust_cfa_offset -16
        add     $8, %rsp
        .cfi_adjust_cfa_offset -8
        ret
        finish  form_pops_arguments

/* Two ways out, so that the second epilogue has to remember the first one's state. */
        begin   form_two_exits
        push    %rbx
        .cfi_adjust_cfa_offset 8
        .cfi_rel_offset %rbx, 0
        mov     %rsi, %rbx
        test    $1, %bl
        jz      3f
        mov     %rdi, %rax
        mov     %rsi, %rdi
        call    *%rax                           /* callback(x) */
        .cfi_remember_state
        pop     %rbx
        .cfi_adjust_cfa_offset -8
        .cfi_restore %rbx
        ret
3:      .cfi_restore_state
        lea     5(%rbx), %rax
        pop     %rbx
        .cfi_def_cfa_offset 8                   /* clang forgets what to adjust */
        .cfi_restore %rbx
        ret
        finish  form_two_exits

/* Values pushed and popped around a call in the middle of a frame. */
        begin   form_temporary_pushes
        push    %rbp
        .cfi_adjust_cfa_offset 8
        .cfi_rel_offset %rbp, 0
        push    %rdi
        .cfi_adjust_cfa_offset 8
        push    %rsi
        .cfi_adjust_cfa_offset 8
        mov     %rsi, %rbp
        mov     %rdi, %rax
        mov     %rsi, %rdi
        sub     $64, %rsp
        .cfi_adjust_cfa_offset 64
        call    *%rax                           /* callback(x) */
        add     $64, %rsp
        .cfi_adjust_cfa_offset -64
        pop     %rsi
        .cfi_adjust_cfa_offset -8
        pop     %rdi
        .cfi_adjust_cfa_offset -8
        add     %rbp, %rax
        pop     %rbp
        .cfi_adjust_cfa_offset -8
        .cfi_restore %rbp
        ret
        finish  form_temporary_pushes

/* First counted from rbp, then from rsp again, then by leave. */
        begin   form_switches_frame
        push    %rbp
        .cfi_adjust_cfa_offset 8
        .cfi_rel_offset %rbp, 0
        mov     %rsp, %rbp
        .cfi_def_cfa_register %rbp
        push    %rbx
        .cfi_offset %rbx, -24
        sub     $8, %rsp
        mov     %rdi, %rbx
        mov     %rsi, %rdi
        call    *%rbx                           /* callback(x) */
        mov     %rax, %rdi
        .cfi_def_cfa %rsp, 32
        mov     $1, %ebp                        /* rbp is free while the CFA is counted from rsp */
        call    *%rbx                           /* callback(callback(x)) */
        lea     16(%rsp), %rbp
        .cfi_def_cfa %rbp, 16
        mov     -8(%rbp), %rbx
        .cfi_restore %rbx
        leave
        .cfi_def_cfa %rsp, 8
        .cfi_restore %rbp
        ret
        finish  form_switches_frame

        .section .note.GNU-stack, "", @progbits
