/*
 * Every refinement is a rebuilding: for each old node, in preorder, which new node its value goes
 * to, or none. `targets` remembers the answer for the nodes below. The new tree takes the place of
 * the old one from the front (tree_begin), so that refining a tree of any size costs a table of
 * answers and the index, not a second tree.
 */
#include "query/refine.h"

#include "query/nearest.h"

#include <fnmatch.h>
#include <regex.h>
#include <string.h>

static int compile(const char *pattern, regex_t *out, struct ct_error *err)
{
    int status = regcomp(out, pattern, REG_EXTENDED | REG_NOSUB);
    if (status == 0)
        return CT_OK;
    char why[128];
    regerror(status, out, why, sizeof why);
    return ct_fail(err, "'%s' is not a valid regular expression: %s", pattern, why);
}

/* For every label whether its name matches the expression, or is what a report showed, whose
 * brackets are no expression. The caller frees it. */
static int match_names(const struct labels *labels, const char *pattern, bool **out,
                       struct ct_error *err)
{
    regex_t regex;
    bool valid = compile(pattern, &regex, err) == CT_OK, any = false;
    bool *matches = must_calloc(labels->items.count + 1, sizeof *matches);
    for (uint32_t i = 0; i < labels->items.count; i++) {
        char text[1024];
        matches[i] = label_match(labels, i, pattern) != NAME_OTHER ||
                     (valid && label_is_code(labels, i) &&
                      regexec(&regex, label_name(labels, i, text, sizeof text), 0, NULL, 0) == 0);
        any |= matches[i];
    }
    if (valid)
        regfree(&regex);
    *out = matches;
    if (valid || any)
        return CT_OK;
    free(matches);
    return CT_ERROR;
}

/* One of the patterns, which are separated by commas, matches the module's file name or path. */
static bool module_matches(const char *path, const char *patterns)
{
    char *copy = must_strdup(patterns), *rest = copy;
    bool found = false;
    for (char *pattern; !found && (pattern = strsep(&rest, ",")) != NULL;)
        found = fnmatch(pattern, path_file(path), 0) == 0 || fnmatch(pattern, path, 0) == 0;
    free(copy);
    return found;
}

/* For every label whether it stays. What is not code of a module is not folded: a gap must not
 * vanish. */
static int match_modules(const struct labels *labels, const char *patterns, bool **out,
                         struct ct_error *err)
{
    const struct profile *p = labels->profile;
    uint32_t count = profile_module_count(p);
    struct nearest nearest = nearest_to(patterns);
    bool *modules = must_calloc((size_t)count + 1, sizeof *modules);
    bool any = false;
    for (uint32_t i = 0; i < count; i++) {
        const char *path = profile_string(p, profile_module(p, i)->path);
        modules[i] = module_matches(path, patterns);
        any |= modules[i];
        nearest_offer(&nearest, path_file(path));
    }
    if (!any) {
        free(modules);
        return nearest_fail(&nearest, "module", err);
    }
    bool *stays = must_calloc(labels->items.count + 1, sizeof *stays);
    for (uint32_t i = 0; i < labels->items.count; i++) {
        uint32_t module = labels->items.items[i].module;
        stays[i] = !label_is_code(labels, i) || (module < count && modules[module]);
    }
    free(modules);
    *out = stays;
    return CT_OK;
}

/* A tree that is being rebuilt. */
struct rebuilding {
    struct tree *tree;
    struct tree_index index;
    uint32_t old_count;
    uint32_t *targets; /* by old node; TREE_NONE for those that go nowhere */
    bool grouped;
};

static struct rebuilding rebuild_begin(struct tree *tree, bool grouped)
{
    struct rebuilding r = {.tree = tree, .old_count = tree->count, .grouped = grouped};
    uint64_t root_self = tree->nodes[0].self;
    r.targets = must_realloc(NULL, tree->count, sizeof *r.targets);
    r.targets[0] = 0;
    tree_begin(tree, &r.index, tree->count);
    tree->nodes[0].self = root_self;
    return r;
}

static void rebuild_end(struct rebuilding *r)
{
    free(r->targets);
    tree_arrange(r->tree, &r->index);
}

/* Old node i, whose contents the caller has read already, goes to the child of new node `parent`
 * that has its label. */
static void place(struct rebuilding *r, uint32_t i, struct tree_node old, uint32_t parent)
{
    r->targets[i] = tree_child(r->tree, &r->index, parent, old.label);
    r->tree->nodes[r->targets[i]].self += old.self;
}

static bool is_group(const struct rebuilding *r, const struct tree_node *old)
{
    return r->grouped && old->parent == 0;
}

/* Contexts with a match (or, for `ignore`, without) stay, and the callers that lead to them. */
static void keep_matching(struct tree *tree, const bool *matches, bool ignore, bool grouped)
{
    enum { MATCHED = 1, NEEDED = 2 };
    uint8_t *marks = must_calloc(tree->count, 1);
    for (uint32_t i = 1; i < tree->count; i++)
        if (marks[tree->nodes[i].parent] & MATCHED || matches[tree->nodes[i].label])
            marks[i] = MATCHED;
    for (uint32_t i = tree->count - 1; i > 0; i--) {
        if (!(marks[i] & MATCHED) == ignore)
            marks[i] |= NEEDED;
        if (marks[i] & NEEDED)
            marks[tree->nodes[i].parent] |= NEEDED;
    }
    struct rebuilding r = rebuild_begin(tree, grouped);
    if (!ignore)
        tree->nodes[0].self = 0;
    for (uint32_t i = 1; i < r.old_count; i++) {
        struct tree_node old = tree->nodes[i];
        if (!(marks[i] & NEEDED)) {
            r.targets[i] = TREE_NONE;
            continue;
        }
        if (!(marks[i] & MATCHED) != ignore)
            old.self = 0;
        place(&r, i, old, r.targets[old.parent]);
    }
    rebuild_end(&r);
    free(marks);
}

