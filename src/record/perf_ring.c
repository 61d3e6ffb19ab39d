#include "record/perf_ring.h"

#include "base/strings.h"

#include <asm/perf_regs.h>
#include <assert.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* All rings together, where so much may be locked; without a privilege there is half a megabyte. */
enum {
    RINGS_BYTES = 64 << 20,
    LEAST_RING_BYTES = 32 << 10,
    MOST_RING_BYTES = 32 << 20,
    STACK_BYTES = 16 << 10
};

static const uint64_t REGISTERS =
    ((UINT64_C(1) << (PERF_REG_X86_IP + 1)) - 1) | (UINT64_C(0xff) << PERF_REG_X86_R8);
enum { REGISTER_COUNT = PERF_REG_X86_IP + 1 + 8 };
static_assert(PERF_REG_X86_IP + 1 == PERF_REGISTER_BEFORE_R8, "registers before r8");
static_assert(sizeof(struct perf_count) == 24, "what the kernel writes with both times");

struct perf_ring {
    struct perf_event_mmap_page *page;
    char *bytes; /* of records */
    uint64_t size;
    uint64_t head; /* where it ended when it was last looked at */
    int cpu;
    int fds[PERF_MOST_EVENTS];
    uint64_t ids[PERF_MOST_EVENTS];
    VEC(char) record; /* a copy of one that goes over the end */
};

/* --- opening -----------------------------------------------------------------------------------
 */

/*
 * Asked of events without a period. The kernel changes their period while one is under way, and the
 * samples then say the new one: more or less than it has counted. With these, a sample has the
 * count itself, of its thread on its processor, which the stream's number stands for; and a thread
 * that ends has a record with its last count. Linux 6.12 and later have that for events that
 * threads inherit.
 */
static const uint64_t COUNT_IN_SAMPLES = PERF_SAMPLE_STREAM_ID | PERF_SAMPLE_READ;

static void describe(struct perf_event_attr *a, const struct perf_event_wanted *e, bool follow,
                     bool paused, uint64_t rate_hz)
{
    *a = (struct perf_event_attr){.size = sizeof *a, .type = e->type, .config = e->config};
    a->sample_period = e->period ? e->period : rate_hz;
    a->freq = !e->period;
    a->sample_type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_TID | PERF_SAMPLE_TIME |
                     PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER;
    if (a->freq) { /* else software events would have a sample each, whatever the period */
        a->sample_type |= PERF_SAMPLE_PERIOD | COUNT_IN_SAMPLES;
        a->inherit_stat = 1;
    }
    a->sample_regs_user = REGISTERS;
    a->sample_stack_user = STACK_BYTES;
    a->read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
    a->disabled = 1;
    a->enable_on_exec = !paused;
    a->inherit = 1;
    a->inherit_thread = !follow;
    a->exclude_hv = 1;
    a->use_clockid = 1;
    a->clockid = CLOCK_MONOTONIC;
    a->sample_id_all = 1;
    a->watermark = 1;
}

static int open_event(const struct perf_event_attr *a, pid_t pid, int cpu)
{
    return (int)syscall(SYS_perf_event_open, a, pid, cpu, -1, PERF_FLAG_FD_CLOEXEC);
}

static int paranoid_level(void)
{
    int level = -1;
    FILE *file = fopen("/proc/sys/kernel/perf_event_paranoid", "re");
    if (file) {
        if (fscanf(file, "%d", &level) != 1)
            level = -1;
        fclose(file);
    }
    return level;
}

