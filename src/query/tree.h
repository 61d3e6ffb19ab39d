/*
 * Trees of labels: what views are made of.
 *
 * A tree is grown by asking for children by label, so equal paths join. Nodes are numbered as they
 * come, parents first. tree_arrange then puts them in preorder, where the subtree of a node is the
 * numbers from its own to its own plus its size, so that most questions (is an ancestor of the same
 * label? what is below?) need one pass and no stack. Node 0 is the root and has no label.
 */
#ifndef QUERY_TREE_H
#define QUERY_TREE_H

#include <stdint.h>

#define TREE_NONE UINT32_MAX

struct tree_node {
    uint32_t parent; /* TREE_NONE for the root */
    uint32_t label;
    uint64_t self; /* what was charged to exactly this context */
};

struct tree {
    struct tree_node *nodes;
    uint32_t count;
    uint32_t *sizes;  /* nodes in the subtree, itself included; from tree_arrange */
    uint64_t *totals; /* self of the whole subtree; from tree_sum */
};

void tree_free(struct tree *tree);

/* The children of nodes by label, while a tree grows. */
struct tree_index {
    uint32_t *slots; /* open addressing; 0 is free, since the root is no node's child */
    uint64_t mask;
};

/*
 * Begins a tree that will have at most `room` nodes, with the root. If it has nodes already they
 * stay readable, and the new tree overwrites them from the front: code that rebuilds a tree reads
 * node i before asking for the child that node i becomes, which is never behind it.
 */
void tree_begin(struct tree *tree, struct tree_index *index, uint32_t room);
uint32_t tree_child(struct tree *tree, struct tree_index *index, uint32_t parent, uint32_t label);

/* The child of a label, if there is one; 0: there is none. */
uint32_t tree_find(const struct tree *tree, const struct tree_index *index, uint32_t parent,
                   uint32_t label);

/* Starts to fetch what tree_child will look at. */
void tree_prefetch(const struct tree_index *index, uint32_t parent, uint32_t label);

/* Ends growing, gives back unused room, and puts the nodes in preorder. */
void tree_arrange(struct tree *tree, struct tree_index *index);

/* Fills in the totals. */
void tree_sum(struct tree *tree);

#endif
