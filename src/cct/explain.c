#include "cct/explain.h"

void explanation_free(struct explanation *e)
{
    vec_free(&e->chains);
    vec_free(&e->callers);
}

/* Callers that every chain begins with. */
struct wrappers {
    VEC(uint32_t) labels; /* the direct one first */
    uint64_t value;       /* of the chain of them */
};

static int heavier(const void *a, const void *b)
{
    const struct caller_group *x = a, *y = b;
    if (x->value != y->value)
        return x->value < y->value ? 1 : -1;
    return (x->label > y->label) - (x->label < y->label);
}

static bool has_share(uint64_t value, uint64_t whole, double percent)
{
    return (double)value * 100 >= (double)whole * percent;
}

/* The heaviest of the groups of the last split that has a caller; its value is 0 if there is none.
 */
static struct caller_group heaviest(const struct callers *callers)
{
    struct caller_group best = {0};
    for (size_t i = 0; i < callers->groups.count; i++) {
        const struct caller_group *group = &callers->groups.items[i];
        if (group->label != CALLERS_NONE && (best.value == 0 || heavier(group, &best) < 0))
            best = *group;
    }
    return best;
}

/* Adds the chain that goes on behind the wrappers with `caller` and keeps `percent` of `whole`. */
static void add_chain(struct callers *callers, const struct wrappers *wrappers,
                      struct caller_group caller, uint64_t whole,
                      const struct explain_options *options, struct explanation *out)
{
    struct explained_chain chain = {.first = (uint32_t)out->callers.count,
                                    .callers = (uint32_t)wrappers->labels.count,
                                    .reach = (uint32_t)wrappers->labels.count,
                                    .value = wrappers->value};
    for (size_t i = 0; i < wrappers->labels.count; i++)
        vec_push(&out->callers, wrappers->labels.items[i]);
    bool first = true; /* a caller is named, even if it takes nothing away from the wrappers */
    while (chain.reach < options->k && caller.value &&
           has_share(caller.value, whole, options->percent)) {
        vec_push(&out->callers, caller.label);
        chain.reach++;
        if (first || caller.value != chain.value)
            chain.callers = chain.reach;
        first = false;
        chain.value = caller.value;
        if (chain.reach == options->k)
            break;
        callers_split(callers, caller);
        caller = heaviest(callers);
    }
    out->explained += chain.value;
    vec_push(&out->chains, chain);
}

static void add_several(struct callers *callers, const struct wrappers *wrappers,
                        const struct explain_options *options, struct explanation *out)
{
    VEC(struct caller_group) direct = {0};
    for (size_t i = 0; i < callers->groups.count; i++)
        if (callers->groups.items[i].label != CALLERS_NONE)
            vec_push(&direct, callers->groups.items[i]);
    if (direct.count)
        qsort(direct.items, direct.count, sizeof *direct.items, heavier);
    uint64_t seen = 0;
    for (size_t i = 0; i < direct.count && i < options->chains_max; i++) {
        seen += direct.items[i].value;
        add_chain(callers, wrappers, direct.items[i], direct.items[i].value, options, out);
        if (has_share(seen, out->value, options->percent))
            break;
    }
    out->spread = !has_share(seen, out->value, options->percent);
    vec_free(&direct);
}

void explain(struct callers *callers, struct caller_group function,
             const struct explain_options *options, struct explanation *out)
{
    *out = (struct explanation){.label = function.label, .value = function.value};
    if (options->k == 0)
        return;
    struct wrappers wrappers = {0};
    callers_split(callers, function);
    struct caller_group best = heaviest(callers);
    while (options->wraps && best.value && options->wraps[best.label] &&
           wrappers.labels.count + 1 < options->k &&
           has_share(best.value, function.value, options->percent)) {
        vec_push(&wrappers.labels, best.label);
        wrappers.value = best.value;
        callers_split(callers, best);
        best = heaviest(callers);
    }
    for (size_t i = 0; i < callers->groups.count; i++)
        out->caller_count += callers->groups.items[i].label != CALLERS_NONE;
    out->one_chain = best.value && has_share(best.value, function.value, options->percent);
    if (best.value == 0 && wrappers.labels.count) {
        /* The last wrapper has no caller: they are the chain. */
        out->one_chain = true;
        out->caller_count = 1;
        add_chain(callers, &wrappers, (struct caller_group){0}, function.value, options, out);
    } else if (out->one_chain) {
        add_chain(callers, &wrappers, best, function.value, options, out);
    } else {
        add_several(callers, &wrappers, options, out);
    }
    vec_free(&wrappers.labels);
}
