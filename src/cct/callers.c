#include "cct/callers.h"

#include <string.h>

static uint32_t parent_of(const struct callers_source *s, uint32_t node)
{
    return *(const uint32_t *)(const void *)((const char *)s->parents + node * s->node_step);
}

static uint32_t label_of(const struct callers_source *s, uint32_t node)
{
    return *(const uint32_t *)(const void *)((const char *)s->labels + node * s->node_step);
}

static uint64_t value_of(const struct callers_source *s, uint32_t node)
{
    return *(const uint64_t *)(const void *)((const char *)s->values + node * s->value_step);
}

/* The group of a label in `groups`, made if it is new. */
static struct caller_group *group_with(struct callers *c, uint32_t label)
{
    uint32_t *known = &c->group_of[label == CALLERS_NONE ? c->label_count : label];
    if (!*known) {
        vec_push(&c->groups, (struct caller_group){.label = label});
        *known = (uint32_t)c->groups.count;
    }
    return &c->groups.items[*known - 1];
}

/* Puts items[first, end) in the order of their groups, by the label of `at`. */
static void regroup(struct callers *c, uint32_t first, uint32_t end)
{
    c->groups.count = 0;
    for (uint32_t i = first; i < end; i++) {
        uint32_t at = c->items[i].at;
        struct caller_group *group =
            group_with(c, at == CALLERS_NONE ? CALLERS_NONE : label_of(&c->source, at));
        group->end++;
        group->value += value_of(&c->source, c->items[i].node);
    }
    for (uint32_t next = first, g = 0; g < c->groups.count; g++) {
        struct caller_group *group = &c->groups.items[g];
        uint32_t size = group->end;
        group->first = group->end = next;
        next += size;
    }
    for (uint32_t i = first; i < end; i++) {
        uint32_t at = c->items[i].at;
        uint32_t label = at == CALLERS_NONE ? CALLERS_NONE : label_of(&c->source, at);
        c->spare[group_with(c, label)->end++] = c->items[i];
    }
    memcpy(c->items + first, c->spare + first, (size_t)(end - first) * sizeof *c->items);
    for (uint32_t g = 0; g < c->groups.count; g++) {
        uint32_t label = c->groups.items[g].label;
        c->group_of[label == CALLERS_NONE ? c->label_count : label] = 0;
    }
}

static int by_label(const void *a, const void *b)
{
    const struct caller_group *x = a, *y = b;
    return (x->label > y->label) - (x->label < y->label);
}

void callers_begin(struct callers *c, const struct callers_source *source)
{
    *c = (struct callers){.source = *source};
    uint32_t items = 0;
    for (uint32_t i = 0; i < source->count; i++) {
        uint32_t label = label_of(source, i);
        if (label == CALLERS_NONE)
            continue;
        items += value_of(source, i) != 0;
        if (label >= c->label_count)
            c->label_count = label + 1;
    }
    c->items = must_calloc((size_t)items + 1, sizeof *c->items);
    c->spare = must_calloc((size_t)items + 1, sizeof *c->spare);
    c->group_of = must_calloc((size_t)c->label_count + 1, sizeof *c->group_of);
    items = 0;
    for (uint32_t i = 0; i < source->count; i++)
        if (value_of(source, i) != 0 && label_of(source, i) != CALLERS_NONE)
            c->items[items++] = (struct caller_item){i, i};
    regroup(c, 0, items);
    for (size_t g = 0; g < c->groups.count; g++)
        vec_push(&c->functions, c->groups.items[g]);
    if (c->functions.count)
        qsort(c->functions.items, c->functions.count, sizeof *c->functions.items, by_label);
}

void callers_end(struct callers *c)
{
    free(c->items);
    free(c->spare);
    free(c->group_of);
    vec_free(&c->functions);
    vec_free(&c->groups);
}

void callers_split(struct callers *c, struct caller_group group)
{
    for (uint32_t i = group.first; i < group.end; i++) {
        struct caller_item *item = &c->items[i];
        if (item->at == CALLERS_NONE)
            continue;
        uint32_t label = label_of(&c->source, item->at);
        do
            item->at = parent_of(&c->source, item->at);
        while (c->source.fold_recursion && item->at != CALLERS_NONE &&
               label_of(&c->source, item->at) == label);
        if (item->at != CALLERS_NONE && label_of(&c->source, item->at) == CALLERS_NONE)
            item->at = CALLERS_NONE;
    }
    regroup(c, group.first, group.end);
}
