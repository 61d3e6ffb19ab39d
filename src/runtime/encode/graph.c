#include "runtime/encode/graph.h"

#include <stddef.h>

uint32_t graph_add_function(struct graph *g, uint64_t key)
{
    if (g->function_count == g->function_room)
        return GRAPH_NONE;
    g->functions[g->function_count] =
        (struct graph_function){.key = key, .first_in = GRAPH_NONE, .first_out = GRAPH_NONE};
    return g->function_count++;
}

uint32_t graph_add_edge(struct graph *g, const struct graph_edge *edge)
{
    if (g->edge_count == g->edge_room)
        return GRAPH_NONE;
    struct graph_edge *e = &g->edges[g->edge_count];
    struct graph_function *caller = &g->functions[edge->caller];
    struct graph_function *callee = &g->functions[edge->callee];
    *e = *edge;
    e->next_out = caller->first_out;
    e->next_in = callee->first_in;
    caller->first_out = callee->first_in = g->edge_count;
    return g->edge_count++;
}

/* --- the hottest first --------------------------------------------------------------------------
 */

/* The next edge in one of the two lists that an edge is in. */
static uint32_t *next_of(struct graph *g, uint32_t edge, bool is_out)
{
    return is_out ? &g->edges[edge].next_out : &g->edges[edge].next_in;
}

/* Two lists become one. */
static uint32_t merge(struct graph *g, uint32_t a, uint32_t b, bool is_out)
{
    uint32_t first = GRAPH_NONE, *end = &first;
    while (a != GRAPH_NONE && b != GRAPH_NONE) {
        uint32_t *from = g->edges[a].calls >= g->edges[b].calls ? &a : &b;
        *end = *from;
        end = next_of(g, *from, is_out);
        *from = *end;
    }
    *end = a != GRAPH_NONE ? a : b;
    return first;
}

/* Sorts a list: that of 2^i edges waits in its place for another one. */
static void hottest_first(struct graph *g, uint32_t *list, bool is_out)
{
    enum { PLACES = 32 };
    uint32_t waiting[PLACES], sorted = GRAPH_NONE;
    for (unsigned i = 0; i < PLACES; i++)
        waiting[i] = GRAPH_NONE;
    for (uint32_t e = *list, next; e != GRAPH_NONE; e = next) {
        next = *next_of(g, e, is_out);
        *next_of(g, e, is_out) = GRAPH_NONE;
        unsigned i = 0;
        for (; i < PLACES - 1 && waiting[i] != GRAPH_NONE; i++) {
            e = merge(g, waiting[i], e, is_out);
            waiting[i] = GRAPH_NONE;
        }
        waiting[i] = merge(g, waiting[i], e, is_out);
    }
    for (unsigned i = 0; i < PLACES; i++)
        sorted = merge(g, waiting[i], sorted, is_out);
    *list = sorted;
}

/* --- numbering -------------------------------------------------------------------------------- */

enum { BEGUN = 1, ENDED = 2 }; /* in `rank`, while it is not known; above them none */

/* The next edge of a function that may have a code; its cursor goes on behind it. */
static struct graph_edge *next_out(struct graph *g, struct graph_function *f)
{
    while (f->cursor != GRAPH_NONE) {
        struct graph_edge *e = &g->edges[f->cursor];
        f->cursor = e->next_out;
        if (!(e->flags & EDGE_FIXED))
            return e;
    }
    return NULL;
}

/* Depth first from one function; those that it has ended with go to the front of the order. */
static uint32_t order_from(struct graph *g, uint32_t first, uint32_t front)
{
    uint32_t depth = 0;
    g->stack[depth++] = first;
    g->functions[first].rank = BEGUN;
    while (depth) {
        uint32_t number = g->stack[depth - 1];
        struct graph_function *f = &g->functions[number];
        struct graph_edge *e = next_out(g, f);
        if (!e) {
            f->rank = ENDED;
            g->order[--front] = number;
            depth--;
            continue;
        }
        struct graph_function *callee = &g->functions[e->callee];
        if (callee->rank == BEGUN) {
            e->flags |= EDGE_BACK;
        } else if (!callee->rank) {
            callee->rank = BEGUN;
            g->stack[depth++] = e->callee;
        }
    }
    return front;
}