/* Why the kernel said no, and what would make it say yes. */
static int refuse(const struct perf_event_wanted *e, int why, struct ct_error *err)
{
    int level = paranoid_level(), most = e->type == PERF_TYPE_TRACEPOINT ? -1
                                         : e->in_kernel_only             ? 1
                                                                         : 2;
    if ((why == EACCES || why == EPERM) && level > most)
        return ct_fail(err,
                       "perf:%s is not permitted: it needs CAP_PERFMON, or "
                       "kernel.perf_event_paranoid of at most %d (it is %d)",
                       e->name, most, level);
    if (why == EACCES || why == EPERM)
        return ct_fail(err,
                       "perf:%s is not permitted: something forbids perf_event_open, as most "
                       "containers do; CAP_PERFMON or another seccomp profile permits it",
                       e->name);
    if (e->is_hardware && (why == ENOENT || why == EOPNOTSUPP || why == ENODEV || why == EINVAL))
        return ct_fail(
            err,
            "perf:%s: this machine does not count it: no such hardware event, as in most "
            "virtual machines; it must be run on the hardware itself",
            e->name);
    if (why == EINVAL && e->period)
        return ct_fail(err, "perf:%s: the kernel does not take the period %llu", e->name,
                       (unsigned long long)e->period);
    if (why == EMFILE)
        return ct_fail(err, "perf:%s: too many open files: one for each event and processor",
                       e->name);
    return ct_fail_errno(err, why, "perf:%s", e->name);
}

/* Tries what there is on one processor: as precise as can be, and with the kernel if allowed. */
static int try_event(struct perf_event_attr *a, const struct perf_event_wanted *e, pid_t pid,
                     int cpu, struct ct_error *err)
{
    for (;;) {
        a->precise_ip = e->is_hardware ? 3 : 0;
        int fd, why = 0;
        for (;;) {
            fd = open_event(a, pid, cpu);
            why = errno;
            if (fd >= 0)
                return fd;
            if (!a->precise_ip || why == EACCES || why == EPERM)
                break;
            a->precise_ip--;
        }
        if ((why == EACCES || why == EPERM) && !a->exclude_kernel && !e->in_kernel_only)
            a->exclude_kernel = 1;
        else if (why == EINVAL && (a->sample_type & COUNT_IN_SAMPLES)) {
            a->sample_type &= ~COUNT_IN_SAMPLES;
            a->inherit_stat = 0;
        } else if (why == EINVAL && a->inherit_thread) /* an older kernel: it is filtered here */
            a->inherit_thread = 0;
        else {
            refuse(e, why, err);
            return -1;
        }
    }
}

static bool map_ring(struct perf_ring *r, int fd, unsigned cpu_count)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), bytes = MOST_RING_BYTES;
    while (bytes > LEAST_RING_BYTES && bytes * cpu_count > RINGS_BYTES)
        bytes /= 2;
    for (; bytes >= LEAST_RING_BYTES; bytes /= 2) {
        void *map = mmap(NULL, page + bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (map == MAP_FAILED)
            continue;
        r->page = map;
        r->bytes = (char *)map + page;
        r->size = bytes;
        return true;
    }
    return false;
}

static void close_ring(struct perf_ring *r, uint32_t events)
{
    if (r->page)
        munmap(r->page, (size_t)(r->bytes - (char *)r->page) + r->size);
    for (uint32_t i = 0; i < events; i++)
        if (r->fds[i] >= 0)
            close(r->fds[i]);
    vec_free(&r->record);
}

/* The first event has the ring, the others write there too. */
static int open_ring(struct perf_rings *rings, struct perf_ring *r, struct perf_event_attr *attrs,
                     pid_t pid, struct ct_error *err)
{
    for (uint32_t i = 0; i < rings->wanted->count; i++) {
        const struct perf_event_wanted *e = &rings->wanted->items[i];
        r->fds[i] = try_event(&attrs[i], e, pid, r->cpu, err);
        if (r->fds[i] < 0)
            return CT_ERROR;
        if (i == 0 && !map_ring(r, r->fds[0], rings->cpu_count))
            return ct_fail_errno(err, errno,
                                 "perf:%s: no memory for its samples may be locked (ulimit -l, "
                                 "kernel.perf_event_mlock_kb)",
                                 e->name);
        if (i && ioctl(r->fds[i], PERF_EVENT_IOC_SET_OUTPUT, r->fds[0]) != 0)
            return ct_fail_errno(err, errno, "perf:%s: no common ring", e->name);
        if (ioctl(r->fds[i], PERF_EVENT_IOC_ID, &r->ids[i]) != 0)
            return ct_fail_errno(err, errno, "perf:%s", e->name);
        rings->got[i].user_only = attrs[i].exclude_kernel;
        rings->got[i].precise = attrs[i].precise_ip;
        rings->got[i].has_counts = attrs[i].sample_type & COUNT_IN_SAMPLES;
    }
    return CT_OK;
}

