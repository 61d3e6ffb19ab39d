/*
 * The columns of a profile. Each is a row: what it is called, and a function that has its value for
 * a node. Those of events are below; an engine's and perf's are added to them.
 */
#include "record/metrics.h"

/* What a sample stands for. */
enum period {
    PERIOD_TIME,   /* the time between two samples */
    PERIOD_MEMORY, /* bytes; each is counted where that is one */
    PERIOD_CALLS,  /* no number of calls is what a sample stands for */
    PERIOD_NONE    /* only a part of it comes from samples */
};

struct event_column {
    uint32_t event;
    metric_value_fn *value;
    enum period period;
    struct metric_kind kind;
};

static uint64_t arena_value(const struct metric_node *n, uint32_t which)
{
    const uint64_t *at = n->node ? node_value(&n->set->layout, n->node, which) : NULL;
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

static uint64_t cpu(const struct metric_node *n, uint32_t number)
{
    (void)number;
    return n->node ? n->node->count * n->set->period_ns : 0;
}

static uint64_t blocked(const struct metric_node *n, uint32_t number)
{
    (void)number;
    return arena_value(n, VALUE_BLOCKED_NS) + n->extra->blocked_ns;
}

static uint64_t wall(const struct metric_node *n, uint32_t number)
{
    return n->extra->running_ns + blocked(n, number) + n->extra->elapsed_ns;
}

static uint64_t malloc_bytes(const struct metric_node *n, uint32_t number)
{
    (void)number;
    return arena_value(n, VALUE_MALLOC_BYTES);
}

static uint64_t malloc_calls(const struct metric_node *n, uint32_t number)
{
    (void)number;
    return whole_calls(arena_value(n, VALUE_MALLOC_CALLS));
}

static uint64_t heap_peak(const struct metric_node *n, uint32_t number)
{
    (void)number;
    bool is_saved = arena_value(n, VALUE_HEAP_PEAK) == n->heap_peak;
    return not_negative(arena_value(n, is_saved ? VALUE_HEAP_SAVED : VALUE_HEAP_LIVE));
}

static uint64_t heap_exit(const struct metric_node *n, uint32_t number)
{
    (void)number;
    return not_negative(arena_value(n, VALUE_HEAP_LIVE));
}

static uint64_t heap_blocks(const struct metric_node *n, uint32_t number)
{
    (void)number;
    return whole_calls(arena_value(n, VALUE_HEAP_BLOCKS));
}

static uint64_t lock_time(const struct metric_node *n, uint32_t number)
{
    (void)number;
    return arena_value(n, VALUE_LOCK_NS) + n->extra->lock_ns;
}

static uint64_t lock_waits(const struct metric_node *n, uint32_t number)
{
    (void)number;
    return arena_value(n, VALUE_LOCK_TIMES) + n->extra->lock_waits;
}

static uint64_t bytes_read(const struct metric_node *n, uint32_t number)
{
    (void)number;
    return arena_value(n, VALUE_READ_BYTES) + n->extra->read_bytes;
}

static uint64_t bytes_written(const struct metric_node *n, uint32_t number)
{
    (void)number;
    return arena_value(n, VALUE_WRITTEN_BYTES) + n->extra->written_bytes;
}

/* The first of those that were asked for is what reports show. */
static const struct event_column event_columns[] = {
    {EVENT_CPU, cpu, PERIOD_TIME, {"cpu", "ns", "user CPU time", CTP_METRIC_SAMPLED}},
    {EVENT_WALL,
     wall,
     PERIOD_NONE,
     {"wall", "ns",
      "time from the thread's start to its end: running in user mode (sampled), waiting in calls "
      "(measured), and not attributed",
      CTP_METRIC_SAMPLED}},
    {EVENT_WALL,
     blocked,
     PERIOD_TIME,
     {"blocked", "ns", "time in calls that wait", CTP_METRIC_EXACT}},
    {EVENT_MALLOC,
     malloc_bytes,
     PERIOD_MEMORY,
     {"malloc", "bytes", "memory that was asked for", CTP_METRIC_SAMPLED}},
    {EVENT_MALLOC,
     malloc_calls,
     PERIOD_CALLS,
     {"malloc_calls", "calls", "calls that asked for memory", CTP_METRIC_SAMPLED}},
    {EVENT_HEAP,
     heap_peak,
     PERIOD_MEMORY,
     {"heap_peak", "bytes", "memory in use when the process had most in use, by who asked for it",
      CTP_METRIC_SAMPLED}},
    {EVENT_HEAP,
     heap_exit,
     PERIOD_MEMORY,
     {"heap_exit", "bytes", "memory that was never freed, by who asked for it",
      CTP_METRIC_SAMPLED}},
    {EVENT_HEAP,
     heap_blocks,
     PERIOD_CALLS,
     {"heap_exit_blocks", "blocks", "how many pieces of memory were never freed",
      CTP_METRIC_SAMPLED}},
    {EVENT_LOCK,
     lock_time,
     PERIOD_TIME,
     {"lock", "ns", "time waited for locks, conditions and threads", CTP_METRIC_EXACT}},
    {EVENT_LOCK,
     lock_waits,
     PERIOD_TIME,
     {"lock_waits", "waits", "how often there was a wait", CTP_METRIC_EXACT}},
    {EVENT_IO,
     bytes_read,
     PERIOD_TIME,
     {"io_read", "bytes", "bytes read, by kind of file", CTP_METRIC_EXACT}},
    {EVENT_IO,
     bytes_written,
     PERIOD_TIME,
     {"io_written", "bytes", "bytes written, by kind of file", CTP_METRIC_EXACT}},
};

static uint32_t add(struct metric_set *set, struct profile_writer *w, const struct metric_kind *k,
                    metric_value_fn *value, uint32_t number)
{
    struct ctp_metric metric = {.name = profile_add_string(w, k->name),
                                .unit = profile_add_string(w, k->unit),
                                .description = profile_add_string(w, k->description),
                                .kind = k->kind,
                                .period = k->kind == CTP_METRIC_SAMPLED ? k->period : 0};
    uint32_t index = profile_add_metric(w, &metric);
    set->items[set->count].index = index;
    set->items[set->count].value = value;
    set->items[set->count++].number = number;
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
    const uint64_t periods[] = {[PERIOD_TIME] = period_ns,
                                [PERIOD_MEMORY] = events->memory_period_bytes,
                                [PERIOD_CALLS] = 1,
                                [PERIOD_NONE] = 0};
    for (unsigned i = 0; i < sizeof event_columns / sizeof event_columns[0]; i++) {
        const struct event_column *c = &event_columns[i];
        struct metric_kind kind = c->kind;
        if (!(events->mask & c->event))
            continue;
        kind.period = periods[c->period];
        if ((c->event & EVENTS_OF_MEMORY) && events->memory_period_bytes <= 1)
            kind.kind = CTP_METRIC_EXACT;
        if (c->event == EVENT_CPU)
            name_cpu(events->cpu_modes, &kind);
        uint32_t index = add(set, w, &kind, c->value, 0);
        if (c->event == EVENT_CPU)
            set->cpu = index;
    }
}

static uint64_t engine_value(const struct metric_node *n, uint32_t number)
{
    return n->extra->engine ? n->extra->engine[number] : 0;
}

void metrics_add_engine(struct metric_set *set, struct profile_writer *w,
                        const struct metric_kind *kinds, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t index = add(set, w, &kinds[i], engine_value, i);
        if (i == 0)
            set->engine = index;
    }
}

static uint64_t perf_value(const struct metric_node *n, uint32_t number)
{
    return n->extra->perf ? n->extra->perf[number] : 0;
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
        set->perf[i] = add(set, w, &k, perf_value, i);
    }
}

void metrics_write(struct metric_set *set, struct profile_writer *w, const struct arena_node *n,
                   uint64_t heap_peak_number, const struct node_extra *extra)
{
    const struct metric_node node = {set, n, heap_peak_number, extra};
    for (uint32_t i = 0; i < set->count; i++) {
        uint64_t v = set->items[i].value(&node, set->items[i].number);
        if (v > UINT64_MAX / 2 - set->items[i].total)
            v = 0;
        set->items[i].total += v;
        profile_write_values(w, set->items[i].index, &v, 1);
    }
}
