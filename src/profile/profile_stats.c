/*
 * What can be said of a profile's tree in one pass: depths, leaves, totals.
 */
#include "profile/profile_check.h"

#include <stdlib.h>
#include <string.h>

/* Depths of all nodes, with the top bit set where a node has children. */
#define HAS_CHILD UINT32_C(0x80000000)
#define DEPTH_MAX (HAS_CHILD - 1)

static void sum_up_tree(const struct profile *p, struct profile_stats *out)
{
    uint32_t *depths = must_realloc(NULL, p->node_count, sizeof *depths);
    uint64_t depth_sum = 0;
    for (uint32_t i = 0; i < p->node_count; i++) {
        uint32_t parent = profile_parent(p, i);
        uint32_t depth = 0;
        if (parent != CTP_NONE) {
            /* A chain of 2^31 frames would stop counting there; no program has one. */
            depth = (depths[parent] & DEPTH_MAX) + ((depths[parent] & DEPTH_MAX) < DEPTH_MAX);
            depths[parent] |= HAS_CHILD;
        }
        depths[i] = depth;
        depth_sum += depth;
        if (depth > out->max_depth || out->deepest_node == CTP_NONE) {
            out->max_depth = depth;
            out->deepest_node = i;
        }
    }
    for (uint32_t i = 0; i < p->node_count; i++)
        out->leaves += !(depths[i] & HAS_CHILD);
    if (p->node_count)
        out->mean_depth = (double)depth_sum / p->node_count;
    free(depths);
}

static void sum_up_metric(const uint64_t *values, uint32_t count, struct metric_stats *out)
{
    uint64_t greatest = 0;
    out->heaviest_node = CTP_NONE;
    for (uint32_t i = 0; i < count; i++) {
        out->contexts += values[i] != 0;
        if (values[i] > greatest) {
            greatest = values[i];
            out->heaviest_node = i;
        }
    }
    add_values(&out->total, values, count);
}

void profile_stats(const struct profile *p, struct profile_stats *out)
{
    *out = (struct profile_stats){.deepest_node = CTP_NONE};
    out->metrics = must_calloc(p->metric_count, sizeof *out->metrics);
    sum_up_tree(p, out);
    for (uint32_t m = 0; m < p->metric_count; m++)
        sum_up_metric(p->values[m], p->node_count, &out->metrics[m]);
}

void profile_stats_free(struct profile_stats *stats)
{
    free(stats->metrics);
    *stats = (struct profile_stats){0};
}
