#include "record/outside/outside_events.h"

#include "base/clock.h"
#include "record/outside/outside_refusal.h"
#include "record/outside/outside_rings.h"

#include <asm/perf_regs.h>
#include <assert.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static const uint64_t REGISTERS =
    ((UINT64_C(1) << (PERF_REG_X86_IP + 1)) - 1) | (UINT64_C(0xff) << PERF_REG_X86_R8);
static_assert(PERF_REG_X86_IP + 1 + 8 == OUTSIDE_REGISTERS, "those of the mask");

/*
 * Measured in a virtual machine (bench/outside.c): a record without a stack takes 16 us, with 4 KB
 * of it about 1 us more, with 8 KB 1 to 2, with 32 KB 6, with 63 KB 12. Most stacks are lower than
 * 4 KB, so the others get a larger window when they are seen. The kernel takes at most 64 KB less a
 * record's other parts.
 */
static const uint64_t windows[OUTSIDE_WINDOWS] = {4 << 10, 8 << 10, 32 << 10, 63 << 10};
enum { LEAST_WINDOW = 1 << 10, RECORDS_IN_RING = 16 };

static int open_event(const struct perf_event_attr *a, pid_t pid, int cpu)
{
    return (int)syscall(SYS_perf_event_open, a, pid, cpu, -1, PERF_FLAG_FD_CLOEXEC);
}

/* What both events of a thread have in common: identifiers, times, and who inherits them. */
static struct perf_event_attr describe(const struct outside_wanted *w, bool on_exec)
{
    return (struct perf_event_attr){
        .size = sizeof(struct perf_event_attr),
        .type = PERF_TYPE_SOFTWARE,
        .config = PERF_COUNT_SW_DUMMY,
        .sample_type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_TID | PERF_SAMPLE_TIME,
        .sample_id_all = 1,
        .exclude_kernel = 1,
        .exclude_hv = 1,
        .use_clockid = 1,
        .clockid = CLOCK_MONOTONIC,
        .watermark = 1,
        .disabled = on_exec,
        .enable_on_exec = on_exec,
        .inherit = 1,
        .inherit_thread = !w->follow,
    };
}

static struct perf_event_attr describe_samples(const struct outside_events *e, bool on_exec)
{
    struct perf_event_attr a = describe(&e->wanted, on_exec);
    a.config = PERF_COUNT_SW_TASK_CLOCK;
    a.sample_period = e->wanted.period_ns;
    a.sample_type |= PERF_SAMPLE_IP | PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER;
    a.sample_regs_user = REGISTERS;
    a.sample_stack_user = (uint32_t)e->window_bytes;
    a.exclude_kernel = !e->wanted.in_kernel;
    a.exclude_user = !e->wanted.in_user;
    a.read_format = PERF_FORMAT_LOST;
    if (e->wanted.in_kernel) {
        a.sample_type |= PERF_SAMPLE_CALLCHAIN;
        a.exclude_callchain_user = 1; /* that part is walked here, by better means */
    }
    return a;
}

/*
 * It counts what is never read: two events of one kind take 0.15 us less at each switch of threads
 * than one beside an event that counts nothing (0.2 us more than one event alone, of 9).
 */
static struct perf_event_attr describe_tale(const struct outside_events *e, bool on_exec)
{
    struct perf_event_attr a = describe(&e->wanted, on_exec);
    a.config = PERF_COUNT_SW_TASK_CLOCK;
    a.mmap = a.mmap2 = a.comm = a.comm_exec = a.task = 1;
    return a;
}

