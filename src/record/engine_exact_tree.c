#include "record/engine_exact_tree.h"

#include "base/clock.h"
#include "profile/profile.h"

#include <string.h>
#include <time.h>
#include <x86intrin.h>

static_assert((unsigned)ARENA_GAP_CUT == (unsigned)CTP_GAP_CUT, "one number for both");

/* The values of its nodes: the first is there with times, the last two with --height. */
enum exact_column { COLUMN_TIME, COLUMN_CALLS, COLUMN_HEIGHT, COLUMN_HEIGHT_VARIES, EXACT_COLUMNS };

static enum exact_column first_column(const struct exact_settings *settings)
{
    return settings->flags & EXACT_TIMES ? COLUMN_TIME : COLUMN_CALLS;
}

static_assert((unsigned)EXACT_COLUMNS <= (unsigned)ENGINE_METRICS, "they have their places");

uint32_t exact_tree_metrics(const struct server *s, struct metric_kind out[ENGINE_METRICS])
{
    static const struct metric_kind kinds[EXACT_COLUMNS] = {
        [COLUMN_TIME] = {.name = "time",
                         .unit = "ns",
                         .description = "time in this context, by the time stamp counter",
                         .kind = CTP_METRIC_EXACT},
        [COLUMN_CALLS] = {.name = "calls",
                          .unit = "calls",
                          .description = "calls of this context",
                          .kind = CTP_METRIC_EXACT},
        [COLUMN_HEIGHT] = {.name = "height",
                           .unit = "bytes",
                           .description =
                               "stack between the outermost return address and this context's own, "
                               "when it was entered first: of each context alone, sums mean "
                               "nothing",
                           .kind = CTP_METRIC_EXACT},
        [COLUMN_HEIGHT_VARIES] = {.name = "height_varies",
                                  .unit = "contexts",
                                  .description =
                                      "contexts that were entered with another height, too",
                                  .kind = CTP_METRIC_EXACT}};
    const struct exact_settings *settings = exact_settings_in(s->settings);
    const enum exact_column first = first_column(settings);
    memcpy(out, kinds + first, sizeof kinds - first * sizeof *kinds);
    if (settings->burst_ns) /* what a call in a burst stands for differs: there is no period */
        out[COLUMN_CALLS - first].kind = CTP_METRIC_SAMPLED;
    return (settings->flags & EXACT_HEIGHTS ? EXACT_COLUMNS : COLUMN_CALLS + 1u) - first;
}

/*
 * What is known of the records of one arena, by their places: the node that its callees hang below,
 * and, for heights, the slot of the outermost record that has one.
 */
struct record_tables {
    size_t room;
    uint32_t *nodes;     /* numbered through all threads, plus one: */
    uint32_t first;      /* that of the current thread */
    uint32_t *outermost; /* NULL: no heights */
    enum exact_column first_column;
    double ns_per_tick;  /* of the time stamp counter */
    uint64_t bytes_left; /* that chunks of the threads to come may have: each byte is in one */
};

/* Both clocks at one moment, as nearly as a few attempts give it. */
struct moment {
    uint64_t ns, ticks;
};

static struct moment now(void)
{
    enum { ATTEMPTS = 16 };
    struct moment best = {0};
    uint64_t least = UINT64_MAX;
    for (unsigned i = 0; i < ATTEMPTS; i++) {
        const uint64_t before = __rdtsc(), ns = now_ns(), apart = __rdtsc() - before;
        if (apart >= least)
            continue;
        least = apart;
        best = (struct moment){.ns = ns, .ticks = before + apart / 2};
    }
    return best;
}

/* How fast the time stamp counter goes: measured once. */
static double ns_per_tick(void)
{
    static double known;
    const struct timespec step = {0, 10000000};
    if (known == 0) {
        const struct moment begin = now();
        nanosleep(&step, NULL);
        const struct moment end = now();
        known = (double)(end.ns - begin.ns) / (double)(end.ticks - begin.ticks);
    }
    return known;
}

