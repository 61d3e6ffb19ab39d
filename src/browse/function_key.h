/*
 * What a function is known by when the view is made anew: labels are numbered in each view by
 * itself, and a view of lines has many of them for one function.
 */
#ifndef BROWSE_FUNCTION_KEY_H
#define BROWSE_FUNCTION_KEY_H

#include "query/view.h"

struct function_key {
    uint32_t kind, module;
    uint64_t number; /* as of the label; where it is declared, the line */
    char *name, *file;
};

struct function_key function_key_of(const struct labels *labels, uint32_t label);
void function_key_free(struct function_key *key);

/* The first label that it has there, or TREE_NONE. */
uint32_t function_key_find(const struct labels *labels, const struct function_key *key);

/* wanted[label] of all labels that it has there; to be freed. */
bool *function_key_labels(const struct labels *labels, const struct function_key *key);

#endif
