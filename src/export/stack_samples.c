#include "export/stack_samples.h"

#include "base/search.h"
#include "profile/time_range.h"

/* Behind all times. */
static const uint64_t NO_TIME = UINT64_MAX;

#define COMPARE(x, y)                                                                              \
    do {                                                                                           \
        if ((x) != (y))                                                                            \
            return (x) < (y) ? -1 : 1;                                                             \
    } while (0)

static int compare(const void *a, const void *b)
{
    const struct stack_sample *x = a, *y = b;
    COMPARE(x->thread, y->thread);
    COMPARE(x->start_ns, y->start_ns);
    COMPARE(x->node, y->node);
    COMPARE(x->value, y->value);
    return 0;
}

/* The thread that each node of the tree is below. */
static uint32_t *threads_of(const struct stacks *s)
{
    uint32_t *threads = must_calloc(s->tree.count, sizeof *threads);
    for (uint32_t t = TREE_NONE; (t = stack_thread(s, t)) != TREE_NONE;)
        for (uint32_t i = t; i < t + s->tree.sizes[t]; i++)
            threads[i] = t;
    return threads;
}

/* From when a sample came to when what it stands for began. */
static void lay_out(struct stack_samples *out)
{
    uint64_t end_ns = 0;
    for (size_t i = 0; i < out->items.count; i++) {
        struct stack_sample *sample = &out->items.items[i];
        if (i == 0 || sample[-1].thread != sample->thread)
            end_ns = 0;
        uint64_t at_ns = sample->start_ns == NO_TIME ? 0 : sample->start_ns;
        uint64_t start_ns = at_ns > sample->value ? at_ns - sample->value : 0;
        sample->start_ns = start_ns > end_ns ? start_ns : end_ns;
        end_ns = sample->start_ns + sample->value;
    }
}

bool stack_samples_find(const struct stacks *s, struct stack_samples *out)
{
    const struct profile *p = s->profile;
    uint32_t metric = s->metrics[0];
    *out = (struct stack_samples){0};
    if (!s->places || !profile_metric_has_times(p, metric))
        return false;
    uint32_t *threads = threads_of(s);
    uint64_t *rest = must_calloc(s->tree.count, sizeof *rest);
    for (uint32_t i = 0; i < s->tree.count; i++)
        rest[i] = s->values[0][i];
    for (uint32_t r = 0; r < profile_time_run_count(p); r++) {
        const struct ctp_time_run *run = profile_time_run(p, r);
        for (uint32_t k = 0; run->metric == metric && k < run->count; k++) {
            const struct ctp_time *t = profile_times(p) + run->first + k;
            uint32_t node = s->places[t->node];
            if (rest[node] < run->value)
                continue;
            rest[node] -= run->value;
            vec_push(&out->items,
                     (struct stack_sample){threads[node], node, profile_time_us(run, t) * 1000,
                                           run->value});
        }
    }
    for (uint32_t i = 0; i < s->tree.count; i++)
        if (rest[i])
            vec_push(&out->items, (struct stack_sample){threads[i], i, NO_TIME, rest[i]});
    if (out->items.count)
        qsort(out->items.items, out->items.count, sizeof *out->items.items, compare);
    lay_out(out);
    free(rest);
    free(threads);
    return true;
}

void stack_samples_free(struct stack_samples *samples)
{
    vec_free(&samples->items);
}

struct profile_range stack_samples_of(const struct stack_samples *samples, uint32_t thread)
{
    uint32_t first, end, count = (uint32_t)samples->items.count;
    SEARCH(first, count, samples->items.items[first].thread < thread);
    SEARCH(end, count, samples->items.items[end].thread <= thread);
    return (struct profile_range){first, end};
}
