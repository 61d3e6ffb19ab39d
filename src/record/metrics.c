#include "record/metrics.h"

enum source {
    SOURCE_CPU,
    SOURCE_WALL,
    SOURCE_BLOCKED,
    SOURCE_MALLOC,
    SOURCE_MALLOC_CALLS,
    SOURCE_HEAP_PEAK,
    SOURCE_HEAP_EXIT,
    SOURCE_HEAP_BLOCKS,
    SOURCE_LOCK,
    SOURCE_LOCK_TIMES,
    SOURCE_READ,
    SOURCE_WRITTEN,
    SOURCE_FIRST_ENGINE,
    SOURCE_FIRST_PERF = SOURCE_FIRST_ENGINE + ENGINE_METRICS
};

struct event_metric {
    enum source source;
    uint32_t event;
    struct metric_kind kind;
};

/* The first of those that were asked for is what reports show. */
static const struct event_metric event_metrics[] = {
    {SOURCE_CPU, EVENT_CPU, {"cpu", "ns", "user CPU time", CTP_METRIC_SAMPLED}},
    {SOURCE_WALL,
     EVENT_WALL,
     {"wall", "ns",
      "time from the thread's start to its end: running in user mode (sampled), waiting in calls "
      "(measured), and not attributed",
      CTP_METRIC_SAMPLED}},
    {SOURCE_BLOCKED, EVENT_WALL, {"blocked", "ns", "time in calls that wait", CTP_METRIC_EXACT}},
    {SOURCE_MALLOC,
     EVENT_MALLOC,
     {"malloc", "bytes", "memory that was asked for", CTP_METRIC_SAMPLED}},
    {SOURCE_MALLOC_CALLS,
     EVENT_MALLOC,
     {"malloc_calls", "calls", "calls that asked for memory", CTP_METRIC_SAMPLED}},
    {SOURCE_HEAP_PEAK,
     EVENT_HEAP,
     {"heap_peak", "bytes", "memory in use when the process had most in use, by who asked for it",
      CTP_METRIC_SAMPLED}},
    {SOURCE_HEAP_EXIT,
     EVENT_HEAP,
     {"heap_exit", "bytes", "memory that was never freed, by who asked for it",
      CTP_METRIC_SAMPLED}},
    {SOURCE_HEAP_BLOCKS,
     EVENT_HEAP,
     {"heap_exit_blocks", "blocks", "how many pieces of memory were never freed",
      CTP_METRIC_SAMPLED}},
    {SOURCE_LOCK,
     EVENT_LOCK,
     {"lock", "ns", "time waited for locks, conditions and threads", CTP_METRIC_EXACT}},
    {SOURCE_LOCK_TIMES,
     EVENT_LOCK,
     {"lock_waits", "waits", "how often there was a wait", CTP_METRIC_EXACT}},
    {SOURCE_READ, EVENT_IO, {"io_read", "bytes", "bytes read, by kind of file", CTP_METRIC_EXACT}},
    {SOURCE_WRITTEN,
     EVENT_IO,
     {"io_written", "bytes", "bytes written, by kind of file", CTP_METRIC_EXACT}},
};

static uint32_t add(struct metric_set *set, struct profile_writer *w, uint32_t source,
                    const struct metric_kind *k)
{
    struct ctp_metric metric = {.name = profile_add_string(w, k->name),
                                .unit = profile_add_string(w, k->unit),
                                .description = profile_add_string(w, k->description),
                                .kind = k->kind,
                                .period = k->kind == CTP_METRIC_SAMPLED ? k->period : 0};
    uint32_t index = profile_add_metric(w, &metric);
    set->items[set->count].index = index;
    set->items[set->count++].source = source;
    return index;
}

/* Where it is counted, if not only in user mode. */
static void name_cpu(uint32_t modes, struct metric_kind *kind)
{
    if (!(modes & CPU_KERNEL))
        return;
    kind->name = modes & CPU_USER ? "cpu:uk" : "cpu:k";
    kind->description =
        modes & CPU_USER ? "CPU time, in user mode and in the kernel" : "CPU time in the kernel";
}

