/*
 * Functions by what was typed: the name, what a report showed of it, its base name, a part of
 * it, or a regular expression.
 *
 * The first of these that finds anything counts, so that `main` is main and not domain. Functions
 * of one name are meant together, wherever they are, and so are those of an expression. A part
 * that several names have names none of them.
 */
#ifndef QUERY_CHOOSE_H
#define QUERY_CHOOSE_H

#include "query/view.h"

struct function_match {
    uint32_t label; /* one of those that it has */
    uint64_t self, total;
};

struct function_choice {
    bool *wanted;                     /* by label */
    VEC(struct function_match) found; /* functions that differ by name or module, heaviest first */
    bool ambiguous;                   /* by a part of their names: none of them is meant */
};

/* No function at all is an error that says the nearest name. Free the choice in any other case. */
int choose_functions(const struct view *view, const char *typed, struct function_choice *out,
                     struct ct_error *err);
void function_choice_free(struct function_choice *choice);

#endif
