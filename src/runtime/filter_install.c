/*
 * Filters for system calls. One that the program installs nearly always lists the calls that it
 * needs itself, and may kill at any other. From then on we make none but those that a sample cannot
 * do without; threads and children that come later are not measured, which is counted.
 *
 * Even those few are tried out on the filter, before it is installed. Where one of them would not
 * go through, the samples end there: the program lives, and the rest of its time is lost. The same
 * for a filter that was there at the start, which cannot be read, for strict mode, and where the
 * thread's system calls become signals to itself (PR_SET_SYSCALL_USER_DISPATCH).
 */
#include "runtime/filter_install.h"

#include "arch/x86_64/syscall.h"
#include "base/page.h"
#include "runtime/arena_map.h"
#include "runtime/confined.h"
#include "runtime/event.h"
#include "runtime/filter.h"
#include "runtime/masks.h"
#include "runtime/sample_signal.h"
#include "runtime/status.h"
#include "runtime/thread.h"
#include "runtime/threads.h"
#include "runtime/time_stamps.h"
#include "unwind/memory.h"

#include <linux/prctl.h>
#include <signal.h>

/* --- what a filter permits ------------------------------------------------------------------- */

static bool permits_samples(const struct sock_fprog *program)
{
    const struct sock_filter *f = program->filter;
    const uint32_t n = program->len;
    const uint64_t any = (uint64_t)program;
    if (!filter_allows(f, n, SYS_rt_sigreturn, 0, 0, 0, 0) ||
        !filter_allows(f, n, SYS_rt_sigprocmask, UINT64_MAX, any, 0, 8) ||
        !filter_allows(f, n, SYS_rt_sigprocmask, SIG_SETMASK, any, any, 8))
        return false;
    /* Before another program takes over, what is pending must be got rid of (exec.c). */
    return filter_allows(f, n, SYS_rt_sigaction, SAMPLE_SIGNAL, any, 0, 8) ||
           !filter_allows(f, n, SYS_execve, any, any, any, 0);
}

static bool can_be_read(const void *start, uint64_t bytes)
{
    uint64_t last = (uint64_t)start + bytes - 8;
    for (uint64_t at = (uint64_t)start; bytes && at < last; at += PAGE_BYTES)
        if (!memory_can_be_read(at))
            return false;
    return bytes && memory_can_be_read(last);
}

/* A program that the kernel cannot read it will not install. */
static bool forbids_samples(bool is_strict, const struct sock_fprog *program)
{
    if (is_strict)
        return true;
    return can_be_read(program, sizeof *program) &&
           can_be_read(program->filter, program->len * sizeof *program->filter) &&
           !permits_samples(program);
}

/* --- the end of samples ----------------------------------------------------------------------- */

/*
 * Waits until a thread has left the handler of a sample, and not only all that is done there: its
 * last step is a system call. In the handler all signals are blocked, also those that a program
 * cannot block; libc does that, too, but for a moment.
 */
static void wait_for_return(uint32_t tid)
{
    enum { LONGEST_NS = 2000000000, OF_LIBC = 33 };
    uint64_t start_ns = clock_ns(CLOCK_MONOTONIC);
    while ((status_of_thread(tid).blocked >> (OF_LIBC - 1) & 1) &&
           clock_ns(CLOCK_MONOTONIC) - start_ns < LONGEST_NS)
        raw_syscall3(SYS_sched_yield, 0, 0, 0);
}

/* Of all threads, whose filter is to be the same. One that is in its handler finishes first. */
static void stop_others(const struct thread *self)
{
    for (struct thread *t = threads_lock(); t; t = t->next)
        if (t != self)
            event_silence(t);
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    masks_real_sigaction(SAMPLE_SIGNAL, &ignore, NULL); /* what is pending goes, in all of them */
    threads_unlock();
    threads_wait_for_handlers();
    for (struct thread *t = threads_lock(); t; t = t->next)
        if (t != self)
            wait_for_return(t->tid);
    threads_unlock();
}

static struct thread *stop_samples(bool in_all)
{
    struct thread *t = thread_self();
    if (!guest->arena)
        return NULL;
    if (in_all)
        stop_others(t);
    if (!t || t->of != guest || t->tid != (uint32_t)raw_syscall3(SYS_gettid, 0, 0, 0))
        return NULL;
    event_stop_and_drain(t);
    return t;
}

long filter_install(long number, long a, long b, long c, long d, long e)
{
    bool is_strict = number == SYS_prctl ? a != PR_SET_SECCOMP || b == SECCOMP_MODE_STRICT
                                         : a == SECCOMP_SET_MODE_STRICT;
    bool in_all = number == SYS_seccomp && ((uint64_t)b & SECCOMP_FILTER_FLAG_TSYNC);
    const struct sock_fprog *program = (const struct sock_fprog *)c;
    struct thread *stopped = NULL;
    bool had_filter = has_filter, was_silent = calls_are_forbidden;
    if (guest->arena && guest->arena_mapped < ARENA_WITH_FILTER_BYTES)
        arena_map_more(ARENA_WITH_FILTER_BYTES);
    if (!calls_are_forbidden && forbids_samples(is_strict, program)) {
        stopped = stop_samples(in_all);
        calls_are_forbidden = true;
        memory_may_be_asked = false;
    }
    has_filter = true;
    long status = raw_syscall6(number, a, b, c, d, e, 0);
    if (status >= 0) {
        if (is_strict) /* the kernel forbids time stamps as well */
            time_stamps_forbid();
        if (calls_are_forbidden && !was_silent && guest->arena) {
            guest->arena->is_silent = 1;
            guest->arena->threads_not_sampled += stopped != NULL;
        }
        return status;
    }
    has_filter = had_filter;
    calls_are_forbidden = was_silent;
    memory_may_be_asked = !calls_are_forbidden;
    if (stopped)
        event_start(stopped);
    return status;
}
