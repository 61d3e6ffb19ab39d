#include "profile/time_range.h"

#include "base/search.h"
#include "base/vec.h"

#include <math.h>
#include <string.h>

/* What stands in the place of the file's own tables. */
struct restricted {
    struct time_range range;
    VEC(struct ctp_metric) metrics;
    VEC(struct ctp_fact) facts;
    VEC(struct ctp_time_run) runs;
    VEC(uint64_t) totals;  /* of the whole recording, by metric, and */
    VEC(uint64_t) untimed; /* what of it has no time */
};

bool time_range_parse(const char *text, uint64_t *us)
{
    char *end;
    double seconds = strtod(text, &end);
    if (end == text || *end || !(seconds >= 0) || seconds > 1e9)
        return false;
    *us = (uint64_t)llround(seconds * 1e6);
    return true;
}

uint64_t profile_run_us(const struct profile *p, const struct ctp_time_run *run, bool last)
{
    uint64_t at = (uint64_t)run->first + (last && run->count ? run->count - 1 : 0);
    return at < p->tables[CTP_TIMES].count ? profile_time_us(run, profile_times(p) + at) : 0;
}

bool profile_time_span(const struct profile *p, uint64_t *first_us, uint64_t *last_us)
{
    bool any = false;
    for (uint32_t i = 0; i < profile_time_run_count(p); i++) {
        const struct ctp_time_run *run = profile_time_run(p, i);
        uint64_t first = profile_run_us(p, run, false), last = profile_run_us(p, run, true);
        *first_us = any && *first_us < first ? *first_us : first;
        *last_us = any && *last_us > last ? *last_us : last;
        any = true;
    }
    return any;
}

bool profile_metric_has_times(const struct profile *p, uint32_t metric)
{
    for (uint32_t i = 0; i < profile_time_run_count(p); i++)
        if (profile_time_run(p, i)->metric == metric)
            return true;
    return false;
}

/* The first entry of a run that is not before a time. */
static uint32_t first_from(const struct profile *p, const struct ctp_time_run *run, uint64_t us)
{
    uint32_t i;
    SEARCH(i, run->count, profile_time_us(run, profile_times(p) + run->first + i) < us);
    return i;
}

/* Adds the part of a metric's runs that is in the range to `values`, by node. Returns what all of
 * its times stand for. */
static uint64_t take_runs(const struct profile *p, struct restricted *r, uint32_t metric,
                          uint32_t new_metric, uint64_t *values)
{
    uint64_t timed = 0;
    for (uint32_t i = 0; i < profile_time_run_count(p); i++) {
        struct ctp_time_run run = *profile_time_run(p, i);
        if (run.metric != metric)
            continue;
        timed += run.value * run.count;
        uint32_t first = r->range.has_from ? first_from(p, &run, r->range.from_us) : 0;
        uint32_t end = r->range.has_to ? first_from(p, &run, r->range.to_us) : run.count;
        run.metric = new_metric;
        run.first += first;
        run.count = end - first;
        for (uint32_t k = 0; k < run.count; k++)
            values[profile_times(p)[run.first + k].node] += run.value;
        if (run.count)
            vec_push(&r->runs, run);
    }
    return timed;
}

/* Counts and seconds of the whole recording, which say nothing of a part of it. */
static bool is_of_whole(const struct profile *p, const struct ctp_fact *fact)
{
    const char *key = profile_string(p, fact->key);
    size_t length = strlen(key);
    if (strcmp(key, "callers_kept") == 0) /* it says what contexts are */
        return false;
    return fact->type == CTP_U64 ||
           (fact->type == CTP_F64 && length > 2 && strcmp(key + length - 2, "_s") == 0);
}

static void take_facts(struct profile *p, struct restricted *r, const uint32_t *new_metrics)
{
    for (uint32_t i = 0; i < profile_fact_count(p); i++) {
        struct ctp_fact fact = *profile_fact(p, i);
        bool is_of_metric = fact.scope == CTP_SCOPE_METRIC;
        if (is_of_whole(p, &fact) || (is_of_metric && new_metrics[fact.index] == CTP_NONE))
            continue;
        if (is_of_metric)
            fact.index = new_metrics[fact.index];
        vec_push(&r->facts, fact);
    }
}

