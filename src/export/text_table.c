#include "export/text_table.h"

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
    size_t low = 0, high = table->offsets.count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (table->offsets.items[middle] <= offset)
            low = middle;
        else
            high = middle;
    }
    return (uint32_t)low;
}

const char *text_of(const struct text_table *table, uint32_t number)
{
    return strings_get(&table->pool, table->offsets.items[number]);
}
