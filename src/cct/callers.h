/*
 * Who called a function, and who called those, asked for step by step: the part of an inverse that
 * the user wants to see, without making the rest.
 *
 * The nodes of a tree that have a value are grouped by their label. A group can be split by its
 * callers into smaller ones, and so on; it stands for a chain of callers and the function, and its
 * value is what was charged to the function when called through them.
 */
#ifndef CCT_CALLERS_H
#define CCT_CALLERS_H

#include "base/vec.h"

#include <stdbool.h>
#include <stdint.h>

#define CALLERS_NONE UINT32_MAX

/* Any arrays of nodes: where the first of each is, and how many bytes on the next. A parent of
 * CALLERS_NONE, and one with the label CALLERS_NONE, is outside: there was no caller. */
struct callers_source {
    const uint32_t *parents, *labels;
    const uint64_t *values;
    size_t node_step, value_step;
    uint32_t count;
    bool fold_recursion; /* a function that called itself was called by who called it first */
};

struct caller_group {
    uint32_t label;      /* the outermost caller so far; CALLERS_NONE: those without a caller */
    uint32_t first, end; /* its items */
    uint64_t value;
};

/* A node with a value, and the outermost of its callers so far. */
struct caller_item {
    uint32_t node, at;
};

struct callers {
    struct callers_source source;
    struct caller_item *items, *spare;
    VEC(struct caller_group) functions; /* one for each label with a value, by label */
    VEC(struct caller_group) groups;    /* from the last split */
    uint32_t *group_of;                 /* by label, while splitting; group + 1 */
    uint32_t label_count;
};

void callers_begin(struct callers *callers, const struct callers_source *source);
void callers_end(struct callers *callers);

/* Splits a group by callers into `groups`, the order of which is that of first appearance. The
 * items of the group change their places; those of other groups do not. */
void callers_split(struct callers *callers, struct caller_group group);

/* The node of an item: the function that was called. */
static inline uint32_t callers_node(const struct callers *callers, uint32_t item)
{
    return callers->items[item].node;
}

#endif
