/*
 * Names that fit: what a terminal may be sent, and in how many columns.
 */
#ifndef QUERY_SHORTEN_H
#define QUERY_SHORTEN_H

#include <stdbool.h>
#include <stddef.h>

/* The text as people may be shown it: utf8_shown of each character. The caller frees it. */
char *text_clean(const char *text);

/* Columns that a clean text takes: one for each character of UTF-8. */
size_t text_columns(const char *clean);

/* Cuts a clean text at its end. */
void text_cut(char *clean, size_t columns);

/*
 * Shortens a clean name in place. The return type goes and template arguments are folded in any
 * case, which is what makes names long and says least about them. Where more than `columns` are
 * left, parameters are folded, then go; then scopes from the outermost on, down to the base name;
 * and at last the middle.
 */
void name_shorten(char *clean, size_t columns, bool unicode);

/* The same for the file of a module: what follows ".so" says least. */
void module_shorten(char *clean, size_t columns, bool unicode);

#endif
