#include "edit/reach.h"

void reach_begin(struct reach *reach, uint32_t function, uint32_t offset)
{
    vec_push(&reach->runs, (struct reach_run){.start = offset, .function = function});
}

void reach_add(struct reach *reach, uint32_t end, bool is_last)
{
    struct reach_run *run = &reach->runs.items[reach->runs.count - 1];
    run->end = end;
    run->is_ended = is_last;
}

void reach_add_taken(struct reach *reach, uint32_t address)
{
    vec_push(&reach->taken, address);
}

void reach_add_branch(struct reach *reach, uint32_t from, uint64_t to)
{
    if (to <= UINT32_MAX)
        vec_push(&reach->branches, (struct reach_branch){from, (uint32_t)to});
}

static int compare_runs(const void *a, const void *b)
{
    const struct reach_run *x = a, *y = b;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return x->function < y->function ? -1 : x->function > y->function;
}

static int compare_branches(const void *a, const void *b)
{
    const struct reach_branch *x = a, *y = b;
    return x->from < y->from ? -1 : x->from > y->from;
}

/* Functions come in order, and overlap seldom. */
static bool is_sorted(const void *items, size_t count, size_t bytes,
                      int (*compare)(const void *, const void *))
{
    for (size_t i = 1; i < count; i++)
        if (compare((const char *)items + (i - 1) * bytes, (const char *)items + i * bytes) > 0)
            return false;
    return true;
}

/* Modules have millions of runs, and are asked for one at each branch: the index is half of what
 * looking for it by halves takes. */
enum { INDEX_SHIFT = 7 };

static void make_index(struct reach *reach)
{
    const struct reach_run *runs = reach->runs.items;
    size_t count = reach->runs.count;
    uint32_t branch = 0;
    reach->index.count = 0;
    for (uint32_t i = 0; i < count; i++) {
        while (branch < reach->branches.count && reach->branches.items[branch].from < runs[i].start)
            branch++;
        reach->runs.items[i].branch = branch;
        while (reach->index.count <= (runs[i].start - runs[0].start) >> INDEX_SHIFT)
            vec_push(&reach->index, i);
    }
}

/* The last run that begins at or before an offset, if it goes so far. */
static struct reach_run *find_run(const struct reach *reach, uint32_t offset)
{
    const struct reach_run *runs = reach->runs.items;
    if (!reach->runs.count || offset < runs[0].start)
        return NULL;
    size_t slot = (offset - runs[0].start) >> INDEX_SHIFT;
    size_t i = reach->index.items[slot < reach->index.count ? slot : reach->index.count - 1];
    while (i < reach->runs.count && runs[i].start <= offset)
        i++;
    struct reach_run *run = i ? &reach->runs.items[i - 1] : NULL;
    return run && offset < run->end ? run : NULL;
}

typedef VEC(uint32_t) offsets;

static void reach_function(struct reach *reach, const struct reach_run *run, offsets *to_do)
{
    const struct reach_run *begin = reach->runs.items, *end = begin + reach->runs.count;
    uint32_t function = run->function;
    while (run > begin && run[-1].function == function)
        run--;
    struct reach_run *first = &reach->runs.items[run - begin];
    if (first->is_whole) /* they are in to_do already */
        return;
    first->is_whole = true;
    for (; run < end && run->function == function; run++)
        if (run->from > run->start)
            vec_push(to_do, run->start);
}

/* What is behind `offset` in its run is reached; where that leads to is left to do. */
static void arrive(struct reach *reach, uint32_t offset, offsets *to_do)
{
    struct reach_run *run = find_run(reach, offset);
    if (!run || offset >= run->from)
        return;
    uint32_t end = run->from;
    run->from = offset;
    size_t i = run->branch;
    while (i < reach->branches.count && reach->branches.items[i].from < offset)
        i++;
    for (; i < reach->branches.count && reach->branches.items[i].from < end; i++) {
        if (reach->branches.items[i].to == REACH_ANYWHERE)
            reach_function(reach, run, to_do);
        else
            vec_push(to_do, reach->branches.items[i].to);
    }
}

static void arrive_from_outside(struct reach *reach, uint32_t offset, offsets *to_do)
{
    arrive(reach, offset, to_do);
    while (to_do->count)
        arrive(reach, to_do->items[--to_do->count], to_do);
}

void reach_follow(struct reach *reach, const struct targets *targets)
{
    offsets to_do = {0};
    if (!is_sorted(reach->runs.items, reach->runs.count, sizeof *reach->runs.items, compare_runs))
        qsort(reach->runs.items, reach->runs.count, sizeof *reach->runs.items, compare_runs);
    if (!is_sorted(reach->branches.items, reach->branches.count, sizeof *reach->branches.items,
                   compare_branches))
        qsort(reach->branches.items, reach->branches.count, sizeof *reach->branches.items,
              compare_branches);
    make_index(reach);
    for (size_t i = 0; i < reach->runs.count; i++)
        reach->runs.items[i].from = reach->runs.items[i].end;
    for (uint32_t at = targets->start; at < targets->end; at++)
        if (targets_is_entry(targets, at))
            arrive_from_outside(reach, at, &to_do);
    for (size_t i = 0; i < reach->taken.count; i++) {
        const struct reach_run *run = find_run(reach, reach->taken.items[i]);
        if (run && run->is_ended)
            arrive_from_outside(reach, reach->taken.items[i], &to_do);
    }
    vec_free(&to_do);
}

bool reach_has(const struct reach *reach, uint32_t offset)
{
    const struct reach_run *run = find_run(reach, offset);
    return run && offset >= run->from;
}

void reach_free(struct reach *reach)
{
    vec_free(&reach->runs);
    vec_free(&reach->branches);
    vec_free(&reach->taken);
    vec_free(&reach->index);
}
