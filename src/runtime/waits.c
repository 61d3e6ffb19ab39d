/*
 * Calls that wait with another signal mask: the handlers of the program that run meanwhile have
 * that mask, and are to be sampled too. No tick comes while the thread waits, since time in the
 * kernel does not count, so our signal ends no wait.
 */
#include "runtime/waits.h"

#include "runtime/blocking.h"
#include "runtime/confined.h"
#include "runtime/own_stack.h"
#include "runtime/sample_signal.h"
#include "unwind/memory.h"

#include <dlfcn.h>
#include <poll.h>
#include <stddef.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>

#define EXPORTED __attribute__((visibility("default")))

static int (*real_sigsuspend)(const sigset_t *);
static int (*real_ppoll)(struct pollfd *, nfds_t, const struct timespec *, const sigset_t *);
static int (*real_ppoll_chk)(struct pollfd *, nfds_t, const struct timespec *, const sigset_t *,
                             size_t);
static int (*real_pselect)(int, fd_set *, fd_set *, fd_set *, const struct timespec *,
                           const sigset_t *);
static int (*real_epoll_pwait)(int, struct epoll_event *, int, int, const sigset_t *);
static int (*real_epoll_pwait2)(int, struct epoll_event *, int, const struct timespec *,
                                const sigset_t *);

void waits_prepare(void)
{
    *(void **)&real_sigsuspend = dlsym(RTLD_NEXT, "sigsuspend");
    *(void **)&real_ppoll = dlsym(RTLD_NEXT, "ppoll");
    *(void **)&real_ppoll_chk = dlsym(RTLD_NEXT, "__ppoll_chk");
    *(void **)&real_pselect = dlsym(RTLD_NEXT, "pselect");
    *(void **)&real_epoll_pwait = dlsym(RTLD_NEXT, "epoll_pwait");
    *(void **)&real_epoll_pwait2 = dlsym(RTLD_NEXT, "epoll_pwait2");
}

/* The kernel reads 8 bytes of it, and says EFAULT where it cannot. */
static const sigset_t *without_ours(const sigset_t *mask, sigset_t *copy)
{
    if (!mask || !guest->arena || is_confined() || !memory_can_be_read((uint64_t)mask))
        return mask;
    memset(copy, 0, sizeof *copy);
    memcpy(copy, mask, sizeof(uint64_t));
    sigdelset(copy, SAMPLE_SIGNAL);
    return copy;
}

EXPORTED int sigsuspend(const sigset_t *mask)
{
    sigset_t copy;
    struct wait w;
    wait_begin(&w, (const void *)real_sigsuspend, EVENT_WALL);
    mask = without_ours(mask, &copy);
    const sigset_t *before = own_stack_wait(mask);
    int result = real_sigsuspend(mask);
    own_stack_wait(before);
    wait_end(&w);
    return result;
}

EXPORTED int ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
                   const sigset_t *mask)
{
    sigset_t copy;
    struct wait w;
    wait_begin(&w, (const void *)real_ppoll, EVENT_WALL);
    mask = without_ours(mask, &copy);
    const sigset_t *before = own_stack_wait(mask);
    int result = real_ppoll(fds, count, timeout, mask);
    own_stack_wait(before);
    wait_end(&w);
    return result;
}

/* What ppoll is called as in programs that were built with _FORTIFY_SOURCE. */
int __ppoll_chk(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
                const sigset_t *mask, size_t room);

EXPORTED int __ppoll_chk(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
                         const sigset_t *mask, size_t room)
{
    sigset_t copy;
    struct wait w;
    wait_begin(&w, (const void *)real_ppoll_chk, EVENT_WALL);
    mask = without_ours(mask, &copy);
    const sigset_t *before = own_stack_wait(mask);
    int result = real_ppoll_chk(fds, count, timeout, mask, room);
    own_stack_wait(before);
    wait_end(&w);
    return result;
}

EXPORTED int pselect(int count, fd_set *read, fd_set *write, fd_set *other,
                     const struct timespec *timeout, const sigset_t *mask)
{
    sigset_t copy;
    struct wait w;
    wait_begin(&w, (const void *)real_pselect, EVENT_WALL);
    mask = without_ours(mask, &copy);
    const sigset_t *before = own_stack_wait(mask);
    int result = real_pselect(count, read, write, other, timeout, mask);
    own_stack_wait(before);
    wait_end(&w);
    return result;
}

EXPORTED int epoll_pwait(int epoll, struct epoll_event *events, int most, int timeout_ms,
                         const sigset_t *mask)
{
    sigset_t copy;
    struct wait w;
    wait_begin(&w, (const void *)real_epoll_pwait, EVENT_WALL);
    mask = without_ours(mask, &copy);
    const sigset_t *before = own_stack_wait(mask);
    int result = real_epoll_pwait(epoll, events, most, timeout_ms, mask);
    own_stack_wait(before);
    wait_end(&w);
    return result;
}

EXPORTED int epoll_pwait2(int epoll, struct epoll_event *events, int most,
                          const struct timespec *timeout, const sigset_t *mask)
{
    sigset_t copy;
    struct wait w;
    wait_begin(&w, (const void *)real_epoll_pwait2, EVENT_WALL);
    mask = without_ours(mask, &copy);
    const sigset_t *before = own_stack_wait(mask);
    int result = real_epoll_pwait2(epoll, events, most, timeout, mask);
    own_stack_wait(before);
    wait_end(&w);
    return result;
}
