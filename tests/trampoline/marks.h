/*
 * Sampling on demand, for programs that run under `calltrail record -F 1`: the runtime's own signal
 * handler is called with registers of our choice, and marks the frame that they belong to as it
 * would if the sample had come there. Without the runtime nothing happens.
 */
#ifndef MARKS_H
#define MARKS_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>
#include <unwind.h>

#define NOINLINE __attribute__((noinline))
#define UNUSED   __attribute__((unused))

static void (*sample_handler)(int, siginfo_t *, void *);
static void *runtime_base;

/* libc's sigaction and syscall would not tell: the runtime stands in for them. */
static UNUSED long raw_syscall(long number, long a, const void *b, void *c, long d)
{
    register long r10 __asm__("r10") = d;
    __asm__ volatile("syscall"
                     : "+a"(number)
                     : "D"(a), "S"(b), "d"(c), "r"(r10)
                     : "rcx", "r11", "memory");
    return number;
}

static UNUSED void marks_begin(void)
{
    struct {
        void (*handler)(int, siginfo_t *, void *);
        unsigned long flags;
        void (*restorer)(void);
        unsigned long mask;
    } action = {0};
    Dl_info info;
    raw_syscall(SYS_rt_sigaction, SIGVTALRM, NULL, &action, 8);
    if ((uintptr_t)action.handler > 1 && dladdr((void *)action.handler, &info)) {
        sample_handler = action.handler;
        runtime_base = info.dli_fbase;
    }
}

/* Samples that come too soon after another are not taken: this one waits until it is time. */
static UNUSED void sample(ucontext_t *context)
{
    static uint64_t last_end, last_took;
    siginfo_t info;
    uint64_t all = ~UINT64_C(0), before;
    memset(&info, 0, sizeof info);
    if (!sample_handler)
        return;
    raw_syscall(SYS_rt_sigprocmask, SIG_BLOCK, &all, &before, 8);
    while (__builtin_ia32_rdtsc() - last_end < 9 * last_took)
        ;
    uint64_t start = __builtin_ia32_rdtsc();
    sample_handler(SIGVTALRM, &info, context);
    last_end = __builtin_ia32_rdtsc();
    last_took = last_end - start;
    raw_syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, 8);
}

static UNUSED int is_runtime(uintptr_t pc)
{
    Dl_info info;
    return runtime_base && dladdr((void *)pc, &info) && info.dli_fbase == runtime_base;
}

struct level {
    int wanted, found;
    ucontext_t context;
};

static UNUSED _Unwind_Reason_Code find_level(struct _Unwind_Context *c, void *argument)
{
    struct level *l = (struct level *)argument;
    greg_t *r = l->context.uc_mcontext.gregs;
    uintptr_t pc = _Unwind_GetIP(c);
    if (is_runtime(pc - 1)) /* a mark is one frame more */
        return _URC_NO_REASON;
    if (l->wanted-- > 0)
        return _URC_NO_REASON;
    r[REG_RIP] = (greg_t)pc;
    r[REG_RSP] = (greg_t)_Unwind_GetCFA(c);
    r[REG_RBX] = (greg_t)_Unwind_GetGR(c, 3);
    r[REG_RBP] = (greg_t)_Unwind_GetGR(c, 6);
    r[REG_R12] = (greg_t)_Unwind_GetGR(c, 12);
    r[REG_R13] = (greg_t)_Unwind_GetGR(c, 13);
    r[REG_R14] = (greg_t)_Unwind_GetGR(c, 14);
    r[REG_R15] = (greg_t)_Unwind_GetGR(c, 15);
    l->found = 1;
    return _URC_END_OF_STACK;
}

/* A sample in the caller (0), or so many frames above it, as if that were where the thread is. */
static UNUSED NOINLINE void sample_level(int level)
{
    struct level l;
    memset(&l, 0, sizeof l);
    l.wanted = level + 1;
    _Unwind_Backtrace(find_level, &l);
    if (l.found)
        sample(&l.context);
}

#endif