static uint64_t most_samples_a_second(void)
{
    unsigned long long most = 0;
    FILE *file = fopen("/proc/sys/kernel/perf_event_max_sample_rate", "re");
    if (!file)
        return UINT64_MAX;
    int fields = fscanf(file, "%llu", &most);
    fclose(file);
    return fields == 1 && most ? most : UINT64_MAX;
}

int perf_rings_open(struct perf_rings *rings, const struct perf_wanted *wanted, pid_t pid,
                    bool follow, bool paused, uint64_t rate_hz, struct ct_error *err)
{
    struct perf_event_attr attrs[PERF_MOST_EVENTS];
    uint64_t most_hz = most_samples_a_second();
    long cpus = sysconf(_SC_NPROCESSORS_CONF);
    *rings = (struct perf_rings){.wanted = wanted};
    rings->rings = must_calloc((size_t)cpus, sizeof *rings->rings);
    key_set_init(&rings->streams, sizeof(uint64_t));
    for (uint32_t i = 0; i < wanted->count; i++)
        describe(&attrs[i], &wanted->items[i], follow, paused,
                 rate_hz < most_hz ? rate_hz : most_hz);
    attrs[0].comm = attrs[0].comm_exec = 1; /* tells who has called exec */
    attrs[0].wakeup_watermark = LEAST_RING_BYTES;
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    for (long cpu = 0; cpu < cpus; cpu++) {
        struct perf_ring *r = &rings->rings[rings->cpu_count];
        *r = (struct perf_ring){.cpu = (int)cpu};
        memset(r->fds, -1, sizeof r->fds);
        rings->cpu_count++;
        int status = open_ring(rings, r, attrs, pid, err);
        if (status == CT_OK)
            continue;
        if (cpu && errno == ENODEV && online < cpus) { /* a processor that is not there now */
            close_ring(r, wanted->count);
            rings->cpu_count--;
            continue;
        }
        perf_rings_close(rings);
        return status;
    }
    return CT_OK;
}

void perf_rings_close(struct perf_rings *rings)
{
    for (unsigned i = 0; i < rings->cpu_count; i++)
        close_ring(&rings->rings[i], rings->wanted->count);
    free(rings->rings);
    key_set_free(&rings->streams);
    vec_free(&rings->stream_counts);
    rings->rings = NULL;
    rings->cpu_count = 0;
}

unsigned perf_rings_descriptors(const struct perf_rings *rings, int *descriptors, unsigned room)
{
    unsigned count = 0;
    for (unsigned i = 0; i < rings->cpu_count && count < room; i++)
        descriptors[count++] = rings->rings[i].fds[0];
    return count;
}

void perf_rings_pause(struct perf_rings *rings, bool paused)
{
    for (unsigned i = 0; i < rings->cpu_count; i++)
        for (uint32_t k = 0; k < rings->wanted->count; k++)
            ioctl(rings->rings[i].fds[k], paused ? PERF_EVENT_IOC_DISABLE : PERF_EVENT_IOC_ENABLE,
                  0);
}

/*
 * Each processor's event is enabled whenever the thread runs, and counts when it runs there. So the
 * time enabled is that of any of them, the time running the sum; where hardware counters are
 * shared, that is less.
 */
struct perf_count perf_count_sum(const struct perf_count *each, unsigned count, bool shared)
{
    struct perf_count sum = {0};
    for (unsigned i = 0; i < count; i++) {
        sum.count += each[i].count;
        sum.running_ns += each[i].running_ns;
        if (each[i].enabled_ns > sum.enabled_ns)
            sum.enabled_ns = each[i].enabled_ns;
    }
    if (shared && sum.running_ns && sum.running_ns < sum.enabled_ns)
        sum.count = (uint64_t)((unsigned __int128)sum.count * sum.enabled_ns / sum.running_ns);
    return sum;
}

