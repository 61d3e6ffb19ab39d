#include "view/page_cut.h"

#include "base/progress.h"
#include "query/tree.h"

#include <math.h>
#include <string.h>

/* Shares are counted in steps of a quarter of a power of two, from 1 down. */
enum { SHARE_STEPS = 512, STEPS_PER_POWER = 4, PROGRESS_NODES = 1 << 18 };

/* What a node is to a closer look. */
enum nearness { OUTSIDE, ON_PATH, INSIDE };

/* How many labels of the path a node has, all of its own among them; CTP_NONE: it is elsewhere. */
static uint32_t follow(const struct labels *labels, const struct page_cut_options *options,
                       uint32_t frame, uint32_t matched)
{
    if (matched == CTP_NONE || frame == CTP_NONE)
        return matched;
    struct label_run run = labels_of_frame(labels, frame);
    for (uint32_t i = 0; i < run.count && matched < options->path_count; i++) {
        if (run.labels[i] != options->path[matched])
            return CTP_NONE;
        matched++;
    }
    return matched;
}

/* For each node of the profile; the caller frees it. */
static uint8_t *look(const struct labels *labels, const struct page_cut_options *options)
{
    const struct profile *p = labels->profile;
    uint8_t *nearness = must_calloc((size_t)p->node_count + 1, sizeof *nearness);
    uint32_t *matched = must_calloc((size_t)p->node_count + 1, sizeof *matched);
    for (uint32_t root = 0; root < profile_root_count(p); root++) {
        const struct ctp_root *r = profile_root(p, root);
        for (uint32_t i = r->first_node; i < r->first_node + r->node_count; i++) {
            uint32_t parent = profile_parent(p, i);
            bool chosen = !options->roots || options->roots[root];
            matched[i] = !chosen ? CTP_NONE
                         : parent == CTP_NONE
                             ? 0
                             : follow(labels, options, profile_node_frame(p, i), matched[parent]);
            nearness[i] = matched[i] == CTP_NONE             ? OUTSIDE
                          : matched[i] < options->path_count ? ON_PATH
                                                             : INSIDE;
        }
    }
    free(matched);
    return nearness;
}

/* What is looked at, and how much of it each node has. */
struct shares {
    const struct profile *profile;
    const uint8_t *nearness; /* NULL: all are inside */
    double *inside; /* by node: a metric's value with all that it calls, of what is inside */
    float *own;     /* by node: the greatest share, from 0 to 1, that it has of any metric */
    float *joined;  /* by joined context: that of all threads' nodes together */
};

static bool is_inside(const struct shares *s, uint32_t node)
{
    return !s->nearness || s->nearness[node] == INSIDE;
}

/* Fills in `inside`. Returns the total. */
static double sum_up(const struct shares *s, uint32_t metric)
{
    const struct profile *p = s->profile;
    double total = 0;
    for (uint32_t i = 0; i < p->node_count; i++)
        s->inside[i] = is_inside(s, i) ? (double)p->values[metric][i] : 0;
    for (uint32_t i = p->node_count; i-- > 0;) {
        uint32_t parent = profile_parent(p, i);
        if (parent == CTP_NONE)
            total += s->inside[i];
        else
            s->inside[parent] += s->inside[i];
    }
    return total;
}

static void find_own(const struct shares *s)
{
    for (uint32_t metric = 0; metric < s->profile->metric_count; metric++) {
        double total = sum_up(s, metric);
        for (uint32_t i = 0; i < s->profile->node_count && total > 0; i++)
            s->own[i] = fmaxf(s->own[i], (float)(s->inside[i] / total));
    }
}

/* Looking for children is waiting for memory: that of one further on is asked for in time. */
static void look_ahead(const struct profile *p, const struct tree_index *index,
                       const uint32_t *targets, uint32_t node)
{
    enum { AHEAD = 16 };
    uint32_t parent = profile_parent(p, node + AHEAD);
    if (parent < node && targets[parent] != CTP_NONE)
        tree_prefetch(index, targets[parent], profile_node_frame(p, node + AHEAD));
}

/*
 * The contexts of all threads as one tree, as far as they matter: `targets` says where each node of
 * the profile is, or CTP_NONE. A context of which no thread has `least` is left out; then so are
 * those that it calls. Others have all threads' nodes, small ones too.
 */
static void join(const struct shares *s, float least, struct tree *tree, uint32_t *targets)
{
    const struct profile *p = s->profile;
    struct tree_index index;
    struct progress progress;
    uint32_t room = 1;
    for (uint32_t i = 0; i < p->node_count; i++)
        room += s->own[i] >= least;
    progress_begin(&progress, "contexts", p->node_count);
    tree_begin(tree, &index, room);
    for (uint32_t i = 0; i < p->node_count; i++) {
        uint32_t parent = profile_parent(p, i);
        if (i % PROGRESS_NODES == PROGRESS_NODES - 1)
            progress_add(&progress, PROGRESS_NODES);
        look_ahead(p, &index, targets, i);
        targets[i] = parent == CTP_NONE ? 0
                     : targets[parent] != CTP_NONE && s->own[i] >= least
                         ? tree_child(tree, &index, targets[parent], profile_node_frame(p, i))
                         : CTP_NONE;
    }
    for (uint32_t i = 0; i < p->node_count; i++) {
        uint32_t parent = profile_parent(p, i);
        look_ahead(p, &index, targets, i);
        if (targets[i] != CTP_NONE || targets[parent] == CTP_NONE)
            continue;
        uint32_t found = tree_find(tree, &index, targets[parent], profile_node_frame(p, i));
        targets[i] = found ? found : CTP_NONE;
    }
    free(index.slots);
    progress_end(&progress);
}

