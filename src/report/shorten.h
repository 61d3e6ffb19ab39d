/*
 * Names that fit: what a terminal may be sent, and in how many columns.
 */
#ifndef REPORT_SHORTEN_H
#define REPORT_SHORTEN_H

#include <stddef.h>

/* The text with control characters (which would act on the terminal) as \xNN. The caller frees it.
 */
char *text_clean(const char *text);

/* Columns that a clean text takes: one for each character of UTF-8. */
size_t text_columns(const char *clean);

/* Cuts a clean text at its end. */
void text_cut(char *clean, size_t columns);

/*
 * Shortens a clean name in place to at most `columns`: template arguments within template arguments
 * go first, then template arguments, then parameters, and at last the middle. Both ends of a name
 * say most about it.
 */
void name_shorten(char *clean, size_t columns);

#endif
