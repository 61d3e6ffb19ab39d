#include "infer/path_complete.h"

#include <string.h>

/* --- identifiers -------------------------------------------------------------------------------
 */

uint32_t path_height_node(const struct profile *p, uint32_t node)
{
    while (node != CTP_NONE && profile_frame(p, profile_node_frame(p, node))->gap != CTP_GAP_HEIGHT)
        node = profile_parent(p, node);
    return node;
}

bool path_has_heights(const struct profile *p)
{
    for (uint32_t i = 0; i < profile_frame_count(p); i++)
        if (profile_frame(p, i)->gap == CTP_GAP_HEIGHT)
            return true;
    return false;
}

/* The frames from a height on, outermost first. */
struct inner_frames {
    VEC(uint32_t) nodes;
    VEC(uint32_t) places; /* the map's, of calls */
};

static void list_inner(const struct profile *p, const struct path_names *names, uint32_t node,
                       uint32_t height, struct inner_frames *inner, struct path_query *q)
{
    inner->nodes.count = inner->places.count = 0;
    for (uint32_t n = node; n != height; n = profile_parent(p, n))
        vec_push(&inner->nodes, n);
    for (size_t i = 0, k = inner->nodes.count; i + 1 < k--; i++) {
        uint32_t swapped = inner->nodes.items[i];
        inner->nodes.items[i] = inner->nodes.items[k];
        inner->nodes.items[k] = swapped;
    }
    q->function = q->leaf = CTP_NONE;
    for (size_t i = 0; i < inner->nodes.count; i++) {
        uint32_t frame = profile_node_frame(p, inner->nodes.items[i]);
        const struct ctp_frame *f = profile_frame(p, frame);
        uint32_t function = f->function == CTP_NONE ? CTP_NONE : names->functions[f->function];
        q->function = i ? q->function : function;
        q->leaf = function;
        if (!(f->flags & CTP_FRAME_RETURN)) /* what follows is the kernel's */
            break;
        vec_push(&inner->places, names->frames[frame]);
    }
    q->inner = inner->places.items;
    q->inner_count = (uint32_t)inner->places.count;
}

static void answer_node(const struct path_map *map, const struct profile *p,
                        const struct path_names *names, uint32_t node, uint32_t height,
                        struct inner_frames *inner, struct path_answer *answer)
{
    uint32_t above = profile_node_frame(p, profile_parent(p, height));
    struct path_query q = {.cost = profile_value(p, 0, node),
                           .height_bytes = profile_frame(p, profile_node_frame(p, height))->offset,
                           .outermost = above == CTP_NONE ? CTP_NONE : names->frames[above]};
    list_inner(p, names, node, height, inner, &q);
    path_answer_find(map, &q, answer);
}

static bool has_value(const struct profile *p, uint32_t node)
{
    for (uint32_t m = 0; m < p->metric_count; m++)
        if (profile_value(p, m, node))
            return true;
    return false;
}

/* The node of the height above each node; CTP_NONE where there is none, or the node is it. */
static uint32_t *list_heights(const struct profile *p, bool *has_any)
{
    uint32_t *heights = must_calloc((size_t)p->node_count + 1, sizeof *heights);
    *has_any = false;
    for (uint32_t i = 0; i < p->node_count; i++) {
        uint32_t parent = profile_parent(p, i);
        heights[i] = CTP_NONE;
        if (parent == CTP_NONE)
            continue;
        bool is_height = profile_frame(p, profile_node_frame(p, parent))->gap == CTP_GAP_HEIGHT;
        heights[i] = is_height ? parent : heights[parent];
        *has_any |= is_height;
    }
    return heights;
}

struct completion {
    const struct path_map *map;
    const struct profile *profile;
    struct path_names names;
    uint32_t *heights;
    struct inner_frames inner;
    struct path_answer answer;
};

static void completion_end(struct completion *c)
{
    path_names_free(&c->names);
    path_answer_free(&c->answer);
    vec_free(&c->inner.nodes);
    vec_free(&c->inner.places);
    free(c->heights);
}

static void find(struct completion *c, uint32_t node)
{
    answer_node(c->map, c->profile, &c->names, node, c->heights[node], &c->inner, &c->answer);
}

