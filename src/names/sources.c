#include "names/sources.h"

#include "base/search.h"

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
    size_t i;
    SEARCH(i, sources->places.count, sources->places.items[i].offset < offset);
    return i < sources->places.count && sources->places.items[i].offset == offset
               ? &sources->places.items[i]
               : NULL;
}

static int by_offset(const void *a, const void *b)
{
    const struct source_place *x = a, *y = b;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

static uint32_t copy_string(struct sources *to, const struct sources *from, uint32_t offset)
{
    return strings_add(&to->strings, strings_get(&from->strings, offset));
}

void sources_join(struct sources *sources, const struct sources *more)
{
    uint32_t functions = (uint32_t)sources->functions.count;
    uint32_t lines = (uint32_t)sources->lines.count;
    for (size_t i = 0; i < more->functions.count; i++) {
        struct ctp_function f = more->functions.items[i];
        f.name = copy_string(sources, more, f.name);
        f.file = copy_string(sources, more, f.file);
        vec_push(&sources->functions, f);
    }
    for (size_t i = 0; i < more->lines.count; i++) {
        struct ctp_line line = more->lines.items[i];
        line.file = copy_string(sources, more, line.file);
        line.function = line.function == CTP_NONE ? CTP_NONE : line.function + functions;
        vec_push(&sources->lines, line);
    }
    for (size_t i = 0; i < more->places.count; i++) {
        struct source_place place = more->places.items[i];
        place.first_line = place.line_count ? place.first_line + lines : 0;
        vec_push(&sources->places, place);
    }
    if (sources->places.count)
        qsort(sources->places.items, sources->places.count, sizeof *sources->places.items,
              by_offset);
}
