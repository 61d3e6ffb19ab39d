#include "query/outline.h"

#include <string.h>

/* A context in a group. Downwards the weight is its total; upwards it is what is charged far below
 * and came up through here. */
struct member {
    uint32_t node;
    uint64_t weight;
};

struct group {
    uint64_t total;
    uint32_t label, parent_row, depth;
    uint32_t sequence; /* of creation: makes the order of equals certain */
    uint32_t count;
    struct member *members;
};

struct expansion {
    const struct view *view;
    const struct outline_options *options;
    struct outline *out;
    bool up;
    VEC(struct group) heap; /* heaviest first */
    VEC(struct member) next;
    uint32_t *group_of_label; /* scratch for grouping: TREE_NONE outside of it */
    uint32_t sequence;
};

static bool comes_first(const struct group *a, const struct group *b)
{
    return a->total != b->total ? a->total > b->total : a->sequence < b->sequence;
}

static void heap_push(struct expansion *e, struct group group)
{
    vec_push(&e->heap, group);
    struct group *heap = e->heap.items;
    size_t at = e->heap.count - 1;
    for (; at && comes_first(&group, &heap[(at - 1) / 2]); at = (at - 1) / 2)
        heap[at] = heap[(at - 1) / 2];
    heap[at] = group;
}

static struct group heap_pop(struct expansion *e)
{
    struct group *heap = e->heap.items, top = heap[0], moved = heap[--e->heap.count];
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < e->heap.count; at = child) {
        if (child + 1 < e->heap.count && comes_first(&heap[child + 1], &heap[child]))
            child++;
        if (!comes_first(&heap[child], &moved))
            break;
        heap[at] = heap[child];
    }
    heap[at] = moved;
    return top;
}

/* Parts e->next into groups by label, without their members. */
static uint32_t make_groups(struct expansion *e, uint32_t parent_row, uint32_t depth,
                            struct group **out)
{
    VEC(struct group) groups = {0};
    const struct tree_node *nodes = e->view->tree.nodes;
    for (size_t i = 0; i < e->next.count; i++) {
        uint32_t label = nodes[e->next.items[i].node].label;
        uint32_t *group = &e->group_of_label[label];
        if (*group == TREE_NONE) {
            *group = (uint32_t)groups.count;
            vec_push(&groups, (struct group){.label = label,
                                             .parent_row = parent_row,
                                             .depth = depth,
                                             .sequence = e->sequence++});
        }
        groups.items[*group].total += e->next.items[i].weight;
        groups.items[*group].count++;
    }
    *out = groups.items;
    return (uint32_t)groups.count;
}

/* Which groups become rows one day: all that are heavy enough or, on a hot path, the heaviest, if
 * it is heavier than what stays here. */
static void choose_groups(const struct expansion *e, struct group *groups, uint32_t count,
                          uint64_t stays, bool *chosen)
{
    uint32_t best = TREE_NONE;
    for (uint32_t i = 0; i < count; i++) {
        chosen[i] = groups[i].total && groups[i].total >= e->options->min_total;
        if (chosen[i] && (best == TREE_NONE || comes_first(&groups[i], &groups[best])))
            best = i;
    }
    if (!e->options->hot_path || best == TREE_NONE)
        return;
    memset(chosen, 0, count * sizeof *chosen);
    chosen[best] = groups[best].total >= stays;
}

/* Makes the contexts in e->next children of a row. */
static void push_groups(struct expansion *e, uint32_t parent_row, uint32_t depth, uint64_t stays)
{
    struct group *groups;
    uint32_t count = make_groups(e, parent_row, depth, &groups);
    bool *chosen = must_calloc((size_t)count + 1, sizeof *chosen);
    choose_groups(e, groups, count, stays, chosen);
    for (uint32_t i = 0; i < count; i++) {
        if (chosen[i])
            groups[i].members = must_realloc(NULL, groups[i].count, sizeof *groups[i].members);
        else
            e->out->left_out += groups[i].total != 0;
        groups[i].count = 0;
    }
    const struct tree_node *nodes = e->view->tree.nodes;
    for (size_t i = 0; i < e->next.count; i++) {
        struct group *group = &groups[e->group_of_label[nodes[e->next.items[i].node].label]];
        if (group->members)
            group->members[group->count++] = e->next.items[i];
    }
    for (uint32_t i = 0; i < count; i++) {
        e->group_of_label[groups[i].label] = TREE_NONE;
        if (chosen[i])
            heap_push(e, groups[i]);
    }
    free(chosen);
    free(groups);
    e->next.count = 0;
}

