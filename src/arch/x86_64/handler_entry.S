/*
 * The program's handlers that run on alternate stacks, as the kernel calls them, with all signals
 * blocked. Where it has put the signal frame on a stack of ours (own_stack.h), the frame moves to
 * where the program expects it, and the handler runs there, with those signals blocked that the
 * program has said. Behind these stubs are those of other handlers of faults, where neither the
 * frame nor the mask needs a change. Handlers of faults are run by fault_run. Where the program calls
 * a stub like a function, this only jumps on.
 *
 * On entry: rdi the number of the signal, rsi its siginfo, rdx the context, rsp the return address,
 * which is the first word of the frame. No other register means anything to a handler.
 */
#include "arch/x86_64/plain_flags.inc"
#include "arch/x86_64/sample_layout.h"

#include <asm/unistd_64.h>

        .hidden calls_are_forbidden

        .text
        .balign HANDLER_STUB_BYTES
        .globl handler_stubs
        .hidden handler_stubs
        .type handler_stubs, @function
handler_stubs:
        .cfi_startproc
        .set    number, 0
        .rept   HANDLER_STUBS + FAULT_STUBS
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
        lea     8(%rsp), %rcx
        cmp     %rcx, %rdx                      /* is this a signal frame? */
        jne     2f
        mov     %r11, %r8
        cmp     $HANDLER_STUBS, %eax
        jae     handler_run                     /* it is where it belongs */
        push    %rdi
        .cfi_adjust_cfa_offset 8
        push    %rsi
        .cfi_adjust_cfa_offset 8
        push    %rdx
        .cfi_adjust_cfa_offset 8
        push    %r11
        .cfi_adjust_cfa_offset 8
        lea     32(%rsp), %rdi                  /* the frame */
        xor     %esi, %esi
        mov     CONTEXT_STACK_SIZE(%rdx), %rax
        cmp     $OWN_STACK_BYTES, %rax          /* has it a stack like ours, */
        jne     1f
        mov     CONTEXT_STACK(%rdx), %rcx
        mov     %rdi, %r8
        sub     %rcx, %r8
        cmp     %rax, %r8                       /* is it on it, */
        jae     1f
        movabs  $OWN_STACK_MAGIC, %r8
        cmp     %r8, (%rcx,%rax)                /* and is it ours? */
        jne     1f
        lea     (%rcx,%rax), %rsi               /* struct own_stack */
1:      mov     24(%rsp), %edx                  /* the number of the signal */
        sub     $8, %rsp                        /* aligned for the call */
        .cfi_adjust_cfa_offset 8
        FLAGS_PLAIN
        call    own_stack_place                 /* rax: how far it has moved, rdx: the mask */
        FLAGS_BACK
        add     $8, %rsp
        .cfi_adjust_cfa_offset -8
        mov     %rdx, %r9
        pop     %r8                             /* the handler */
        .cfi_adjust_cfa_offset -8
        pop     %rdx
        .cfi_adjust_cfa_offset -8
        pop     %rsi
        .cfi_adjust_cfa_offset -8
        pop     %rdi
        .cfi_adjust_cfa_offset -8
        jmp     handler_enter
2:      jmp     *%r11
        .cfi_endproc
        .size handler_common, . - handler_common

/*
 * Goes to a handler, from all signals blocked. On entry as above, and in addition: rax how far the
 * frame has moved, r8 the handler, r9 the mask that it is to run with. Signals are unblocked when
 * nothing is left on our stack; where that is not allowed, they stay blocked until it returns.
 */
        .globl handler_enter
        .hidden handler_enter
        .type handler_enter, @function
handler_enter:
        .cfi_startproc
        add     %rax, %rdx
        add     %rax, %rsi
        add     %rax, %rsp                      /* the copy has the same return address */
        cmpb    $0, calls_are_forbidden(%rip)
        jne     handler_run
        push    %rdi
        .cfi_adjust_cfa_offset 8
        push    %rsi
        .cfi_adjust_cfa_offset 8
        push    %rdx
        .cfi_adjust_cfa_offset 8
        push    %r9
        .cfi_adjust_cfa_offset 8
        mov     $SIG_SETMASK_NUMBER, %edi
        mov     %rsp, %rsi                      /* the mask */
        xor     %edx, %edx
        mov     $8, %r10d                       /* its bytes */
        mov     $__NR_rt_sigprocmask, %eax
        syscall                                 /* changes rcx and r11 */
        pop     %r9
        .cfi_adjust_cfa_offset -8
        pop     %rdx
        .cfi_adjust_cfa_offset -8
        pop     %rsi
        .cfi_adjust_cfa_offset -8
        pop     %rdi
        .cfi_adjust_cfa_offset -8
        jmp     handler_run
        .cfi_endproc
        .size handler_enter, . - handler_enter

/* On entry as above, and r8: the handler. All stays as it is, also the return address. */
        .type handler_run, @function
handler_run:
        .cfi_startproc
        mov     $FAULT_SIGNALS, %eax
        bt      %rdi, %rax                      /* may it be a fault in code that has moved? */
        jnc     3f
        mov     %r8, %rcx
        jmp     fault_run
3:      jmp     *%r8
        .cfi_endproc
        .size handler_run, . - handler_run

        .section .note.GNU-stack, "", @progbits
