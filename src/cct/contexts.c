#include "cct/contexts.h"

#include "base/search.h"
#include "base/vec.h"
#include "cct/callers.h"

#include <string.h>

void contexts_free(struct contexts *contexts)
{
    free(contexts->nodes);
    free(contexts->values);
    *contexts = (struct contexts){0};
}

double contexts_degree(const struct contexts *c)
{
    bool *is_inner = must_calloc((size_t)c->count + 1, sizeof *is_inner);
    uint32_t children = 0, inner = 0;
    for (uint32_t i = 0; i < c->count; i++) {
        uint32_t parent = c->nodes[i].parent;
        if (parent == CONTEXTS_NONE)
            continue;
        children++;
        inner += !is_inner[parent];
        is_inner[parent] = true;
    }
    free(is_inner);
    return inner ? (double)children / inner : 0;
}

/* ---- Growing --------------------------------------------------------------------------------- */

/* A forest that grows by asking for children by label: a weighted join. */
struct growth {
    struct contexts *out;
    uint32_t room;
    uint32_t *slots; /* open addressing; node + 1 */
    uint64_t mask;
};

static struct growth grow(struct contexts *out, uint32_t metric_count)
{
    *out = (struct contexts){.metric_count = metric_count};
    return (struct growth){
        .out = out, .slots = must_calloc(1024, sizeof(uint32_t)), .mask = 1024 - 1};
}

static uint64_t slot_of(const struct growth *g, uint32_t parent, uint32_t label)
{
    uint64_t key = ((uint64_t)parent << 32 | label) * UINT64_C(0x9e3779b97f4a7c15);
    return (key ^ key >> 29) * UINT64_C(0xbf58476d1ce4e5b9) >> 20 & g->mask;
}

static void more_slots(struct growth *g)
{
    free(g->slots);
    g->mask = g->mask * 2 + 1;
    g->slots = must_calloc(g->mask + 1, sizeof *g->slots);
    for (uint32_t i = 0; i < g->out->count; i++) {
        uint64_t at = slot_of(g, g->out->nodes[i].parent, g->out->nodes[i].label);
        while (g->slots[at])
            at = (at + 1) & g->mask;
        g->slots[at] = i + 1;
    }
}

static uint32_t append(struct growth *g, struct context node)
{
    struct contexts *out = g->out;
    if (out->count == g->room) {
        g->room = g->room ? g->room * 2 : 256;
        out->nodes = must_realloc(out->nodes, g->room, sizeof *out->nodes);
        out->values =
            must_realloc(out->values, (size_t)g->room * out->metric_count + 1, sizeof *out->values);
    }
    memset(out->values + (size_t)out->count * out->metric_count, 0,
           out->metric_count * sizeof *out->values);
    out->nodes[out->count] = node;
    return out->count++;
}

/* The child of a node; for CONTEXTS_NONE a root. A new one has `source`. */
static uint32_t child(struct growth *g, uint32_t parent, uint32_t label, uint32_t source)
{
    if (((uint64_t)g->out->count + 1) * 4 > (g->mask + 1) * 3)
        more_slots(g);
    uint64_t at = slot_of(g, parent, label);
    for (; g->slots[at]; at = (at + 1) & g->mask) {
        const struct context *node = &g->out->nodes[g->slots[at] - 1];
        if (node->parent == parent && node->label == label)
            return g->slots[at] - 1;
    }
    g->slots[at] = g->out->count + 1;
    return append(g, (struct context){.parent = parent, .label = label, .source = source});
}

static void add_values(struct growth *g, uint32_t node, const struct contexts *in, uint32_t from)
{
    uint32_t metrics = in->metric_count;
    for (uint32_t m = 0; m < metrics; m++)
        g->out->values[(size_t)node * metrics + m] += in->values[(size_t)from * metrics + m];
}

static void end_growth(struct growth *g)
{
    free(g->slots);
}

/* ---- What a forest becomes ------------------------------------------------------------------- */

struct numbered_chunk {
    uint32_t place, first;
};

static int by_place(const void *a, const void *b)
{
    const struct numbered_chunk *x = a, *y = b;
    return (x->place > y->place) - (x->place < y->place);
}