/* Neither the times nor the values may claim more than fits: sums of nodes must not overflow. */
static int check_times(const struct profile *p, uint64_t *totals, struct ct_error *err)
{
    CT_TRY(profile_verify_times(p, err));
    CT_TRY(profile_verify_values(p, CTP_NONE, err));
    unsigned __int128 *timed = must_calloc((size_t)p->metric_count + 1, sizeof *timed);
    for (uint32_t i = 0; i < profile_time_run_count(p); i++) {
        const struct ctp_time_run *run = profile_time_run(p, i);
        timed[run->metric] += (unsigned __int128)run->value * run->count;
    }
    int status = CT_OK;
    for (uint32_t m = 0; m < p->metric_count && status == CT_OK; m++) {
        totals[m] = 0;
        for (uint32_t i = 0; i < p->node_count; i++)
            totals[m] += p->values[m][i];
        if (timed[m] > totals[m])
            status = ct_fail(err, "%s: is damaged: the times of %s stand for more than its total",
                             p->name, profile_string(p, profile_metric(p, m)->name));
    }
    free(timed);
    return status;
}

static void take_metrics(struct profile *p, struct restricted *r, const uint64_t *totals)
{
    uint32_t count = p->metric_count, kept = 0;
    uint32_t *new_metrics = must_calloc((size_t)count + 1, sizeof *new_metrics);
    const uint64_t **values = must_calloc((size_t)count + 1, sizeof *values);
    for (uint32_t m = 0; m < count; m++) {
        new_metrics[m] = CTP_NONE;
        if (!profile_metric_has_times(p, m))
            continue;
        new_metrics[m] = kept;
        uint64_t *in_range = must_calloc((size_t)p->node_count + 1, sizeof *in_range);
        uint64_t timed = take_runs(p, r, m, kept, in_range);
        values[kept++] = in_range;
        vec_push(&r->metrics, *profile_metric(p, m));
        vec_push(&r->totals, totals[m]);
        vec_push(&r->untimed, totals[m] - timed);
    }
    take_facts(p, r, new_metrics);
    free(new_metrics);
    free(p->values);
    p->values = values;
    p->metric_count = kept;
    p->tables[CTP_METRICS] =
        (struct profile_table){(const uint8_t *)r->metrics.items, kept, sizeof *r->metrics.items};
    p->tables[CTP_FACTS] = (struct profile_table){(const uint8_t *)r->facts.items,
                                                  (uint32_t)r->facts.count, sizeof *r->facts.items};
    p->tables[CTP_TIME_RUNS] = (struct profile_table){
        (const uint8_t *)r->runs.items, (uint32_t)r->runs.count, sizeof *r->runs.items};
    p->restricted = r;
}

int profile_restrict(struct profile *p, const struct time_range *range, const char *metric,
                     struct ct_error *err)
{
    if (!time_range_is_given(range))
        return CT_OK;
    if (range->has_from && range->has_to && range->from_us >= range->to_us)
        return ct_fail(err, "--from: %g s is not before --to: %g s", (double)range->from_us / 1e6,
                       (double)range->to_us / 1e6);
    if (!profile_time_run_count(p))
        return ct_fail(err,
                       "%s: its samples have no times, so --from and --to cannot choose among "
                       "them",
                       p->name);
    uint32_t wanted = metric ? profile_find_metric(p, metric) : CTP_NONE;
    if (wanted != CTP_NONE && !profile_metric_has_times(p, wanted))
        return ct_fail(err, "%s: %s has no times: --from and --to cannot be combined with it",
                       p->name, metric);
    uint64_t *totals = must_calloc((size_t)p->metric_count + 1, sizeof *totals);
    int status = check_times(p, totals, err);
    if (status == CT_OK) {
        struct restricted *r = must_calloc(1, sizeof *r);
        r->range = *range;
        take_metrics(p, r, totals);
    }
    free(totals);
    return status;
}

uint64_t profile_without_time(const struct profile *p, uint32_t metric, uint64_t *total)
{
    const struct restricted *r = p->restricted;
    *total = r && metric < r->totals.count ? r->totals.items[metric] : 0;
    return r && metric < r->untimed.count ? r->untimed.items[metric] : 0;
}

const struct time_range *profile_range_of(const struct profile *p)
{
    return p->restricted ? &p->restricted->range : NULL;
}

void profile_unrestrict(struct profile *p)
{
    struct restricted *r = p->restricted;
    if (!r)
        return;
    for (uint32_t m = 0; m < p->metric_count; m++)
        free((void *)(uintptr_t)p->values[m]);
    vec_free(&r->metrics);
    vec_free(&r->facts);
    vec_free(&r->runs);
    vec_free(&r->totals);
    vec_free(&r->untimed);
    free(r);
    p->restricted = NULL;
}
