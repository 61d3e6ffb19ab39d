/*
 * Numbers of the paths through a function, as Ball and Larus have them: every path from the entry
 * to the exit of its control-flow graph has a number of its own, from 0 on without gaps, which is
 * the sum of values on its edges.
 *
 * Loops are taken apart: where an edge leads back, a path ends and another one begins. For each
 * node that such edges lead to there is one edge more from the entry (START), for each that they
 * come from one to the exit (END). Which edges lead back is found by a search in depth, so that
 * graphs that cannot be reduced to nested loops are cut in the same way. Where there would be too
 * many paths, further edges are cut like those that lead back.
 *
 * Only some of the edges need code. The values are moved along a spanning tree of the graph, whose
 * edges need none then; those that are left (chords) have a step each, and the sum of the steps of
 * a path is its number all the same. The tree takes the edges with the largest weights.
 */
#ifndef FLOW_PATH_NUMBERS_H
#define FLOW_PATH_NUMBERS_H

#include "base/vec.h"

#include <stdbool.h>
#include <stdint.h>

enum flow_kind {
    FLOW_EDGE,  /* from a node to another */
    FLOW_CUT,   /* the same, but a path ends there and another one begins */
    FLOW_START, /* from the entry, for cut edges that lead to a node */
    FLOW_END    /* to the exit, for those that come from a node */
};

struct flow_edge {
    uint32_t from, to;
    uint32_t weight; /* how often it is taken, or a guess */
    uint8_t kind;    /* enum flow_kind; edges that a caller adds have FLOW_EDGE */
    bool in_tree;
    uint64_t value; /* the numbers of a path's edges add up to its number */
    int64_t step;   /* so do these; 0 on edges of the tree */
};

/* The first node is the entry, and nothing leads to it; the second one is the exit. */
enum { FLOW_ENTRY, FLOW_EXIT, FLOW_FIRST };

struct flow_graph {
    uint32_t node_count;
    VEC(struct flow_edge) edges; /* as they were added; behind them START and END */
    uint64_t paths;
    uint32_t cut_count; /* edges that were cut because there were too many paths */
    /* Of each node: */
    uint64_t *path_counts; /* from there to the exit; 0: nothing leads there */
    uint32_t *starts;      /* the edge from the entry for cut edges, FLOW_NONE: none */
    uint32_t *ends;
    uint32_t *first_out, *out; /* edges by the node they come from: out[first_out[n]] … */
};

#define FLOW_NONE UINT32_MAX

static inline void flow_add(struct flow_graph *g, uint32_t from, uint32_t to, uint32_t weight)
{
    vec_push(&g->edges, (struct flow_edge){.from = from, .to = to, .weight = weight});
}

/*
 * Numbers the paths. A node without a way on gets an edge to the exit. False: there are more than
 * `most` of them even where every edge is cut, and nothing has a number.
 */
bool flow_number(struct flow_graph *graph, uint64_t most);

/* The edges of a path, in order, at most so many; returns how many there are. */
uint32_t flow_path(const struct flow_graph *graph, uint64_t number, uint32_t *edges, uint32_t room);

void flow_free(struct flow_graph *graph);

#endif
