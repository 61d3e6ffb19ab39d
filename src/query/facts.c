#include "query/facts.h"

static bool number_in(const struct ctp_fact *fact, double *out)
{
    if (!fact || fact->type == CTP_STRING)
        return false;
    *out = fact->type == CTP_F64   ? profile_fact_double(fact)
           : fact->type == CTP_I64 ? (double)(int64_t)fact->value
                                   : (double)fact->value;
    return true;
}

bool profile_number(const struct profile *profile, const char *key, double *out)
{
    return number_in(profile_find_fact(profile, CTP_SCOPE_PROFILE, 0, key), out);
}

bool metric_number(const struct view *view, const char *key, double *out)
{
    return number_in(profile_find_fact(view->profile, CTP_SCOPE_METRIC, view->metric, key), out) ||
           profile_number(view->profile, key, out);
}

uint64_t cost_without_callers(const struct view *view)
{
    const struct tree *tree = &view->tree;
    uint64_t sum = 0;
    for (uint32_t i = 1, outside = 0; i < tree->count; i++) {
        if (i < outside || view->labels.items.items[tree->nodes[i].label].kind != LABEL_GAP)
            continue;
        outside = i + tree->sizes[i];
        sum += tree->totals[i];
    }
    return sum;
}
