/*
 * How a list of functions looks: its columns, its branches, and names that fit.
 */
#ifndef BROWSE_LIST_H
#define BROWSE_LIST_H

#include "browse/folding.h"
#include "browse/screen.h"
#include "query/amount.h"

struct list_style {
    struct amount_scale scale;
    bool full_names;
    bool unicode;
};

/* The lines [first, end) of the screen: titles, then rows. */
void list_draw(const struct screen *screen, uint32_t first, uint32_t end,
               const struct list_style *style, struct rows *rows);

/* The name of a row, with its module; clean, and at most so wide unless full names are wanted. The
 * caller frees it. */
char *list_name(const struct view *view, uint32_t label, bool with_module, size_t columns,
                const struct list_style *style);

/* What tells rows from each other for people who search: the name as it is; to be freed. */
char *list_plain_name(const struct view *view, uint32_t label);

#endif
