#include "query/static_encoding.h"

#include "base/key_set.h"

struct static_edge {
    uint32_t caller, callee;
    uint64_t calls;
    bool is_back;
};

struct static_function {
    VEC(uint32_t) in, out; /* edges, the hottest first once they are sorted */
    uint32_t next;         /* of out, to look at */
    enum { NOT_SEEN, BEGUN, ENDED } state;
    double numbers;
};

struct static_graph {
    struct static_function *functions;
    uint32_t function_count;
    VEC(struct static_edge) edges;
    VEC(uint32_t) order; /* functions, callees before callers */
    struct key_set keys;
};

/* A site, or none where a thread begins, and what it led to. */
struct edge_key {
    uint32_t site, callee;
};

/* One more than the index of its function, so that 0 is where threads begin. */
static uint32_t function_of(const struct profile *p, uint32_t frame)
{
    uint32_t function = profile_frame(p, frame)->function;
    return function < profile_function_count(p) ? function + 1 : 0;
}

static struct edge_key key_of(const struct profile *p, uint32_t node)
{
    uint32_t parent = profile_parent(p, node);
    return (struct edge_key){parent == CTP_NONE ? CTP_NONE : profile_node_frame(p, parent),
                             function_of(p, profile_node_frame(p, node))};
}

static void add_node(struct static_graph *g, const struct profile *p, uint32_t node, uint64_t calls)
{
    struct edge_key key = key_of(p, node);
    if (!calls || !key.callee)
        return;
    uint32_t number = key_set_add(&g->keys, &key);
    if (number == g->edges.count) {
        uint32_t caller = key.site == CTP_NONE ? 0 : function_of(p, key.site);
        struct static_edge e = {.caller = caller, .callee = key.callee};
        vec_push(&g->edges, e);
        vec_push(&g->functions[e.caller].out, number);
        vec_push(&g->functions[e.callee].in, number);
    }
    g->edges.items[number].calls += calls;
}

static const struct static_graph *sorted; /* what by_calls compares edges of */

static int by_calls(const void *a, const void *b)
{
    uint64_t x = sorted->edges.items[*(const uint32_t *)a].calls;
    uint64_t y = sorted->edges.items[*(const uint32_t *)b].calls;
    return (x < y) - (x > y);
}

static void sort_edges(struct static_graph *g)
{
    sorted = g;
    for (uint32_t i = 0; i < g->function_count; i++) {
        struct static_function *f = &g->functions[i];
        if (f->in.count)
            qsort(f->in.items, f->in.count, sizeof *f->in.items, by_calls);
        if (f->out.count)
            qsort(f->out.items, f->out.count, sizeof *f->out.items, by_calls);
    }
}

/* Depth first, with a stack of its own: edges to what is on it close cycles. */
static void order_from(struct static_graph *g, uint32_t first)
{
    VEC(uint32_t) stack = {0};
    vec_push(&stack, first);
    g->functions[first].state = BEGUN;
    while (stack.count) {
        uint32_t number = stack.items[stack.count - 1];
        struct static_function *f = &g->functions[number];
        if (f->next == f->out.count) {
            f->state = ENDED;
            vec_push(&g->order, number);
            stack.count--;
            continue;
        }
        struct static_edge *e = &g->edges.items[f->out.items[f->next++]];
        e->is_back = g->functions[e->callee].state == BEGUN;
        if (g->functions[e->callee].state == NOT_SEEN) {
            g->functions[e->callee].state = BEGUN;
            vec_push(&stack, e->callee);
        }
    }
    vec_free(&stack);
}

/* Callers first. */
static void number_functions(struct static_graph *g, struct static_encoding *out)
{
    for (uint32_t i = 0; i < g->function_count; i++)
        if (g->functions[i].state == NOT_SEEN && (g->functions[i].in.count || !i))
            order_from(g, i);
    for (size_t i = g->order.count; i-- > 0;) {
        struct static_function *f = &g->functions[g->order.items[i]];
        bool has_free = false;
        for (size_t k = 0; k < f->in.count; k++) {
            const struct static_edge *e = &g->edges.items[f->in.items[k]];
            if (e->is_back) {
                out->back_edges++;
                out->pushing_calls += e->calls;
                continue;
            }
            *(has_free ? &out->adding_calls : &out->free_calls) += e->calls;
            has_free = true;
            f->numbers += g->functions[e->caller].numbers;
        }
        f->numbers = f->numbers < 1 ? 1 : f->numbers;
        out->ids = f->numbers > out->ids ? f->numbers : out->ids;
        out->functions += f->in.count > 0;
    }
}

/* How many edges that close a cycle lie on the way to each context. A frame that is no call that
 * was counted is a place in a function, below the place that it was called from. */
static void count_depths(const struct static_graph *g, const struct profile *p,
                         const uint64_t *calls, struct static_encoding *out)
{
    uint32_t *depths = must_calloc(p->node_count + 1ul, sizeof *depths), edge;
    double sum = 0;
    for (uint32_t i = 0; i < p->node_count; i++) {
        struct edge_key key = key_of(p, i);
        uint32_t parent = profile_parent(p, i);
        depths[i] = parent == CTP_NONE ? 0 : depths[parent];
        if (key_set_find(&g->keys, &key, &edge))
            depths[i] += g->edges.items[edge].is_back;
        uint32_t depth = depths[i] < STATIC_DEPTHS ? depths[i] : STATIC_DEPTHS - 1;
        out->depths[depth] += calls[i];
        sum += (double)depths[i] * (double)calls[i];
        out->calls += calls[i];
    }
    out->mean_depth = out->calls ? sum / (double)out->calls : 0;
    free(depths);
}

static void free_graph(struct static_graph *g)
{
    for (uint32_t i = 0; i < g->function_count; i++) {
        vec_free(&g->functions[i].in);
        vec_free(&g->functions[i].out);
    }
    free(g->functions);
    vec_free(&g->edges);
    vec_free(&g->order);
    key_set_free(&g->keys);
}

int static_encoding_of(const struct profile *p, struct static_encoding *out, struct ct_error *err)
{
    uint32_t metric = profile_find_metric(p, "calls");
    *out = (struct static_encoding){0};
    if (metric == CTP_NONE)
        return ct_fail(err, "%s: it has no counted calls (record --engine exact)", p->name);
    const uint64_t *calls = p->values[metric];
    struct static_graph g = {.function_count = profile_function_count(p) + 1};
    g.functions = must_calloc(g.function_count, sizeof *g.functions);
    key_set_init(&g.keys, sizeof(struct edge_key));
    for (uint32_t i = 0; i < p->node_count; i++)
        add_node(&g, p, i, calls[i]);
    out->edges = (uint32_t)g.edges.count;
    sort_edges(&g);
    number_functions(&g, out);
    count_depths(&g, p, calls, out);
    free_graph(&g);
    return CT_OK;
}
