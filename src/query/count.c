#include "query/count.h"

#include <string.h>

/* The first that fits is taken. */
static const struct count_kind kinds[] = {
    {.cost = "lock",
     .metric = "lock_waits",
     .heading = "waits",
     .per_heading = "per wait",
     .per_key = "per_wait",
     .is_inclusive = true},
    {.cost = "malloc",
     .metric = "malloc_calls",
     .heading = "allocations",
     .per_heading = "each",
     .per_key = "per_allocation",
     .is_inclusive = true},
    {.cost = "heap_exit",
     .metric = "heap_exit_blocks",
     .heading = "blocks",
     .per_heading = "per block",
     .per_key = "per_block",
     .is_inclusive = true},
    {.metric = "calls", .heading = "calls", .per_heading = "per call", .per_key = "per_call"},
    {.cost = "cpu",
     .metric = "returns",
     .heading = "returns",
     .per_heading = "per call",
     .per_key = "per_call",
     .is_at_least = true},
};

/* Time and memory are costs; numbers of things are not. */
static bool is_cost(const struct profile *p, uint32_t metric)
{
    const char *unit = profile_string(p, profile_metric(p, metric)->unit);
    return (strcmp(unit, "ns") == 0 || strcmp(unit, "bytes") == 0) &&
           !profile_metric_is_of_calls(p, metric);
}

const struct count_kind *count_find(const struct profile *p, uint32_t metric)
{
    const char *name = profile_string(p, profile_metric(p, metric)->name);
    for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if ((kinds[i].cost ? strcmp(kinds[i].cost, name) == 0 : is_cost(p, metric)) &&
            profile_find_metric(p, kinds[i].metric) != CTP_NONE)
            return &kinds[i];
    return NULL;
}