static void add_children(struct expansion *e, uint32_t node)
{
    const struct tree *tree = &e->view->tree;
    uint32_t end = node + tree->sizes[node];
    for (uint32_t i = node + 1; i < end; i += tree->sizes[i])
        if (tree->totals[i])
            vec_push(&e->next, (struct member){i, tree->totals[i]});
}

static uint64_t sum_counts(const struct expansion *e, const struct group *group)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; e->view->counts && !e->up && i < group->count; i++)
        sum += e->view->counts[group->members[i].node];
    return sum;
}

/* The neighbours of a group's contexts, into e->next. Returns what stays in the row itself. */
static uint64_t look_around(struct expansion *e, const struct group *group)
{
    const struct tree *tree = &e->view->tree;
    uint64_t stays = 0;
    for (uint32_t i = 0; i < group->count; i++) {
        struct member member = group->members[i];
        uint32_t parent = tree->nodes[member.node].parent;
        if (!e->up) {
            add_children(e, member.node);
            stays += tree->nodes[member.node].self;
        } else if (parent != 0) {
            vec_push(&e->next, (struct member){parent, member.weight});
        } else {
            stays += member.weight;
        }
    }
    return stays;
}

static struct expansion begin(const struct view *view, const struct outline_options *options,
                              bool up, struct outline *out)
{
    struct expansion e = {.view = view, .options = options, .out = out, .up = up};
    size_t labels = view->labels.items.count + 1;
    *out = (struct outline){0};
    e.group_of_label = must_realloc(NULL, labels, sizeof *e.group_of_label);
    memset(e.group_of_label, 0xff, labels * sizeof *e.group_of_label);
    return e;
}

static int compare_groups(const void *a, const void *b)
{
    return comes_first(a, b) ? -1 : comes_first(b, a);
}

/* Groups behind the first `enough` will never become rows. An array in order is a heap. */
static void prune(struct expansion *e, size_t enough)
{
    if (e->heap.count < 2 * enough + 1024)
        return;
    qsort(e->heap.items, e->heap.count, sizeof *e->heap.items, compare_groups);
    e->out->left_out += e->heap.count - enough;
    while (e->heap.count > enough)
        free(e->heap.items[--e->heap.count].members);
}

static void arrange(const struct view *view, enum row_order order, struct outline *outline);

/* Begins with the contexts in e->next, and goes on until there is nothing left or enough. */
static void expand(struct expansion *e)
{
    struct outline *out = e->out;
    uint32_t limit = e->options->limit_rows, depth_max = e->options->depth_max;
    push_groups(e, TREE_NONE, 0, 0);
    while (e->heap.count && (!limit || out->rows.count < limit)) {
        struct group group = heap_pop(e);
        uint32_t row = (uint32_t)out->rows.count;
        uint64_t stays = look_around(e, &group), count = sum_counts(e, &group);
        free(group.members);
        vec_push(&out->rows, (struct outline_row){.parent = group.parent_row,
                                                  .label = group.label,
                                                  .depth = group.depth,
                                                  .self = stays,
                                                  .total = group.total,
                                                  .count = count});
        if (depth_max && group.depth + 1 >= depth_max)
            e->next.count = 0;
        else
            push_groups(e, row, group.depth + 1, stays);
        if (limit)
            prune(e, limit - out->rows.count);
    }
    out->left_out += e->heap.count;
    for (size_t i = 0; i < e->heap.count; i++)
        free(e->heap.items[i].members);
    vec_free(&e->heap);
    vec_free(&e->next);
    free(e->group_of_label);
    arrange(e->view, e->options->order, out);
}

void outline_topdown(const struct view *view, const struct outline_options *options,
                     struct outline *out)
{
    struct expansion e = begin(view, options, false, out);
    add_children(&e, 0);
    expand(&e);
}

