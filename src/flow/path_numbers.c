#include "flow/path_numbers.h"

#include <string.h>

enum color { NEW, OPEN, DONE };

struct search {
    struct flow_graph *g;
    uint8_t *colors;
    uint32_t *stack, *next; /* nodes that are open, and the place in the edges of each */
    uint32_t *order;        /* the last that was done is the first */
    uint32_t done;
};

static bool is_inner(const struct flow_edge *e)
{
    return e->kind != FLOW_CUT;
}

/* --- edges by node ---------------------------------------------------------------------------- */

static void index_edges(struct flow_graph *g)
{
    uint32_t count = (uint32_t)g->edges.count;
    g->out = must_realloc(g->out, count + 1, sizeof *g->out);
    memset(g->first_out, 0, (g->node_count + 2) * sizeof *g->first_out);
    for (uint32_t i = 0; i < count; i++)
        g->first_out[g->edges.items[i].from + 2]++;
    for (uint32_t n = 1; n <= g->node_count; n++)
        g->first_out[n + 1] += g->first_out[n];
    for (uint32_t i = 0; i < count; i++)
        g->out[g->first_out[g->edges.items[i].from + 1]++] = i;
}

/* --- what leads back -------------------------------------------------------------------------- */

static void open_node(struct search *s, uint32_t node, uint32_t *depth)
{
    s->colors[node] = OPEN;
    s->stack[*depth] = node;
    s->next[*depth] = s->g->first_out[node];
    ++*depth;
}

/* Visits what the entry leads to: edges to open nodes are cut, and nodes come into order. */
static void search_in_depth(struct search *s)
{
    struct flow_graph *g = s->g;
    uint32_t depth = 0;
    open_node(s, FLOW_ENTRY, &depth);
    while (depth) {
        uint32_t node = s->stack[depth - 1], at = s->next[depth - 1]++;
        if (at == g->first_out[node + 1]) {
            s->colors[node] = DONE;
            s->order[s->done++] = node;
            depth--;
            continue;
        }
        struct flow_edge *e = &g->edges.items[g->out[at]];
        if (s->colors[e->to] == OPEN)
            e->kind = FLOW_CUT;
        else if (s->colors[e->to] == NEW)
            open_node(s, e->to, &depth);
    }
}

/* The nodes that the entry leads to, each before all that leads to it; returns how many. */
static uint32_t put_in_order(struct flow_graph *g, uint32_t *order)
{
    struct search s = {.g = g,
                       .colors = must_calloc(g->node_count, sizeof *s.colors),
                       .stack = must_calloc(g->node_count, sizeof *s.stack),
                       .next = must_calloc(g->node_count, sizeof *s.next),
                       .order = order};
    search_in_depth(&s);
    free(s.colors);
    free(s.stack);
    free(s.next);
    return s.done;
}

/* --- numbers ---------------------------------------------------------------------------------- */

static uint32_t half(uint32_t weight)
{
    return weight > 1 ? weight / 2 : 1;
}

/* The edges at both ends of an edge that is cut. */
static void add_ends(struct flow_graph *g, uint32_t edge)
{
    struct flow_edge cut = g->edges.items[edge];
    if (g->starts[cut.to] == FLOW_NONE) {
        g->starts[cut.to] = (uint32_t)g->edges.count;
        vec_push(&g->edges, (struct flow_edge){.from = FLOW_ENTRY,
                                               .to = cut.to,
                                               .weight = half(cut.weight),
                                               .kind = FLOW_START});
    }
    if (g->ends[cut.from] == FLOW_NONE) {
        g->ends[cut.from] = (uint32_t)g->edges.count;
        vec_push(&g->edges, (struct flow_edge){.from = cut.from,
                                               .to = FLOW_EXIT,
                                               .weight = half(cut.weight),
                                               .kind = FLOW_END});
    }
}

