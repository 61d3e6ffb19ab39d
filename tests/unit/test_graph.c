/*
 * The numbers of contexts (runtime/encode/graph.c), against all paths of random graphs: of all
 * paths of coded edges that begin in a function, each has a number of its own, which leads back to
 * it.
 */
#include "runtime/encode/graph.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { FUNCTIONS = 12, EDGES = 40, GRAPHS = 3000, MOST_PATHS = 1 << 20 };

static struct graph_function functions[FUNCTIONS];
static struct graph_edge edges[EDGES];
static uint32_t order[FUNCTIONS], stack[FUNCTIONS];
static uint8_t seen[MOST_PATHS];

static struct graph empty_graph(void)
{
    return (struct graph){.functions = functions,
                          .edges = edges,
                          .order = order,
                          .stack = stack,
                          .function_room = FUNCTIONS,
                          .edge_room = EDGES,
                          .ids = 1};
}

static uint32_t random_below(uint32_t n)
{
    static uint64_t x = 88172645463325252u;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return (uint32_t)(x >> 32) % n;
}

static void make_random(struct graph *g)
{
    *g = empty_graph();
    uint32_t n = 1 + random_below(FUNCTIONS), m = random_below(EDGES + 1);
    for (uint32_t i = 0; i < n; i++)
        assert_int_equal(graph_add_function(g, i), i);
    for (uint32_t i = 0; i < m; i++) {
        struct graph_edge e = {.caller = random_below(n),
                               .callee = random_below(n),
                               .site_key = i,
                               .calls = random_below(1000),
                               .flags = random_below(8) ? 0 : EDGE_FIXED};
        assert_int_equal(graph_add_edge(g, &e), i);
    }
}

/* Decodes a number of a path that began in a function: its edges, innermost first. */
static uint32_t decode(const struct graph *g, uint32_t start, uint32_t id, uint32_t *path)
{
    uint32_t count = 0;
    for (;;) {
        uint32_t function = graph_function_of(g, id), caller, edge;
        assert_int_not_equal(function, GRAPH_NONE);
        assert_true(graph_has(&g->functions[function], id));
        if (function == start) {
            assert_int_equal(id, g->functions[start].base);
            return count;
        }
        edge = graph_entered_by(g, function, id, &caller);
        assert_int_not_equal(edge, GRAPH_NONE);
        assert_int_equal(g->edges[edge].callee, function);
        assert_int_equal(graph_function_of(g, caller), g->edges[edge].caller);
        assert_true(count < FUNCTIONS);
        path[count++] = edge;
        id = caller;
    }
}

/* All paths that go on from this one: as a stub makes their numbers. Returns how many. */
static uint64_t all_from(const struct graph *g, uint32_t start, uint32_t function, uint32_t id,
                         uint32_t *path, uint32_t length)
{
    uint32_t decoded[FUNCTIONS];
    uint64_t count = 1;
    assert_true(id > 0 && id < g->ids && id < MOST_PATHS);
    assert_int_equal(seen[id], 0);
    seen[id] = 1;
    assert_int_equal(graph_function_of(g, id), function);
    assert_int_equal(decode(g, start, id, decoded), length);
    for (uint32_t i = 0; i < length; i++)
        assert_int_equal(decoded[i], path[length - 1 - i]);
    for (uint32_t e = 0; e < g->edge_count; e++) {
        if (g->edges[e].caller != function || !(g->edges[e].flags & EDGE_CODED))
            continue;
        assert_true(length < FUNCTIONS); /* no path is longer where there is no cycle */
        path[length] = e;
        count += all_from(g, start, g->edges[e].callee, id + graph_step(g, &g->edges[e]), path,
                          length + 1);
    }
    return count;
}

