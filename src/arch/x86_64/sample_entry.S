/*
 * The handler of our signal, as the kernel calls it: on the stack of whatever it interrupted, which
 * may be about to overflow. The kernel found room for its frame; the C code needs some more, and a
 * fault in it would be the end of a program that handles its overflows (pitfall 13). So this looks
 * first, without a stack of its own: is the page there in which that room ends? Where it is not, the
 * C code gets a stack that all threads share; a tick for which that is not free in time is one that
 * has never arrived, and counts as lost.
 *
 * On entry: rdi the number of the signal, rsi its siginfo, rdx the context, rsp the return address.
 */
#include "arch/x86_64/sample_layout.h"

#include <asm/errno.h>
#include <asm/unistd_64.h>

#define MOST_TRIES  10000
#define STACK_BYTES 16384

        .text
        .globl sample_entry
        .hidden sample_entry
        .type sample_entry, @function
sample_entry:
        .cfi_startproc
        endbr64
        lea     -SAMPLE_ROOM(%rsp), %r8         /* where the room ends */
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
        cmp     $-EINVAL, %rax          /* that it was read is all that is wanted */
        je      sample_on_signal
        mov     $MOST_TRIES, %ecx
2:      mov     $1, %eax
        xchg    %eax, in_use(%rip)
        test    %eax, %eax
        jz      3f
        pause
        dec     %ecx
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

        .bss
        .balign 64
in_use: .skip   64
        .skip   STACK_BYTES
stack_end:

        .section .note.GNU-stack, "", @progbits
