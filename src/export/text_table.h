/*
 * Strings numbered in the order in which they come, each once: what several formats call their
 * string table.
 */
#ifndef EXPORT_TEXT_TABLE_H
#define EXPORT_TEXT_TABLE_H

#include "base/strings.h"

struct text_table {
    struct string_pool pool;
    VEC(uint32_t) offsets; /* of the texts in the pool, rising */
};

/* Number 0 is the empty string. */
void text_table_init(struct text_table *table);
void text_table_free(struct text_table *table);

/* The number of a text, which is made well-formed UTF-8 first. */
uint32_t text_number(struct text_table *table, const char *text);
const char *text_of(const struct text_table *table, uint32_t number);

#endif
