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

const struct ctp_process *first_process_at_end(const struct profile *profile)
{
    uint32_t count = profile_process_count(profile);
    const struct ctp_process *process = count ? profile_process(profile, 0) : NULL;
    for (uint32_t i = 1; i < count; i++)
        if (profile_process(profile, i)->pid == process->pid)
            process = profile_process(profile, i);
    return process;
}

double first_process_life(const struct profile *profile)
{
    const struct ctp_process *last = first_process_at_end(profile);
    uint64_t start_ns = last ? profile_process(profile, 0)->start_ns : 0;
    return start_ns && last->end_ns > start_ns ? (double)(last->end_ns - start_ns) / 1e9 : 0;
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
