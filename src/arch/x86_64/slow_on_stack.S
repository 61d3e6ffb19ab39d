        .section stub_text, "ax", @progbits

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
