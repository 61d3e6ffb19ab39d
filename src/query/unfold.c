#include "query/unfold.h"

#include <string.h>

/* A context in a row. Downwards the weight is its total; upwards it is what came up through here.
 */
struct unfold_member {
    uint32_t node;
    uint64_t weight;
};

struct members {
    VEC(struct unfold_member) items;
};

static void add(struct members *members, uint32_t node, uint64_t weight)
{
    if (weight)
        vec_push(&members->items, (struct unfold_member){node, weight});
}

static void add_children(const struct view *view, uint32_t node, struct members *out)
{
    const struct tree *tree = &view->tree;
    uint32_t end = node + tree->sizes[node];
    for (uint32_t i = node + 1; i < end; i += tree->sizes[i])
        add(out, i, tree->totals[i]);
}

/* ---- Rows of contexts ------------------------------------------------------------------------ */

static int compare(const void *a, const void *b, void *context)
{
    const struct labels *labels = context;
    const struct unfold_row *x = a, *y = b;
    if (x->total != y->total)
        return x->total > y->total ? -1 : 1;
    char text[1024], other[1024];
    int names = strcmp(label_name(labels, x->label, text, sizeof text),
                       label_name(labels, y->label, other, sizeof other));
    return names ? names : (x->label > y->label) - (x->label < y->label);
}

/* A row for each label of the members, which are shared out. Returns how many rows there are. */
static uint32_t make_rows(struct unfolding *u, const struct members *members, uint32_t parent)
{
    const struct tree_node *nodes = u->view->tree.nodes;
    size_t first = u->rows.count;
    uint32_t depth = parent == TREE_NONE ? 0 : u->rows.items[parent].depth + 1;
    for (size_t i = 0; i < members->items.count; i++) {
        uint32_t label = nodes[members->items.items[i].node].label;
        if (u->group_of_label[label] == TREE_NONE) {
            u->group_of_label[label] = (uint32_t)u->rows.count;
            vec_push(&u->rows,
                     (struct unfold_row){.parent = parent, .label = label, .depth = depth});
        }
        u->rows.items[u->group_of_label[label]].member_count++;
    }
    for (size_t i = first; i < u->rows.count; i++) {
        struct unfold_row *row = &u->rows.items[i];
        row->members = must_realloc(NULL, row->member_count, sizeof *row->members);
        row->member_count = 0;
    }
    for (size_t i = 0; i < members->items.count; i++) {
        const struct unfold_member *member = &members->items.items[i];
        struct unfold_row *row = &u->rows.items[u->group_of_label[nodes[member->node].label]];
        row->members[row->member_count++] = *member;
        row->total += member->weight;
        if (u->kind == UNFOLD_CALLEES) {
            row->self += nodes[member->node].self;
            row->count += u->view->counts ? u->view->counts[member->node] : 0;
        }
    }
    for (size_t i = first; i < u->rows.count; i++)
        u->group_of_label[u->rows.items[i].label] = TREE_NONE;
    uint32_t count = (uint32_t)(u->rows.count - first);
    if (count)
        qsort_r(u->rows.items + first, count, sizeof *u->rows.items, compare,
                (void *)&u->view->labels);
    return count;
}

void unfold_row(struct unfolding *u, uint32_t index)
{
    struct unfold_row *row = &u->rows.items[index];
    if (row->is_known)
        return;
    struct members next = {0};
    uint64_t stays = 0;
    for (uint32_t i = 0; i < row->member_count; i++) {
        struct unfold_member member = row->members[i];
        uint32_t parent = u->view->tree.nodes[member.node].parent;
        if (u->kind == UNFOLD_CALLEES)
            add_children(u->view, member.node, &next);
        else if (parent != 0)
            add(&next, parent, member.weight);
        else
            stays += member.weight;
    }
    free(row->members);
    row->members = NULL;
    row->is_known = true;
    if (u->kind == UNFOLD_CALLERS)
        row->self = stays;
    uint32_t first = (uint32_t)u->rows.count, count = make_rows(u, &next, index);
    u->rows.items[index].first = first;
    u->rows.items[index].children = count;
    vec_free(&next.items);
}

