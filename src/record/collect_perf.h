/* What a profile has of perf events, besides their values in contexts. */
#ifndef RECORD_COLLECT_PERF_H
#define RECORD_COLLECT_PERF_H

#include "profile/profile.h"
#include "record/metrics.h"
#include "record/perf_samples.h"

/* Adds the metrics and their facts; `rest` is what the kernel counted, and no context has. */
void collect_perf(struct perf_samples *perf, struct metric_set *metrics, struct profile_writer *w,
                  uint64_t rest[PERF_MOST_EVENTS]);

#endif
