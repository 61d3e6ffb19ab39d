/*
 * A function whose cold part has a cold part itself, none of them with a name, as in a program
 * without symbols: long parts(long (*leaf)(long)) calls its argument twice, once from each part.
 * The jumps lead to other sections, so that they are long ones.
 */
    .text
    .globl  parts
    .type   parts, @function
parts:
    .cfi_startproc
    push    %rbx                 /* rbx: the argument */
    .cfi_def_cfa_offset 16
    .cfi_offset %rbx, -16
    mov     %rdi, %rbx
    test    %rdi, %rdi
    jne     .Lfirst
.Lback:
    pop     %rbx
    .cfi_def_cfa_offset 8
    .cfi_restore %rbx
    ret
    .cfi_endproc
    .size   parts, . - parts

    .section .text.first, "ax", @progbits
.Lfirst:
    .cfi_startproc
    .cfi_def_cfa_offset 16
    .cfi_offset %rbx, -16
    mov     $1, %edi
    call    *%rbx
    jmp     .Lsecond
    .cfi_endproc

    .section .text.second, "ax", @progbits
.Lsecond:
    .cfi_startproc
    .cfi_def_cfa_offset 16
    .cfi_offset %rbx, -16
    mov     %rax, %rdi
    call    *%rbx
    jmp     .Lback
    .cfi_endproc

    .section .note.GNU-stack, "", @progbits
