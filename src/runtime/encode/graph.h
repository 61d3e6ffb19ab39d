/*
 * The call graph of a thread as it has been seen, and the numbers of its contexts.
 *
 * A function has as many numbers as there are paths of coded edges that end in it and begin where
 * no coded edge leads: for each of its coded incoming edges a range as large as that edge's caller
 * has numbers, the hottest first. No two functions share a number. So the number of a callee is
 * that of its caller plus a constant of the edge. A path may begin anywhere, with the first number
 * of its function: who knows where it began finds all of it by its last number.
 *
 * Edges that close a cycle have no code, nor have those for which there are not enough numbers. A
 * function gets its share of them, which goes to its hottest edges; the hottest of all may have
 * more, so that hot paths stay whole. Nothing here allocates memory or asks for the time.
 */
#ifndef RUNTIME_ENCODE_GRAPH_H
#define RUNTIME_ENCODE_GRAPH_H

#include "base/search.h"

#include <stdbool.h>
#include <stdint.h>

#define GRAPH_NONE UINT32_MAX

struct graph_function {
    uint64_t key;
    uint32_t first_site, site_count; /* of its sites that are edited */
    uint32_t first_in, first_out;    /* edges; GRAPH_NONE: it has none */
    uint32_t base, numbers;          /* its range */
    uint32_t rank;                   /* in the order of ranges */
    uint32_t cursor;                 /* of numbering */
};

enum edge_flags {
    EDGE_TAIL = 1,
    EDGE_CODED = 2,
    EDGE_BACK = 4,  /* it closes a cycle */
    EDGE_FIXED = 8, /* no stub knows it: it never has a code */
    EDGE_SEEN = 16, /* it was there at the last numbering */
    EDGE_LEAF = 32  /* to a function that calls nothing: it needs no number */
};

struct graph_edge {
    uint64_t site_key; /* of the return address, or of the tail jump */
    uint64_t target;   /* where the call led */
    uint32_t caller, callee;
    uint32_t next_in, next_out;
    uint32_t site; /* its number; 0: none that is edited */
    uint32_t code; /* in the callee's range */
    uint32_t calls;
    uint32_t flags; /* enum edge_flags */
};

struct graph {
    struct graph_function *functions;
    struct graph_edge *edges;
    uint32_t *order; /* functions by their ranges */
    uint32_t *stack; /* as many: for numbering */
    uint32_t function_count, function_room;
    uint32_t edge_count, edge_room;
    uint32_t numbered; /* functions that have a range */
    uint64_t ids;      /* numbers that are in use, with 0, which is none */
};

/* Adds one; GRAPH_NONE: there is no room. */
uint32_t graph_add_function(struct graph *graph, uint64_t key);
uint32_t graph_add_edge(struct graph *graph, const struct graph_edge *edge);

/* Gives all functions ranges, and edges codes, of less than `most_ids` numbers in all, but at least
 * one for each function. Returns how many edges have a code. */
uint32_t graph_number(struct graph *graph, uint64_t most_ids);

/* The function of a number; GRAPH_NONE: it is none's. Inlined: it may stand in code that no signal
 * may find elsewhere (STUB_TEXT). */
static inline __attribute__((always_inline)) uint32_t graph_function_of(const struct graph *g,
                                                                        uint32_t id)
{
    uint32_t i;
    SEARCH(i, g->numbered, g->functions[g->order[i]].base <= id);
    bool is_its =
        i && id - g->functions[g->order[i - 1]].base < g->functions[g->order[i - 1]].numbers;
    return is_its ? g->order[i - 1] : GRAPH_NONE;
}

/* The edge by which the function of a number was entered, if the path did not begin there, and its
 * caller's number; GRAPH_NONE: there is none. */
uint32_t graph_entered_by(const struct graph *graph, uint32_t function, uint32_t id,
                          uint32_t *caller_id);

/* What a coded edge adds to the number of its caller. */
static inline __attribute__((always_inline)) uint32_t graph_step(const struct graph *g,
                                                                 const struct graph_edge *e)
{
    return g->functions[e->callee].base + e->code - g->functions[e->caller].base;
}

/* Has this function the number? */
static inline __attribute__((always_inline)) bool graph_has(const struct graph_function *f,
                                                            uint32_t id)
{
    return id - f->base < f->numbers;
}

#endif
