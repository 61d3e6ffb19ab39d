#include "record/outside/outside_events.h"

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
 * Measured in a virtual machine: an empty record takes 15 to 16 us with windows up to 8 KB, 16 to
 * 32 KB add less than the noise, and 64 KB 10 us. The kernel takes at most 64 KB less a record's
 * other parts.
 */
enum { USUAL_WINDOW = 32 << 10, LEAST_WINDOW = 1 << 10, RECORDS_IN_RING = 16 };

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

static struct perf_event_attr describe_tale(const struct outside_events *e, bool on_exec)
{
    struct perf_event_attr a = describe(&e->wanted, on_exec);
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

/* A ring has an event of this process, which counts nothing. */
static int open_rings(struct outside_events *e, int cpu, struct ct_error *err)
{
    struct perf_event_attr a = describe(&e->wanted, false);
    a.inherit = a.inherit_thread = 0;
    a.disabled = 1;
    for (unsigned tale = 0; tale < 2; tale++) {
        struct outside_ring r = {.cpu = cpu, .has_samples = !tale, .fd = open_event(&a, 0, cpu)};
        if (r.fd < 0 && errno == ENODEV && cpu)
            return CT_OK; /* a processor that is not there now */
        if (r.fd < 0)
            return outside_refuse(errno, &e->wanted, 0, err);
        vec_push(&e->rings, r);
    }
    return CT_OK;
}

static void choose_window(struct outside_events *e)
{
    uint64_t least_ring = UINT64_MAX;
    for (size_t i = 0; i < e->rings.count; i++)
        if (e->rings.items[i].has_samples && e->rings.items[i].size < least_ring)
            least_ring = e->rings.items[i].size;
    e->ring_bytes = least_ring;
    e->window_bytes = e->wanted.window_bytes ? e->wanted.window_bytes : USUAL_WINDOW;
    while (!e->wanted.window_bytes && e->window_bytes > LEAST_WINDOW &&
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
    if (status == CT_OK && !outside_rings_map(e->rings.items, e->rings.count))
        status = outside_refuse_memory(errno, err);
    if (status != CT_OK) {
        outside_events_end(e);
        return status;
    }
    choose_window(e);
    return CT_OK;
}

void outside_events_end(struct outside_events *e)
{
    for (size_t i = 0; i < e->events.count; i++)
        close(e->events.items[i].fd);
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

static void keep_event(struct outside_events *e, int fd, uint64_t id, pid_t tid, bool sampling)
{
    key_set_add(&e->ids, &id);
    vec_push(&e->events,
             (struct outside_event){.fd = fd, .tid = (uint32_t)tid, .is_sampling = sampling});
}

int outside_events_add(struct outside_events *e, pid_t tid, bool on_exec, bool *is_gone,
                       struct ct_error *err)
{
    struct perf_event_attr samples = describe_samples(e, on_exec);
    struct perf_event_attr tale = describe_tale(e, on_exec);
    *is_gone = false;
    /* What tells of a thread comes first: its samples mean nothing without. */
    for (unsigned sampling = 0; sampling < 2; sampling++) {
        for (size_t i = 0; i < e->rings.count; i++) {
            const struct outside_ring *r = &e->rings.items[i];
            uint64_t id;
            if (r->has_samples != sampling)
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
            keep_event(e, fd, id, tid, sampling);
        }
    }
    return CT_OK;
}

int outside_events_widen(struct outside_events *e, struct ct_error *err)
{
    enum { ALL_PROCESSES = -1 };
    for (size_t i = 0; i < e->events.count; i++)
        close(e->events.items[i].fd);
    e->events.count = 0;
    key_set_free(&e->ids);
    key_set_init(&e->ids, sizeof(uint64_t));
    struct perf_event_attr kinds[2] = {describe_tale(e, false), describe_samples(e, false)};
    for (size_t i = 0; i < e->rings.count; i++) {
        const struct outside_ring *r = &e->rings.items[i];
        struct perf_event_attr *a = &kinds[r->has_samples];
        uint64_t id;
        a->inherit = a->inherit_thread = 0;
        int fd = open_at_ring(a, ALL_PROCESSES, r, &id);
        if (fd < 0)
            return outside_refuse(errno, &e->wanted, 0, err);
        keep_event(e, fd, id, ALL_PROCESSES, r->has_samples);
    }
    e->is_wide = true;
    return CT_OK;
}

const struct outside_event *outside_event_of(const struct outside_events *e, uint64_t id)
{
    uint32_t number;
    return key_set_find(&e->ids, &id, &number) ? &e->events.items[number] : NULL;
}

unsigned outside_events_descriptors(const struct outside_events *e, int *fds, unsigned room)
{
    unsigned count = 0;
    for (size_t i = 0; i < e->rings.count && count < room; i++)
        fds[count++] = e->rings.items[i].fd;
    return count;
}

/* The kernel tells of losses in the ring only when there is room again, but counts them all. */
uint64_t outside_events_lost(const struct outside_events *e)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < e->events.count; i++) {
        uint64_t values[2]; /* the count, and what was lost */
        if (e->events.items[i].is_sampling &&
            read(e->events.items[i].fd, values, sizeof values) == sizeof values)
            sum += values[1];
    }
    return sum;
}

void outside_events_stop(struct outside_events *e)
{
    for (size_t i = 0; i < e->events.count; i++)
        if (e->events.items[i].is_sampling)
            ioctl(e->events.items[i].fd, PERF_EVENT_IOC_DISABLE, 0);
}
