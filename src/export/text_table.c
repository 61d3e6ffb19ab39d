#include "export/text_table.h"

#include "base/search.h"
#include "base/utf8.h"

void text_table_init(struct text_table *table)
{
    *table = (struct text_table){0};
    strings_init(&table->pool);
    vec_push(&table->offsets, 0);
}

void text_table_free(struct text_table *table)
{
    strings_free(&table->pool);
    vec_free(&table->offsets);
}

uint32_t text_number(struct text_table *table, const char *text)
{
    char *clean = utf8_copy(text);
    uint32_t offset = strings_add(&table->pool, clean);
    free(clean);
    if (offset > table->offsets.items[table->offsets.count - 1]) {
        vec_push(&table->offsets, offset);
        return (uint32_t)table->offsets.count - 1;
    }
    uint32_t behind; /* the first, at offset 0, never is */
    SEARCH(behind, (uint32_t)table->offsets.count, table->offsets.items[behind] <= offset);
    return behind - 1;
}

const char *text_of(const struct text_table *table, uint32_t number)
{
    return strings_get(&table->pool, table->offsets.items[number]);
}
