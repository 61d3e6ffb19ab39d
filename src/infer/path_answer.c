#include "infer/path_answer.h"

struct share_key {
    uint64_t height_bytes;
    uint32_t function, outermost;
};

static bool is_whole(const struct path_map *map, const struct path_query *q,
                     const struct path_context *context)
{
    if (context->searched)
        return false;
    uint32_t node = profile_parent(&map->profile, context->node);
    if (!q->inner_count) /* the context is all there is */
        return true;
    for (uint32_t i = 0; i < q->inner_count && node != CTP_NONE; i++)
        node = path_map_child(map, node, q->inner[i]);
    if (node == CTP_NONE)
        return false;
    /* Code that no call leads to, as an entry of the procedure linkage table, is where it is
       called from. */
    return q->leaf == CTP_NONE ? q->inner_count != 0 : path_map_calls(map, node, q->leaf);
}

static void add_up(uint64_t *sum, uint64_t more)
{
    *sum = *sum + more < more ? UINT64_MAX : *sum + more;
}

void path_answer_begin(struct path_answer *a, const struct path_map *map)
{
    size_t functions = profile_function_count(&map->profile);
    *a = (struct path_answer){0};
    a->has_missed = must_calloc(functions + 1, sizeof(bool));
    a->weights = must_calloc(functions + 1, sizeof *a->weights);
    a->costs = must_calloc(functions + 1, sizeof *a->costs);
    key_set_init(&a->keys, sizeof(struct share_key));
    for (uint32_t i = 0; i < map->count; i++)
        add_up(&a->weights[map->contexts[i].function], map->contexts[i].weight);
}

static struct share_key key_of(const struct path_query *q)
{
    return (struct share_key){q->height_bytes, q->function, q->outermost};
}

static void take_cost(struct path_answer *a, const struct path_query *q)
{
    struct share_key key = key_of(q);
    uint32_t number = key_set_add(&a->keys, &key);
    if (number == a->shares.count)
        vec_push(&a->shares, 0);
    add_up(&a->shares.items[number], q->cost);
    add_up(&a->costs[q->function], q->cost);
}

/*
 * Was the identifier met in training about as often as now, among all of its function? Or at least
 * a thirtieth of that: weights may be calls, and costs time. Measured on five programs:
 * bench/notes-infer.md.
 */
static bool is_usual(const struct path_answer *a, const struct path_query *q,
                     const struct path_context *context)
{
    enum { MOST_TIMES = 30 };
    struct share_key key = key_of(q);
    uint32_t number;
    if (!a->is_settled || q->inner_count || !key_set_find(&a->keys, &key, &number))
        return true;
    double before = (double)context->weight / ((double)a->weights[q->function] + 1e-9);
    double now = (double)a->shares.items[number] / ((double)a->costs[q->function] + 1e-9);
    return before * MOST_TIMES >= now;
}

/*
 * Measured on seven programs, whose maps were trained with other work: of the answers that were one
 * path, 0 to 10% were wrong where more than 40% were missing, and at most 0.2% where at most 1%
 * were.
 */
enum { MOST_MISSED_PERCENT = 5 };

void path_answer_settle(struct path_answer *a)
{
    a->is_unfit = a->missed * 100 > a->asked * MOST_MISSED_PERCENT;
    a->asked = a->missed = 0;
    a->is_settled = true;
}

void path_answer_find(const struct path_map *map, const struct path_query *q, struct path_answer *a)
{
    const struct path_context *first;
    uint32_t count = path_map_find(map, q->function, q->height_bytes, &first);
    bool has_whole = false;
    a->candidates.count = 0;
    a->is_searched = false;
    bool has_others = false;
    for (uint32_t i = 0; i < count; i++) {
        if (map->outermost[first[i].node] != q->outermost)
            continue;
        if (first[i].searched && a->candidates.count && !a->is_searched)
            break;
        a->is_searched = first[i].searched != PATH_BY_TRAINING;
        has_others |= first[i].searched == PATH_SOME_FOUND;
        bool whole = is_whole(map, q, &first[i]);
        if (whole && !has_whole)
            a->candidates.count = 0;
        has_whole |= whole;
        if (whole || !has_whole)
            vec_push(&a->candidates, &first[i]);
    }
    if (!a->is_settled && !q->inner_count && q->function != CTP_NONE)
        take_cost(a, q);
    a->asked++;
    bool is_missed = !a->candidates.count || a->is_searched;
    a->missed += is_missed;
    if (is_missed && q->function != CTP_NONE)
        a->has_missed[q->function] = true;
    bool is_sure = has_whole && !is_missed && !a->has_missed[q->function] && !a->is_unfit &&
                   is_usual(a, q, a->candidates.items[0]);
    a->quality = a->candidates.count == 0                 ? PATH_MISSING
                 : a->candidates.count != 1 || has_others ? PATH_AMBIGUOUS
                 : is_sure                                ? PATH_PRECISE
                                                          : PATH_LIKELY;
}

void path_answer_free(struct path_answer *a)
{
    vec_free(&a->candidates);
    vec_free(&a->shares);
    key_set_free(&a->keys);
    free(a->has_missed);
    free(a->weights);
    free(a->costs);
    a->has_missed = NULL;
    a->weights = a->costs = NULL;
}