void *exact_tree_begin(const struct server *s, const struct arena_view *v)
{
    struct record_tables *tables = must_calloc(1, sizeof *tables);
    tables->room = v->size / ARENA_RECORD_ALIGN + 1;
    tables->bytes_left = v->size;
    const struct exact_settings *settings = exact_settings_in(s->settings);
    tables->first_column = first_column(settings);
    if (settings->flags & EXACT_TIMES)
        tables->ns_per_tick = ns_per_tick();
    tables->nodes = must_calloc(tables->room, sizeof *tables->nodes);
    if (settings->flags & EXACT_HEIGHTS)
        tables->outermost = must_calloc(tables->room, sizeof *tables->outermost);
    return tables;
}

void exact_tree_end(void *state)
{
    struct record_tables *tables = state;
    free(tables->nodes);
    free(tables->outermost);
    free(tables);
}

/* Where a record stands in the tables; of a place that is none, 0, where nothing ever is. */
static size_t number_of(const struct record_tables *tables, uint32_t place)
{
    size_t number = (size_t)place * 8 / ARENA_RECORD_ALIGN;
    return number < tables->room ? number : 0;
}

/* The height of a record's slot above that of the outermost one; 0: not known. */
static uint32_t height_of(struct record_tables *tables, const struct arena_record *r, size_t number)
{
    uint32_t outermost = tables->outermost[number_of(tables, r->parent)];
    tables->outermost[number] = outermost ? outermost : r->slot;
    return outermost && r->slot ? outermost - r->slot : 0;
}

static uint64_t *value_of(const struct grown_tree *g, const struct record_tables *tables,
                          uint32_t node, enum exact_column column)
{
    return grown_value(g, node, column - tables->first_column);
}

/* Several records of one context: of a function that was bound after its first call. */
static void add_height(struct grown_tree *g, const struct record_tables *tables, uint32_t node,
                       const struct arena_record *r, uint32_t height)
{
    bool was_there = *value_of(g, tables, node, COLUMN_CALLS);
    uint64_t *known = value_of(g, tables, node, COLUMN_HEIGHT);
    if ((r->flags & RECORD_VARIES) || (was_there && *known != height))
        *value_of(g, tables, node, COLUMN_HEIGHT_VARIES) = 1;
    *known = height;
}

/*
 * A record's own node is its function's entry; what it calls hangs below the node of the place from
 * where it calls, as the frames of a walked stack do.
 */
static void add_calls(struct grown_tree *g, struct record_tables *tables,
                      const struct arena_record *r, uint32_t place, uint64_t count, uint64_t ns)
{
    size_t number = number_of(tables, place);
    uint32_t above = tables->nodes[number_of(tables, r->parent)];
    above = above > tables->first ? above - tables->first - 1 : 0; /* of another thread: no word */
    uint32_t caller = r->site ? grown_child(g, above, r->site) : above;
    uint32_t node = r->callee ? grown_child(g, caller, r->callee) : caller;
    bool is_gap = r->callee && (KEY_FLAGS(r->callee) & KEY_GAP);
    tables->nodes[number] = tables->first + (is_gap ? node : caller) + 1;
    g->sums[SUM_CALLS] += count;
    g->sums[SUM_RECORDS]++;
    uint32_t height = tables->outermost ? height_of(tables, r, number) : 0;
    if (tables->first_column == COLUMN_TIME)
        *value_of(g, tables, node, COLUMN_TIME) += ns;
    if (!r->callee)
        return;
    if (tables->outermost)
        add_height(g, tables, node, r, height);
    *value_of(g, tables, node, COLUMN_CALLS) += count;
}

static uint64_t calls_of(const struct arena_view *v, const struct arena_record *r, uint64_t offset)
{
    if (!v->before.bytes || offset + sizeof *r > v->before.size)
        return r->count;
    const struct arena_record *then = (const void *)(v->before.bytes + offset);
    return r->count > then->count ? r->count - then->count : 0;
}