/* Each thread takes two for each processor. */
static void raise_descriptors(struct rlimit *before)
{
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, before);
    limit = *before;
    if (limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

/* What a program that starts is told of with wakes the reader; single threads do not. */
enum { TALE_WAKES_BYTES = 512 };

/* A ring has an event of this process, which counts nothing. */
static int open_ring(struct outside_events *e, int cpu, bool has_samples, struct ct_error *err)
{
    struct perf_event_attr a = describe(&e->wanted, false);
    a.inherit = a.inherit_thread = 0;
    a.disabled = 1;
    a.wakeup_watermark = has_samples ? 0 : TALE_WAKES_BYTES; /* of samples, half of the ring */
    struct outside_ring r = {.cpu = cpu, .has_samples = has_samples, .fd = open_event(&a, 0, cpu)};
    if (r.fd < 0 && errno == ENODEV && cpu)
        return CT_OK; /* a processor that is not there now */
    if (r.fd < 0)
        return outside_refuse(errno, &e->wanted, 0, err);
    vec_push(&e->rings, r);
    return CT_OK;
}

static int open_rings(struct outside_events *e, int cpu, struct ct_error *err)
{
    CT_TRY(open_ring(e, cpu, true, err));
    return open_ring(e, cpu, false, err);
}

/* What the first rings are made for: it is not known yet whether more of a stack is needed. */
enum { USUAL_WINDOW = 8 << 10 };

/*
 * For records that are larger than the first rings were made for. Where there is no more memory to
 * lock, those do.
 */
static void need_larger_rings(struct outside_events *e, uint64_t window_bytes)
{
    size_t before = e->rings.count;
    uint64_t bytes = outside_ring_bytes(e->wanted.period_ns, window_bytes);
    bool done = bytes > e->ring_bytes;
    for (size_t i = 0; i < before && done; i++)
        if (e->rings.items[i].has_samples && !e->rings.items[i].is_retired)
            done = open_ring(e, e->rings.items[i].cpu, true, NULL) == CT_OK;
    done = done && outside_rings_map(e->rings.items + before, e->rings.count - before, bytes) &&
           e->rings.items[before].size > e->ring_bytes;
    if (!done) {
        while (e->rings.count > before)
            outside_ring_close(&e->rings.items[--e->rings.count]);
        return;
    }
    e->ring_bytes = e->rings.items[before].size;
    for (size_t i = 0; i < before; i++)
        e->rings.items[i].is_retired = e->rings.items[i].has_samples;
}

static void choose_window(struct outside_events *e)
{
    uint64_t least_ring = UINT64_MAX;
    for (size_t i = 0; i < e->rings.count; i++)
        if (e->rings.items[i].has_samples && e->rings.items[i].size < least_ring)
            least_ring = e->rings.items[i].size;
    e->ring_bytes = least_ring;
    e->window_bytes = e->wanted.has_window ? e->wanted.window_bytes : windows[0];
    while (!e->wanted.has_window && e->window_bytes > LEAST_WINDOW &&
           e->window_bytes > least_ring / RECORDS_IN_RING)
        e->window_bytes /= 2;
}

int outside_events_begin(struct outside_events *e, const struct outside_wanted *wanted,
                         struct ct_error *err)
{
    *e = (struct outside_events){.wanted = *wanted};
    key_set_init(&e->ids, sizeof(uint64_t));
    raise_descriptors(&e->descriptors_before);
    long cpus = sysconf(_SC_NPROCESSORS_CONF);
    int status = CT_OK;
    for (int cpu = 0; cpu < cpus && status == CT_OK; cpu++)
        status = open_rings(e, cpu, err);
    uint64_t window_bytes = wanted->has_window ? wanted->window_bytes : USUAL_WINDOW;
    if (status == CT_OK && !outside_rings_map(e->rings.items, e->rings.count,
                                              outside_ring_bytes(wanted->period_ns, window_bytes)))
        status = outside_refuse_memory(errno, err);
    if (status != CT_OK) {
        outside_events_end(e);
        return status;
    }
    choose_window(e);
    e->generations[0].until_ns = UINT64_MAX;
    return CT_OK;
}

static void close_event(struct outside_event *event)
{
    if (event->fd >= 0)
        close(event->fd);
    event->fd = -1;
}

void outside_events_end(struct outside_events *e)
{
    for (size_t i = 0; i < e->events.count; i++)
        close_event(&e->events.items[i]);
    for (size_t i = 0; i < e->rings.count; i++)
        outside_ring_close(&e->rings.items[i]);
    outside_waiting_free(e);
    vec_free(&e->events);
    vec_free(&e->rings);
    key_set_free(&e->ids);
}

/* An event of a thread on the processor of a ring, which it writes to; -1, and errno says why. */
static int open_at_ring(struct perf_event_attr *a, pid_t tid, const struct outside_ring *r,
                        uint64_t *id)
{
    int fd = open_event(a, tid, r->cpu);
    if (fd < 0 && errno == EINVAL && a->read_format) { /* before Linux 6.0 */
        a->read_format = 0;
        fd = open_event(a, tid, r->cpu);
    }
    if (fd < 0 && errno == EINVAL && a->inherit_thread) { /* before 5.13: it is filtered here */
        a->inherit_thread = 0;
        fd = open_event(a, tid, r->cpu);
    }
    if (fd < 0)
        return -1;
    if (ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, r->fd) == 0 && ioctl(fd, PERF_EVENT_IOC_ID, id) == 0)
        return fd;
    int why = errno;
    close(fd);
    errno = why;
    return -1;
}