/* The number of the node at a place, or CONTEXTS_NONE for 0. */
static uint32_t number_of(const struct forest *f, const struct numbered_chunk *chunks, size_t count,
                          uint32_t place)
{
    if (place == 0)
        return CONTEXTS_NONE;
    size_t behind; /* the first chunk that begins behind the place, which lies in the one before */
    SEARCH(behind, count, chunks[behind].place <= place);
    const struct numbered_chunk *chunk = &chunks[behind - 1];
    uint64_t bytes = (uint64_t)(place - chunk->place) * 8 - sizeof(struct forest_chunk);
    return chunk->first + (uint32_t)(bytes / f->node_bytes);
}

void contexts_from_forest(const struct forest *f, struct contexts *out)
{
    uint32_t metrics = f->options.metric_count, first = f->node_count;
    VEC(struct numbered_chunk) chunks = {0};
    uint32_t place =
        f->chunk ? (uint32_t)(((uintptr_t)f->chunk - (uintptr_t)f->base) / 8) : 0; /* newest */
    while (place) {
        const struct forest_chunk *chunk = (const void *)forest_at(f, place);
        first -= chunk->count;
        vec_push(&chunks, (struct numbered_chunk){place, first});
        place = chunk->next;
    }
    if (chunks.count)
        qsort(chunks.items, chunks.count, sizeof *chunks.items, by_place);
    *out = (struct contexts){
        .nodes = must_calloc((size_t)f->node_count + 1, sizeof *out->nodes),
        .values = must_calloc((size_t)f->node_count * metrics + 1, sizeof *out->values),
        .count = f->node_count,
        .metric_count = metrics};
    for (size_t c = 0; c < chunks.count; c++) {
        const struct forest_chunk *chunk = (const void *)forest_at(f, chunks.items[c].place);
        for (uint32_t i = 0; i < chunk->count; i++) {
            const struct forest_node *node =
                (const void *)((const uint8_t *)chunk->nodes + (size_t)i * f->node_bytes);
            uint32_t number = chunks.items[c].first + i;
            out->nodes[number] =
                (struct context){.parent = number_of(f, chunks.items, chunks.count, node->parent),
                                 .label = node->label,
                                 .source = CONTEXTS_NONE};
            memcpy(out->values + (size_t)number * metrics, node->values,
                   metrics * sizeof(uint64_t));
        }
    }
    vec_free(&chunks);
}

void contexts_relabel(const struct contexts *in, const uint32_t *new_labels, struct contexts *out)
{
    struct growth g = grow(out, in->metric_count);
    uint32_t *targets = must_calloc((size_t)in->count + 1, sizeof *targets);
    for (uint32_t i = 0; i < in->count; i++) {
        uint32_t parent = in->nodes[i].parent;
        targets[i] = child(&g, parent == CONTEXTS_NONE ? CONTEXTS_NONE : targets[parent],
                           new_labels[in->nodes[i].label], CONTEXTS_NONE);
        add_values(&g, targets[i], in, i);
    }
    free(targets);
    end_growth(&g);
}

void contexts_invert(const struct contexts *in, uint32_t k, struct contexts *out)
{
    struct growth g = grow(out, in->metric_count);
    for (uint32_t i = 0; i < in->count; i++) {
        uint32_t target = CONTEXTS_NONE, at = i, length = 0;
        for (;; length++) {
            target = child(&g, target, in->nodes[at].label, i);
            add_values(&g, target, in, i);
            at = in->nodes[at].parent;
            if (at == CONTEXTS_NONE || length == k)
                break;
        }
        /* Of the paths through the node, the one that ends here is its whole chain. */
        out->nodes[target].source = i;
    }
    end_growth(&g);
}

/* ---- Pruning --------------------------------------------------------------------------------- */