/* The time of a record; where its bytes are damaged, there is none. */
static uint64_t time_of(const struct record_tables *tables, const struct arena_view *v,
                        uint64_t offset)
{
    static const double MOST_NS = 1e18;
    const uint64_t at = offset + sizeof(struct arena_record);
    const uint64_t *now =
        tables->first_column == COLUMN_TIME ? view_at(v, (uint32_t)(at / 8), sizeof *now) : NULL;
    uint64_t ticks = now ? *now : 0;
    if (now && v->before.bytes && at + sizeof *now <= v->before.size) {
        const uint64_t *then = (const void *)(v->before.bytes + at);
        ticks = ticks > *then ? ticks - *then : 0;
    }
    double ns = (double)ticks * tables->ns_per_tick;
    return ns < MOST_NS ? (uint64_t)ns : 0;
}

/* What the calls of bursts stand for: all calls of the thread. */
static uint64_t all_calls(const struct exact_counts *counts, uint64_t calls)
{
    if (!counts->calls_in_bursts)
        return calls;
    double scale = 1 + (double)counts->calls_between / (double)counts->calls_in_bursts;
    double scaled = (double)calls * scale;
    return scaled < 0x1p62 ? (uint64_t)(scaled + 0.5) : calls;
}

static void add_sums(struct grown_tree *g, const struct exact_counts *counts)
{
    for (unsigned i = 0; i < SLOW_REASONS; i++)
        g->sums[SUM_FIRST_SLOW + i] += counts->slow[i];
    g->sums[SUM_BURSTS] += counts->bursts;
    g->sums[SUM_CALLS_IN_BURSTS] += counts->calls_in_bursts;
    g->sums[SUM_CALLS_BETWEEN] += counts->calls_between;
    g->sums[SUM_CALLS_NOT_TIMED] += counts->calls_not_timed;
}

/* Where the records of a chunk lie: offsets. */
struct record_span {
    uint64_t start, end;
};

struct record_spans {
    VEC(struct record_span) items; /* newest first */
};

/*
 * Returns how many bytes they have. Chunks that have more than the arena are made up, whether they
 * are too long or a list of them leads back: they would take time and memory without end.
 */
static uint64_t list_spans(struct record_tables *tables, const struct arena_view *v, uint32_t first,
                           struct record_spans *out)
{
    uint64_t sum = 0;
    const struct arena_record_chunk *k;
    VIEW_EACH(v, first, k) {
        uint32_t used = k->used, room = k->room;
        uint64_t bytes = used < room ? used : room;
        if (sizeof *k + bytes > tables->bytes_left)
            break;
        tables->bytes_left -= sizeof *k + bytes;
        uint64_t start = ((uint64_t)((const char *)k - v->bytes) + k->start) & ~UINT64_C(7);
        vec_push(&out->items, (struct record_span){start, start + bytes});
        sum += bytes;
    }
    return sum;
}

/* Records whose parents come before them. */
void exact_tree_grow(void *state, const struct arena_view *v, const struct arena_thread *t,
                     struct grown_tree *g)
{
    struct record_tables *tables = state;
    const struct exact_counts *counts = exact_counts_in(t);
    struct record_spans spans = {0};
    add_sums(g, counts);
    if (counts->first_record_chunk)
        grown_root(g);
    uint64_t bytes = list_spans(tables, v, counts->first_record_chunk, &spans);
    /* At most two for each record: the place that it was called from, and its function. Of records
     * there are no more than fit, nor than the process has made. */
    uint64_t most = bytes / arena_record_bytes(0);
    uint64_t made = exact_process_in(view_header(v))->records;
    grown_reserve(g, g->items.count + 2 * (made < most ? made : most));
    const uint32_t more_places = tables->first_column == COLUMN_TIME ? RECORD_TIME_PLACES : 0;
    for (size_t i = spans.items.count; i-- > 0;) {
        const struct record_span *span = &spans.items.items[i];
        const struct arena_record *r;
        for (uint64_t next = span->start;
             next < span->end && (r = view_at(v, (uint32_t)(next / 8), sizeof *r));
             next +=
             r->is_made ? arena_record_bytes(r->site_count + more_places) : ARENA_RECORD_ALIGN)
            if (r->is_made) /* or its bytes were taken, and it was never made */
                add_calls(g, tables, r, (uint32_t)(next / 8),
                          all_calls(counts, calls_of(v, r, next)), time_of(tables, v, next));
        grown_progress(g, span->end - span->start);
    }
    vec_free(&spans.items);
    tables->first += (uint32_t)g->items.count;
}
