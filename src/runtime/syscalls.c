/*
 * System calls that the program makes by number, and prctl: forks that run no atfork handlers,
 * masks and programs set without libc's wrappers, and filters that would kill us.
 */
#include "runtime/syscalls.h"

#include "arch/x86_64/syscall.h"
#include "runtime/confined.h"
#include "runtime/event.h"
#include "runtime/exec.h"
#include "runtime/filter_install.h"
#include "runtime/masks.h"
#include "runtime/own_stack.h"
#include "runtime/sample_signal.h"
#include "runtime/start.h"
#include "runtime/thread.h"
#include "runtime/time_stamps.h"
#include "unwind/memory.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/prctl.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ptrace.h>
#include <unistd.h>

#define EXPORTED __attribute__((visibility("default")))

/* What syscall() jumps to for all that is not watched (syscall_entry.S). */
long (*real_syscall)(long, ...) __attribute__((visibility("hidden")));

static long as_libc(long status)
{
    if (status >= 0)
        return status;
    errno = (int)-status;
    return -1;
}

/* That the thread's own calls go to its handler, and ours with them, is a filter, too. */
static bool installs_filter(long number, long a, long b)
{
    if (number == SYS_prctl && a == PR_SET_SYSCALL_USER_DISPATCH)
        return b != PR_SYS_DISPATCH_OFF;
    return number == SYS_prctl ? a == PR_SET_SECCOMP
                               : a == SECCOMP_SET_MODE_FILTER || a == SECCOMP_SET_MODE_STRICT;
}

/* The kernel checks the pointers that it is given; we must not die of them either. */
static bool is_usable(long address)
{
    return !address || memory_can_be_read((uint64_t)address);
}

struct kernel_action {
    void *handler;
    uint64_t flags;
    void *restorer;
    uint64_t mask;
};

/* As masks.c does for libc's: handlers for alternate stacks and of faults are installed as stubs.
 */
static long act(long number, const struct kernel_action *action, struct kernel_action *old,
                long mask_bytes)
{
    struct kernel_action copy;
    uint64_t before = own_stack_said_mask((int)number);
    if (action && mask_bytes == sizeof action->mask && memory_can_be_read((uint64_t)action) &&
        memory_can_be_read((uint64_t)&action->mask)) {
        copy = *action;
        own_stack_take_action((int)number, &copy.handler, &copy.mask, copy.flags);
        action = &copy;
    }
    long status = raw_syscall4(SYS_rt_sigaction, number, (long)action, (long)old, mask_bytes);
    if (status == 0 && old)
        own_stack_say_action(&old->handler, &old->mask, before);
    return status;
}

long watched_syscall(long number, long a, long b, long c, long d, long e)
    __attribute__((visibility("hidden")));

static long act_on_ours(const struct kernel_action *action, struct kernel_action *old)
{
    struct sigaction wanted = {0}, before;
    if ((action && !memory_can_be_read((uint64_t)action)) ||
        (old && !memory_can_be_read((uint64_t)old)))
        return as_libc(-EFAULT);
    if (action) {
        *(void **)&wanted.sa_handler = action->handler;
        wanted.sa_flags = (int)action->flags;
        memcpy(&wanted.sa_mask, &action->mask, sizeof action->mask);
    }
    sigaction(SAMPLE_SIGNAL, action ? &wanted : NULL, &before);
    if (old) {
        *old = (struct kernel_action){.handler = *(void **)&before.sa_handler,
                                      .flags = (uint32_t)before.sa_flags};
        memcpy(&old->mask, &before.sa_mask, sizeof old->mask);
    }
    return 0;
}

long watched_syscall(long number, long a, long b, long c, long d, long e)
{
    long status;
    switch (number) {
    case SYS_rt_sigprocmask:
        if (d == sizeof(uint64_t) && is_usable(b) && is_usable(c))
            return as_libc(masks_change((int)a, (const uint64_t *)b, (uint64_t *)c));
        return as_libc(raw_syscall4(number, a, b, c, d)); /* the kernel says what is wrong */
    case SYS_sigaltstack:
        return as_libc(own_stack_change((const stack_t *)a, (stack_t *)b));
    case SYS_rt_sigaction: /* our handler stays, and is not shown */
        if (!guest->arena || a != SAMPLE_SIGNAL)
            return as_libc(act(a, (const struct kernel_action *)b, (struct kernel_action *)c, d));
        return act_on_ours((const struct kernel_action *)b, (struct kernel_action *)c);
    case SYS_execve:
        return as_libc(exec_at(AT_FDCWD, (const char *)a, (char *const *)b, (char *const *)c, 0));
    case SYS_execveat:
        return as_libc(
            exec_at((int)a, (const char *)b, (char *const *)c, (char *const *)d, (int)e));
    case SYS_prctl:
    case SYS_seccomp:
        if (installs_filter(number, a, b))
            return as_libc(filter_install(number, a, b, c, d, e));
        status = raw_syscall6(number, a, b, c, d, e, 0);
        if (status == 0 && number == SYS_prctl && a == PR_SET_TSC && b == PR_TSC_SIGSEGV)
            time_stamps_forbid();
        return as_libc(status);
    default: /* fork, or clone as a fork */
        status = raw_syscall6(number, a, b, c, d, e, 0);
        if (status == 0)
            begin_in_child();
        return as_libc(status);
    }
}

EXPORTED int prctl(int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d)
{
    return (int)watched_syscall(SYS_prctl, option, (long)a, (long)b, (long)c, (long)d);
}

/* The debugger that is about to come sees every signal from here on. */
EXPORTED long ptrace(enum __ptrace_request request, ...)
{
    static long (*real)(enum __ptrace_request, ...);
    struct thread *t = thread_self();
    va_list list;
    va_start(list, request);
    long pid = va_arg(list, long), address = va_arg(list, long), data = va_arg(list, long);
    va_end(list);
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "ptrace");
    if (request == PTRACE_TRACEME && guest->arena && t && t->of == guest && !is_confined()) {
        event_stop_and_drain(t);
        guest->arena->threads_not_sampled++;
    }
    return real(request, pid, address, data);
}

void syscalls_prepare(void)
{
    *(void **)&real_syscall = dlsym(RTLD_NEXT, "syscall");
}
