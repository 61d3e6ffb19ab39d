#include "edit/growth.h"

#include "base/search.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

static int compare_module(const struct growth_item *a, const uint8_t *build_id, uint32_t size)
{
    if (a->build_id_size != size)
        return a->build_id_size < size ? -1 : 1;
    return memcmp(a->build_id, build_id, size);
}

static int compare(const void *a, const void *b)
{
    const struct growth_item *x = a, *y = b;
    int modules = compare_module(x, y->build_id, y->build_id_size);
    return modules ? modules : x->place < y->place ? -1 : x->place > y->place;
}

void growth_sort(struct growth *g)
{
    if (g->items.count)
        qsort(g->items.items, g->items.count, sizeof *g->items.items, compare);
}

void growth_free(struct growth *g)
{
    vec_free(&g->items);
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool parse_build_id(const char **at, struct growth_item *item)
{
    while (hex_digit((*at)[0]) >= 0 && hex_digit((*at)[1]) >= 0) {
        if (item->build_id_size == sizeof item->build_id)
            return false;
        item->build_id[item->build_id_size++] =
            (uint8_t)(hex_digit((*at)[0]) << 4 | hex_digit((*at)[1]));
        *at += 2;
    }
    return item->build_id_size != 0 && *(*at)++ == ' ';
}

static bool parse_number(const char **at, unsigned base, char last, uint32_t *out)
{
    uint64_t value = 0;
    const char *begin = *at;
    for (int digit; (digit = hex_digit(**at)) >= 0 && digit < (int)base; ++*at)
        if ((value = value * base + (unsigned)digit) > UINT32_MAX)
            return false;
    *out = (uint32_t)value;
    return *at != begin && *(*at)++ == last;
}

int growth_parse(const char *text, const char *name, struct growth *out, struct ct_error *err)
{
    const char *at = text;
    *out = (struct growth){0};
    while (*at) {
        struct growth_item item = {.build_id_size = 0};
        if (!parse_build_id(&at, &item) || !parse_number(&at, 16, ' ', &item.place) ||
            !parse_number(&at, 10, '\n', &item.bytes) || !item.bytes || item.bytes % GROWTH_STEP ||
            item.bytes > GROWTH_MOST) {
            growth_free(out);
            return ct_fail(err, "%s: what is said of frames that grow is damaged", name);
        }
        vec_push(&out->items, item);
    }
    growth_sort(out);
    for (size_t i = 1; i < out->items.count; i++)
        if (compare(&out->items.items[i - 1], &out->items.items[i]) == 0) {
            growth_free(out);
            return ct_fail(err, "%s: a call grows twice", name);
        }
    return CT_OK;
}

char *growth_text(const struct growth *g)
{
    enum { LONGEST = 2 * GROWTH_BUILD_ID_ROOM + 32 };
    char *text = must_calloc(g->items.count + 1, LONGEST), *at = text;
    for (size_t i = 0; i < g->items.count; i++) {
        const struct growth_item *item = &g->items.items[i];
        for (uint32_t k = 0; k < item->build_id_size; k++)
            at += sprintf(at, "%02x", item->build_id[k]);
        at += sprintf(at, " %" PRIx32 " %" PRIu32 "\n", item->place, item->bytes);
    }
    return text;
}

uint64_t growth_number(const struct growth *g)
{
    char *text = growth_text(g);
    uint64_t number = XXH3_64bits(text, strlen(text));
    free(text);
    return number;
}

/* The first one of a module that is not before a place. */
static size_t first_at(const struct growth *g, const uint8_t *build_id, uint32_t size,
                       uint32_t place)
{
    size_t i;
    int order;
    SEARCH(i, g->items.count,
           (order = compare_module(&g->items.items[i], build_id, size)) < 0 ||
               (order == 0 && g->items.items[i].place < place));
    return i;
}

uint32_t growth_at(const struct growth *g, const uint8_t *build_id, uint32_t size, uint32_t place)
{
    size_t i = first_at(g, build_id, size, place);
    return i < g->items.count && g->items.items[i].place == place &&
                   compare_module(&g->items.items[i], build_id, size) == 0
               ? g->items.items[i].bytes
               : 0;
}

enum growth_reason growth_allows(struct above_finder *f, uint32_t place, uint32_t *site,
                                 enum above *above)
{
    const struct plan *p = f->plan;
    uint32_t i;
    SEARCH(i, p->site_count, p->sites[i].offset + p->sites[i].length < place);
    const struct plan_site *s = &p->sites[i];
    if (i == p->site_count || s->offset + s->length != place || s->kind > SITE_CALL_INDIRECT)
        return GROWTH_NO_SITE;
    if (s->kind != SITE_CALL)
        return GROWTH_INDIRECT;
    if (s->got)
        return GROWTH_ANOTHER;
    if (s->tier != TIER_RETARGET || s->moved_bytes || s->code_bytes)
        return GROWTH_NO_SITE;
    const enum above found = above_of(f, s->target);
    if (site)
        *site = i;
    if (above)
        *above = found;
    return found == ABOVE_NOTHING ? GROWTH_ALLOWED : GROWTH_LOOKS;
}

void growth_list_all(struct growth *g, struct above_finder *f, const uint8_t *build_id,
                     uint32_t size)
{
    for (uint32_t i = 0; i < f->plan->site_count; i++) {
        const struct plan_site *s = &f->plan->sites[i];
        struct growth_item item = {
            .build_id_size = size,
            .place = s->offset + s->length,
            .bytes = GROWTH_STEP * (1 + s->offset * 2654435761u % (GROWTH_MOST / GROWTH_STEP))};
        memcpy(item.build_id, build_id, size);
        if (s->target != s->function && growth_allows(f, item.place, NULL, NULL) == GROWTH_ALLOWED)
            vec_push(&g->items, item);
    }
}

int growth_plan(const struct growth *g, struct above_finder *f, const uint8_t *build_id,
                uint32_t size, struct plan *out, uint32_t *refused, struct ct_error *err)
{
    struct sites chosen = {0};
    *out = (struct plan){0};
    for (size_t i = first_at(g, build_id, size, 0);
         i < g->items.count && compare_module(&g->items.items[i], build_id, size) == 0; i++) {
        uint32_t number;
        if (growth_allows(f, g->items.items[i].place, &number, NULL) != GROWTH_ALLOWED) {
            ++*refused;
            continue;
        }
        struct plan_site site = f->plan->sites[number];
        site.grow = (uint8_t)(g->items.items[i].bytes / GROWTH_STEP);
        vec_push(&chosen.items, site);
    }
    sites_rank(&chosen);
    int status = plan_of_sites(&chosen, f->map, out, err);
    sites_free(&chosen);
    return status;
}
