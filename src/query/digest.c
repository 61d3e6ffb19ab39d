#include "query/digest.h"

/* A call that has so much of the cost of the chain, in per cent, continues it; from the root on,
 * more is needed, since what is left out there is out of sight. */
enum { CHAIN_PERCENT = 90, COMMON_PERCENT = 95 };

static uint32_t heaviest_child(const struct tree *tree, uint32_t node)
{
    uint32_t best = TREE_NONE, end = node + tree->sizes[node];
    for (uint32_t i = node + 1; i < end; i += tree->sizes[i])
        if (best == TREE_NONE || tree->totals[i] > tree->totals[best])
            best = i;
    return best;
}

/* Where the chain from this node ends, and what was charged on its way. */
static uint32_t follow(const struct tree *tree, uint32_t node, uint64_t *self)
{
    uint32_t last = node;
    double least = (double)tree->totals[node] * (node ? CHAIN_PERCENT : COMMON_PERCENT);
    *self = tree->nodes[node].self;
    for (uint32_t next; (next = heaviest_child(tree, last)) != TREE_NONE; last = next) {
        if ((double)tree->totals[next] * 100 < least || tree->totals[next] == 0)
            break;
        *self += tree->nodes[next].self;
    }
    return last;
}

/* A row that could be added next. */
struct candidate {
    uint32_t node, parent;
};

struct growth {
    const struct tree *tree;
    struct digest *out;
    VEC(struct candidate) candidates;
    uint64_t min_total;
};

static void offer_children(struct growth *g, uint32_t node, uint32_t row)
{
    const struct tree *tree = g->tree;
    uint32_t end = node + tree->sizes[node];
    for (uint32_t i = node + 1; i < end; i += tree->sizes[i])
        if (tree->totals[i] >= g->min_total && tree->totals[i])
            vec_push(&g->candidates, (struct candidate){i, row});
        else
            g->out->outline.left_out += tree->totals[i] != 0;
}

static void add_row(struct growth *g, uint32_t node, uint32_t parent)
{
    struct outline *outline = &g->out->outline;
    uint64_t self;
    uint32_t last = follow(g->tree, node, &self), row = (uint32_t)outline->rows.count;
    uint32_t depth = parent == TREE_NONE ? 0 : outline->rows.items[parent].depth + 1;
    vec_push(&outline->rows, (struct outline_row){.parent = parent,
                                                  .label = g->tree->nodes[last].label,
                                                  .depth = depth,
                                                  .self = self,
                                                  .total = g->tree->totals[node]});
    vec_push(&g->out->chains, (struct digest_chain){node, last});
    offer_children(g, last, row);
}

/* Takes the heaviest candidate out. */
static struct candidate take(struct growth *g)
{
    size_t best = 0;
    for (size_t i = 1; i < g->candidates.count; i++)
        if (g->tree->totals[g->candidates.items[i].node] >
            g->tree->totals[g->candidates.items[best].node])
            best = i;
    struct candidate taken = g->candidates.items[best];
    for (size_t i = best + 1; i < g->candidates.count; i++)
        g->candidates.items[i - 1] = g->candidates.items[i];
    g->candidates.count--;
    return taken;
}

/* From the order of weight to that of a tree: the rows of each parent are in order already. */
static void arrange(struct digest *digest)
{
    struct outline *outline = &digest->outline;
    uint32_t count = (uint32_t)outline->rows.count;
    struct digest old = *digest;
    uint32_t *places = must_calloc((size_t)count + 1, sizeof *places);
    VEC(uint32_t) stack = {0};
    outline->rows.items = NULL;
    outline->rows.count = outline->rows.room = 0;
    digest->chains.items = NULL;
    digest->chains.count = digest->chains.room = 0;
    vec_push(&stack, TREE_NONE);
    while (stack.count) {
        uint32_t row = stack.items[--stack.count];
        if (row != TREE_NONE) {
            struct outline_row moved = old.outline.rows.items[row];
            places[row] = (uint32_t)outline->rows.count;
            moved.parent = moved.parent == TREE_NONE ? TREE_NONE : places[moved.parent];
            vec_push(&outline->rows, moved);
            vec_push(&digest->chains, old.chains.items[row]);
        }
        bool last = true;
        uint32_t children = 0;
        for (uint32_t i = count; i-- > 0;) {
            if (old.outline.rows.items[i].parent != row)
                continue;
            old.outline.rows.items[i].last = last;
            last = false;
            children++;
            vec_push(&stack, i);
        }
        if (row == TREE_NONE)
            outline->tops = children;
        else
            outline->rows.items[places[row]].children = children;
    }
    vec_free(&stack);
    free(places);
    free(old.outline.rows.items);
    free(old.chains.items);
}

void digest_make(const struct view *view, uint32_t limit_rows, uint64_t min_total,
                 struct digest *out)
{
    *out = (struct digest){0};
    struct growth g = {.tree = &view->tree, .out = out, .min_total = min_total};
    uint64_t self;
    uint32_t branch = view->tree.totals[0] ? follow(&view->tree, 0, &self) : 0;
    if (branch) {
        vec_push(&g.candidates, (struct candidate){branch, TREE_NONE});
        out->above = view->tree.nodes[branch].parent;
    } else {
        offer_children(&g, 0, TREE_NONE);
    }
    while (g.candidates.count && out->outline.rows.count < limit_rows) {
        struct candidate next = take(&g);
        add_row(&g, next.node, next.parent);
    }
    out->outline.left_out += g.candidates.count;
    vec_free(&g.candidates);
    arrange(out);
}

void digest_free(struct digest *digest)
{
    outline_free(&digest->outline);
    vec_free(&digest->chains);
}
