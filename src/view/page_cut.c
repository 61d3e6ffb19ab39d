#include "view/page_cut.h"

#include "query/tree.h"

#include <math.h>
#include <string.h>

/* Shares are counted in steps of a quarter of a power of two, from 1 down. */
enum { SHARE_STEPS = 512, STEPS_PER_POWER = 4 };

/* The contexts of all threads as one tree: `targets` says where each node of the profile is. */
static void join(const struct profile *p, struct tree *tree, uint32_t *targets)
{
    struct tree_index index;
    tree_begin(tree, &index, p->node_count + 1);
    for (uint32_t i = 0; i < p->node_count; i++) {
        uint32_t parent = profile_parent(p, i), frame = profile_node_frame(p, i);
        targets[i] = parent == CTP_NONE ? 0 : tree_child(tree, &index, targets[parent], frame);
    }
    free(index.slots);
}

/* For each joined context the greatest of its shares of the metrics' totals, from 0 to 1. */
static float *shares_of(const struct profile *p, const struct tree *tree, const uint32_t *targets)
{
    float *shares = must_calloc(tree->count, sizeof *shares);
    double *totals = must_calloc(tree->count, sizeof *totals);
    for (uint32_t metric = 0; metric < p->metric_count; metric++) {
        memset(totals, 0, tree->count * sizeof *totals);
        for (uint32_t i = 0; i < p->node_count; i++)
            totals[targets[i]] += (double)p->values[metric][i];
        for (uint32_t i = tree->count - 1; i > 0; i--)
            totals[tree->nodes[i].parent] += totals[i];
        for (uint32_t i = 0; i < tree->count && totals[0] > 0; i++)
            shares[i] = fmaxf(shares[i], (float)(totals[i] / totals[0]));
    }
    free(totals);
    return shares;
}

static unsigned step_of(float share)
{
    if (!(share > 0))
        return SHARE_STEPS - 1;
    double step = -log2(share) * STEPS_PER_POWER;
    return step < 0 ? 0 : step < SHARE_STEPS - 1 ? (unsigned)step : SHARE_STEPS - 1;
}

/* The least share, from 0 to 1, that leaves at most `most` nodes. */
static double share_for(const struct profile *p, const float *shares, const uint32_t *targets,
                        uint32_t most)
{
    uint32_t counts[SHARE_STEPS] = {0};
    uint64_t sum = 0;
    for (uint32_t i = 0; i < p->node_count; i++)
        counts[step_of(shares[targets[i]])]++;
    for (unsigned step = 0; step < SHARE_STEPS; step++) {
        sum += counts[step];
        if (sum > most)
            return exp2(-(double)step / STEPS_PER_POWER);
    }
    return 0;
}

/* What stands below `parent` for all that was cut from it. */
static uint32_t rest_below(const struct profile *p, struct page_cut *cut, uint32_t *rests,
                           uint32_t parent)
{
    if (!rests[parent]) {
        rests[parent] = (uint32_t)cut->parents.count;
        vec_push(&cut->parents, parent);
        vec_push(&cut->frames, profile_frame_count(p));
    }
    return rests[parent];
}

/* Keeps the nodes of [first, end), a root, whose marks are set, and their parents, which are. */
static void cut_root(const struct profile *p, uint32_t first, uint32_t end, const bool *kept,
                     uint32_t *rests, struct page_cut *cut)
{
    for (uint32_t i = first; i < end; i++) {
        if (!kept[i])
            continue;
        uint32_t parent = profile_parent(p, i);
        cut->targets[i] = (uint32_t)cut->parents.count;
        vec_push(&cut->parents, parent == CTP_NONE ? CTP_NONE : cut->targets[parent]);
        vec_push(&cut->frames, profile_node_frame(p, i));
    }
    for (uint32_t i = first; i < end; i++) {
        if (kept[i])
            continue;
        uint32_t parent = profile_parent(p, i);
        cut->targets[i] =
            kept[parent] ? rest_below(p, cut, rests, cut->targets[parent]) : cut->targets[parent];
        cut->left_out++;
    }
}

void page_cut(const struct profile *p, const struct page_cut_options *options, struct page_cut *out)
{
    *out = (struct page_cut){.share = options->min_share};
    uint32_t roots = profile_root_count(p);
    bool *kept = must_calloc((size_t)p->node_count + 1, sizeof *kept);
    bool all =
        options->min_share <= 0 && (options->nodes_max == 0 || p->node_count <= options->nodes_max);
    out->targets = must_calloc((size_t)p->node_count + 1, sizeof *out->targets);
    out->first_nodes = must_calloc((size_t)roots + 1, sizeof *out->first_nodes);
    if (!all) {
        struct tree tree = {0};
        join(p, &tree, out->targets);
        float *shares = shares_of(p, &tree, out->targets);
        double least = options->min_share / 100;
        if (options->nodes_max)
            least = fmax(least, share_for(p, shares, out->targets, options->nodes_max));
        for (uint32_t i = 0; i < p->node_count; i++)
            kept[i] = profile_parent(p, i) == CTP_NONE || shares[out->targets[i]] >= (float)least;
        out->share = least * 100;
        free(shares);
        tree_free(&tree);
    } else {
        memset(kept, true, p->node_count);
    }
    /* Not more than all nodes, and one for each that has something cut off. */
    uint32_t *rests = must_calloc(2 * (size_t)p->node_count + 1, sizeof *rests);
    for (uint32_t i = 0; i < roots; i++) {
        const struct ctp_root *root = profile_root(p, i);
        out->first_nodes[i] = (uint32_t)out->parents.count;
        cut_root(p, root->first_node, root->first_node + root->node_count, kept, rests, out);
    }
    out->first_nodes[roots] = (uint32_t)out->parents.count;
    free(rests);
    free(kept);
}

void page_cut_free(struct page_cut *cut)
{
    vec_free(&cut->parents);
    vec_free(&cut->frames);
    free(cut->targets);
    free(cut->first_nodes);
}