static void check_numbers(const struct graph *g)
{
    uint32_t path[FUNCTIONS];
    uint64_t count = 0;
    if (g->ids > MOST_PATHS)
        return;
    for (uint32_t f = 0; f < g->function_count; f++) {
        memset(seen, 0, g->ids);
        uint64_t paths = all_from(g, f, f, g->functions[f].base, path, 0);
        bool is_first = true;
        for (uint32_t e = 0; e < g->edge_count; e++)
            is_first &= g->edges[e].callee != f || !(g->edges[e].flags & EDGE_CODED);
        count += is_first ? paths : 0;
    }
    assert_int_equal(count, g->ids - 1); /* no number is wasted */
    assert_int_equal(graph_function_of(g, 0), GRAPH_NONE);
    assert_int_equal(graph_function_of(g, (uint32_t)g->ids), GRAPH_NONE);
}

static void every_path_has_its_own_number(void **state)
{
    (void)state;
    uint32_t back = 0;
    for (int i = 0; i < GRAPHS; i++) {
        struct graph g;
        make_random(&g);
        uint32_t coded = graph_number(&g, INT32_MAX);
        check_numbers(&g);
        /* With enough numbers, only back edges and those that no stub knows have no code. */
        for (uint32_t e = 0; e < g.edge_count; e++) {
            bool has_none = g.edges[e].flags & (EDGE_BACK | EDGE_FIXED);
            assert_int_equal(!has_none, (g.edges[e].flags & EDGE_CODED) != 0);
            coded -= !has_none;
            back += (g.edges[e].flags & EDGE_BACK) != 0;
        }
        assert_int_equal(coded, 0);
    }
    assert_true(back > GRAPHS);
}

/* Numbers are made again and again while edges come. */
static void a_graph_can_grow(void **state)
{
    (void)state;
    for (int i = 0; i < GRAPHS; i++) {
        struct graph g;
        make_random(&g);
        uint32_t all = g.edge_count;
        struct graph_edge added[EDGES];
        memcpy(added, edges, sizeof added);
        g.edge_count = 0;
        for (uint32_t f = 0; f < g.function_count; f++)
            functions[f].first_in = functions[f].first_out = GRAPH_NONE;
        while (g.edge_count < all) {
            for (uint32_t k = 1 + random_below(5); k-- > 0 && g.edge_count < all;)
                graph_add_edge(&g, &added[g.edge_count]);
            graph_number(&g, INT32_MAX);
            check_numbers(&g);
        }
    }
}

/* With too few numbers: the coldest of a function's edges have none. */
static void few_numbers_go_to_the_hottest(void **state)
{
    (void)state;
    uint32_t left_out = 0;
    for (int i = 0; i < GRAPHS; i++) {
        struct graph g;
        make_random(&g);
        uint64_t most = 1 + random_below(60);
        graph_number(&g, most);
        check_numbers(&g);
        uint64_t least = g.function_count + 1;
        assert_true(g.ids <= (most > least ? most : least));
        for (uint32_t a = 0; a < g.edge_count; a++) {
            if (edges[a].flags & (EDGE_CODED | EDGE_BACK | EDGE_FIXED))
                continue;
            left_out++;
            /* One that has a code in its place is hotter, or its caller has fewer numbers. */
            for (uint32_t b = 0; b < g.edge_count; b++)
                if (edges[b].callee == edges[a].callee && (edges[b].flags & EDGE_CODED))
                    assert_true(edges[b].calls >= edges[a].calls ||
                                functions[edges[b].caller].numbers <
                                    functions[edges[a].caller].numbers);
        }
    }
    assert_true(left_out > GRAPHS);
}

static void room_has_an_end(void **state)
{
    (void)state;
    struct graph g = empty_graph();
    for (uint32_t i = 0; i < FUNCTIONS; i++)
        assert_int_equal(graph_add_function(&g, i), i);
    assert_int_equal(graph_add_function(&g, 99), GRAPH_NONE);
    struct graph_edge e = {0};
    for (uint32_t i = 0; i < EDGES; i++)
        assert_int_equal(graph_add_edge(&g, &e), i);
    assert_int_equal(graph_add_edge(&g, &e), GRAPH_NONE);
    assert_int_equal(graph_number(&g, INT32_MAX), 0); /* a function that calls itself */
    assert_int_equal(g.ids, FUNCTIONS + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_path_has_its_own_number),
        cmocka_unit_test(a_graph_can_grow),
        cmocka_unit_test(few_numbers_go_to_the_hottest),
        cmocka_unit_test(room_has_an_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