/* Callers before callees, but for back edges. */
static void put_in_order(struct graph *g)
{
    for (uint32_t i = 0; i < g->function_count; i++) {
        hottest_first(g, &g->functions[i].first_out, true);
        hottest_first(g, &g->functions[i].first_in, false);
        g->functions[i].rank = 0;
        g->functions[i].cursor = g->functions[i].first_out;
    }
    for (uint32_t i = 0; i < g->edge_count; i++)
        g->edges[i].flags = (g->edges[i].flags & ~(uint32_t)(EDGE_CODED | EDGE_BACK)) | EDGE_SEEN;
    uint32_t front = g->function_count;
    for (uint32_t i = 0; i < g->function_count; i++)
        if (!g->functions[i].rank)
            front = order_from(g, i, front);
}

/*
 * A function's range begins at `base`; of at most `most` numbers, and of more than `usual` only for
 * its hottest edge. Returns how many edges get none for that.
 */
static uint32_t number_function(struct graph *g, struct graph_function *f, uint64_t base,
                                uint64_t most, uint64_t usual)
{
    uint32_t coded = 0, refused = 0;
    f->base = (uint32_t)base;
    f->numbers = 0;
    for (uint32_t i = f->first_in; i != GRAPH_NONE; i = g->edges[i].next_in) {
        struct graph_edge *e = &g->edges[i];
        uint64_t more = g->functions[e->caller].numbers;
        e->flags &= ~(uint32_t)EDGE_CODED;
        if (e->flags & (EDGE_BACK | EDGE_FIXED | EDGE_LEAF))
            continue;
        if (f->numbers + more > (coded ? usual : most)) {
            refused++;
            continue;
        }
        e->code = f->numbers;
        e->flags |= EDGE_CODED;
        f->numbers += (uint32_t)more;
        coded++;
    }
    f->numbers += !coded;
    return refused;
}

static uint32_t number_all(struct graph *g, uint64_t most_ids, uint64_t usual)
{
    uint32_t refused = 0;
    uint64_t next = 1;
    for (uint32_t i = 0; i < g->function_count; i++) {
        struct graph_function *f = &g->functions[g->order[i]];
        uint64_t others = g->function_count - i - 1, most = most_ids - next - others;
        refused += number_function(g, f, next, most, usual < most ? usual : most);
        f->rank = i;
        next += f->numbers;
    }
    g->ids = next;
    return refused;
}

uint32_t graph_number(struct graph *g, uint64_t most_ids)
{
    enum { GROWTH = 4 };
    put_in_order(g);
    if (most_ids <= g->function_count)
        most_ids = g->function_count + 1ul;
    uint64_t usual = most_ids / (g->function_count + 1ul) / 2 + 1;
    while (number_all(g, most_ids, usual) && usual < most_ids && g->ids < most_ids / GROWTH)
        usual *= GROWTH; /* most functions need less than their share */
    g->numbered = g->function_count;
    uint32_t coded = 0;
    for (uint32_t i = 0; i < g->edge_count; i++)
        coded += (g->edges[i].flags & EDGE_CODED) != 0;
    return coded;
}

/* --- decoding --------------------------------------------------------------------------------- */

uint32_t graph_entered_by(const struct graph *g, uint32_t function, uint32_t id,
                          uint32_t *caller_id)
{
    const struct graph_function *f = &g->functions[function];
    uint32_t place = id - f->base;
    for (uint32_t i = f->first_in; i != GRAPH_NONE; i = g->edges[i].next_in) {
        const struct graph_edge *e = &g->edges[i];
        const struct graph_function *caller = &g->functions[e->caller];
        if (!(e->flags & EDGE_CODED) || place - e->code >= caller->numbers)
            continue;
        *caller_id = caller->base + (place - e->code);
        return i;
    }
    return GRAPH_NONE;
}
