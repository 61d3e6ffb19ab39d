/*
 * Raw system calls. libc's wrappers can be interposed by the program, set errno, and are
 * cancellation points; these are none of that.
 */
#ifndef RUNTIME_SYSCALL_H
#define RUNTIME_SYSCALL_H

/* Returns what the kernel returns: a negative errno on failure. */
static inline long raw_syscall4(long number, long a, long b, long c, long d)
{
    long result;
    register long r10 __asm__("r10") = d;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10)
                     : "rcx", "r11", "memory");
    return result;
}

#endif
