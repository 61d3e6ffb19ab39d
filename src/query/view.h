/*
 * Views: the part of a profile that the user wants to see, as one tree of contexts.
 *
 * One metric; all threads, processes and phases or the chosen ones, whose contexts are merged;
 * then the refinements, one after the other. Everything that is shown or exported comes from here.
 */
#ifndef QUERY_VIEW_H
#define QUERY_VIEW_H

#include "query/count.h"
#include "query/label.h"
#include "query/refine.h"
#include "query/tree.h"

/* What the children of the root are. */
enum view_grouping {
    GROUP_NOTHING, /* outermost frames: everything merged */
    GROUP_THREAD,
    GROUP_PROCESS,
    GROUP_PHASE,
    GROUP_RANK, /* of a job of MPI */
};

struct view_options {
    const char *metric;  /* name; NULL: the first */
    const char *thread;  /* name, pattern (as of files) or tid; NULL: all */
    const char *process; /* name of the program, pattern or pid; NULL: all */
    const char *phase;   /* name or pattern; NULL: all */
    enum view_grouping grouping;
    struct label_options labels;
    const struct refinement *refinements;
    size_t refinement_count;
    bool with_counts;    /* beside the metric: that is a second tree for a while */
    bool fold_idle;      /* what waits for work, and threads that only waited, in one row each */
    bool without_bounds; /* no counts that are not of all calls, and give a bound only */
};

struct view {
    const struct profile *profile;
    uint32_t metric;
    enum view_grouping grouping;
    struct labels labels;
    struct tree tree;                    /* in preorder, with totals */
    const struct count_kind *count_kind; /* what the metric can be divided by, or NULL */
    uint64_t *counts;                    /* of each node of the tree, where there is such */
    uint32_t callers_kept; /* of each context, at least, if not all were to be; 0: all */
    uint64_t idle;         /* of the total: what was folded because it waits */
    uint64_t total; /* of the chosen threads, before refinements: what shares are shares of */
};

/* The profile must outlive the view. A name that does not exist is an error that says the nearest
 * one that does. */
int view_open(const struct profile *profile, const struct view_options *options, struct view *out,
              struct ct_error *err);
void view_close(struct view *view);

/* Steps of it, for those that make trees of their own. The index of a metric by its name, NULL
 * being the first. */
int view_choose_metric(const struct profile *profile, const char *name, uint32_t *out,
                       struct ct_error *err);

/* Which roots are of the thread, process and phase of the options: one mark for each root. */
int view_choose_roots(const struct profile *profile, const struct view_options *options,
                      bool *chosen, struct ct_error *err);

/* That the roots are ranges of nodes one behind the other, which is not known of a file of which
 * only the tables were checked: what lies outside would be read outside. */
int view_check_roots(const struct profile *profile, struct ct_error *err);

/* The names of groups, for people: threads and processes may have none. `text` has `room` bytes. */
const char *view_group_name(const struct profile *profile, enum view_grouping grouping,
                            uint32_t index, char *text, size_t room);

/* Whether an ancestor of the same label makes a node recursive: visits nodes in order, and says so
 * for each. `ends` has one zero for each label at the beginning. */
static inline bool view_is_recursive(const struct tree *tree, uint32_t *ends, uint32_t node)
{
    uint32_t *end = &ends[tree->nodes[node].label];
    if (node < *end)
        return true;
    *end = node + tree->sizes[node];
    return false;
}

#endif
