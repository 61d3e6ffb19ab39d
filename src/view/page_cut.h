/*
 * What of a profile is on the page: a browser holds a million contexts, a mail fewer.
 *
 * A context stays if its cost with all that it calls, in all threads together, is at least a share
 * of the total of any metric. What is cut is not lost: below the context that it was cut from there
 * is one that stands for all of it, with no code but with its cost, so that totals are right.
 *
 * Who looks closer, at some threads or at what one context calls, gets more of that and nothing
 * else.
 */
#ifndef VIEW_PAGE_CUT_H
#define VIEW_PAGE_CUT_H

#include "base/vec.h"
#include "query/label.h"

struct page_cut_options {
    double min_share;     /* in %; 0: all */
    uint32_t nodes_max;   /* the share is raised until there are not more; 0: all */
    const bool *roots;    /* those that are looked at; NULL: all */
    const uint32_t *path; /* labels, the outermost first, of the context that is looked at */
    size_t path_count;
};

struct page_cut {
    VEC(uint32_t) parents; /* of the nodes that stay; CTP_NONE for a root */
    VEC(uint32_t) frames;  /* CTP_NONE for a root; the profile's number of frames: what was cut */
    uint32_t *targets;     /* by node of the profile: where its value goes */
    uint32_t *first_nodes; /* by root, and one more */
    double share;          /* in %, that was applied */
    uint32_t left_out;     /* nodes of the profile that are not here */
};

/* The roots must have been checked (view_check_roots), and the values verified. The labels are
 * those that the path has. */
void page_cut(const struct labels *labels, const struct page_cut_options *options,
              struct page_cut *out);
void page_cut_free(struct page_cut *cut);

#endif