static void keep_event(struct outside_events *e, int fd, uint64_t id, pid_t tid, uint32_t origin,
                       bool sampling)
{
    key_set_add(&e->ids, &id);
    vec_push(&e->events, (struct outside_event){.fd = fd,
                                                .tid = (uint32_t)tid,
                                                .origin = origin,
                                                .is_sampling = sampling,
                                                .generation = e->generation,
                                                .opened_ns = now_ns()});
}

int outside_events_add(struct outside_events *e, pid_t tid, pid_t origin, bool on_exec,
                       bool *is_gone, struct ct_error *err)
{
    struct perf_event_attr samples = describe_samples(e, on_exec);
    struct perf_event_attr tale = describe_tale(e, on_exec);
    *is_gone = false;
    /* What tells of a thread comes first: its samples mean nothing without. */
    for (unsigned sampling = 0; sampling < (e->samples_are_wide ? 1u : 2u); sampling++) {
        for (size_t i = 0; i < e->rings.count; i++) {
            const struct outside_ring *r = &e->rings.items[i];
            uint64_t id;
            if (r->has_samples != sampling || r->is_retired)
                continue;
            int fd = open_at_ring(sampling ? &samples : &tale, tid, r, &id);
            if (fd < 0 && errno == ESRCH) {
                *is_gone = true;
                return CT_OK;
            }
            if (fd < 0) {
                e->lacks_descriptors = errno == EMFILE || errno == ENFILE;
                return outside_refuse(errno, &e->wanted, tid, err);
            }
            keep_event(e, fd, id, tid, (uint32_t)origin, sampling);
        }
    }
    return CT_OK;
}

enum { ALL_PROCESSES = -1 };

int outside_events_widen(struct outside_events *e, struct ct_error *err)
{
    for (size_t i = 0; i < e->events.count; i++)
        close_event(&e->events.items[i]);
    e->events.count = 0;
    key_set_free(&e->ids);
    key_set_init(&e->ids, sizeof(uint64_t));
    struct perf_event_attr kinds[2] = {describe_tale(e, false), describe_samples(e, false)};
    for (size_t i = 0; i < e->rings.count; i++) {
        const struct outside_ring *r = &e->rings.items[i];
        struct perf_event_attr *a = &kinds[r->has_samples];
        uint64_t id;
        if (r->is_retired)
            continue;
        a->inherit = a->inherit_thread = 0;
        int fd = open_at_ring(a, ALL_PROCESSES, r, &id);
        if (fd < 0)
            return outside_refuse(errno, &e->wanted, 0, err);
        keep_event(e, fd, id, ALL_PROCESSES, 0, r->has_samples);
    }
    e->is_wide = e->samples_are_wide = true;
    return CT_OK;
}

const struct outside_event *outside_event_of(const struct outside_events *e, uint64_t id)
{
    uint32_t number;
    return key_set_find(&e->ids, &id, &number) ? &e->events.items[number] : NULL;
}

unsigned outside_events_descriptors(const struct outside_events *e, bool with_tales, int *fds,
                                    unsigned room)
{
    unsigned count = 0;
    for (size_t i = 0; i < e->rings.count && count < room; i++)
        if (with_tales || e->rings.items[i].has_samples)
            fds[count++] = e->rings.items[i].fd;
    return count;
}

