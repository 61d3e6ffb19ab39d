/*
 * A k-slab forest that was recorded in a program against the one that the offline code builds from
 * the calling context tree of the same program.
 *
 *     slab_compare K WHOLE.ctp SLABS.ctp
 *
 * Prints how many nodes and chains of callers were compared, and how many of each differ; exits 1
 * if chains do. (Nodes may: what was recorded is not cut at tail jumps.)
 */
#include "profile_forest.h"

#include <inttypes.h>
#include <string.h>

/* Every path with a value, as text, sorted. */
struct lines {
    VEC(char *) items;
};

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void list(const struct contexts *c, struct lines *out)
{
    for (uint32_t i = 0; i < c->count; i++) {
        if (!c->values[i])
            continue;
        char *text = must_format("%" PRIu64, c->values[i]);
        for (uint32_t at = i; at != CONTEXTS_NONE; at = c->nodes[at].parent) {
            char *longer = must_format("%s %" PRIu32, text, c->nodes[at].label);
            free(text);
            text = longer;
        }
        vec_push(&out->items, text);
    }
    qsort(out->items.items, out->items.count, sizeof *out->items.items, by_text);
}

static size_t compare(const char *what, const struct contexts *a, const struct contexts *b)
{
    struct lines x = {0}, y = {0};
    list(a, &x);
    list(b, &y);
    size_t i = 0, k = 0, differ = 0;
    while (i < x.items.count || k < y.items.count) {
        int order = i == x.items.count   ? 1
                    : k == y.items.count ? -1
                                         : strcmp(x.items.items[i], y.items.items[k]);
        differ += order != 0;
        i += order <= 0;
        k += order >= 0;
    }
    printf("%s %zu, differ %zu\n", what, x.items.count, differ);
    for (i = 0; i < x.items.count; i++)
        free(x.items.items[i]);
    for (k = 0; k < y.items.count; k++)
        free(y.items.items[k]);
    vec_free(&x.items);
    vec_free(&y.items);
    return differ;
}

int main(int argc, char **argv)
{
    struct profile whole, slabs;
    struct string_pool places;
    uint32_t k = argc == 4 ? (uint32_t)atoi(argv[1]) : 0;
    if (!k) {
        fputs("usage: slab_compare K WHOLE.ctp SLABS.ctp\n", stderr);
        return 2;
    }
    open_profile(argv[2], &whole);
    open_profile(argv[3], &slabs);
    strings_init(&places);
    struct profile_forest_options options = {.k = k, .process = CTP_NONE, .places = &places};
    struct contexts built, recorded, chains[2];
    build_from_profile(&whole, &options, &built);
    options.k = FOREST_UNBOUNDED;
    build_from_profile(&slabs, &options, &recorded);
    compare("nodes", &built, &recorded);
    contexts_invert(&built, k, &chains[0]);
    contexts_invert(&recorded, k, &chains[1]);
    return compare("chains", &chains[0], &chains[1]) != 0;
}