void outline_bottomup(const struct view *view, const struct outline_options *options,
                      struct outline *out)
{
    struct expansion e = begin(view, options, true, out);
    for (uint32_t i = 1; i < view->tree.count; i++)
        if (view->tree.nodes[i].self)
            vec_push(&e.next, (struct member){i, view->tree.nodes[i].self});
    expand(&e);
}

static void from_functions(struct expansion *e, const bool *wanted)
{
    const struct tree *tree = &e->view->tree;
    for (uint32_t i = 1, outside = 0; i < tree->count; i++) {
        if (i < outside || !wanted[tree->nodes[i].label])
            continue;
        outside = i + tree->sizes[i];
        vec_push(&e->next, (struct member){i, tree->totals[i]});
    }
    expand(e);
}

void outline_callees(const struct view *view, const bool *wanted,
                     const struct outline_options *options, struct outline *out)
{
    struct expansion e = begin(view, options, false, out);
    from_functions(&e, wanted);
}

void outline_callers(const struct view *view, const bool *wanted,
                     const struct outline_options *options, struct outline *out)
{
    struct expansion e = begin(view, options, true, out);
    from_functions(&e, wanted);
}

void outline_free(struct outline *outline)
{
    vec_free(&outline->rows);
}

/* ---- From the order of weight to that of a tree ---------------------------------------------- */

struct ordering {
    const struct view *view;
    enum row_order order;
    const struct outline_row *rows;
};

static int compare_siblings(const void *a, const void *b, void *context)
{
    const struct ordering *o = context;
    const struct outline_row *x = &o->rows[*(const uint32_t *)a];
    const struct outline_row *y = &o->rows[*(const uint32_t *)b];
    if (x->parent != y->parent) /* TREE_NONE, the tops, come last */
        return x->parent < y->parent ? -1 : 1;
    if (o->order == ORDER_TOTAL && x->total != y->total)
        return x->total > y->total ? -1 : 1;
    char text[1024], other[1024];
    int names = strcmp(label_name(&o->view->labels, x->label, text, sizeof text),
                       label_name(&o->view->labels, y->label, other, sizeof other));
    return names ? names : (x->label > y->label) - (x->label < y->label);
}

static void arrange(const struct view *view, enum row_order order, struct outline *outline)
{
    uint32_t count = (uint32_t)outline->rows.count;
    struct outline_row *rows = outline->rows.items;
    uint32_t *sorted = must_realloc(NULL, (size_t)count + 1, sizeof *sorted);
    uint32_t *first_child = must_calloc((size_t)count + 1, sizeof *first_child);
    for (uint32_t i = 0; i < count; i++)
        sorted[i] = i;
    struct ordering ordering = {view, order, rows};
    qsort_r(sorted, count, sizeof *sorted, compare_siblings, &ordering);
    uint32_t first_top = count;
    for (uint32_t i = count; i-- > 0;) {
        struct outline_row *row = &rows[sorted[i]];
        row->last = i + 1 == count || rows[sorted[i + 1]].parent != row->parent;
        if (row->parent == TREE_NONE) {
            first_top = i;
        } else {
            first_child[row->parent] = i;
            rows[row->parent].children++;
        }
    }
    outline->tops = count - first_top;

    VEC(struct outline_row) arranged = {0};
    struct place {
        uint32_t at, end; /* siblings in `sorted` that are still to come */
        uint32_t parent;  /* their parent, arranged */
    };
    VEC(struct place) stack = {0};
    vec_push(&stack, (struct place){first_top, count, TREE_NONE});
    while (stack.count) {
        struct place *place = &stack.items[stack.count - 1];
        if (place->at == place->end) {
            stack.count--;
            continue;
        }
        uint32_t old = sorted[place->at++], row = (uint32_t)arranged.count;
        vec_push(&arranged, rows[old]);
        arranged.items[row].parent = place->parent;
        if (rows[old].children)
            vec_push(&stack,
                     (struct place){first_child[old], first_child[old] + rows[old].children, row});
    }
    vec_free(&stack);
    free(sorted);
    free(first_child);
    free(rows);
    outline->rows.items = arranged.items;
    outline->rows.count = arranged.count;
    outline->rows.room = arranged.room;
}