/* Reads what was lost by an event; the kernel counts it before it tells of it in the ring. */
static uint64_t lost_by(const struct outside_event *event)
{
    uint64_t values[2]; /* the count, and what was lost */
    bool is_known = event->is_sampling && event->fd >= 0 &&
                    read(event->fd, values, sizeof values) == sizeof values;
    return is_known ? values[1] : 0;
}

void outside_events_drop(struct outside_events *e, uint32_t origin)
{
    for (size_t i = 0; i < e->events.count; i++) {
        struct outside_event *event = &e->events.items[i];
        if (event->origin != origin || event->fd < 0) /* those of all processes have none */
            continue;
        e->lost_before += lost_by(event);
        close_event(event);
    }
}

uint64_t outside_events_lost(const struct outside_events *e)
{
    uint64_t sum = e->lost_before;
    for (size_t i = 0; i < e->events.count; i++)
        sum += lost_by(&e->events.items[i]);
    return sum;
}

void outside_events_stop(struct outside_events *e)
{
    for (size_t i = 0; i < e->events.count; i++)
        if (e->events.items[i].is_sampling && e->events.items[i].fd >= 0)
            ioctl(e->events.items[i].fd, PERF_EVENT_IOC_DISABLE, 0);
}

/* --- other events ------------------------------------------------------------------------------
 */

static void begin_generation(struct outside_events *e)
{
    e->generation++;
    e->generations[e->generation] = (struct outside_generation){UINT64_MAX, UINT64_MAX};
}

bool outside_events_enlarge(struct outside_events *e)
{
    uint32_t next = e->window + 1;
    if (e->wanted.has_window || next == OUTSIDE_WINDOWS)
        return false;
    if (windows[next] > USUAL_WINDOW)
        need_larger_rings(e, windows[next]);
    if (windows[next] > e->ring_bytes / (RECORDS_IN_RING / 2))
        return false;
    begin_generation(e);
    e->window = next;
    e->window_bytes = windows[next];
    return true;
}

int outside_events_renew(struct outside_events *e, pid_t tid, uint32_t origin, bool on_exec)
{
    struct perf_event_attr a = describe_samples(e, on_exec);
    if (e->samples_are_wide) {
        tid = ALL_PROCESSES;
        a.inherit = a.inherit_thread = 0;
    }
    for (size_t i = 0; i < e->rings.count; i++) {
        uint64_t id;
        if (!e->rings.items[i].has_samples || e->rings.items[i].is_retired)
            continue;
        int fd = open_at_ring(&a, tid, &e->rings.items[i], &id);
        if (fd < 0)
            return errno == ESRCH ? CT_OK : CT_ERROR;
        keep_event(e, fd, id, tid, origin, true);
    }
    return CT_OK;
}

/* Ends the generation before the newest; or that, if it `failed`. */
static void end_generation(struct outside_events *e, bool failed)
{
    uint32_t ends = failed ? e->generation : e->generation - 1;
    if (!failed) {
        uint64_t now = now_ns();
        e->generations[ends].until_ns = now;
        e->generations[e->generation].from_ns = now;
    }
    for (size_t i = 0; i < e->events.count; i++) {
        struct outside_event *event = &e->events.items[i];
        if (!event->is_sampling || event->generation != ends)
            continue;
        e->lost_before += failed ? 0 : lost_by(event);
        close_event(event);
    }
    e->generation -= failed;
}

void outside_events_switch(struct outside_events *e, bool failed)
{
    end_generation(e, failed);
    if (failed) { /* what has been opened is not asked for again */
        e->window--;
        e->wanted.window_bytes = e->window_bytes = windows[e->window];
        e->wanted.has_window = true;
    }
}

bool outside_events_spread(struct outside_events *e)
{
    begin_generation(e);
    e->samples_are_wide = true;
    bool failed = outside_events_renew(e, ALL_PROCESSES, 0, false) != CT_OK;
    end_generation(e, failed);
    e->samples_are_wide = !failed;
    return !failed;
}