static int completion_begin(struct completion *c, const struct path_map *map,
                            const struct profile *p, struct ct_error *err)
{
    bool has_any;
    *c = (struct completion){.map = map, .profile = p};
    CT_TRY(path_map_fits(map, p, err));
    CT_TRY(path_names_make(map, p, &c->names, err));
    c->heights = list_heights(p, &has_any);
    path_answer_begin(&c->answer, map);
    for (uint32_t i = 0; i < p->node_count && has_any;
         i++) /* what is missing tells of the others */
        if (c->heights[i] != CTP_NONE && has_value(p, i))
            find(c, i);
    path_answer_settle(&c->answer);
    if (has_any)
        return CT_OK;
    completion_end(c);
    return ct_fail(err,
                   "%s: all callers are known: there are stack heights in their place where "
                   "record --engine infer made the profile",
                   p->name);
}

static void sum_up(struct path_summary *s, const struct path_answer *a, uint64_t cost)
{
    uint32_t paths = (uint32_t)a->candidates.count;
    s->cost[a->quality] += cost;
    s->count[a->quality]++;
    if (a->quality == PATH_AMBIGUOUS && paths <= PATH_FEW)
        s->few += cost;
    s->most_paths = paths > s->most_paths ? paths : s->most_paths;
}

int path_each(const struct path_map *map, const struct profile *p, path_visit *visit, void *context,
              struct path_summary *summary, struct ct_error *err)
{
    struct completion c;
    *summary = (struct path_summary){0};
    CT_TRY(completion_begin(&c, map, p, err));
    for (uint32_t i = 0; i < p->node_count; i++) {
        uint64_t cost = profile_value(p, 0, i);
        if (c.heights[i] == CTP_NONE) {
            summary->walked += cost;
            continue;
        }
        if (!has_value(p, i))
            continue;
        find(&c, i);
        sum_up(summary, &c.answer, cost);
        if (visit)
            visit(context, &(struct path_found){i, cost, &c.answer});
    }
    completion_end(&c);
    return CT_OK;
}

/* --- the tree with the callers ----------------------------------------------------------------
 */

struct tree_key {
    uint32_t parent, frame;
};

struct completed_tree {
    struct completion c;
    uint32_t most;
    uint32_t columns; /* values of a node: those of the profile, and of each quality but missing */
    struct key_set keys;
    VEC(struct tree_key) nodes;
    VEC(uint64_t) values;
    VEC(struct tree_key) added; /* frames of the map: which, and of which module of the profile */
    uint32_t *own_frames; /* of the map's frames, those of the profile, and added ones behind */
    uint32_t *own;        /* of the profile's nodes, those of the tree */
};

static uint32_t tree_node(struct completed_tree *t, uint32_t parent, uint32_t frame)
{
    struct tree_key key = {parent, frame};
    uint32_t number = (uint32_t)t->nodes.count;
    if (parent == CTP_NONE) {
        key.frame = number; /* each root is one of its own */
        key_set_add(&t->keys, &key);
    } else {
        number = key_set_add(&t->keys, &key);
    }
    if (number == t->nodes.count) {
        vec_push(&t->nodes, (struct tree_key){parent, frame});
        for (uint32_t i = 0; i < t->columns; i++)
            vec_push(&t->values, 0);
    }
    return number;
}

/* The profile's number of a frame of the map. */
static uint32_t own_frame(struct completed_tree *t, uint32_t frame)
{
    if (t->own_frames[frame] == CTP_NONE) {
        t->own_frames[frame] = profile_frame_count(t->c.profile) + (uint32_t)t->added.count;
        vec_push(&t->added, (struct tree_key){frame, 0});
    }
    return t->own_frames[frame];
}

/* The callers of a candidate, below a root. */
static uint32_t add_callers(struct completed_tree *t, uint32_t root, uint32_t caller)
{
    VEC(uint32_t) chain = {0};
    for (; caller != CTP_NONE; caller = path_map_caller(t->c.map, caller))
        vec_push(&chain, profile_node_frame(&t->c.map->profile, caller));
    uint32_t node = root;
    for (size_t i = chain.count; i-- > 0;)
        node = tree_node(t, node, own_frame(t, chain.items[i]));
    vec_free(&chain);
    return node;
}

static uint32_t add_inner(struct completed_tree *t, uint32_t node)
{
    for (size_t i = 0; i < t->c.inner.nodes.count; i++)
        node = tree_node(t, node, profile_node_frame(t->c.profile, t->c.inner.nodes.items[i]));
    return node;
}

