#include "profile/time_blocks.h"

#include <stdlib.h>
#include <string.h>

void time_blocks_add(struct time_blocks *b, const struct ctp_time_run *run,
                     const struct ctp_time *items, size_t count)
{
    if (count >= CTP_NONE - b->items.count)
        b->has_too_many = true;
    if (!count || b->has_too_many)
        return;
    struct ctp_time_run block = *run;
    block.first = (uint32_t)b->items.count;
    block.count = (uint32_t)count;
    vec_push(&b->runs, block);
    for (size_t i = 0; i < count; i++)
        vec_push(&b->items, items[i]);
}

#define COMPARE(x, y)                                                                              \
    do {                                                                                           \
        if ((x) != (y))                                                                            \
            return (x) < (y) ? -1 : 1;                                                             \
    } while (0)

static int compare_keys(const struct ctp_time_run *x, const struct ctp_time_run *y)
{
    COMPARE(x->metric, y->metric);
    COMPARE(x->value, y->value);
    COMPARE(x->span, y->span);
    return 0;
}

static int compare_blocks(const void *a, const void *b)
{
    const struct ctp_time_run *x = a, *y = b;
    int order = compare_keys(x, y);
    if (order)
        return order;
    COMPARE(x->first, y->first);
    return 0;
}

static int compare_times(const void *a, const void *b)
{
    const struct ctp_time *x = a, *y = b;
    COMPARE(x->us, y->us);
    COMPARE(x->node, y->node);
    return 0;
}

/* Most blocks are in order already: a thread's samples come one after the other. */
static void sort_times(struct ctp_time *items, size_t count)
{
    bool is_sorted = true;
    for (size_t i = 1; i < count && is_sorted; i++)
        is_sorted = compare_times(&items[i - 1], &items[i]) <= 0;
    if (!is_sorted)
        qsort(items, count, sizeof *items, compare_times);
}

bool time_blocks_settle(struct time_blocks *b)
{
    if (b->has_too_many)
        return false;
    if (!b->runs.count)
        return true;
    struct ctp_time *items = must_realloc(NULL, b->items.count, sizeof *items);
    struct ctp_time_run *runs = b->runs.items;
    size_t kept = 0, at = 0;
    qsort(runs, b->runs.count, sizeof *runs, compare_blocks);
    for (size_t i = 0; i < b->runs.count; i++) {
        struct ctp_time_run block = runs[i];
        memcpy(&items[at], &b->items.items[block.first], block.count * sizeof *items);
        if (kept && compare_keys(&runs[kept - 1], &block) == 0) {
            runs[kept - 1].count += block.count;
        } else {
            block.first = (uint32_t)at;
            runs[kept++] = block;
        }
        at += block.count;
    }
    b->runs.count = kept;
    free(b->items.items);
    b->items.items = items;
    for (size_t i = 0; i < kept; i++)
        sort_times(&items[runs[i].first], runs[i].count);
    return true;
}

void time_blocks_free(struct time_blocks *b)
{
    vec_free(&b->runs);
    vec_free(&b->items);
}
