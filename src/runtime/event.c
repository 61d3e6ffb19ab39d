/*
 * The event that makes the kernel send a thread the signal for a sample.
 *
 * It is a software task clock that runs in user mode only, so no system call is ever interrupted.
 * Its signal is SIGVTALRM: debuggers let it pass without a word (they stop at SIGSTKFLT, which
 * nothing else uses, and at real-time signals), few programs use it, and what those send themselves
 * gets to their handlers (masks.c). As an ordinary signal it is pending at most once, so a thread
 * that blocks it can never fill the queue (pitfall 39).
 *
 * The first tick comes after a random part of a period. Otherwise threads that live for less than a
 * period would never be seen, however many there are. The kernel knows only one period for an
 * event, so the first tick is an event of its own.
 */
#include "runtime/event.h"

#include "arch/x86_64/syscall.h"
#include "base/page.h"
#include "runtime/channel_format.h"
#include "runtime/confined.h"
#include "runtime/engine.h"
#include "runtime/own_stack.h"
#include "runtime/sample_signal.h"
#include "runtime/thread.h"
#include "runtime/time_stamps.h"

#include <fcntl.h>
#include <linux/perf_event.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>

/* What the kernel writes when the event fires. */
struct record {
    struct perf_event_header header;
    uint64_t cpu_ns; /* of the thread, since the event began */
};

/*
 * The kernel writes a record into the second page whenever the event fires, over older ones, and
 * says in the first how far it has got. A signal that the program blocks in a way that we do not
 * see, or in a handler on a small stack, comes once in the end: the rest is known to be lost.
 */
void event_count_fired(const struct thread *t)
{
    if (t->event_bytes > PAGE_BYTES)
        t->record->fired =
            t->fired_before +
            __atomic_load_n(&t->event_page->data_head, __ATOMIC_RELAXED) / sizeof(struct record);
}

/* With the page for records or, where so many may not be locked in memory, without. */
static void map_event(struct thread *t, int fd)
{
    t->fired_before = t->record->fired;
    t->event_bytes = 2 * PAGE_BYTES;
    t->event_page = raw_mmap(t->event_bytes, PROT_READ, MAP_SHARED, fd);
    if (!t->event_page) {
        t->event_bytes = PAGE_BYTES;
        t->event_page = raw_mmap(t->event_bytes, PROT_READ, MAP_SHARED, fd);
    }
}

static bool start_perf(struct thread *t, uint64_t period_ns)
{
    struct perf_event_attr a;
    memset(&a, 0, sizeof a);
    a.size = sizeof a;
    a.type = PERF_TYPE_SOFTWARE;
    a.config = PERF_COUNT_SW_TASK_CLOCK;
    a.sample_period = period_ns;
    a.sample_type = PERF_SAMPLE_READ;
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
    map_event(t, (int)fd);
    if (!t->event_page)
        t->event_bytes = 0;
    else if (t->first_period_ns) /* one tick, and no more */
        raw_syscall3(SYS_ioctl, fd, PERF_EVENT_IOC_REFRESH, 1);
    else
        raw_syscall3(SYS_ioctl, fd, PERF_EVENT_IOC_ENABLE, 0);
    /* The mapping keeps it alive. Where none may be locked in memory any more there is no event:
     * its descriptor would be one of the program's. */
    raw_syscall3(SYS_close, fd, 0, 0);
    return t->event_page != NULL;
}

static uint64_t user_time_ns(void)
{
    struct rusage usage = {0};
    raw_syscall3(SYS_getrusage, RUSAGE_THREAD, (long)&usage, 0);
    return (uint64_t)usage.ru_utime.tv_sec * 1000000000 + (uint64_t)usage.ru_utime.tv_usec * 1000;
}

/*
 * A timer is slower than asked for, and does not see a thread that always sleeps when the kernel's
 * tick comes. The user time that has passed says what its signal stands for.
 */
uint64_t event_timer_ticks(struct thread *t, const siginfo_t *info)
{
    uint64_t period = guest->arena->period_ns, now = is_confined() ? 0 : user_time_ns();
    uint64_t ticks = now > t->counted_ns ? (now - t->counted_ns) / period : 0;
    if (is_confined())
        ticks = 1 + (uint64_t)(info->si_overrun > 0 ? info->si_overrun : 0);
    t->counted_ns += ticks * period;
    t->record->merged += ticks > 1 ? ticks - 1 : 0;
    return ticks;
}