/* What a part of a whole gets, when the parts before it have had theirs: all of it, in the end. */
static uint64_t part_of(uint64_t *left, uint64_t weight, uint64_t *weight_left)
{
    uint64_t part = *weight_left ? (uint64_t)((unsigned __int128)*left * weight / *weight_left) : 0;
    *left -= part;
    *weight_left -= weight;
    return part;
}

/* Those of training; all the same where training gave none, and so small that no sum is too large.
 */
static uint64_t weight_of(const struct path_context *context, bool has_weights)
{
    const uint64_t most = UINT64_C(1) << 40;
    return !has_weights ? 1 : context->weight < most ? context->weight : most;
}

static void split(struct completed_tree *t, uint32_t node, uint32_t root)
{
    const struct profile *p = t->c.profile;
    const struct path_answer *a = &t->c.answer;
    uint32_t count = (uint32_t)a->candidates.count;
    uint64_t *left = must_calloc(p->metric_count + 1, sizeof *left);
    uint64_t *weights = must_calloc(p->metric_count + 1, sizeof *weights), sum = 0;
    bool has_weights = false;
    for (uint32_t i = 0; i < count; i++)
        has_weights |= a->candidates.items[i]->weight != 0;
    for (uint32_t i = 0; i < count; i++)
        sum += weight_of(a->candidates.items[i], has_weights);
    for (uint32_t m = 0; m < p->metric_count; m++) {
        left[m] = profile_value(p, m, node);
        weights[m] = sum;
    }
    for (uint32_t i = 0; i < count && (!t->most || i < t->most); i++) {
        const struct path_context *context = a->candidates.items[i];
        uint32_t place =
            add_inner(t, add_callers(t, root, path_map_caller(t->c.map, context->node)));
        for (uint32_t m = 0; m < p->metric_count; m++) {
            uint64_t part = part_of(&left[m], weight_of(context, has_weights), &weights[m]);
            uint64_t *values = t->values.items + (size_t)place * t->columns;
            values[m] += part;
            if (m == 0)
                values[p->metric_count + a->quality] += part;
        }
    }
    for (uint32_t m = 0; m < p->metric_count; m++)
        if (left[m])
            t->values.items[(size_t)t->own[node] * t->columns + m] += left[m];
    free(left);
    free(weights);
}

/* Nodes below heights are there only where cost stays with them. */
static uint32_t keep_node(struct completed_tree *t, uint32_t node)
{
    if (t->own[node] == CTP_NONE)
        t->own[node] = tree_node(t, keep_node(t, profile_parent(t->c.profile, node)),
                                 profile_node_frame(t->c.profile, node));
    return t->own[node];
}

static bool is_height(const struct profile *p, uint32_t node)
{
    return profile_frame(p, profile_node_frame(p, node))->gap == CTP_GAP_HEIGHT;
}

static void build_tree(struct completed_tree *t)
{
    const struct profile *p = t->c.profile;
    uint32_t root = 0;
    for (uint32_t i = 0; i < p->node_count; i++) {
        uint32_t parent = profile_parent(p, i);
        t->own[i] = CTP_NONE;
        if (parent == CTP_NONE)
            root = t->own[i] = tree_node(t, CTP_NONE, CTP_NONE);
        else if (t->c.heights[i] == CTP_NONE && !is_height(p, i))
            keep_node(t, i);
        if (!has_value(p, i))
            continue;
        if (t->c.heights[i] != CTP_NONE)
            find(&t->c, i);
        bool is_found = t->c.heights[i] != CTP_NONE && t->c.answer.quality != PATH_MISSING;
        bool has_rest = !is_found || (t->most && t->c.answer.candidates.count > t->most);
        if (has_rest)
            keep_node(t, i);
        if (is_found) {
            split(t, i, root);
            continue;
        }
        for (uint32_t m = 0; m < p->metric_count; m++)
            t->values.items[(size_t)t->own[i] * t->columns + m] += profile_value(p, m, i);
    }
}

/* --- writing -----------------------------------------------------------------------------------
 */

