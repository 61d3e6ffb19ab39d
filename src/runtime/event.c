/*
 * The event that makes the kernel send a thread the signal for a sample.
 *
 * It is a software task clock that runs in user mode only, so no system call is ever interrupted.
 * Its signal is SIGSTKFLT: nothing on x86-64 uses it, and as an ordinary signal it is pending at
 * most once, so a thread that blocks it can never fill the queue (pitfall 39).
 *
 * The first tick comes after a random part of a period. Otherwise threads that live for less than a
 * period would never be seen, however many there are. The kernel knows only one period for an
 * event, so the first tick is an event of its own.
 */
#include "runtime/thread.h"

#include "runtime/arch/x86_64/syscall.h"
#include "runtime/channel_format.h"

#include <fcntl.h>
#include <linux/perf_event.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>

static bool start_perf(struct thread *t, uint64_t period_ns)
{
    struct perf_event_attr a;
    memset(&a, 0, sizeof a);
    a.size = sizeof a;
    a.type = PERF_TYPE_SOFTWARE;
    a.config = PERF_COUNT_SW_TASK_CLOCK;
    a.sample_period = period_ns;
    a.exclude_kernel = 1;
    a.exclude_hv = 1;
    a.wakeup_events = 1;
    a.disabled = 1;
    long fd = raw_syscall6(SYS_perf_event_open, (long)&a, 0, -1, -1, PERF_FLAG_FD_CLOEXEC, 0);
    if (fd < 0)
        return false;
    struct f_owner_ex owner = {F_OWNER_TID, (int)t->tid};
    raw_syscall3(SYS_fcntl, fd, F_SETOWN_EX, (long)&owner);
    raw_syscall3(SYS_fcntl, fd, F_SETSIG, SAMPLE_SIGNAL);
    raw_syscall3(SYS_fcntl, fd, F_SETFL, O_ASYNC | O_NONBLOCK);
    t->event_page = raw_mmap(4096, PROT_READ, MAP_SHARED, (int)fd);
    if (t->first_period_ns) /* one tick, and no more */
        raw_syscall3(SYS_ioctl, fd, PERF_EVENT_IOC_REFRESH, 1);
    else
        raw_syscall3(SYS_ioctl, fd, PERF_EVENT_IOC_ENABLE, 0);
    t->event_fd = -1;
    if (t->event_page) {
        raw_syscall3(SYS_close, fd, 0, 0); /* the mapping keeps it alive */
        return true;
    }
    long high = raw_syscall3(SYS_fcntl, fd, F_DUPFD_CLOEXEC, 900);
    if (high >= 0) {
        raw_syscall3(SYS_close, fd, 0, 0);
        fd = high;
    }
    t->event_fd = (int)fd;
    return true;
}

static bool start_timer(struct thread *t, uint64_t first_period_ns)
{
    struct sigevent event;
    memset(&event, 0, sizeof event);
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = SAMPLE_SIGNAL;
    event._sigev_un._tid = (int)t->tid;
    int timer;
    if (raw_syscall3(SYS_timer_create, CLOCK_THREAD_CPUTIME_ID, (long)&event, (long)&timer) < 0)
        return false;
    long ns = (long)guest->arena->period_ns, first_ns = (long)first_period_ns;
    struct itimerspec every = {{ns / 1000000000, ns % 1000000000},
                               {first_ns / 1000000000, first_ns % 1000000000}};
    raw_syscall4(SYS_timer_settime, timer, 0, (long)&every, 0);
    t->timer = timer;
    return true;
}

/* A time in (0, period], any as likely as any other. The kernel's shortest is 10 us. */
static uint64_t random_part(const struct thread *t, uint64_t period_ns)
{
    enum { SHORTEST_NS = 10000 };
    uint64_t x = time_stamp() * UINT64_C(0x9e3779b97f4a7c15) + t->tid;
    x = (x ^ x >> 31) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    uint64_t part = 1 + (x ^ x >> 31) % period_ns;
    return part < SHORTEST_NS && period_ns > SHORTEST_NS ? SHORTEST_NS : part;
}

bool event_start(struct thread *t)
{
    if (guest->flags & CHANNEL_NO_SAMPLES)
        return true;
    uint64_t first_ns = random_part(t, guest->arena->period_ns);
    t->first_cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    t->first_period_ns = first_ns;
    if (start_perf(t, first_ns)) {
        guest->arena->source = SOURCE_PERF;
        return true;
    }
    t->first_period_ns = 0;
    if (start_timer(t, first_ns)) {
        guest->arena->source = SOURCE_TIMER;
        return true;
    }
    guest->arena->threads_not_sampled++;
    return false;
}

void event_stop(struct thread *t)
{
    t->first_period_ns = 0; /* a signal that is on its way must not start it anew */
    if (t->event_page)
        raw_syscall3(SYS_munmap, (long)t->event_page, 4096, 0);
    if (t->event_fd >= 0)
        raw_syscall3(SYS_close, t->event_fd, 0, 0);
    if (t->timer >= 0)
        raw_syscall3(SYS_timer_delete, t->timer, 0, 0);
    t->event_page = NULL;
    t->event_fd = t->timer = -1;
}

/*
 * The first tick of the thread's event has come: from here on one comes every period. A tick that
 * falls into the kernel is not seen, and the event tries again after as long a time; what is seen
 * then counts for nothing, or a thread would get too many samples for its user time.
 */
bool event_first_tick(struct thread *t)
{
    uint64_t passed = clock_ns(CLOCK_THREAD_CPUTIME_ID) - t->first_cpu_ns;
    bool counts = passed < t->first_period_ns + t->first_period_ns / 2;
    event_stop(t);
    if (!start_perf(t, guest->arena->period_ns))
        guest->arena->threads_not_sampled++;
    return counts;
}