static void show_from(struct tree *tree, const bool *matches, bool grouped)
{
    /* Above the outermost match the target is where that match will hang: the root, or its group.
     * It is told from a target within by `inside`. */
    bool *inside = must_calloc(tree->count, sizeof *inside);
    struct rebuilding r = rebuild_begin(tree, grouped);
    tree->nodes[0].self = 0;
    for (uint32_t i = 1; i < r.old_count; i++) {
        struct tree_node old = tree->nodes[i];
        inside[i] = inside[old.parent] || matches[old.label];
        if (is_group(&r, &old))
            old.self = 0;
        if (inside[i] || is_group(&r, &old))
            place(&r, i, old, r.targets[old.parent]);
        else
            r.targets[i] = r.targets[old.parent];
    }
    rebuild_end(&r);
    free(inside);
}

static void fold_modules(struct tree *tree, const bool *stays, uint32_t folded, bool grouped)
{
    /* `outside` are new nodes that stand for no code: what is folded must not be charged there. */
    struct rebuilding r = rebuild_begin(tree, grouped);
    for (uint32_t i = 1; i < r.old_count; i++) {
        struct tree_node old = tree->nodes[i];
        uint32_t parent = r.targets[old.parent];
        if (stays[old.label]) {
            place(&r, i, old, parent);
            continue;
        }
        r.targets[i] = parent;
        bool outside = parent == 0 || (grouped && tree->nodes[parent].parent == 0);
        if (!outside)
            tree->nodes[parent].self += old.self;
        else if (old.self)
            tree->nodes[tree_child(tree, &r.index, parent, folded)].self += old.self;
    }
    rebuild_end(&r);
}

/* One level of the walk: what the node changed on the path, to be put back when it is left. */
struct fold_step {
    uint32_t node;       /* old */
    uint32_t label;      /* its */
    uint32_t on_label;   /* what on_label had before */
    uint32_t depth;      /* of its new node */
    uint32_t path_entry; /* what the path had there before */
};

/*
 * The bounded form of the calling context tree: a function that is called while it is on the path
 * of new nodes already continues there, and what it calls hangs there. path[0..depth] are the new
 * nodes from the root to where we are; after going back up, the entries below are out of date but
 * stay, for when the walk leaves the subtree that went up.
 */
static void fold_recursion(struct tree *tree, size_t label_count, bool grouped)
{
    struct rebuilding r = rebuild_begin(tree, grouped);
    uint32_t *on_label = must_realloc(NULL, label_count + 1, sizeof *on_label);
    memset(on_label, 0xff, (label_count + 1) * sizeof *on_label);
    uint32_t *depths = must_realloc(NULL, r.old_count, sizeof *depths); /* of new nodes */
    VEC(uint32_t) path = {0};
    VEC(struct fold_step) steps = {0};
    depths[0] = 0;
    vec_push(&path, 0);
    for (uint32_t i = 1; i < r.old_count; i++) {
        struct tree_node old = tree->nodes[i];
        while (steps.count && steps.items[steps.count - 1].node != old.parent) {
            struct fold_step *left = &steps.items[--steps.count];
            on_label[left->label] = left->on_label;
            path.items[left->depth] = left->path_entry;
        }
        uint32_t parent = r.targets[old.parent], seen = on_label[old.label];
        if (seen != TREE_NONE && depths[seen] <= depths[parent] &&
            path.items[depths[seen]] == seen && !is_group(&r, &old)) {
            r.targets[i] = seen;
            tree->nodes[seen].self += old.self;
        } else {
            place(&r, i, old, parent);
            depths[r.targets[i]] = depths[parent] + 1;
        }
        uint32_t target = r.targets[i], depth = depths[target];
        if (depth == path.count)
            vec_push(&path, TREE_NONE);
        vec_push(&steps, (struct fold_step){i, old.label, seen, depth, path.items[depth]});
        on_label[old.label] = target;
        path.items[depth] = target;
    }
    vec_free(&path);
    vec_free(&steps);
    free(depths);
    free(on_label);
    rebuild_end(&r);
}

int refine(struct tree *tree, struct labels *labels, const struct refinement *refinement,
           bool grouped, struct ct_error *err)
{
    bool *matches;
    switch (refinement->kind) {
    case REFINE_FOLD_RECURSION:
        fold_recursion(tree, labels->items.count, grouped);
        return CT_OK;
    case REFINE_ONLY_MODULE: {
        uint32_t folded = labels_special(labels, LABEL_FOLDED, 0, NULL);
        CT_TRY(match_modules(labels, refinement->pattern, &matches, err));
        fold_modules(tree, matches, folded, grouped);
        break;
    }
    case REFINE_SHOW_FROM:
        CT_TRY(match_names(labels, refinement->pattern, &matches, err));
        show_from(tree, matches, grouped);
        break;
    default:
        CT_TRY(match_names(labels, refinement->pattern, &matches, err));
        keep_matching(tree, matches, refinement->kind == REFINE_IGNORE, grouped);
        break;
    }
    free(matches);
    return CT_OK;
}
