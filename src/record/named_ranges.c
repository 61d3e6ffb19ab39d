#include "record/named_ranges.h"

#include "base/search.h"

void named_ranges_free(struct named_ranges *names)
{
    for (size_t i = 0; i < names->items.count; i++)
        free(names->items.items[i].name);
    vec_free(&names->items);
}

const struct named_range *named_ranges_find(const struct named_ranges *names, uint64_t address)
{
    size_t i;
    SEARCH(i, names->items.count, names->items.items[i].start <= address);
    return i ? &names->items.items[i - 1] : NULL;
}
