#include "cct/inverse_sizes.h"

#include "cct/callers.h"

#include <string.h>

/* More than one node whose paths end alike. */
struct path_class {
    struct caller_group group;
    uint32_t run; /* how many classes above it are the same: one caller, with the same values */
};

struct sizing {
    const struct contexts *in;
    uint32_t metric;
    uint32_t *depths;
    struct callers callers;
    VEC(struct path_class) classes; /* of this level */
    VEC(struct path_class) next;
    VEC(uint64_t) values;    /* of chains that are complete, or their class's only one; not 0 */
    struct inverse_size *by; /* by level. Until the end: how many more nodes this level has than the
                              * one before it, and how many nodes are not pruned from here on */
};

static uint64_t value_of(const struct sizing *s, uint32_t item)
{
    return s->in->values[(size_t)callers_node(&s->callers, item) * s->in->metric_count + s->metric];
}

static bool has_values(const struct sizing *s, uint32_t item)
{
    const uint64_t *values =
        s->in->values + (size_t)callers_node(&s->callers, item) * s->in->metric_count;
    for (uint32_t m = 0; m < s->in->metric_count; m++)
        if (values[m])
            return true;
    return false;
}

static void complete_chain(struct sizing *s, uint32_t item)
{
    uint64_t value = value_of(s, item);
    if (value)
        vec_push(&s->values, value);
}

static void add_class(struct sizing *s, struct caller_group group, uint32_t level, uint32_t run)
{
    s->by[level].nodes++;
    if (group.end - group.first > 1) {
        s->by[level + 1].nodes--;
        vec_push(&s->next, (struct path_class){group, run});
        return;
    }
    /* One node only, from here to the outermost of its callers. */
    s->by[s->depths[callers_node(&s->callers, group.first)] + 1].nodes--;
    complete_chain(s, group.first);
}

/*
 * The callers of a class, which are in the inverse from k = level + 1 on. Where there are several,
 * or not all is theirs, the class and all that are the same above it are no chain for pruning any
 * more: what is below each of them stays.
 */
static void split_class(struct sizing *s, struct path_class paths, uint32_t level)
{
    uint32_t children = 0;
    bool keeps_values = false;
    callers_split(&s->callers, paths.group);
    size_t count = s->callers.groups.count;
    for (size_t i = 0; i < count; i++) {
        const struct caller_group *group = &s->callers.groups.items[i];
        if (group->label != CALLERS_NONE) {
            children++;
            continue;
        }
        /* A node without callers; there is one at most. */
        keeps_values = has_values(s, group->first);
        complete_chain(s, group->first);
    }
    bool chain = children == 1 && !keeps_values;
    if (!chain)
        s->by[level + 1].pruned += children + paths.run;
    for (size_t i = 0; i < count; i++)
        if (s->callers.groups.items[i].label != CALLERS_NONE)
            add_class(s, s->callers.groups.items[i], level + 1, chain ? paths.run + 1 : 0);
}

/* How many chains of this level have a value; and who wants them gets those. */
static uint64_t see_level(struct sizing *s, uint32_t level, inverse_values_fn *see, void *user)
{
    uint64_t chains = s->values.count;
    VEC(uint64_t) all = {0};
    if (see) {
        vec_reserve(&all, s->values.count + s->classes.count + 1);
        if (s->values.count)
            memcpy(all.items, s->values.items, s->values.count * sizeof *all.items);
        all.count = s->values.count;
    }
    for (size_t c = 0; c < s->classes.count; c++) {
        uint64_t sum = 0;
        for (uint32_t i = s->classes.items[c].group.first; i < s->classes.items[c].group.end; i++)
            sum += value_of(s, i);
        chains += sum != 0;
        if (see && sum)
            vec_push(&all, sum);
    }
    if (see)
        see(user, level, all.items, all.count);
    vec_free(&all);
    return chains;
}

/* Returns how many levels the forest has. */
static uint32_t begin(struct sizing *s)
{
    static const uint64_t one = 1; /* nodes without a value are nodes of an inverse, too */
    const struct contexts *in = s->in;
    uint32_t levels = 0;
    s->depths = must_calloc((size_t)in->count + 1, sizeof *s->depths);
    for (uint32_t i = 0; i < in->count; i++) {
        uint32_t parent = in->nodes[i].parent;
        s->depths[i] = parent == CONTEXTS_NONE ? 0 : s->depths[parent] + 1;
        if (s->depths[i] >= levels)
            levels = s->depths[i] + 1;
    }
    callers_begin(&s->callers, &(struct callers_source){
                                   .parents = in->count ? &in->nodes->parent : NULL,
                                   .labels = in->count ? &in->nodes->label : NULL,
                                   .values = &one,
                                   .node_step = sizeof *in->nodes,
                                   .value_step = 0,
                                   .count = in->count,
                               });
    s->by = must_calloc((size_t)levels + 2, sizeof *s->by);
    return levels;
}

void inverse_sizes(const struct contexts *in, uint32_t metric, const uint32_t *ks, size_t k_count,
                   inverse_values_fn *see_values, void *user, struct inverse_sizes *out)
{
    struct sizing s = {.in = in, .metric = metric};
    uint32_t levels = begin(&s);
    size_t next_k = 0;
    for (size_t i = 0; i < s.callers.functions.count; i++)
        add_class(&s, s.callers.functions.items[i], 0, 0);
    s.by[0].pruned = s.callers.functions.count;
    for (uint32_t level = 0; level < levels; level++) {
        s.classes.count = 0;
        for (size_t i = 0; i < s.next.count; i++)
            vec_push(&s.classes, s.next.items[i]);
        s.next.count = 0;
        bool seen = see_values && next_k < k_count && ks[next_k] == level;
        s.by[level].chains = see_level(&s, level, seen ? see_values : NULL, user);
        next_k += seen;
        for (size_t i = 0; i < s.classes.count; i++)
            split_class(&s, s.classes.items[i], level);
    }
    if (see_values)
        for (; next_k < k_count; next_k++)
            see_level(&s, ks[next_k], see_values, user);
    uint64_t of_level = 0;
    for (uint32_t k = 0; k < levels; k++) {
        of_level += s.by[k].nodes;
        s.by[k].nodes = of_level + (k ? s.by[k - 1].nodes : 0);
        s.by[k].pruned += k ? s.by[k - 1].pruned : 0;
    }
    *out = (struct inverse_sizes){.by_k = s.by, .levels = levels};
    vec_free(&s.classes);
    vec_free(&s.next);
    vec_free(&s.values);
    free(s.depths);
    callers_end(&s.callers);
}

void inverse_sizes_free(struct inverse_sizes *sizes)
{
    free(sizes->by_k);
    *sizes = (struct inverse_sizes){0};
}
