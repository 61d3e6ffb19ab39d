#include "query/view.h"

#include "query/idle.h"
#include "query/nearest.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <string.h>

/* How far ahead of the current node the index is asked to be in the cache. */
enum { PREFETCH_NODES = 12 };

const char *view_group_name(const struct profile *p, enum view_grouping grouping, uint32_t index,
                            char *text, size_t room)
{
    const char *name = "";
    uint32_t number = 0;
    switch (grouping) {
    case GROUP_THREAD:
        name = profile_string(p, profile_thread(p, index)->name);
        number = profile_thread(p, index)->tid;
        break;
    case GROUP_PROCESS:
        name = path_file(profile_string(p, profile_process(p, index)->command));
        number = profile_process(p, index)->pid;
        break;
    case GROUP_PHASE:
        name = profile_string(p, profile_epoch(p, index)->name);
        break;
    case GROUP_RANK:
        snprintf(text, room, index == CTP_NONE ? "(no rank)" : "%" PRIu32, index);
        return text;
    case GROUP_NOTHING:
        break;
    }
    if (*name)
        return name;
    if (grouping == GROUP_PHASE || index == CTP_NONE)
        snprintf(text, room, grouping == GROUP_PHASE ? "(no phase)" : "(not known)");
    else
        snprintf(text, room, "(%" PRIu32 ")", number);
    return text;
}

static uint32_t group_of(const struct profile *p, const struct ctp_root *root,
                         enum view_grouping grouping)
{
    switch (grouping) {
    case GROUP_THREAD:
        return root->thread;
    case GROUP_PROCESS:
        return profile_thread(p, root->thread)->process;
    case GROUP_PHASE:
        return root->epoch;
    case GROUP_RANK:
        return profile_process_rank(p, profile_thread(p, root->thread)->process);
    default:
        return CTP_NONE;
    }
}

static bool is_named(const struct profile *p, enum view_grouping grouping, uint32_t index,
                     const char *wanted)
{
    char text[32];
    const char *name = view_group_name(p, grouping, index, text, sizeof text);
    if (strcmp(name, wanted) == 0 || fnmatch(wanted, name, 0) == 0)
        return true;
    if (grouping == GROUP_PHASE || index == CTP_NONE)
        return false;
    snprintf(text, sizeof text, "%" PRIu32,
             grouping == GROUP_THREAD ? profile_thread(p, index)->tid
                                      : profile_process(p, index)->pid);
    return strcmp(text, wanted) == 0;
}

/* Takes out of `chosen` the roots whose thread, process or phase is not called this, or does not
 * match it as a pattern. */
static int choose(const struct profile *p, enum view_grouping grouping, const char *noun,
                  const char *wanted, bool *chosen, struct ct_error *err)
{
    if (!wanted)
        return CT_OK;
    struct nearest nearest = nearest_to(wanted);
    bool any = false;
    for (uint32_t i = 0; i < profile_root_count(p); i++) {
        uint32_t index = group_of(p, profile_root(p, i), grouping);
        bool named = is_named(p, grouping, index, wanted);
        chosen[i] &= named;
        any |= named;
        char text[32];
        if (!named)
            nearest_offer(&nearest, view_group_name(p, grouping, index, text, sizeof text));
    }
    return any ? CT_OK : nearest_fail(&nearest, noun, err);
}

int view_choose_roots(const struct profile *p, const struct view_options *options, bool *chosen,
                      struct ct_error *err)
{
    memset(chosen, true, profile_root_count(p));
    CT_TRY(choose(p, GROUP_THREAD, "thread", options->thread, chosen, err));
    CT_TRY(choose(p, GROUP_PROCESS, "process", options->process, chosen, err));
    return choose(p, GROUP_PHASE, "phase", options->phase, chosen, err);
}

int view_choose_metric(const struct profile *p, const char *name, uint32_t *out,
                       struct ct_error *err)
{
    if (p->metric_count == 0)
        return ct_fail(err, "%s: nothing was measured: the profile has no metric", p->name);
    *out = name ? profile_find_metric(p, name) : 0;
    if (*out != CTP_NONE)
        return CT_OK;
    struct nearest nearest = nearest_to(name);
    for (uint32_t i = 0; i < p->metric_count; i++)
        nearest_offer(&nearest, profile_string(p, profile_metric(p, i)->name));
    return nearest_fail(&nearest, "metric", err);
}

