#include "query/replay_view.h"

#include "cct/contexts.h"

#include <inttypes.h>
#include <string.h>

static uint32_t add_module(struct replay_view *r, const char *path)
{
    uint32_t name = strings_add(&r->strings, path);
    for (uint32_t i = 0; i < r->modules.count; i++)
        if (r->modules.items[i].path == name)
            return i;
    vec_push(&r->modules, (struct ctp_module){.path = name});
    return (uint32_t)r->modules.count - 1;
}

/* The offset keeps functions apart that have the same name. */
static void add_function(struct replay_view *r, const struct trace *trace, uint32_t function,
                         uint64_t offset, bool with_site, uint64_t site)
{
    const struct trace_function *f = &trace->state.functions.items[function];
    const char *name = strings_get(&trace->state.strings, f->name);
    uint32_t module = add_module(r, strings_get(&trace->state.strings, f->module));
    char *text = with_site ? must_format("%s@0x%" PRIx64, name, site) : must_strdup(name);
    vec_push(&r->frames, (struct ctp_frame){.module = module,
                                            .function = (uint32_t)r->functions.count,
                                            .offset = offset});
    vec_push(&r->functions, (struct ctp_function){.name = strings_add(&r->strings, text),
                                                  .module = module,
                                                  .offset = offset});
    free(text);
}

static struct profile_table table(const void *items, size_t count, size_t step)
{
    return (struct profile_table){items, (uint32_t)count, (uint32_t)step};
}

static void make_profile(struct replay_view *r, const struct trace *trace, bool sites)
{
    strings_init(&r->strings);
    if (sites)
        for (uint32_t i = 0; i < trace->state.labels.count; i++)
            add_function(r, trace, trace->state.labels.items[i].function, i, true,
                         trace->state.labels.items[i].site);
    else
        for (uint32_t i = 0; i < trace->state.functions.count; i++)
            add_function(r, trace, i, i, false, 0);
    r->metric = (struct ctp_metric){.name = strings_add(&r->strings, "calls"),
                                    .unit = strings_add(&r->strings, "calls"),
                                    .kind = CTP_METRIC_EXACT};
    struct profile *p = &r->profile;
    p->name = must_strdup(trace->name);
    p->strings = r->strings.bytes.items;
    p->strings_size = (uint32_t)r->strings.bytes.count;
    p->metric_count = 1;
    p->tables[CTP_METRICS] = table(&r->metric, 1, sizeof r->metric);
    p->tables[CTP_MODULES] = table(r->modules.items, r->modules.count, sizeof *r->modules.items);
    p->tables[CTP_FUNCTIONS] =
        table(r->functions.items, r->functions.count, sizeof *r->functions.items);
    p->tables[CTP_FRAMES] = table(r->frames.items, r->frames.count, sizeof *r->frames.items);
}

static void grow_tree(struct replay_view *r, const struct forest *forest)
{
    struct contexts contexts;
    struct tree_index index;
    struct tree *tree = &r->view.tree;
    contexts_from_forest(forest, &contexts);
    tree_begin(tree, &index, contexts.count + 1);
    /* Children of the same node differ in their labels, so that numbers go over as they are. */
    for (uint32_t i = 0; i < contexts.count; i++) {
        uint32_t parent = contexts.nodes[i].parent;
        uint32_t node =
            tree_child(tree, &index, parent == CONTEXTS_NONE ? 0 : parent + 1,
                       *labels_of_frame(&r->view.labels, contexts.nodes[i].label).labels);
        tree->nodes[node].self += contexts.values[i];
        r->view.total += contexts.values[i];
    }
    tree_arrange(tree, &index);
    tree_sum(tree);
    contexts_free(&contexts);
}

int replay_view_open(const char *path, const struct replay_options *options,
                     struct replay_view *out, struct ct_error *err)
{
    struct trace trace;
    struct replay replay;
    *out = (struct replay_view){.view = {.metric = 0}};
    CT_TRY(trace_open(path, &trace, err));
    int status = replay_trace(&trace, options, &replay, err);
    if (status == CT_OK) {
        make_profile(out, &trace, options->sites);
        out->view.profile = &out->profile;
        labels_init(&out->view.labels, &out->profile, &(struct label_options){0});
        grow_tree(out, &replay.forest);
        replay_end(&replay);
    }
    trace_close(&trace);
    return status;
}

void replay_view_close(struct replay_view *r)
{
    view_close(&r->view);
    strings_free(&r->strings);
    free(r->profile.name);
    vec_free(&r->modules);
    vec_free(&r->functions);
    vec_free(&r->frames);
}