void contexts_prune(const struct contexts *in, struct contexts *out)
{
    uint32_t metrics = in->metric_count;
    uint32_t *children = must_calloc((size_t)in->count + 1, sizeof *children);
    uint32_t *leaves = must_calloc((size_t)in->count + 1, sizeof *leaves);
    uint32_t *targets = must_calloc((size_t)in->count + 1, sizeof *targets);
    bool *chain = must_calloc((size_t)in->count + 1, sizeof *chain);
    memset(chain, true, in->count);
    for (uint32_t i = 0; i < in->count; i++)
        leaves[i] = i;
    /* Children first: a node is a chain if it has at most one child, which is one and is worth as
     * much. */
    for (uint32_t i = in->count; i-- > 0;) {
        uint32_t parent = in->nodes[i].parent;
        if (parent == CONTEXTS_NONE)
            continue;
        leaves[parent] = leaves[i];
        if (++children[parent] > 1 || !chain[i] ||
            memcmp(in->values + (size_t)parent * metrics, in->values + (size_t)i * metrics,
                   metrics * sizeof *in->values) != 0)
            chain[parent] = false;
    }
    struct growth g = grow(out, metrics);
    for (uint32_t i = 0; i < in->count; i++) {
        struct context node = in->nodes[i];
        targets[i] = CONTEXTS_NONE;
        if (node.parent != CONTEXTS_NONE) {
            if (chain[node.parent] || targets[node.parent] == CONTEXTS_NONE)
                continue;
            node.parent = targets[node.parent];
        }
        node.cut = chain[i] && children[i] == 1;
        node.source = in->nodes[leaves[i]].source;
        targets[i] = append(&g, node);
        add_values(&g, targets[i], in, i);
    }
    end_growth(&g);
    free(children);
    free(leaves);
    free(targets);
    free(chain);
}

void contexts_restore(const struct contexts *pruned, const struct contexts *source, uint32_t k,
                      struct contexts *out)
{
    struct growth g = grow(out, pruned->metric_count);
    uint32_t *depths = must_calloc((size_t)pruned->count + 1, sizeof *depths);
    uint32_t *targets = must_calloc((size_t)pruned->count + 1, sizeof *targets);
    for (uint32_t i = 0; i < pruned->count; i++) {
        const struct context *node = &pruned->nodes[i];
        bool root = node->parent == CONTEXTS_NONE;
        depths[i] = root ? 0 : depths[node->parent] + 1;
        uint32_t target =
            child(&g, root ? CONTEXTS_NONE : targets[node->parent], node->label, node->source);
        targets[i] = target;
        add_values(&g, target, pruned, i);
        if (!node->cut)
            continue;
        uint32_t at = node->source;
        for (uint32_t step = 0; step < depths[i]; step++)
            at = source->nodes[at].parent;
        for (uint32_t depth = depths[i]; depth < k; depth++) {
            at = source->nodes[at].parent;
            if (at == CONTEXTS_NONE)
                break;
            target = child(&g, target, source->nodes[at].label, node->source);
            add_values(&g, target, pruned, i);
        }
    }
    free(depths);
    free(targets);
    end_growth(&g);
}

/* ---- What is similar to its root ------------------------------------------------------------- */

struct pending {
    uint32_t node, depth;
    struct caller_group group;
    uint64_t least;
};

void contexts_similar(const struct contexts *in, uint32_t k, uint32_t metric, double percent,
                      struct contexts *out)
{
    struct growth g = grow(out, in->metric_count);
    struct callers callers;
    callers_begin(&callers,
                  &(struct callers_source){.parents = in->count ? &in->nodes->parent : NULL,
                                           .labels = in->count ? &in->nodes->label : NULL,
                                           .values = in->count ? in->values + metric : NULL,
                                           .node_step = sizeof *in->nodes,
                                           .value_step = in->metric_count * sizeof *in->values,
                                           .count = in->count});
    VEC(struct pending) todo = {0};
    for (uint32_t i = 0; i < callers.functions.count; i++) {
        struct caller_group group = callers.functions.items[i];
        /* Rounded up: a node with this much has at least the share. */
        double share = (double)group.value * percent / 100;
        uint64_t least = share >= 0x1p63 ? UINT64_MAX : (uint64_t)share;
        if ((double)least < share)
            least++;
        vec_push(&todo, (struct pending){CONTEXTS_NONE, 0, group, least});
    }
    for (size_t next = 0; next < todo.count; next++) {
        struct pending now = todo.items[next];
        if (now.group.value < now.least)
            continue;
        uint32_t node =
            child(&g, now.node, now.group.label, callers_node(&callers, now.group.first));
        for (uint32_t i = now.group.first; i < now.group.end; i++)
            add_values(&g, node, in, callers_node(&callers, i));
        if (now.depth == k)
            continue;
        callers_split(&callers, now.group);
        for (size_t c = 0; c < callers.groups.count; c++)
            if (callers.groups.items[c].label != CONTEXTS_NONE)
                vec_push(&todo,
                         (struct pending){node, now.depth + 1, callers.groups.items[c], now.least});
    }
    vec_free(&todo);
    callers_end(&callers);
    end_growth(&g);
}