/* ---- Where it begins ------------------------------------------------------------------------- */

struct unfold_starts unfold_find(const struct view *view, uint32_t label,
                                 const struct unfold_starts *within)
{
    const struct tree *tree = &view->tree;
    struct unfold_starts found = {0};
    size_t ranges = within ? within->nodes.count : 1;
    for (size_t k = 0; k < ranges; k++) {
        uint32_t node = within ? within->nodes.items[k] : 0, end = node + tree->sizes[node];
        while (node < end) {
            bool is_it = node != 0 && tree->nodes[node].label == label;
            if (is_it)
                vec_push(&found.nodes, node);
            node += is_it ? tree->sizes[node] : 1;
        }
    }
    return found;
}

/* What is known of a function, by label. */
struct sum {
    uint32_t end; /* of the subtree of its last outermost call */
    uint64_t self, count;
};

/* The outermost calls of each function below a node, and what all of its calls have themselves.
 * Counts that include what is called are those of the outermost, as the total is. */
static void add_functions(const struct view *view, uint32_t top, struct sum *sums,
                          struct members *out)
{
    const struct tree *tree = &view->tree;
    for (uint32_t i = top ? top : 1; i < top + tree->sizes[top]; i++) {
        uint32_t label = tree->nodes[i].label;
        struct sum *sum = &sums[label];
        bool is_outermost = i >= sum->end;
        if (view->labels.items.items[label].kind == LABEL_GROUP)
            continue;
        sum->self += tree->nodes[i].self;
        if (view->counts && (is_outermost || !view->count_kind->is_inclusive))
            sum->count += view->counts[i];
        if (!is_outermost)
            continue;
        sum->end = i + tree->sizes[i];
        add(out, i, tree->totals[i]);
    }
}

static void begin_functions(struct unfolding *u, const struct unfold_starts *starts)
{
    struct sum *sums = must_calloc(u->view->labels.items.count + 1, sizeof *sums);
    struct members members = {0};
    if (!starts)
        add_functions(u->view, 0, sums, &members);
    for (size_t i = 0; starts && i < starts->nodes.count; i++)
        add_functions(u->view, starts->nodes.items[i], sums, &members);
    u->tops = make_rows(u, &members, TREE_NONE);
    for (uint32_t i = 0; i < u->tops; i++) {
        u->rows.items[i].self = sums[u->rows.items[i].label].self;
        u->rows.items[i].count = sums[u->rows.items[i].label].count;
    }
    vec_free(&members.items);
    free(sums);
}

void unfold_begin(const struct view *view, enum unfold_kind kind,
                  const struct unfold_starts *starts, struct unfolding *out)
{
    const struct tree *tree = &view->tree;
    *out = (struct unfolding){.view = view, .kind = kind};
    size_t labels = view->labels.items.count + 1;
    out->group_of_label = must_realloc(NULL, labels, sizeof *out->group_of_label);
    memset(out->group_of_label, 0xff, labels * sizeof *out->group_of_label);
    if (kind == UNFOLD_FUNCTIONS) {
        begin_functions(out, starts);
        return;
    }
    struct members members = {0};
    for (size_t i = 0; starts && i < starts->nodes.count; i++)
        add(&members, starts->nodes.items[i], tree->totals[starts->nodes.items[i]]);
    if (!starts && kind == UNFOLD_CALLEES)
        add_children(view, 0, &members);
    for (uint32_t i = 1; !starts && kind == UNFOLD_CALLERS && i < tree->count; i++)
        add(&members, i, tree->nodes[i].self);
    out->tops = make_rows(out, &members, TREE_NONE);
    vec_free(&members.items);
}

void unfold_end(struct unfolding *u)
{
    for (size_t i = 0; i < u->rows.count; i++)
        free(u->rows.items[i].members);
    vec_free(&u->rows);
    free(u->group_of_label);
}