void metrics_add(struct metric_set *set, struct profile_writer *w,
                 const struct arena_events *events, uint64_t period_ns)
{
    *set = (struct metric_set){.period_ns = period_ns, .cpu = CTP_NONE, .engine = CTP_NONE};
    set->layout.events = *events;
    arena_lay_out(&set->layout);
    uint64_t memory_period = events->memory_period_bytes;
    for (unsigned i = 0; i < sizeof event_metrics / sizeof event_metrics[0]; i++) {
        struct event_metric m = event_metrics[i];
        if (!(events->mask & m.event))
            continue;
        m.kind.period = m.event & EVENTS_OF_MEMORY ? memory_period : period_ns;
        if ((m.event & EVENTS_OF_MEMORY) && memory_period <= 1)
            m.kind.kind = CTP_METRIC_EXACT;
        if (m.source == SOURCE_WALL)
            m.kind.period = 0; /* only a part of it comes from samples */
        if (m.source == SOURCE_MALLOC_CALLS || m.source == SOURCE_HEAP_BLOCKS)
            m.kind.period = 1; /* no number of calls is what a sample stands for */
        if (m.source == SOURCE_CPU)
            name_cpu(events->cpu_modes, &m.kind);
        uint32_t index = add(set, w, m.source, &m.kind);
        if (m.source == SOURCE_CPU)
            set->cpu = index;
    }
}

void metrics_add_engine(struct metric_set *set, struct profile_writer *w,
                        const struct metric_kind *kinds, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t index = add(set, w, SOURCE_FIRST_ENGINE + i, &kinds[i]);
        if (i == 0)
            set->engine = index;
    }
}

/* What the kernel calls them; without a period, samples stand for as many as they say. */
void metrics_add_perf(struct metric_set *set, struct profile_writer *w,
                      const struct perf_wanted *wanted)
{
    for (uint32_t i = 0; i < wanted->count; i++) {
        const struct perf_event_wanted *e = &wanted->items[i];
        struct metric_kind k = {.name = e->name,
                                .unit = e->is_time ? "ns" : "events",
                                .description =
                                    "as the kernel counts them, by the context in user mode",
                                .kind = e->period == 1 ? CTP_METRIC_EXACT : CTP_METRIC_SAMPLED,
                                .period = e->period};
        set->perf[i] = add(set, w, SOURCE_FIRST_PERF + i, &k);
    }
}

static uint64_t value(const struct metric_set *set, const struct arena_node *n, uint32_t which)
{
    const uint64_t *at = n ? node_value(&set->layout, n, which) : NULL;
    return at ? *at : 0;
}

/* Values that go down as well: what is below zero comes from memory that was freed meanwhile. */
static uint64_t not_negative(uint64_t v)
{
    return (int64_t)v < 0 ? 0 : v;
}

static uint64_t whole_calls(uint64_t v)
{
    return (not_negative(v) + CALLS_ONE / 2) / CALLS_ONE;
}

static uint64_t source_value(const struct metric_set *set, uint32_t source,
                             const struct arena_node *n, uint64_t heap_peak,
                             const struct node_extra *e)
{
    uint64_t blocked_ns = value(set, n, VALUE_BLOCKED_NS) + e->blocked_ns;
    switch (source) {
    case SOURCE_CPU:
        return n ? n->count * set->period_ns : 0;
    case SOURCE_WALL:
        return e->running_ns + blocked_ns + e->elapsed_ns;
    case SOURCE_BLOCKED:
        return blocked_ns;
    case SOURCE_MALLOC:
        return value(set, n, VALUE_MALLOC_BYTES);
    case SOURCE_MALLOC_CALLS:
        return whole_calls(value(set, n, VALUE_MALLOC_CALLS));
    case SOURCE_HEAP_PEAK:
        return not_negative(value(set, n,
                                  value(set, n, VALUE_HEAP_PEAK) == heap_peak ? VALUE_HEAP_SAVED
                                                                              : VALUE_HEAP_LIVE));
    case SOURCE_HEAP_EXIT:
        return not_negative(value(set, n, VALUE_HEAP_LIVE));
    case SOURCE_HEAP_BLOCKS:
        return whole_calls(value(set, n, VALUE_HEAP_BLOCKS));
    case SOURCE_LOCK:
        return value(set, n, VALUE_LOCK_NS) + e->lock_ns;
    case SOURCE_LOCK_TIMES:
        return value(set, n, VALUE_LOCK_TIMES) + e->lock_waits;
    case SOURCE_READ:
        return value(set, n, VALUE_READ_BYTES) + e->read_bytes;
    case SOURCE_WRITTEN:
        return value(set, n, VALUE_WRITTEN_BYTES) + e->written_bytes;
    default:
        if (source < SOURCE_FIRST_PERF)
            return e->engine ? e->engine[source - SOURCE_FIRST_ENGINE] : 0;
        return e->perf ? e->perf[source - SOURCE_FIRST_PERF] : 0;
    }
}

void metrics_write(struct metric_set *set, struct profile_writer *w, const struct arena_node *n,
                   uint64_t heap_peak, const struct node_extra *extra)
{
    for (uint32_t i = 0; i < set->count; i++) {
        uint64_t v = source_value(set, set->items[i].source, n, heap_peak, extra);
        if (v > UINT64_MAX / 2 - set->items[i].total)
            v = 0;
        set->items[i].total += v;
        profile_write_values(w, set->items[i].index, &v, 1);
    }
}
