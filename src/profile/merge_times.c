#include "profile/merge_state.h"

/* If there are too many in all, none stay, whatever was merged with what first. */
void merge_add_times(struct merge *m, const struct profile *p, const uint32_t *metrics,
                     const uint32_t *nodes)
{
    const struct ctp_fact *dropped = profile_find_fact(p, CTP_SCOPE_PROFILE, 0, FACT_DROPPED);
    uint64_t before = dropped && dropped->type == CTP_U64 ? dropped->value : 0;
    uint64_t count = p->tables[CTP_TIMES].count;
    if (m->times_dropped || before || m->times.items.count + count > MERGE_TIMES_MOST) {
        m->times_dropped += before + count + m->times.items.count;
        time_blocks_free(&m->times);
        return;
    }
    for (uint32_t i = 0; i < profile_time_run_count(p); i++) {
        struct ctp_time_run run = *profile_time_run(p, i);
        size_t first = m->times.items.count;
        run.metric = metrics[run.metric];
        time_blocks_add(&m->times, &run, profile_times(p) + run.first, run.count);
        for (size_t k = first; k < m->times.items.count; k++)
            m->times.items.items[k].node = nodes[m->times.items.items[k].node];
    }
}

void merge_write_times(const struct merge *m, struct profile_writer *w, const uint32_t *metrics,
                       const uint32_t *nodes)
{
    for (size_t i = 0; i < m->times.runs.count; i++) {
        struct ctp_time_run run = m->times.runs.items[i];
        struct ctp_time *items = m->times.items.items + run.first;
        run.metric = metrics[run.metric];
        for (uint32_t k = 0; k < run.count; k++)
            items[k].node = nodes[items[k].node];
        profile_add_times(w, &run, items, run.count);
    }
    if (m->times_dropped)
        profile_fact_u64(w, CTP_SCOPE_PROFILE, 0, FACT_DROPPED, m->times_dropped);
}