static bool start_timer(struct thread *t, uint64_t first_period_ns)
{
    struct sigevent event;
    memset(&event, 0, sizeof event);
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = SAMPLE_SIGNAL;
    event._sigev_un._tid = (int)t->tid;
    int timer;
    if (raw_syscall3(SYS_timer_create, SAMPLE_TIMER_CLOCK, (long)&event, (long)&timer) < 0)
        return false;
    long ns = (long)guest->arena->period_ns, first_ns = (long)first_period_ns;
    struct itimerspec every = {{ns / 1000000000, ns % 1000000000},
                               {first_ns / 1000000000, first_ns % 1000000000}};
    t->counted_ns = user_time_ns();
    raw_syscall4(SYS_timer_settime, timer, 0, (long)&every, 0);
    t->timer = timer;
    return true;
}

/* A time in (0, period], any as likely as any other. The kernel's shortest is 10 us. */
static uint64_t random_part(const struct thread *t, uint64_t period_ns)
{
    enum { SHORTEST_NS = 10000 };
    uint64_t x = (time_stamp_or_0() ^ t->first_cpu_ns) * UINT64_C(0x9e3779b97f4a7c15) + t->tid;
    x = (x ^ x >> 31) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    uint64_t part = 1 + (x ^ x >> 31) % period_ns;
    return part < SHORTEST_NS && period_ns > SHORTEST_NS ? SHORTEST_NS : part;
}

/* One thread that is sampled so is enough to say it of the process. */
static bool start_timer_instead(struct thread *t, uint64_t first_ns)
{
    t->first_period_ns = 0;
    if (start_timer(t, first_ns)) {
        guest->arena->source = SOURCE_TIMER;
        return true;
    }
    guest->arena->threads_not_sampled++;
    return false;
}

bool event_start(struct thread *t)
{
    if (!(guest->arena->events.mask & EVENTS_BY_SAMPLES) && !(guest->flags & CHANNEL_DETACHES) &&
        !ENGINE_ASK(false, wants_ticks))
        return true;
    guest->arena->is_debugged = is_debugged();
    if ((guest->arena->languages & LANGUAGE_GO) || is_debugged() || !own_stack_begin(t)) {
        guest->arena->threads_not_sampled++;
        return false;
    }
    t->first_cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    uint64_t first_ns = random_part(t, guest->arena->period_ns);
    t->first_period_ns = first_ns;
    if (start_perf(t, first_ns)) {
        if (guest->arena->source != SOURCE_TIMER)
            guest->arena->source = SOURCE_PERF;
        return true;
    }
    return start_timer_instead(t, first_ns);
}

void event_stop(struct thread *t)
{
    /* A signal that comes meanwhile must neither start it anew nor look at what is gone. */
    t->first_period_ns = 0;
    t->rate.look = UINT64_MAX;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    void *page = t->event_page;
    uint64_t bytes = t->event_bytes;
    if (page) {
        event_count_fired(t);
        t->event_bytes = 0;
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
        raw_syscall3(SYS_munmap, (long)page, (long)bytes, 0);
    }
    if (t->timer >= 0)
        raw_syscall3(SYS_timer_delete, t->timer, 0, 0);
    t->event_page = NULL;
    t->event_bytes = 0;
    t->timer = -1;
}

void event_stop_and_drain(struct thread *t)
{
    uint64_t ours = UINT64_C(1) << (SAMPLE_SIGNAL - 1), before;
    struct timespec none = {0};
    raw_syscall4(SYS_rt_sigprocmask, SIG_BLOCK, (long)&ours, (long)&before, 8);
    event_stop(t);
    while (raw_syscall4(SYS_rt_sigtimedwait, (long)&ours, 0, (long)&none, 8) == SAMPLE_SIGNAL)
        ;
    raw_syscall4(SYS_rt_sigprocmask, SIG_SETMASK, (long)&before, 0, 8);
}