/* A tree that grows out of the nodes of a profile. */
struct growth {
    struct view *view;
    struct tree_index index;
    uint32_t *targets; /* by node of the profile */
    uint32_t nothing;  /* label of cost without a context */
    struct idle idle;
    uint32_t never_ran, waiting; /* labels */
};

/* Waiting goes to a row of its own below the top, wherever it was. */
static bool take_idle(struct growth *g, const struct ctp_root *root, uint32_t node, uint32_t top)
{
    bool never_ran = g->idle.threads && root->thread < profile_thread_count(g->view->profile) &&
                     g->idle.threads[root->thread];
    if (!never_ran && !(g->idle.nodes && g->idle.nodes[node]))
        return false;
    uint64_t value = g->view->profile->values[g->view->metric][node];
    uint32_t row =
        tree_child(&g->view->tree, &g->index, top, never_ran ? g->never_ran : g->waiting);
    g->view->tree.nodes[row].self += value;
    g->view->idle += value;
    g->view->total += value;
    return true;
}

/* The nodes of one root below tree node `top`. A node whose parent is out of order, which only a
 * damaged file has, counts as one whose context is not known. */
static void grow_root(struct growth *g, const struct ctp_root *root, uint32_t top)
{
    const struct profile *p = g->view->profile;
    const struct labels *labels = &g->view->labels;
    const uint64_t *values = p->values[g->view->metric];
    bool is_of_calls = profile_metric_is_of_calls(p, g->view->metric);
    struct tree *tree = &g->view->tree;
    uint32_t first = root->first_node, end = first + root->node_count;
    for (uint32_t i = first; i < end; i++) {
        uint32_t ahead = i + PREFETCH_NODES;
        if (ahead < end) {
            uint32_t parent = profile_parent(p, ahead), frame = profile_node_frame(p, ahead);
            if (parent >= first && parent < i && frame != CTP_NONE)
                tree_prefetch(&g->index, g->targets[parent],
                              *labels_of_frame(labels, frame).labels);
        }
        uint32_t parent = profile_parent(p, i), frame = profile_node_frame(p, i);
        uint32_t target = parent != CTP_NONE && parent >= first ? g->targets[parent] : top;
        uint32_t function = target; /* that holds the code: what was inlined there is below it */
        if (frame != CTP_NONE && parent != CTP_NONE) {
            struct label_run run = labels_of_frame(labels, frame);
            for (uint32_t k = 0; k < run.count; k++) {
                target = tree_child(tree, &g->index, target, run.labels[k]);
                function = k == 0 ? target : function;
            }
        }
        g->targets[i] = target;
        if (values[i] == 0 || take_idle(g, root, i, top))
            continue;
        if (target == top)
            function = target = tree_child(tree, &g->index, top, g->nothing);
        tree->nodes[is_of_calls ? function : target].self += values[i];
        g->view->total += values[i];
    }
}

static uint32_t group_node(struct growth *g, const struct ctp_root *root)
{
    const struct profile *p = g->view->profile;
    enum view_grouping grouping = g->view->grouping;
    if (grouping == GROUP_NOTHING)
        return 0;
    uint32_t group = group_of(p, root, grouping);
    char text[32];
    const char *name = view_group_name(p, grouping, group, text, sizeof text);
    uint32_t label = labels_special(&g->view->labels, LABEL_GROUP, group, name);
    return tree_child(&g->view->tree, &g->index, 0, label);
}

/* How many more nodes a root has when what was inlined is written out. */
static uint64_t inlined_in(const struct view *view, uint32_t index)
{
    const struct profile *p = view->profile;
    const struct ctp_root *root = profile_root(p, index);
    uint64_t more = 0;
    if (view->labels.of_frames.count == profile_frame_count(p))
        return 0;
    for (uint32_t i = 0; i < root->node_count; i++) {
        uint32_t frame = profile_node_frame(p, root->first_node + i);
        if (frame != CTP_NONE)
            more += labels_of_frame(&view->labels, frame).count - 1;
    }
    return more;
}

