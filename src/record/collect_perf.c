#include "record/collect_perf.h"

static const char *sample_stands_for(const struct perf_samples *perf, uint32_t event)
{
    return perf->rings.wanted->items[event].period ? "its period"
           : perf->rings.got[event].has_counts     ? "what was counted since the one before"
                                                   : "the kernel's period of then";
}

/* How each perf event could be had, and what became of it. */
void collect_perf(struct perf_samples *perf, struct metric_set *metrics, struct profile_writer *w,
                  uint64_t rest[PERF_MOST_EVENTS])
{
    const struct perf_wanted *wanted = perf->rings.wanted;
    perf_samples_settle(perf);
    metrics_add_perf(metrics, w, wanted);
    for (uint32_t i = 0; i < wanted->count; i++) {
        struct perf_count count = perf->kernel[i];
        uint32_t metric = metrics->perf[i];
        const struct perf_amounts *taken = &perf->taken[i], *settled = &perf->settled[i];
        uint64_t known = settled->counted + settled->paused;
        rest[i] = count.count > known ? count.count - known : 0;
        profile_fact_u64(w, CTP_SCOPE_METRIC, metric, "samples", perf->samples[i]);
        profile_fact_u64(w, CTP_SCOPE_METRIC, metric, "lost", perf->rings.got[i].lost);
        profile_fact_u64(w, CTP_SCOPE_METRIC, metric, "walks_complete", perf->complete[i]);
        profile_fact_u64(w, CTP_SCOPE_METRIC, metric, "walks_total", perf->samples[i]);
        profile_fact_u64(w, CTP_SCOPE_METRIC, metric, "kernel_count", count.count);
        profile_fact_u64(w, CTP_SCOPE_METRIC, metric, "sampled_count",
                         taken->counted + taken->paused + taken->elsewhere);
        profile_fact_u64(w, CTP_SCOPE_METRIC, metric, "paused_count", settled->paused);
        profile_fact_string(w, CTP_SCOPE_METRIC, metric, "a_sample_is", sample_stands_for(perf, i));
        profile_fact_f64(w, CTP_SCOPE_METRIC, metric, "counted_share",
                         count.enabled_ns ? (double)count.running_ns / (double)count.enabled_ns
                                          : 0);
        profile_fact_u64(w, CTP_SCOPE_METRIC, metric, "precise_ip", perf->rings.got[i].precise);
        profile_fact_string(w, CTP_SCOPE_METRIC, metric, "counted_in",
                            perf->rings.got[i].user_only ? "user mode: the rest is not permitted"
                                                         : "user mode and the kernel");
    }
}
