/*
 * The program's handlers that run on alternate stacks, as the kernel calls them. Where it has put
 * the signal frame on a stack of ours (own_stack.h), the frame moves to where the program expects it,
 * and the handler runs there. Handlers of faults are run by fault_run. In all other cases, also where
 * somebody calls the stub like a function, this only jumps on.
 *
 * On entry: rdi the number of the signal, rsi its siginfo, rdx the context, rsp the return address,
 * which is the first word of the frame. No other register means anything to a handler.
 */
#include "arch/x86_64/sample_layout.h"

        .text
        .balign HANDLER_STUB_BYTES
        .globl handler_stubs
        .hidden handler_stubs
        .type handler_stubs, @function
handler_stubs:
        .cfi_startproc
        .set    number, 0
        .rept   HANDLER_STUBS
        .balign HANDLER_STUB_BYTES
        endbr64
        mov     $number, %eax
        jmp     handler_common
        .set    number, number + 1
        .endr
        .cfi_endproc
        .size handler_stubs, . - handler_stubs

        .type handler_common, @function
handler_common:
        .cfi_startproc
        lea     handler_table(%rip), %r11
        mov     (%r11,%rax,8), %r11             /* the program's handler */
        lea     8(%rsp), %rax
        cmp     %rax, %rdx                      /* is this a signal frame, */
        jne     1f
        mov     CONTEXT_STACK_SIZE(%rdx), %rax
        cmp     $OWN_STACK_BYTES, %rax          /* with a stack like ours, */
        jne     1f
        mov     CONTEXT_STACK(%rdx), %rcx
        mov     %rsp, %r8
        sub     %rcx, %r8
        cmp     %rax, %r8                       /* on it, */
        jae     1f
        movabs  $OWN_STACK_MAGIC, %r8
        cmp     %r8, (%rcx,%rax)                /* and is it ours? */
        jne     1f
        push    %rdi
        .cfi_adjust_cfa_offset 8
        push    %rsi
        .cfi_adjust_cfa_offset 8
        push    %rdx
        .cfi_adjust_cfa_offset 8
        push    %r11
        .cfi_adjust_cfa_offset 8
        lea     32(%rsp), %rdi                  /* the frame */
        lea     (%rcx,%rax), %rsi               /* struct own_stack */
        sub     $8, %rsp                        /* aligned for the call */
        .cfi_adjust_cfa_offset 8
        call    own_stack_move_frame            /* rax: by how much it has moved */
        add     $8, %rsp
        .cfi_adjust_cfa_offset -8
        pop     %r11
        .cfi_adjust_cfa_offset -8
        pop     %rdx
        .cfi_adjust_cfa_offset -8
        pop     %rsi
        .cfi_adjust_cfa_offset -8
        pop     %rdi
        .cfi_adjust_cfa_offset -8
        add     %rax, %rdx
        add     %rax, %rsi
        add     %rax, %rsp                      /* the copy has the same return address */
1:      mov     $FAULT_SIGNALS, %eax
        bt      %edi, %eax                      /* may it be a fault in code that has moved, */
        jnc     2f
        lea     8(%rsp), %rax
        cmp     %rax, %rdx                      /* in a signal frame? */
        jne     2f
        mov     %r11, %rcx
        jmp     fault_run                       /* with the same return address */
2:      jmp     *%r11
        .cfi_endproc
        .size handler_common, . - handler_common

        .section .note.GNU-stack, "", @progbits