static void grow(struct view *view, const bool *chosen, const struct idle *idle)
{
    const struct profile *p = view->profile;
    struct growth g = {.view = view, .idle = *idle};
    uint32_t roots = profile_root_count(p);
    /* Each chosen root can add nodes that the profile does not have: its group, and places for cost
     * without a context and for waiting. */
    uint64_t room = 1;
    for (uint32_t i = 0; i < roots; i++)
        if (chosen[i])
            room += UINT64_C(4) + profile_root(p, i)->node_count + inlined_in(view, i);
    if (room > TREE_NONE)
        room = TREE_NONE;
    g.nothing = labels_special(&view->labels, LABEL_NOTHING, 0, NULL);
    if (idle->threads) {
        g.never_ran = labels_special(&view->labels, LABEL_IDLE, idle->count, NULL);
        g.waiting = labels_special(&view->labels, LABEL_WAITING, 0, NULL);
    }
    g.targets = must_realloc(NULL, (size_t)p->node_count + 1, sizeof *g.targets);
    tree_begin(&view->tree, &g.index, (uint32_t)room);
    for (uint32_t i = 0; i < roots; i++) {
        const struct ctp_root *root = profile_root(p, i);
        if (chosen[i])
            grow_root(&g, root, group_node(&g, root));
    }
    free(g.targets);
    profile_rest(p);
    tree_arrange(&view->tree, &g.index);
}

int view_check_roots(const struct profile *p, struct ct_error *err)
{
    uint64_t next = 0;
    for (uint32_t i = 0; i < profile_root_count(p); i++) {
        const struct ctp_root *root = profile_root(p, i);
        if (root->first_node != next)
            return ct_fail(err,
                           "%s: is damaged: root %" PRIu32 " does not begin where the one "
                           "before it ends",
                           p->name, i);
        next += root->node_count;
    }
    if (next != p->node_count)
        return ct_fail(err, "%s: is damaged: its roots do not hold all nodes", p->name);
    return CT_OK;
}

/*
 * Beside the metric, what it can be divided by: the same view of that. What has a cost and no
 * count, or the other way round, can make another tree; then there is none.
 */
static int open_counts(struct view *view, const struct view_options *options, struct ct_error *err)
{
    struct view_options same = *options;
    struct view other;
    const struct count_kind *kind = count_find(view->profile, view->metric);
    if (!kind || (kind->is_at_least && options->without_bounds))
        return CT_OK;
    same.metric = kind->metric;
    same.with_counts = false;
    CT_TRY(view_open(view->profile, &same, &other, err));
    bool alike = other.tree.count == view->tree.count;
    for (uint32_t i = 1; alike && i < other.tree.count; i++)
        alike = other.tree.nodes[i].parent == view->tree.nodes[i].parent &&
                other.tree.nodes[i].label == view->tree.nodes[i].label;
    if (alike) {
        view->count_kind = kind;
        view->counts = must_calloc(other.tree.count, sizeof *view->counts);
        for (uint32_t i = 0; i < other.tree.count; i++)
            view->counts[i] = kind->is_inclusive ? other.tree.totals[i] : other.tree.nodes[i].self;
    }
    view_close(&other);
    return CT_OK;
}

static uint32_t callers_kept(const struct profile *profile, uint32_t metric)
{
    const struct ctp_fact *fact =
        profile_find_fact(profile, CTP_SCOPE_METRIC, metric, "callers_kept");
    return fact && fact->type == CTP_I64 && fact->value < UINT32_MAX ? (uint32_t)fact->value : 0;
}

int view_open(const struct profile *profile, const struct view_options *options, struct view *out,
              struct ct_error *err)
{
    *out = (struct view){.profile = profile, .grouping = options->grouping};
    CT_TRY(view_check_roots(profile, err));
    CT_TRY(view_choose_metric(profile, options->metric, &out->metric, err));
    CT_TRY(profile_verify_values(profile, out->metric, err));
    out->callers_kept = callers_kept(profile, out->metric);
    struct idle idle = {0};
    /* Threads that were chosen are shown. */
    if (options->fold_idle && options->grouping == GROUP_NOTHING && !options->thread &&
        !options->process && !options->phase)
        CT_TRY(idle_find(profile, out->metric, &idle, err));
    bool *chosen = must_calloc((size_t)profile_root_count(profile) + 1, sizeof *chosen);
    int status = view_choose_roots(profile, options, chosen, err);
    if (status == CT_OK) {
        labels_init(&out->labels, profile, &options->labels);
        grow(out, chosen, &idle);
        for (size_t i = 0; i < options->refinement_count && status == CT_OK; i++)
            status = refine(&out->tree, &out->labels, &options->refinements[i],
                            options->grouping != GROUP_NOTHING, err);
        if (status == CT_OK) {
            tree_sum(&out->tree);
            if (options->with_counts)
                status = open_counts(out, options, err);
        }
        if (status != CT_OK)
            view_close(out);
    }
    free(chosen);
    idle_free(&idle);
    return status;
}

void view_close(struct view *view)
{
    labels_free(&view->labels);
    tree_free(&view->tree);
    free(view->counts);
}
