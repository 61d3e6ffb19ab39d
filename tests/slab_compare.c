/*
 * A k-slab forest that was recorded in a program against the one that the offline code builds from
 * the calling context tree of the same program.
 *
 *     slab_compare K WHOLE.ctp SLABS.ctp
 *
 * Prints how many nodes and chains of callers were compared, and how many of each differ; exits 1
 * if chains do. (Nodes may: what was recorded is not cut at tail jumps.)
 */
#include "base/strings.h"
#include "cct/contexts.h"
#include "cct/region.h"
#include "profile/profile.h"

#include <inttypes.h>
#include <string.h>

static void die(const char *text)
{
    fprintf(stderr, "slab_compare: %s\n", text);
    exit(2);
}

/* Frames of both profiles have the same label if they are the same place. */
static struct string_pool places_seen;

static uint32_t *frame_labels(const struct profile *p)
{
    uint32_t count = profile_frame_count(p);
    uint32_t *labels = must_calloc((size_t)count + 1, sizeof *labels);
    for (uint32_t i = 0; i < count; i++) {
        const struct ctp_frame *f = profile_frame(p, i);
        const char *module = f->module < profile_module_count(p)
                                 ? profile_string(p, profile_module(p, f->module)->path)
                                 : "";
        char *text =
            must_format("%s+%" PRIx64 " %" PRIu32, module, f->offset, f->flags & CTP_FRAME_RETURN);
        labels[i] = strings_add(&places_seen, text);
        free(text);
    }
    return labels;
}

/* The forest of a profile's calls; below a gap chains begin anew. */
static void build(const struct profile *p, uint32_t k, struct contexts *out)
{
    struct region region;
    struct forest forest;
    struct ct_error err;
    uint32_t metric = 0;
    while (metric < profile_metric_count(p) &&
           strcmp(profile_string(p, profile_metric(p, metric)->name), "calls") != 0)
        metric++;
    if (metric == profile_metric_count(p) ||
        region_begin(&region, UINT64_C(4) << 30, &err) != CT_OK ||
        !forest_begin(&forest, &region.memory,
                      &(struct forest_options){.layout = FOREST_HASHED, .k = k, .metric_count = 1}))
        die("no calls, or no memory");
    uint32_t *labels = frame_labels(p);
    uint32_t *places = must_calloc((size_t)p->node_count + 1, sizeof *places);
    for (uint32_t i = 0; i < p->node_count; i++) {
        uint32_t frame = p->node_frames[i], parent = p->parents[i];
        if (frame == CTP_NONE || profile_frame(p, frame)->gap)
            continue;
        uint32_t above = parent == CTP_NONE ? 0 : places[parent];
        places[i] = above ? forest_enter(&forest, FOREST_HASHED, above, labels[frame], 0)
                          : forest_root(&forest, labels[frame]);
        forest_charge(&forest, places[i], 0, p->values[metric][i]);
    }
    contexts_from_forest(&forest, out);
    region_end(&region);
    free(labels);
    free(places);
}

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
    struct ct_error err;
    uint32_t k = argc == 4 ? (uint32_t)atoi(argv[1]) : 0;
    if (!k)
        die("usage: slab_compare K WHOLE.ctp SLABS.ctp");
    if (profile_open(argv[2], &whole, &err) != CT_OK || profile_validate(&whole, &err) != CT_OK ||
        profile_open(argv[3], &slabs, &err) != CT_OK || profile_validate(&slabs, &err) != CT_OK)
        die(err.text);
    strings_init(&places_seen);
    struct contexts built, recorded, chains[2];
    build(&whole, k, &built);
    build(&slabs, FOREST_UNBOUNDED, &recorded);
    compare("nodes", &built, &recorded);
    contexts_invert(&built, k, &chains[0]);
    contexts_invert(&recorded, k, &chains[1]);
    return compare("chains", &chains[0], &chains[1]) != 0;
}
