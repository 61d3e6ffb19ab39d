/*
 * The stubs' common code comes here when it does not know what to do: with rax, rcx, rdx, the way
 * back to the stub and the number of the site on the stack. All general registers are saved; the C code does not touch
 * the others. Each engine has an entry of its own: NAME, which calls WORK.
 */
        .macro SLOW_ENTRY name, work
        .globl \name
        .hidden \name
        .type \name, @function
\name:
        .cfi_startproc
        .cfi_def_cfa_offset 8
        push    %rsi
        .cfi_adjust_cfa_offset 8
        push    %rdi
        .cfi_adjust_cfa_offset 8
        push    %r8
        .cfi_adjust_cfa_offset 8
        push    %r9
        .cfi_adjust_cfa_offset 8
        push    %r10
        .cfi_adjust_cfa_offset 8
        push    %r11
        .cfi_adjust_cfa_offset 8
        push    %rbp
        .cfi_adjust_cfa_offset 8
        .cfi_rel_offset %rbp, 0
        push    %rbx
        .cfi_adjust_cfa_offset 8
        .cfi_rel_offset %rbx, 0
        push    %r12
        .cfi_adjust_cfa_offset 8
        push    %r13
        .cfi_adjust_cfa_offset 8
        push    %r14
        .cfi_adjust_cfa_offset 8
        push    %r15
        .cfi_adjust_cfa_offset 8
        mov     %rsp, %rdi              /* struct slow_frame */
        mov     %rsp, %rbx
        .cfi_def_cfa_register %rbx
        cld
        and     $-16, %rsp
        call    \work
        mov     %rbx, %rsp
        .cfi_def_cfa_register %rsp
        pop     %r15
        .cfi_adjust_cfa_offset -8
        pop     %r14
        .cfi_adjust_cfa_offset -8
        pop     %r13
        .cfi_adjust_cfa_offset -8
        pop     %r12
        .cfi_adjust_cfa_offset -8
        pop     %rbx
        .cfi_adjust_cfa_offset -8
        .cfi_restore %rbx
        pop     %rbp
        .cfi_adjust_cfa_offset -8
        .cfi_restore %rbp
        pop     %r11
        .cfi_adjust_cfa_offset -8
        pop     %r10
        .cfi_adjust_cfa_offset -8
        pop     %r9
        .cfi_adjust_cfa_offset -8
        pop     %r8
        .cfi_adjust_cfa_offset -8
        pop     %rdi
        .cfi_adjust_cfa_offset -8
        pop     %rsi
        .cfi_adjust_cfa_offset -8
        ret
        .cfi_endproc
        .size \name, . - \name
        .endm

        .section stub_text, "ax", @progbits
        SLOW_ENTRY exact_slow_entry, exact_slow
        SLOW_ENTRY encode_slow_entry, encode_slow

/* slow_on_stack(top of a stack, function, its argument): calls it there. */
        .globl slow_on_stack
        .hidden slow_on_stack
        .type slow_on_stack, @function
slow_on_stack:
        .cfi_startproc
        push    %rbp
        .cfi_adjust_cfa_offset 8
        .cfi_rel_offset %rbp, 0
        mov     %rsp, %rbp
        .cfi_def_cfa_register %rbp
        mov     %rdi, %rsp
        mov     %rdx, %rdi
        call    *%rsi
        mov     %rbp, %rsp
        .cfi_def_cfa_register %rsp
        pop     %rbp
        .cfi_adjust_cfa_offset -8
        .cfi_restore %rbp
        ret
        .cfi_endproc
        .size slow_on_stack, . - slow_on_stack

        .section .note.GNU-stack, "", @progbits