static void write_added(const struct completed_tree *t, struct profile_writer *w)
{
    const struct profile *from = &t->c.map->profile, *p = t->c.profile;
    uint32_t *modules = must_calloc((size_t)profile_module_count(from) + 1, sizeof *modules);
    uint32_t *functions = must_calloc((size_t)profile_function_count(from) + 1, sizeof *functions);
    memset(modules, 0xff, ((size_t)profile_module_count(from) + 1) * sizeof *modules);
    memset(functions, 0xff, ((size_t)profile_function_count(from) + 1) * sizeof *functions);
    for (uint32_t i = profile_module_count(p); i-- > 0;)
        if (t->c.names.modules[i] != CTP_NONE)
            modules[t->c.names.modules[i]] = i;
    for (uint32_t i = profile_function_count(p); i-- > 0;)
        if (t->c.names.functions[i] != CTP_NONE)
            functions[t->c.names.functions[i]] = i;
    for (size_t i = 0; i < t->added.count; i++) {
        struct ctp_frame f = *profile_frame(from, t->added.items[i].parent);
        struct ctp_function function = *profile_function(from, f.function);
        struct ctp_module module = *profile_module(from, f.module);
        module.path = profile_add_string(w, profile_string(from, module.path));
        if (modules[f.module] == CTP_NONE)
            modules[f.module] = profile_add_module(w, &module);
        function.name = profile_add_string(w, profile_string(from, function.name));
        function.file = 0;
        function.module = modules[f.module];
        if (functions[f.function] == CTP_NONE)
            functions[f.function] = profile_add_function(w, &function);
        f.module = modules[f.module];
        f.function = functions[f.function];
        f.first_line = f.line_count = 0;
        profile_add_frame(w, &f);
    }
    free(modules);
    free(functions);
}

static void write_metrics(const struct profile *p, struct profile_writer *w)
{
    static const struct {
        const char *name, *description;
    } metrics[PATH_MISSING] = {
        [PATH_PRECISE] = {"precise", "cost whose callers were inferred: one known path"},
        [PATH_LIKELY] =
            {"likely", "cost whose callers were inferred: one path, but training has not met all"},
        [PATH_AMBIGUOUS] = {"ambiguous",
                            "cost that was split by weight among several known paths"}};
    for (unsigned i = 0; i < PATH_MISSING; i++) {
        struct ctp_metric m = *profile_metric(p, 0);
        m.unit = profile_add_string(w, profile_string(p, m.unit));
        m.name = profile_add_string(w, metrics[i].name);
        m.description = profile_add_string(w, metrics[i].description);
        profile_add_metric(w, &m);
    }
}

static int write_tree(const struct completed_tree *t, const char *path, struct ct_error *err)
{
    const struct profile *p = t->c.profile;
    struct profile_writer *w;
    CT_TRY(profile_writer_open(path, &w, err));
    profile_copy_tables(p, w, t->own);
    write_added(t, w);
    write_metrics(p, w);
    profile_fact_string(w, CTP_SCOPE_PROFILE, 0, "completed_by", t->c.map->profile.name);
    profile_begin_nodes(w, (uint32_t)t->nodes.count);
    for (uint32_t i = 0; i < profile_root_count(p); i++)
        profile_add_root(w, profile_root(p, i)->thread, profile_root(p, i)->epoch);
    for (size_t i = 0; i < t->nodes.count; i++)
        profile_write_nodes(w, &t->nodes.items[i].parent, &t->nodes.items[i].frame, 1);
    for (uint32_t m = 0; m < t->columns; m++)
        for (size_t i = 0; i < t->nodes.count; i++)
            profile_write_values(w, m, &t->values.items[i * t->columns + m], 1);
    return profile_writer_commit(w, err);
}

int path_complete(const struct path_map *map, const struct profile *p, uint32_t most,
                  const char *path, struct ct_error *err)
{
    struct completed_tree t = {.most = most, .columns = p->metric_count + PATH_MISSING};
    if (profile_find_metric(p, "ambiguous") != CTP_NONE)
        return ct_fail(err, "%s: has been completed by a map already", p->name);
    CT_TRY(completion_begin(&t.c, map, p, err));
    uint32_t frames = profile_frame_count(&map->profile);
    key_set_init(&t.keys, sizeof(struct tree_key));
    t.own_frames = must_calloc((size_t)frames + 1, sizeof *t.own_frames);
    memset(t.own_frames, 0xff, ((size_t)frames + 1) * sizeof *t.own_frames);
    for (uint32_t i = profile_frame_count(p); i-- > 0;)
        if (t.c.names.frames[i] != CTP_NONE)
            t.own_frames[t.c.names.frames[i]] = i;
    t.own = must_calloc((size_t)p->node_count + 1, sizeof *t.own);
    build_tree(&t);
    int status = write_tree(&t, path, err);
    completion_end(&t.c);
    key_set_free(&t.keys);
    vec_free(&t.nodes);
    vec_free(&t.values);
    vec_free(&t.added);
    free(t.own_frames);
    free(t.own);
    return status;
}