/* Pages of zeros take the place of the mapping that keeps the event alive. */
void event_silence(struct thread *t)
{
    if (t->event_page)
        raw_syscall6(SYS_mmap, (long)t->event_page, (long)t->event_bytes, PROT_READ,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    if (t->timer >= 0)
        raw_syscall3(SYS_timer_delete, t->timer, 0, 0);
    guest->arena->threads_not_sampled++;
}

/*
 * Keeping the rate. A tick comes whenever a period of the thread's CPU time has passed, and counts
 * when it finds user mode. Each that counts makes the kernel send a signal, which takes CPU time
 * too, and into which no tick can fall: without more ado, there would be a sample every period less
 * that time (70 us instead of 100 in a virtual machine where it takes 30). So the event's period is
 * longer by what the signal takes.
 *
 * What it takes is what the kernel's accounts say: n ticks, each of which ended a period, stand for
 * the sum of those periods; that sum less the user time, for each tick, is the cost. The ticks that
 * found the kernel at work need no attention: they are as many as they should be.
 */
enum { FIRST_LOOK_NS = 250000000, MOST_COST_NS = 200000 };

static uint64_t bounded_cost(int64_t cost_ns)
{
    return cost_ns < 0 ? 0 : cost_ns < MOST_COST_NS ? (uint64_t)cost_ns : MOST_COST_NS;
}

/* Without the page that counts them, those whose signals came. */
static uint64_t ticks_so_far(const struct thread *t)
{
    return t->event_bytes > PAGE_BYTES || t->record->fired ? t->record->fired : t->record->arrived;
}

/* The thread's CPU time from the start of its event to the tick; without records, to now. */
static uint64_t cpu_ns_at_tick(const struct thread *t)
{
    uint64_t head = t->event_bytes > PAGE_BYTES ? t->event_page->data_head : 0;
    if (!head)
        return clock_ns(CLOCK_THREAD_CPUTIME_ID) - t->first_cpu_ns;
    const char *records = (const char *)t->event_page + PAGE_BYTES;
    return ((const struct record *)(records + (head - sizeof(struct record)) % PAGE_BYTES))->cpu_ns;
}

void event_once_more(struct thread *t, uint64_t ns)
{
    if (t->timer >= 0) {
        struct itimerspec once = {{0, 0}, {(long)(ns / 1000000000), (long)(ns % 1000000000)}};
        raw_syscall4(SYS_timer_settime, t->timer, 0, (long)&once, 0);
        return;
    }
    if (is_confined()) /* a new event is no longer allowed */
        return;
    event_stop(t);
    t->first_period_ns = ns;
    if (!start_perf(t, ns))
        start_timer_instead(t, ns);
}

/*
 * The first tick of the thread's event has come: from here on one comes every period. A tick that
 * falls into the kernel is not seen, and the event tries again after as long a time; what is seen
 * then counts for nothing, or a thread would get too many samples for its user time.
 */
bool event_first_tick(struct thread *t)
{
    enum { LATE_NS = 10000 };
    uint64_t half = t->first_period_ns / 2;
    bool counts = cpu_ns_at_tick(t) < t->first_period_ns + (half > LATE_NS ? half : LATE_NS);
    if (is_confined()) { /* a new event is no longer allowed; this one has had its only tick */
        t->first_period_ns = 0;
        guest->arena->threads_not_sampled++;
        return counts;
    }
    event_stop(t);
    uint64_t period_ns = guest->arena->period_ns;
    t->rate.period_ns = period_ns + bounded_cost(guest->arena->tick_cost_ns);
    t->rate.fired_first = t->rate.fired_changed = ticks_so_far(t);
    t->rate.user_first_ns = user_time_ns();
    t->rate.passed_ns = 0;
    t->rate.look = t->rate.fired_first + FIRST_LOOK_NS / period_ns + 1;
    if (!start_perf(t, t->rate.period_ns))
        start_timer_instead(t, period_ns);
    return counts;
}

uint64_t event_period_ns(const struct thread *t)
{
    return t->timer < 0 && t->rate.period_ns ? t->rate.period_ns : guest->arena->period_ns;
}

void event_keep_rate(struct thread *t)
{
    enum { CLOSE_ENOUGH = 64, MOST_CATCH_UP = 10 };
    uint64_t period_ns = guest->arena->period_ns, now = ticks_so_far(t);
    if (now < t->rate.look || t->timer >= 0 || is_confined())
        return;
    int64_t fired = (int64_t)(now - t->rate.fired_first);
    int64_t second = (int64_t)(1000000000 / period_ns);
    t->rate.look = now + (uint64_t)(fired < second ? fired : second) + 1;
    t->rate.passed_ns += (now - t->rate.fired_changed) * t->rate.period_ns;
    t->rate.fired_changed = now;
    int64_t user_ns = (int64_t)(user_time_ns() - t->rate.user_first_ns);
    /* The first guess counts as much as a second of ticks. */
    int64_t cost_ns = (second * guest->arena->tick_cost_ns + (int64_t)t->rate.passed_ns - user_ns) /
                      (second + fired);
    /* Ticks that were too many or too few so far are made good within a second or so. */
    int64_t too_many_ns = fired * (int64_t)period_ns - user_ns;
    int64_t limit = (int64_t)period_ns / MOST_CATCH_UP, catch_up = too_many_ns / (second + 1);
    catch_up = catch_up > limit ? limit : catch_up < -limit ? -limit : catch_up;
    uint64_t wanted = (uint64_t)((int64_t)(period_ns + bounded_cost(cost_ns)) + catch_up);
    uint64_t by =
        wanted > t->rate.period_ns ? wanted - t->rate.period_ns : t->rate.period_ns - wanted;
    if (by < t->rate.period_ns / CLOSE_ENOUGH)
        return;
    uint64_t look = t->rate.look;
    event_stop(t);
    t->rate.look = look;
    t->rate.period_ns = wanted;
    if (!start_perf(t, wanted))
        start_timer_instead(t, period_ns);
}