static uint64_t sum(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/* Sets the values of a node's edges, and its number of paths. */
static void number_node(struct flow_graph *g, uint32_t node)
{
    uint64_t paths = 0;
    if (node == FLOW_EXIT)
        return;
    for (uint32_t k = g->first_out[node]; k < g->first_out[node + 1]; k++) {
        struct flow_edge *e = &g->edges.items[g->out[k]];
        if (!is_inner(e))
            continue;
        e->value = paths;
        paths = sum(paths, g->path_counts[e->to]);
    }
    g->path_counts[node] = paths;
}

/* Where a node has too many paths, its edges to all that has more than one are cut. */
static bool cut_node(struct flow_graph *g, uint32_t node, uint64_t most)
{
    bool has_cut = false;
    if (node == FLOW_ENTRY || node == FLOW_EXIT || g->path_counts[node] <= most)
        return false;
    for (uint32_t k = g->first_out[node]; k < g->first_out[node + 1]; k++) {
        struct flow_edge *e = &g->edges.items[g->out[k]];
        if (e->kind == FLOW_EDGE && g->path_counts[e->to] > 1) {
            e->kind = FLOW_CUT;
            g->cut_count++;
            has_cut = true;
        }
    }
    /* One way out is left, at least, for those that were cut. */
    g->path_counts[node] = 1;
    for (uint32_t k = g->first_out[node]; k < g->first_out[node + 1]; k++)
        g->path_counts[node] += is_inner(&g->edges.items[g->out[k]]);
    return has_cut;
}

static void forget(struct flow_graph *g, uint32_t own_edges)
{
    g->edges.count = own_edges;
    g->cut_count = 0;
    for (uint32_t i = 0; i < own_edges; i++) {
        g->edges.items[i].kind = FLOW_EDGE;
        g->edges.items[i].in_tree = false;
        g->edges.items[i].value = 0;
        g->edges.items[i].step = 0;
    }
    for (uint32_t n = 0; n < g->node_count; n++)
        g->starts[n] = g->ends[n] = FLOW_NONE;
    memset(g->path_counts, 0, g->node_count * sizeof *g->path_counts);
    g->path_counts[FLOW_EXIT] = 1; /* perhaps only cut edges lead there */
}

/* Numbers with at most so many paths from each node, but for the entry. */
static void number_all(struct flow_graph *g, uint64_t most_of_node, uint32_t *order)
{
    uint32_t own_edges = (uint32_t)g->edges.count;
    index_edges(g);
    uint32_t count = put_in_order(g, order);
    for (uint32_t i = 0; i < own_edges; i++)
        if (g->edges.items[i].kind == FLOW_CUT)
            add_ends(g, i);
    index_edges(g);
    for (uint32_t i = 0; i < count; i++) {
        number_node(g, order[i]);
        cut_node(g, order[i], most_of_node);
    }
    if (g->cut_count) {
        for (uint32_t i = 0; i < own_edges; i++)
            if (g->edges.items[i].kind == FLOW_CUT)
                add_ends(g, i);
        index_edges(g);
        for (uint32_t i = 0; i < count; i++)
            number_node(g, order[i]);
    }
    g->paths = g->path_counts[FLOW_ENTRY];
}

/* --- the spanning tree ------------------------------------------------------------------------ */

struct heavy {
    uint32_t edge, weight;
};

static int compare_heavy(const void *a, const void *b)
{
    const struct heavy *x = a, *y = b;
    if (x->weight != y->weight)
        return x->weight > y->weight ? -1 : 1;
    return x->edge < y->edge ? -1 : x->edge > y->edge;
}

static uint32_t root_of(uint32_t *parents, uint32_t node)
{
    while (parents[node] != node)
        node = parents[node] = parents[parents[node]];
    return node;
}

static bool join(uint32_t *parents, uint32_t a, uint32_t b)
{
    a = root_of(parents, a);
    b = root_of(parents, b);
    parents[a] = b;
    return a != b;
}

static bool is_reached(const struct flow_graph *g, const struct flow_edge *e)
{
    return is_inner(e) && g->path_counts[e->from];
}

/* Entry and exit are one: every path is a circle then, and the tree has none. */
static void choose_tree(struct flow_graph *g)
{
    uint32_t count = (uint32_t)g->edges.count;
    uint32_t *parents = must_calloc(g->node_count, sizeof *parents);
    struct heavy *heavy = must_calloc(count + 1, sizeof *heavy);
    for (uint32_t n = 0; n < g->node_count; n++)
        parents[n] = n;
    parents[FLOW_EXIT] = FLOW_ENTRY;
    for (uint32_t i = 0; i < count; i++)
        heavy[i] = (struct heavy){i, g->edges.items[i].weight};
    qsort(heavy, count, sizeof *heavy, compare_heavy);
    for (uint32_t i = 0; i < count; i++) {
        struct flow_edge *e = &g->edges.items[heavy[i].edge];
        e->in_tree = is_reached(g, e) && join(parents, e->from, e->to);
    }
    free(heavy);
    free(parents);
}

/*
 * Each node gets a potential, so that along the tree value + potential(from) - potential(to) is 0.
 * That is the step of an edge. On a whole path the potentials cancel, since entry and exit have the
 * same.
 */
static void set_steps(struct flow_graph *g)
{
    uint32_t count = (uint32_t)g->edges.count, *next = must_calloc(count + 1, 2 * sizeof *next);
    uint32_t *first = must_calloc(g->node_count, sizeof *first), *stack;
    int64_t *potentials = must_calloc(g->node_count, sizeof *potentials);
    bool *known = must_calloc(g->node_count, sizeof *known);
    uint32_t depth = 0;
    stack = must_calloc(g->node_count, sizeof *stack);
    for (uint32_t i = 0; i < count; i++) { /* lists of the tree's edges at each node; 0: the end */
        const struct flow_edge *e = &g->edges.items[i];
        if (!e->in_tree)
            continue;
        next[2 * i] = first[e->from];
        first[e->from] = 2 * i + 1;
        next[2 * i + 1] = first[e->to];
        first[e->to] = 2 * i + 2;
    }
    known[FLOW_ENTRY] = known[FLOW_EXIT] = true;
    stack[depth++] = FLOW_ENTRY;
    stack[depth++] = FLOW_EXIT;
    while (depth) {
        uint32_t node = stack[--depth];
        for (uint32_t k = first[node]; k; k = next[k - 1]) {
            const struct flow_edge *e = &g->edges.items[(k - 1) / 2];
            uint32_t other = e->from == node ? e->to : e->from;
            if (known[other])
                continue;
            known[other] = true;
            potentials[other] = e->from == node ? potentials[node] + (int64_t)e->value
                                                : potentials[node] - (int64_t)e->value;
            stack[depth++] = other;
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        struct flow_edge *e = &g->edges.items[i];
        if (is_reached(g, e))
            e->step = (int64_t)e->value + potentials[e->from] - potentials[e->to];
    }
    free(next);
    free(first);
    free(potentials);
    free(known);
    free(stack);
}

/* --- all of it -------------------------------------------------------------------------------- */

/* Whatever leads nowhere ends there. */
static void add_exits(struct flow_graph *g)
{
    bool *leads_on = must_calloc(g->node_count, sizeof *leads_on);
    for (uint32_t i = 0; i < g->edges.count; i++)
        leads_on[g->edges.items[i].from] = true;
    for (uint32_t n = 0; n < g->node_count; n++)
        if (!leads_on[n] && n != FLOW_EXIT)
            flow_add(g, n, FLOW_EXIT, 1);
    free(leads_on);
}

bool flow_number(struct flow_graph *g, uint64_t most)
{
    add_exits(g);
    uint32_t own_edges = (uint32_t)g->edges.count;
    g->path_counts = must_calloc(g->node_count, sizeof *g->path_counts);
    g->starts = must_calloc(g->node_count, sizeof *g->starts);
    g->ends = must_calloc(g->node_count, sizeof *g->ends);
    g->first_out = must_calloc(g->node_count + 2, sizeof *g->first_out);
    uint32_t *order = must_calloc(g->node_count, sizeof *order);
    uint64_t most_of_node = most;
    do {
        forget(g, own_edges);
        number_all(g, most_of_node, order);
        most_of_node /= 4;
    } while (g->paths > most && most_of_node);
    free(order);
    if (g->paths > most)
        return false;
    choose_tree(g);
    set_steps(g);
    return true;
}

uint32_t flow_path(const struct flow_graph *g, uint64_t number, uint32_t *edges, uint32_t room)
{
    uint32_t count = 0;
    for (uint32_t node = FLOW_ENTRY; node != FLOW_EXIT;) {
        uint32_t taken = FLOW_NONE;
        for (uint32_t k = g->first_out[node]; k < g->first_out[node + 1]; k++) {
            const struct flow_edge *e = &g->edges.items[g->out[k]];
            if (is_inner(e) && e->value <= number)
                taken = g->out[k];
        }
        if (taken == FLOW_NONE)
            break;
        number -= g->edges.items[taken].value;
        node = g->edges.items[taken].to;
        if (count < room)
            edges[count] = taken;
        count++;
    }
    return count;
}

void flow_free(struct flow_graph *g)
{
    vec_free(&g->edges);
    free(g->path_counts);
    free(g->starts);
    free(g->ends);
    free(g->first_out);
    free(g->out);
    *g = (struct flow_graph){0};
}
