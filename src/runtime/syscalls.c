/*
 * System calls that the program makes by number, and prctl: forks that run no atfork handlers,
 * masks and programs set without libc's wrappers, and filters that would kill us.
 */
#include "runtime/exec.h"
#include "runtime/memory.h"

#include "runtime/arch/x86_64/syscall.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/prctl.h>
#include <linux/seccomp.h>
#include <string.h>
#include <unistd.h>

#define EXPORTED __attribute__((visibility("default")))

static bool has_filter; /* a child inherits the filter, and this */

/* What syscall() jumps to for all that is not watched (syscall_entry.S). */
long (*real_syscall)(long, ...) __attribute__((visibility("hidden")));

bool is_confined(void)
{
    return has_filter;
}

static long as_libc(long status)
{
    if (status >= 0)
        return status;
    errno = (int)-status;
    return -1;
}

/*
 * A filter that the program installs nearly always lists the calls that it needs itself, and may
 * kill at any other. From then on we make none: threads and children that come later are not
 * measured, which is counted.
 */
static long install_filter(long number, long a, long b, long c, long d, long e)
{
    bool before = has_filter;
    has_filter = true;
    long status = raw_syscall6(number, a, b, c, d, e, 0);
    if (status < 0)
        has_filter = before;
    return as_libc(status);
}

static bool installs_filter(long number, long a)
{
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

long watched_syscall(long number, long a, long b, long c, long d, long e)
    __attribute__((visibility("hidden")));

long watched_syscall(long number, long a, long b, long c, long d, long e)
{
    long status;
    switch (number) {
    case SYS_rt_sigprocmask:
        if (d == sizeof(uint64_t) && is_usable(b) && is_usable(c))
            return as_libc(masks_change((int)a, (const uint64_t *)b, (uint64_t *)c));
        return as_libc(raw_syscall4(number, a, b, c, d)); /* the kernel says what is wrong */
    case SYS_rt_sigaction: /* our handler stays, and is nobody's business */
        if (!guest->arena || a != SAMPLE_SIGNAL)
            return as_libc(raw_syscall4(number, a, b, c, d));
        if (c && memory_can_be_read((uint64_t)c))
            memset((void *)c, 0, sizeof(struct kernel_action));
        return 0;
    case SYS_execve:
        return as_libc(exec_at(AT_FDCWD, (const char *)a, (char *const *)b, (char *const *)c, 0));
    case SYS_execveat:
        return as_libc(
            exec_at((int)a, (const char *)b, (char *const *)c, (char *const *)d, (int)e));
    case SYS_prctl:
    case SYS_seccomp:
        if (installs_filter(number, a))
            return install_filter(number, a, b, c, d, e);
        return as_libc(raw_syscall6(number, a, b, c, d, e, 0));
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

void syscalls_prepare(void)
{
    *(void **)&real_syscall = dlsym(RTLD_NEXT, "syscall");
}
