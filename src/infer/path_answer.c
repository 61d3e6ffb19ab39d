#include "infer/path_answer.h"

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

void path_answer_begin(struct path_answer *a, const struct path_map *map)
{
    *a = (struct path_answer){0};
    a->has_missed = must_calloc((size_t)profile_function_count(&map->profile) + 1, sizeof(bool));
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
    a->asked++;
    bool is_missed = !a->candidates.count || a->is_searched;
    a->missed += is_missed;
    if (is_missed && q->function != CTP_NONE)
        a->has_missed[q->function] = true;
    bool is_sure = has_whole && !is_missed && !a->has_missed[q->function] && !a->is_unfit;
    a->quality = a->candidates.count == 0                 ? PATH_MISSING
                 : a->candidates.count != 1 || has_others ? PATH_AMBIGUOUS
                 : is_sure                                ? PATH_PRECISE
                                                          : PATH_LIKELY;
}

void path_answer_free(struct path_answer *a)
{
    vec_free(&a->candidates);
    free(a->has_missed);
    a->has_missed = NULL;
}
