#include "names/sources.h"

void sources_init(struct sources *sources)
{
    *sources = (struct sources){0};
    strings_init(&sources->strings);
}

void sources_free(struct sources *sources)
{
    strings_free(&sources->strings);
    vec_free(&sources->functions);
    vec_free(&sources->lines);
    vec_free(&sources->places);
}

const struct source_place *sources_find(const struct sources *sources, uint64_t offset)
{
    size_t low = 0, high = sources->places.count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (sources->places.items[middle].offset < offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low < sources->places.count && sources->places.items[low].offset == offset
               ? &sources->places.items[low]
               : NULL;
}