/*
 * Events are no groups, which the kernel counts together or not at all: one that needs all counters
 * of a processor would never count where a watchdog has taken one. Each is scaled by its own times.
 */
struct perf_count perf_rings_count(const struct perf_rings *rings, uint32_t event)
{
    struct perf_count *each = must_calloc(rings->cpu_count, sizeof *each);
    for (unsigned i = 0; i < rings->cpu_count; i++)
        if (read(rings->rings[i].fds[event], &each[i], sizeof *each) != sizeof *each)
            each[i] = (struct perf_count){0};
    struct perf_count sum =
        perf_count_sum(each, rings->cpu_count, rings->wanted->items[event].is_hardware);
    free(each);
    return sum;
}

/* --- reading -----------------------------------------------------------------------------------
 */

/* A record in one piece, at a place of the ring; NULL: what is there is no record. */
static const struct perf_event_header *record_at(struct perf_ring *r, uint64_t at)
{
    uint64_t offset = at & (r->size - 1), size;
    const struct perf_event_header *h = (const void *)(r->bytes + offset);
    size = h->size; /* headers never go over the end: all sizes are multiples of 8 */
    if (size < sizeof *h || size > r->head - at)
        return NULL;
    if (offset + size <= r->size)
        return h;
    r->record.count = 0;
    uint64_t first = r->size - offset;
    for (uint64_t i = 0; i < size; i++)
        vec_push(&r->record, i < first ? r->bytes[offset + i] : r->bytes[i - first]);
    return (const void *)r->record.items;
}

/* Bytes of a record, from the front. */
struct cursor {
    const char *at;
    uint64_t left;
};

static const void *take(struct cursor *c, uint64_t bytes)
{
    if (bytes > c->left)
        return NULL;
    const void *at = c->at;
    c->at += bytes;
    c->left -= bytes;
    return at;
}

static uint64_t take_word(struct cursor *c)
{
    const uint64_t *word = take(c, sizeof *word);
    return word ? *word : 0;
}

static void take_stack(struct cursor *c, struct perf_sample *s)
{
    uint64_t abi = take_word(c);
    if (abi == PERF_SAMPLE_REGS_ABI_64)
        s->registers = take(c, REGISTER_COUNT * sizeof(uint64_t));
    else if (abi)
        return; /* a 32-bit program; its registers are as many, and not ours */
    uint64_t size = take_word(c);
    s->stack = take(c, size);
    uint64_t filled = size ? take_word(c) : 0;
    s->stack_bytes = s->stack && filled <= size ? filled : 0;
}

static uint32_t event_of(const struct perf_rings *rings, const struct perf_ring *r, uint64_t id)
{
    uint32_t event = 0;
    while (event < rings->wanted->count && r->ids[event] != id)
        event++;
    return event;
}

/* What a stream has counted since its last sample, whether or not that had a context. */
static uint64_t counted_since(struct perf_rings *rings, uint64_t stream, uint64_t count)
{
    uint32_t number = key_set_add(&rings->streams, &stream);
    if (number == rings->stream_counts.count)
        vec_push(&rings->stream_counts, 0);
    uint64_t *last = &rings->stream_counts.items[number], since = count - *last;
    *last = count;
    return since;
}

static void read_sample(struct perf_rings *rings, const struct perf_ring *r,
                        const struct perf_event_header *h, const struct perf_visitor *v)
{
    struct cursor c = {(const char *)(h + 1), h->size - sizeof *h};
    uint64_t id = take_word(&c), pid_tid = take_word(&c);
    struct perf_sample s = {.event = event_of(rings, r, id),
                            .pid = (uint32_t)pid_tid,
                            .tid = (uint32_t)(pid_tid >> 32)};
    if (s.event == rings->wanted->count)
        return;
    bool has_count = rings->got[s.event].has_counts;
    s.time_ns = take_word(&c);
    uint64_t stream = has_count ? take_word(&c) : 0;
    s.period = rings->wanted->items[s.event].period;
    if (!s.period)
        s.period = take_word(&c);
    const struct perf_count *count = has_count ? take(&c, sizeof *count) : NULL;
    if (count)
        s.period = counted_since(rings, stream, count->count);
    take_stack(&c, &s);
    v->sample(v->context, &s);
}

