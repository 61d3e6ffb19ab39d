/*
 * The numbers of paths (flow/path_numbers.c), against all paths of random graphs: each has a number
 * of its own, from 0 on without gaps, by the values of all edges and by the steps of the chords,
 * and leads back to the path. Graphs with more than one entry to a loop are among them.
 *
 * The argument is how many graphs.
 */
#include "flow/path_numbers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST_NODES = 14, MOST_PATHS = 1 << 12, GRAPHS = 20000, LONGEST = 256 };

static unsigned long graphs = GRAPHS;

static uint32_t random_below(uint32_t n)
{
    static uint64_t x = 88172645463325252u;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return (uint32_t)(x >> 32) % n;
}

static struct flow_graph random_graph(void)
{
    struct flow_graph g = {.node_count = FLOW_FIRST + 1 + random_below(MOST_NODES - FLOW_FIRST)};
    uint32_t entries = random_below(4) ? 1 : 1 + random_below(3), inner = g.node_count - FLOW_FIRST;
    for (uint32_t i = 0; i < entries; i++)
        flow_add(&g, FLOW_ENTRY, FLOW_FIRST + random_below(inner), random_below(100));
    for (uint32_t i = random_below(inner * 2 + 1); i-- > 0;) {
        bool ends = !random_below(5);
        flow_add(&g, FLOW_FIRST + random_below(inner),
                 ends ? FLOW_EXIT : FLOW_FIRST + random_below(inner), random_below(1000));
    }
    return g;
}

/* Every path, found without its number. */
struct walk {
    const struct flow_graph *g;
    uint64_t found;
    uint8_t seen[MOST_PATHS];
    uint32_t path[LONGEST];
};

static void check_path(struct walk *w, uint32_t length)
{
    const struct flow_edge *edges = w->g->edges.items;
    uint64_t number = 0;
    int64_t steps = 0;
    uint32_t again[LONGEST];
    for (uint32_t i = 0; i < length; i++) {
        number += edges[w->path[i]].value;
        steps += edges[w->path[i]].step;
        assert_true(!edges[w->path[i]].in_tree || edges[w->path[i]].step == 0);
    }
    assert_true(number < w->g->paths);
    assert_int_equal(steps, number);
    assert_int_equal(w->seen[number], 0);
    w->seen[number] = 1;
    w->found++;
    assert_int_equal(flow_path(w->g, number, again, LONGEST), length);
    assert_memory_equal(again, w->path, length * sizeof *again);
}

static void walk_on(struct walk *w, uint32_t node, uint32_t length)
{
    if (node == FLOW_EXIT) {
        check_path(w, length);
        return;
    }
    assert_true(length < LONGEST); /* what is not cut has no circle */
    for (uint32_t i = 0; i < w->g->edges.count; i++) {
        const struct flow_edge *e = &w->g->edges.items[i];
        if (e->from != node || e->kind == FLOW_CUT)
            continue;
        w->path[length] = i;
        walk_on(w, e->to, length + 1);
    }
}

/* Both ends of an edge that is cut are there, if anything leads to it. */
static void check_cuts(const struct flow_graph *g)
{
    for (uint32_t i = 0; i < g->edges.count; i++) {
        const struct flow_edge *e = &g->edges.items[i];
        if (e->kind != FLOW_CUT)
            continue;
        const struct flow_edge *start = &g->edges.items[g->starts[e->to]];
        const struct flow_edge *end = &g->edges.items[g->ends[e->from]];
        assert_true(start->kind == FLOW_START && start->from == FLOW_ENTRY && start->to == e->to);
        assert_true(end->kind == FLOW_END && end->from == e->from && end->to == FLOW_EXIT);
    }
}

static void check_graph(struct flow_graph *g, uint64_t most)
{
    static struct walk w;
    if (flow_number(g, most)) {
        assert_true(g->paths <= most);
        w = (struct walk){.g = g};
        walk_on(&w, FLOW_ENTRY, 0);
        assert_int_equal(w.found, g->paths);
        check_cuts(g);
    }
    flow_free(g);
}

static void test_every_path_has_its_number(void **state)
{
    (void)state;
    for (unsigned long i = 0; i < graphs; i++) {
        struct flow_graph g = random_graph();
        check_graph(&g, MOST_PATHS);
        if (i % 4)
            continue;
        g = random_graph(); /* with edges that are cut because there are too many paths */
        check_graph(&g, 4 + random_below(40));
    }
}

/* The example of the paper by Ball and Larus: A to F, six paths. */
static void test_the_paper_s_example(void **state)
{
    (void)state;
    enum { A = FLOW_FIRST, B, C, D, E, F, NODES };
    struct flow_graph g = {.node_count = NODES};
    flow_add(&g, FLOW_ENTRY, A, 1);
    flow_add(&g, A, B, 1);
    flow_add(&g, A, C, 1);
    flow_add(&g, B, C, 1);
    flow_add(&g, B, D, 1);
    flow_add(&g, C, D, 1);
    flow_add(&g, D, E, 1);
    flow_add(&g, D, F, 1);
    flow_add(&g, E, F, 1);
    flow_add(&g, F, FLOW_EXIT, 1);
    assert_true(flow_number(&g, 100));
    assert_int_equal(g.paths, 6);
    assert_int_equal(g.path_counts[A], 6);
    assert_int_equal(g.path_counts[B], 4);
    assert_int_equal(g.path_counts[C], 2);
    flow_free(&g);
}

/* A node with a loop to itself: four kinds of paths through it. */
static void test_a_loop_is_taken_apart(void **state)
{
    (void)state;
    struct flow_graph g = {.node_count = FLOW_FIRST + 1};
    flow_add(&g, FLOW_ENTRY, FLOW_FIRST, 1);
    flow_add(&g, FLOW_FIRST, FLOW_FIRST, 10);
    flow_add(&g, FLOW_FIRST, FLOW_EXIT, 1);
    assert_true(flow_number(&g, 100));
    assert_int_equal(g.paths, 4);
    assert_int_equal(g.edges.items[1].kind, FLOW_CUT);
    flow_free(&g);
}

/* A row of branches has 2^60 paths: it is cut, and each path still has a number. */
static void test_too_many_paths_are_cut(void **state)
{
    (void)state;
    enum { ROW = 60, MOST = 1000 };
    struct flow_graph g = {.node_count = FLOW_FIRST + ROW + 1};
    flow_add(&g, FLOW_ENTRY, FLOW_FIRST, 1);
    for (uint32_t i = 0; i < ROW; i++) {
        flow_add(&g, FLOW_FIRST + i, FLOW_FIRST + i + 1, 1);
        flow_add(&g, FLOW_FIRST + i, FLOW_FIRST + i + 1, 1);
    }
    uint64_t most = MOST;
    assert_true(flow_number(&g, most));
    assert_true(g.cut_count > 0);
    flow_free(&g);
    g = (struct flow_graph){.node_count = FLOW_FIRST + ROW + 1};
    flow_add(&g, FLOW_ENTRY, FLOW_FIRST, 1);
    for (uint32_t i = 0; i < ROW; i++)
        for (unsigned k = 0; k < 2; k++)
            flow_add(&g, FLOW_FIRST + i, FLOW_FIRST + i + 1, 1);
    check_graph(&g, MOST);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        graphs = strtoul(argv[1], NULL, 10);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_path_has_its_number),
        cmocka_unit_test(test_the_paper_s_example),
        cmocka_unit_test(test_a_loop_is_taken_apart),
        cmocka_unit_test(test_too_many_paths_are_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
