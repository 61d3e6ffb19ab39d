/*
 * The handler of our signal, as the kernel calls it: on a stack of ours (own_stack.h).
 *
 * Where the program has set another one in a way that we do not see, it is on that, or on the stack
 * of whatever it interrupted, which may be about to overflow. The kernel found room for its frame;
 * the C code needs some more, and a fault in it would be the end of a program that handles its
 * overflows (pitfall 13). So this looks first, without a stack of its own: is the page there in which
 * that room ends? Where it is not, the C code gets a stack that all threads share; a tick for which
 * that is not free in time is one that has never arrived, and counts as lost.
 *
 * On entry: rdi the number of the signal, rsi its siginfo, rdx the context, rsp the return address.
 * The C code gets our stack, or NULL, in rcx.
 */
#include "arch/x86_64/plain_flags.inc"
#include "arch/x86_64/sample_layout.h"

#include <asm/errno.h>
#include <asm/unistd_64.h>

#define MOST_TRIES  10000
#define STACK_BYTES 16384

#define SIGINFO_CODE 8
#define SI_TIMER     -2
#define POLL_HUP     6 /* the codes of events are 1, POLL_IN, to this */

/* rcx: struct own_stack, r8: bytes of it that are left. Jumps where the stack is not ours. */
        .macro  FIND_OWN otherwise
        mov     CONTEXT_STACK_SIZE(%rdx), %rax
        cmp     $OWN_STACK_BYTES, %rax          /* a stack like ours, */
        jne     \otherwise
        mov     CONTEXT_STACK(%rdx), %rcx
        mov     %rsp, %r8
        sub     %rcx, %r8
        cmp     %rax, %r8                       /* on it, */
        jae     \otherwise
        movabs  $OWN_STACK_MAGIC, %r9
        cmp     %r9, (%rcx,%rax)                /* and is it ours? */
        jne     \otherwise
        add     %rax, %rcx
        .endm

        .text
        .globl sample_entry
        .hidden sample_entry
        .type sample_entry, @function
sample_entry:
        .cfi_startproc
        endbr64
        pushf
        .cfi_adjust_cfa_offset 8
        andl    $~FLAGS_NOT_PLAIN, (%rsp)       /* rt_sigreturn has those of the program */
        popf
        .cfi_adjust_cfa_offset -8
        lea     8(%rsp), %rax
        cmp     %rax, %rdx                      /* tests call it like a function */
        jne     4f
        mov     SIGINFO_CODE(%rsi), %eax        /* of an event, or of a timer? */
        cmp     $SI_TIMER, %eax
        je      4f
        dec     %eax
        cmp     $(POLL_HUP - 1), %eax
        ja      foreign
4:      FIND_OWN 0f
        cmp     $SAMPLE_ROOM, %r8               /* a handler that we have not seen may be there */
        jae     sample_on_signal
        ret
0:      xor     %ecx, %ecx
        mov     %rsp, %r8
        sub     CONTEXT_STACK(%rdx), %r8        /* what is left of an alternate stack, */
        cmp     CONTEXT_STACK_SIZE(%rdx), %r8   /* if it is on one: below may be anything */
        jae     5f
        cmp     $SAMPLE_ROOM, %r8
        jae     5f
        ret
5:      lea     -SAMPLE_ROOM(%rsp), %r8         /* where the room ends */
        mov     thread_current@gottpoff(%rip), %rax
        mov     %fs:(%rax), %rax                /* the thread, if it is known */
        test    %rax, %rax
        jz      1f
        cmp     THREAD_STACK_START(%rax), %r8   /* what earlier samples have seen of its stack */
        jb      1f
        cmp     THREAD_STACK_END(%rax), %rsp
        jb      sample_on_signal
1:      mov     %rsi, %r9               /* r8 and r9 are as they were after a system call */
        mov     %r8, %rsi
        mov     %rdx, %r8
        mov     $-1, %edi               /* as in memory.c: what is to be done is nonsense */
        xor     %edx, %edx
        mov     $8, %r10d
        mov     $__NR_rt_sigprocmask, %eax
        syscall
        mov     $SAMPLE_SIGNAL_NUMBER, %edi
        mov     %r9, %rsi
        mov     %r8, %rdx
        mov     $0, %ecx                /* a system call changes it */
        cmp     $-EINVAL, %rax          /* that it was read is all that is wanted */
        je      sample_on_signal
        mov     $MOST_TRIES, %r10d
2:      mov     $1, %eax
        xchg    %eax, in_use(%rip)
        test    %eax, %eax
        jz      3f
        pause
        dec     %r10d
        jnz     2b
        ret
3:      lea     stack_end(%rip), %rax
        mov     %rsp, -8(%rax)
        lea     -16(%rax), %rsp         /* aligned for the call; no walk begins here */
        call    sample_on_signal
        mov     8(%rsp), %rsp
        movl    $0, in_use(%rip)
        ret
        .cfi_endproc
        .size sample_entry, . - sample_entry

/* The same signal, sent by another process: it is for the program's handler, if there is one. */
        .type foreign, @function
foreign:
        .cfi_startproc
        FIND_OWN 1f
        jmp     2f
1:      xor     %ecx, %ecx
2:      push    %rdi
        .cfi_adjust_cfa_offset 8
        push    %rsi
        .cfi_adjust_cfa_offset 8
        push    %rdx
        .cfi_adjust_cfa_offset 8
        lea     24(%rsp), %rdi                  /* the frame */
        mov     %rsi, %rdx
        mov     %rcx, %rsi
        sub     $FORWARDED_BYTES + 8, %rsp      /* aligned for the call */
        .cfi_adjust_cfa_offset FORWARDED_BYTES + 8
        mov     %rsp, %rcx                      /* struct forwarded */
        call    masks_forward
        mov     FORWARDED_DISTANCE(%rsp), %rax
        mov     FORWARDED_HANDLER(%rsp), %r8
        mov     FORWARDED_MASK(%rsp), %r9
        add     $FORWARDED_BYTES + 8, %rsp
        .cfi_adjust_cfa_offset -FORWARDED_BYTES - 8
        pop     %rdx
        .cfi_adjust_cfa_offset -8
        pop     %rsi
        .cfi_adjust_cfa_offset -8
        pop     %rdi
        .cfi_adjust_cfa_offset -8
        test    %r8, %r8
        jnz     handler_enter
        ret
        .cfi_endproc
        .size foreign, . - foreign

        .bss
        .balign 64
in_use: .skip   64
        .skip   STACK_BYTES
stack_end:

        .section .note.GNU-stack, "", @progbits