static void read_lost(struct perf_rings *rings, const struct perf_ring *r,
                      const struct perf_event_header *h)
{
    struct cursor c = {(const char *)(h + 1), h->size - sizeof *h};
    uint32_t event = event_of(rings, r, take_word(&c));
    if (event < rings->wanted->count)
        rings->got[event].lost += take_word(&c);
}

/* Whose it is; the count and its times; whose it is again, the time, the stream, the identifier. */
static void read_end(struct perf_rings *rings, const struct perf_ring *r,
                     const struct perf_event_header *h, const struct perf_visitor *v)
{
    struct cursor c = {(const char *)(h + 1), h->size - sizeof *h};
    uint64_t pid_tid = take_word(&c);
    const struct perf_count *count = take(&c, sizeof *count);
    take_word(&c);
    struct perf_sample s = {.pid = (uint32_t)pid_tid, .tid = (uint32_t)(pid_tid >> 32)};
    s.time_ns = take_word(&c);
    uint64_t stream = take_word(&c), id = take_word(&c);
    s.event = event_of(rings, r, id);
    if (!count || s.event == rings->wanted->count)
        return;
    s.period = counted_since(rings, stream, count->count);
    if (s.period)
        v->end(v->context, &s);
}

/* At the end of a record that is no sample: pid and tid, the time, the stream, the identifier. */
static void read_exec(const struct perf_rings *rings, const struct perf_event_header *h,
                      const struct perf_visitor *v)
{
    enum { PID_BYTES = 8, WORD_BYTES = 8 };
    unsigned from_time = (rings->got[0].has_counts ? 3 : 2) * WORD_BYTES;
    const char *end = (const char *)h + h->size;
    if (h->size >= sizeof *h + PID_BYTES + PID_BYTES + from_time)
        v->exec(v->context, *(const uint32_t *)(h + 1), *(const uint64_t *)(end - from_time));
}

/* Visits the records up to where the ring was filled when it was first looked at. */
static void read_ring(struct perf_rings *rings, struct perf_ring *r, const struct perf_visitor *v,
                      bool samples)
{
    uint64_t at = r->page->data_tail;
    const struct perf_event_header *h;
    while (at < r->head && (h = record_at(r, at))) {
        if (samples && h->type == PERF_RECORD_SAMPLE)
            read_sample(rings, r, h, v);
        else if (samples && h->type == PERF_RECORD_LOST)
            read_lost(rings, r, h);
        else if (samples && h->type == PERF_RECORD_READ)
            read_end(rings, r, h, v);
        else if (!samples && h->type == PERF_RECORD_COMM && (h->misc & PERF_RECORD_MISC_COMM_EXEC))
            read_exec(rings, h, v);
        at += h->size;
        if (samples) /* room for the next, at once */
            __atomic_store_n(&r->page->data_tail, at, __ATOMIC_RELEASE);
    }
    if (samples && at < r->head) /* what is there is no record */
        __atomic_store_n(&r->page->data_tail, r->head, __ATOMIC_RELEASE);
}

void perf_rings_read(struct perf_rings *rings, const struct perf_visitor *visitor)
{
    for (unsigned i = 0; i < rings->cpu_count; i++)
        rings->rings[i].head = __atomic_load_n(&rings->rings[i].page->data_head, __ATOMIC_ACQUIRE);
    for (unsigned samples = 0; samples < 2; samples++)
        for (unsigned i = 0; i < rings->cpu_count; i++)
            read_ring(rings, &rings->rings[i], visitor, samples);
}
