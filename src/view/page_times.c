#include "view/page_times.h"

static int compare(const void *a, const void *b)
{
    const struct page_time *x = a, *y = b;
    if (x->at != y->at)
        return x->at < y->at ? -1 : 1;
    return (x->node > y->node) - (x->node < y->node);
}

/* Puts the entries behind `first` in order, and equal ones together. */
static void settle(struct page_times *t, size_t first)
{
    struct page_time *items = t->items.items;
    size_t kept = first;
    qsort(items + first, t->items.count - first, sizeof *items, compare);
    for (size_t i = first; i < t->items.count; i++) {
        if (kept > first && compare(&items[kept - 1], &items[i]) == 0)
            items[kept - 1].samples += items[i].samples;
        else
            items[kept++] = items[i];
    }
    t->items.count = kept;
}

/* Runs of one metric and value follow each other: they are one group. False: the width is too
 * fine. */
static bool take(const struct profile *p, const uint32_t *targets, uint32_t most,
                 struct page_times *t)
{
    size_t first = 0;
    t->items.count = t->groups.count = 0;
    for (uint32_t r = 0; r < profile_time_run_count(p); r++) {
        const struct ctp_time_run *run = profile_time_run(p, r);
        const struct ctp_time *times = profile_times(p) + run->first;
        uint64_t last_us = profile_time_us(run, times + run->count - 1);
        if (last_us / t->width_us > UINT32_MAX)
            return false;
        for (uint32_t i = 0; i < run->count; i++)
            vec_push(&t->items, (struct page_time){
                                    targets[times[i].node],
                                    (uint32_t)(profile_time_us(run, &times[i]) / t->width_us), 1});
        const struct ctp_time_run *next = profile_time_run(p, r + 1);
        if (r + 1 < profile_time_run_count(p) && next->metric == run->metric &&
            next->value == run->value)
            continue;
        settle(t, first);
        if (t->items.count > most)
            return false;
        vec_push(&t->groups, (struct page_time_group){.metric = run->metric,
                                                      .count = (uint32_t)(t->items.count - first),
                                                      .value = run->value});
        first = t->items.count;
    }
    return true;
}

void page_times_find(const struct profile *p, const uint32_t *targets, uint32_t most,
                     struct page_times *out)
{
    enum { FINE = 1000, STEP = 10 };
    *out = (struct page_times){.width_us = 1};
    while (!take(p, targets, most, out) && out->width_us < UINT64_C(1000000000000))
        out->width_us *= out->width_us == 1 ? FINE : STEP;
}

void page_times_free(struct page_times *t)
{
    vec_free(&t->groups);
    vec_free(&t->items);
}

void page_times_write(struct json *j, const struct page_times *t)
{
    json_open(j, "times", '{');
    json_unsigned(j, "width", t->width_us);
    json_open(j, "groups", '[');
    for (size_t i = 0; i < t->groups.count; i++) {
        json_open(j, NULL, '[');
        json_unsigned(j, NULL, t->groups.items[i].metric);
        json_unsigned(j, NULL, t->groups.items[i].value);
        json_unsigned(j, NULL, t->groups.items[i].count);
        json_close(j, ']');
    }
    json_close(j, ']');
    json_close(j, '}');
}