static void find_joined(struct shares *s, const struct tree *tree, const uint32_t *targets)
{
    double *totals = must_calloc(tree->count, sizeof *totals);
    s->joined = must_calloc(tree->count, sizeof *s->joined);
    for (uint32_t metric = 0; metric < s->profile->metric_count; metric++) {
        double total = sum_up(s, metric);
        memset(totals, 0, tree->count * sizeof *totals);
        for (uint32_t i = 0; i < s->profile->node_count; i++)
            if (targets[i] != CTP_NONE)
                totals[targets[i]] += s->inside[i];
        for (uint32_t i = 0; i < tree->count && total > 0; i++)
            s->joined[i] = fmaxf(s->joined[i], (float)(totals[i] / total));
    }
    free(totals);
}

static unsigned step_of(float share)
{
    if (!(share > 0))
        return SHARE_STEPS - 1;
    double step = -log2(share) * STEPS_PER_POWER;
    return step < 0 ? 0 : step < SHARE_STEPS - 1 ? (unsigned)step : SHARE_STEPS - 1;
}

/* A share as the histogram of `counts` has it: the least that leaves at most `most` nodes. */
static double least_for(const uint32_t counts[SHARE_STEPS], uint32_t most)
{
    uint64_t sum = 0;
    for (unsigned step = 0; step < SHARE_STEPS; step++) {
        sum += counts[step];
        if (sum > most)
            return exp2(-(double)step / STEPS_PER_POWER);
    }
    return 0;
}

/*
 * The least share, from 0 to 1, that leaves at most so many nodes: of the nodes by themselves
 * (`targets` is NULL) or of the joined contexts that they are in.
 */
static double share_for(const struct shares *s, const uint32_t *targets, uint32_t most)
{
    uint32_t counts[SHARE_STEPS] = {0};
    for (uint32_t i = 0; i < s->profile->node_count; i++) {
        if (!is_inside(s, i) || (targets && targets[i] == CTP_NONE))
            continue;
        counts[step_of(targets ? s->joined[targets[i]] : s->own[i])]++;
    }
    return least_for(counts, most);
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

/*
 * Sets the marks of the nodes that stay. Parents of such a node have at least its share.
 *
 * If nodes by themselves that have a share are too many already, joined contexts that have it are,
 * too; and of such a context one root's node has at least that share divided by the number of
 * roots. What is below need not be joined, which of tens of millions of nodes are most.
 */
static void choose(const struct labels *labels, const struct page_cut_options *options, bool *kept,
                   struct page_cut *out)
{
    static const double BIT_LESS = 0.99; /* sums are rounded */
    const struct profile *p = labels->profile;
    struct tree tree = {0};
    uint8_t *nearness = options->roots || options->path_count ? look(labels, options) : NULL;
    struct shares s = {.profile = p,
                       .nearness = nearness,
                       .inside = must_calloc((size_t)p->node_count + 1, sizeof(double)),
                       .own = must_calloc((size_t)p->node_count + 1, sizeof(float))};
    double least = options->min_share / 100, least_of_one = least;
    find_own(&s);
    if (options->nodes_max)
        least_of_one = fmax(least, share_for(&s, NULL, options->nodes_max));
    least_of_one *= BIT_LESS / (profile_root_count(p) ? profile_root_count(p) : 1);
    join(&s, (float)least_of_one, &tree, out->targets);
    find_joined(&s, &tree, out->targets);
    if (options->nodes_max)
        least = fmax(least, share_for(&s, out->targets, options->nodes_max));
    for (uint32_t i = 0; i < p->node_count; i++) {
        uint32_t target = out->targets[i];
        kept[i] = profile_parent(p, i) == CTP_NONE || (nearness && nearness[i] == ON_PATH) ||
                  (is_inside(&s, i) && target != CTP_NONE && s.joined[target] >= (float)least);
    }
    out->share = least * 100;
    free(nearness);
    free(s.inside);
    free(s.own);
    free(s.joined);
    tree_free(&tree);
}

void page_cut(const struct labels *labels, const struct page_cut_options *options,
              struct page_cut *out)
{
    const struct profile *p = labels->profile;
    *out = (struct page_cut){.share = options->min_share};
    uint32_t roots = profile_root_count(p);
    bool *kept = must_calloc((size_t)p->node_count + 1, sizeof *kept);
    out->targets = must_calloc((size_t)p->node_count + 1, sizeof *out->targets);
    out->first_nodes = must_calloc((size_t)roots + 1, sizeof *out->first_nodes);
    if (options->min_share > 0 || (options->nodes_max && p->node_count > options->nodes_max))
        choose(labels, options, kept, out);
    else
        memset(kept, true, p->node_count);
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
