/*
 * Successive refinements of a tree: each takes the tree that the one before it left, in time linear
 * in its nodes.
 */
#ifndef QUERY_REFINE_H
#define QUERY_REFINE_H

#include "base/error.h"
#include "query/label.h"
#include "query/tree.h"

enum refine_kind {
    REFINE_FOCUS,          /* keeps contexts in which a function matches */
    REFINE_IGNORE,         /* drops them */
    REFINE_SHOW_FROM,      /* cuts what is above the outermost match; drops contexts without one */
    REFINE_ONLY_MODULE,    /* folds frames of other modules into their callers */
    REFINE_FOLD_RECURSION, /* a function that is its own caller joins the caller's context */
};

struct refinement {
    enum refine_kind kind;
    const char *pattern; /* extended regular expression or a name; file name patterns for modules */
};

/*
 * Applies one to a tree in preorder, and leaves it so. If `grouped`, the children of the root are
 * not code but threads or the like: they are never matched, and nothing is cut or folded across
 * them. An invalid pattern, and one for modules that no module matches, is an error.
 */
int refine(struct tree *tree, struct labels *labels, const struct refinement *refinement,
           bool grouped, struct ct_error *err);

#endif
