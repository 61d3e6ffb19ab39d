/*
 * Assembly without CFI and without symbols, as in codecs: it is found by the addresses that described
 * code takes and by its tail calls. All of it takes a number in edi and returns one in eax.
 */
        .text
        .p2align 4
.Lhelper:                               /* writes nothing but eax */
        mov     %edi, %eax
0:      add     $3, %eax
        test    $15, %al
        jnz     0b
        ret

        .p2align 4
.Lrealigned:                            /* the caller's rsp is in rcx, and nowhere else */
        mov     %rsp, %rcx
        and     $-64, %rsp
        sub     $64, %rsp
        call    .Lhelper
        mov     %eax, 8(%rsp)
        sub     $32, %rsp
        call    .Lhelper
        add     40(%rsp), %eax
        mov     %rcx, %rsp
        ret

        .p2align 4
.Lborrows:                              /* uses rcx for a while, and puts it back */
        push    %rcx
        lea     64(%rsp), %rcx          /* could be a caller's rsp, and is not */
        lea     1(%rdi), %eax
        pop     %rcx
        ret

        .p2align 4
.Lrealigned_lossy:                      /* in here the caller's rsp cannot be known */
        mov     %rsp, %rcx
        and     $-32, %rsp
        sub     $32, %rsp
        call    .Lborrows
        mov     %rcx, %rsp
        ret

        .p2align 4
.Lclobbers:                             /* not by the ABI: rbp and r12 are its caller's business */
        mov     %edi, %eax
        mov     16(%rsp), %rbp
1:      test    $1, %eax
        jz      2f
        mov     %eax, %r12d
2:      inc     %eax
        test    $7, %al
        jnz     1b
        ret

        .p2align 4
.Ltail_target:
        sub     $24, %rsp
        mov     %edi, 8(%rsp)
        mov     8(%rsp), %eax
        imul    $7, %eax, %eax
        add     $24, %rsp
        ret

        .globl  bare_pick               /* the address of one of them */
        .type   bare_pick, @function
bare_pick:
        .cfi_startproc
        lea     .Lrealigned(%rip), %rax
        test    %edi, %edi
        jz      3f
        lea     .Lrealigned_lossy(%rip), %rax
3:      ret
        .cfi_endproc
        .size   bare_pick, . - bare_pick

        .section .text.unlikely, "ax", @progbits /* too far for a short jump */
        .globl  bare_tail
        .type   bare_tail, @function
bare_tail:
        .cfi_startproc
        add     $2, %edi
        jmp     .Ltail_target
        .cfi_endproc
        .size   bare_tail, . - bare_tail

        .text
        .globl  bare_saves
        .type   bare_saves, @function
bare_saves:
        .cfi_startproc
        push    %rbp
        .cfi_adjust_cfa_offset 8
        .cfi_rel_offset rbp, 0
        push    %r12
        .cfi_adjust_cfa_offset 8
        .cfi_rel_offset r12, 0
        call    .Lclobbers
        pop     %r12
        .cfi_adjust_cfa_offset -8
        .cfi_restore r12
        pop     %rbp
        .cfi_adjust_cfa_offset -8
        .cfi_restore rbp
        ret
        .cfi_endproc
        .size   bare_saves, . - bare_saves

        .section .note.GNU-stack, "", @progbits
