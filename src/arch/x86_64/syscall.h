/*
 * Raw system calls. libc's wrappers can be interposed by the program, set errno, and are
 * cancellation points; these are none of that.
 */
#ifndef ARCH_SYSCALL_H
#define ARCH_SYSCALL_H

#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>

/* Returns what the kernel returns: a negative errno on failure. */
static inline long raw_syscall6(long number, long a, long b, long c, long d, long e, long f)
{
    long result;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}

static inline long raw_syscall4(long number, long a, long b, long c, long d)
{
    return raw_syscall6(number, a, b, c, d, 0, 0);
}

static inline long raw_syscall3(long number, long a, long b, long c)
{
    return raw_syscall6(number, a, b, c, 0, 0, 0);
}

/* Memory, or NULL. A negative number of that size is an error, not an address. */
static inline void *raw_mmap(uint64_t bytes, int protection, int flags, int fd)
{
    long memory = raw_syscall6(SYS_mmap, 0, (long)bytes, protection, flags, fd, 0);
    return memory < 0 ? (void *)0 : (void *)memory;
}

static inline uint64_t clock_ns(int clock)
{
    struct timespec t = {0};
    raw_syscall3(SYS_clock_gettime, clock, (long)&t, 0);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static inline uint64_t time_stamp(void)
{
    uint32_t low, high;
    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
    return (uint64_t)high << 32 | low;
}

#endif
