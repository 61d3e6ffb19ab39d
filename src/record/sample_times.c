#include "record/sample_times.h"

#include "base/clock.h"

#include <x86intrin.h>

/* Of a whole profile: half a gigabyte. And of one tick: more were not sampled, but owed. */
enum { MOST_TIMES = 1 << 26, MOST_AT_ONCE = 1 << 16 };

void times_begin(struct times *t, struct profile_writer *writer, const struct server *s,
                 double ticks_per_ns)
{
    *t = (struct times){.writer = writer,
                        .metric = CTP_NONE,
                        .period_ns = s->period_ns,
                        .now_ns = now_ns(),
                        .now_stamp = __rdtsc(),
                        .ticks_per_ns = ticks_per_ns,
                        .left = MOST_TIMES};
    for (size_t i = 0; i < s->arenas.count; i++) {
        uint64_t start_ns = s->arenas.items[i].header->start_ns;
        t->start_ns = i == 0 || start_ns < t->start_ns ? start_ns : t->start_ns;
    }
}

/* The longer ago the arena began, the better it is known how fast its clock went. */
void times_begin_arena(struct times *t, const struct arena_view *v)
{
    enum { LEAST_NS = 1000000 };
    const struct arena_header *h = view_header(v);
    t->bytes_left = v->size;
    t->ns_per_stamp = 1 / t->ticks_per_ns;
    if (h->source == SOURCE_OUTSIDE)
        t->ns_per_stamp = 1;
    else if (t->now_ns > h->clock_ns + LEAST_NS && t->now_stamp > h->clock_stamp)
        t->ns_per_stamp =
            (double)(t->now_ns - h->clock_ns) / (double)(t->now_stamp - h->clock_stamp);
}

static void flush(struct times *t, uint32_t span)
{
    profile_add_times(
        t->writer, &(struct ctp_time_run){.metric = t->metric, .span = span, .value = t->period_ns},
        t->items.items, t->items.count);
    t->items.count = 0;
}

/* Since the start of the recording; false: that cannot be. */
static bool time_of(const struct times *t, const struct arena_header *h,
                    const struct arena_times *chunk, uint32_t at, uint64_t *us)
{
    static const double MOST_NS = 1e18;
    int64_t stamps = (int64_t)(chunk->stamp - h->clock_stamp);
    double ns = (double)h->clock_ns - (double)t->start_ns +
                ((double)stamps + (double)((uint64_t)at << TIME_SHIFT)) * t->ns_per_stamp;
    *us = ns > 0 && ns < MOST_NS ? (uint64_t)(ns / 1e3) : 0;
    return ns < MOST_NS;
}

static void add_chunk(struct times *t, const struct arena_view *v, const struct arena_times *chunk,
                      uint32_t *span, times_node_fn *number, const void *context)
{
    uint32_t count = chunk->count < TIME_CHUNK_ENTRIES ? chunk->count : TIME_CHUNK_ENTRIES;
    for (uint32_t i = 0; i < count; i++) {
        const struct arena_time *item = &chunk->items[i];
        uint64_t weight = 1, us;
        if (i + 1 < count && item[1].node == 0)
            weight += item[1].at;
        uint32_t node = item->node ? number(context, v, item->node) : CTP_NONE;
        if (!item->node)
            continue;
        if (node == CTP_NONE || weight > MOST_AT_ONCE || weight > t->left ||
            !time_of(t, view_header(v), chunk, item->at, &us)) {
            t->lost += weight;
            continue;
        }
        if (us >> 32 != *span)
            flush(t, *span);
        *span = (uint32_t)(us >> 32);
        t->left -= weight;
        for (uint64_t k = 0; k < weight; k++)
            vec_push(&t->items, (struct ctp_time){node, (uint32_t)us});
    }
}

void times_add_thread(struct times *t, const struct arena_view *v,
                      const struct arena_thread *thread, times_node_fn *number, const void *context)
{
    VEC(const struct arena_times *) chunks = {0};
    const struct arena_times *chunk;
    uint32_t span = 0;
    if (t->metric == CTP_NONE || !view_header(v)->clock_stamp)
        return;
    t->lost += thread->times_lost;
    VIEW_EACH(v, thread->first_times, chunk) {
        if (t->bytes_left < sizeof *chunk)
            break;
        t->bytes_left -= sizeof *chunk;
        vec_push(&chunks, chunk);
    }
    for (size_t i = chunks.count; i-- > 0;)
        add_chunk(t, v, chunks.items[i], &span, number, context);
    flush(t, span);
    vec_free(&chunks);
}

void times_end(struct times *t)
{
    if (t->lost)
        profile_fact_u64(t->writer, CTP_SCOPE_PROFILE, 0, "times_lost", t->lost);
    vec_free(&t->items);
}
