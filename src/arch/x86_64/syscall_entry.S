/*
 * syscall(), as the program calls it. Only the few numbers that concern us go to C; everything else
 * jumps on to libc's own with all arguments as they came, also those that return on another stack
 * (clone with a stack, which then finds its return address there).
 */
#include <asm/unistd_64.h>

#define CLONE_VM 0x100

        .text
        .globl syscall
        .type syscall, @function
syscall:
        .cfi_startproc
        endbr64
        cmp     $__NR_rt_sigprocmask, %rdi
        je      watched_syscall
        cmp     $__NR_rt_sigaction, %rdi
        je      watched_syscall
        cmp     $__NR_sigaltstack, %rdi
        je      watched_syscall
        cmp     $__NR_clone, %rdi
        je      1f
        cmp     $__NR_fork, %rdi
        je      watched_syscall
        cmp     $__NR_execve, %rdi
        je      watched_syscall
        cmp     $__NR_execveat, %rdi
        je      watched_syscall
        cmp     $__NR_prctl, %rdi
        je      watched_syscall
        cmp     $__NR_seccomp, %rdi
        je      watched_syscall
0:      jmp     *real_syscall(%rip)
1:      test    %rdx, %rdx              /* a stack of its own */
        jne     0b
        test    $CLONE_VM, %esi         /* no new process */
        je      watched_syscall
        jmp     0b
        .cfi_endproc
        .size syscall, . - syscall

        .section .note.GNU-stack, "", @progbits
