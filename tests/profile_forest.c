#include "profile_forest.h"

#include <inttypes.h>
#include <string.h>

static void die(const char *text)
{
    fprintf(stderr, "%s\n", text);
    exit(2);
}

void open_profile(const char *path, struct profile *out)
{
    struct ct_error err;
    if (profile_open(path, out, &err) != CT_OK || profile_validate(out, &err) != CT_OK)
        die(err.text);
}

const uint64_t *calls_of(const struct profile *p)
{
    for (uint32_t i = 0; i < profile_metric_count(p); i++)
        if (strcmp(profile_string(p, profile_metric(p, i)->name), "calls") == 0)
            return p->values[i];
    die("a profile without calls");
    return NULL;
}

void begin_forest(struct forest *forest, struct region *region, uint32_t k)
{
    struct ct_error err;
    if (region_begin(region, UINT64_C(16) << 30, &err) != CT_OK)
        die(err.text);
    if (!forest_begin(forest, &region->memory,
                      &(struct forest_options){.layout = FOREST_HASHED, .k = k, .metric_count = 1}))
        die("no memory for a forest");
}

/* By frame; CONTEXTS_NONE for a gap. */
static uint32_t *label_frames(const struct profile *p, const struct profile_forest_options *o)
{
    uint32_t count = profile_frame_count(p);
    uint32_t *labels = must_calloc((size_t)count + 1, sizeof *labels);
    for (uint32_t i = 0; i < count; i++) {
        const struct ctp_frame *f = profile_frame(p, i);
        const char *module = f->module < profile_module_count(p)
                                 ? profile_string(p, profile_module(p, f->module)->path)
                                 : "";
        bool function = o->by_function && f->function < profile_function_count(p);
        uint64_t place = function ? profile_function(p, f->function)->offset : f->offset;
        char *text = must_format("%s+%" PRIx64 " %" PRIu32, module, place,
                                 o->by_function ? 0 : f->flags & CTP_FRAME_RETURN);
        labels[i] = f->gap ? CONTEXTS_NONE : strings_add(o->places, text);
        free(text);
    }
    return labels;
}

void build_from_profile(const struct profile *p, const struct profile_forest_options *options,
                        struct contexts *out)
{
    struct region region;
    struct forest forest;
    const uint64_t *calls = calls_of(p);
    uint32_t *labels = label_frames(p, options);
    uint32_t *places = must_calloc((size_t)p->node_count + 1, sizeof *places);
    begin_forest(&forest, &region, options->k);
    for (uint32_t r = 0; r < profile_root_count(p); r++) {
        const struct ctp_root *root = profile_root(p, r);
        if (options->process != CTP_NONE &&
            profile_thread(p, root->thread)->process != options->process)
            continue;
        for (uint32_t i = root->first_node; i < root->first_node + root->node_count; i++) {
            uint32_t frame = p->node_frames[i], parent = p->parents[i];
            if (frame == CTP_NONE || labels[frame] == CONTEXTS_NONE)
                continue;
            uint32_t above = parent == CTP_NONE ? 0 : places[parent];
            places[i] = above ? forest_enter(&forest, FOREST_HASHED, above, labels[frame], 0)
                              : forest_root(&forest, labels[frame]);
            forest_charge(&forest, places[i], 0, calls[i]);
        }
    }
    if (forest.lost)
        die("no memory for a forest");
    contexts_from_forest(&forest, out);
    region_end(&region);
    free(labels);
    free(places);
}
