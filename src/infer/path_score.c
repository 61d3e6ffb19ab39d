#include "infer/path_score.h"

#include "base/clock.h"
#include "infer/path_complete.h"
#include "infer/path_heights.h"

const uint32_t path_degrees[PATH_DEGREES] = {2, 3, PATH_FEW, 10, 20};

/* A profile whose paths are known. It was recorded with the program's own frames: where those of
 * the map have grown, its heights are looked up as if it had been recorded with these. */
struct truth {
    const struct path_map *map;
    const struct profile *profile;
    uint32_t weight;
    struct path_names names;
    struct path_heights heights;
    uint64_t *deepest;     /* of nodes with heights, the greatest height of what they call */
    uint64_t *paths;       /* of the map's nodes, a number for the functions on the path to them; */
    uint64_t *truth_paths; /* and of the profile's, the same number for the same functions */
    VEC(uint32_t) chain;   /* of the current context: its places, innermost first */
    VEC(uint32_t) inner;   /* of these the map's numbers, from a function of the chain inwards */
    struct path_answer answer;
};

static uint64_t mix(uint64_t path, uint32_t function)
{
    uint64_t x = (path ^ ((uint64_t)function + 1)) * UINT64_C(0x9e3779b97f4a7c15);
    return (x ^ x >> 29) * UINT64_C(0xbf58476d1ce4e5b9) + 1;
}

/* Nodes of tail jumps are on no path that a walk finds. */
static void number_paths(struct truth *t)
{
    const struct profile *m = &t->map->profile, *p = t->profile;
    t->paths = must_calloc((size_t)m->node_count + 1, sizeof *t->paths);
    t->truth_paths = must_calloc((size_t)p->node_count + 1, sizeof *t->truth_paths);
    for (uint32_t i = 1; i < m->node_count; i++)
        t->paths[i] = mix(t->paths[profile_parent(m, i)],
                          profile_frame(m, profile_node_frame(m, i))->function);
    for (uint32_t i = 0; i < p->node_count; i++) {
        uint32_t parent = profile_parent(p, i);
        const struct ctp_frame *f = profile_frame(p, profile_node_frame(p, i));
        if (parent == CTP_NONE)
            continue;
        bool is_tail = !(f->flags & CTP_FRAME_RETURN) && path_heights_is_tail(&t->heights, i);
        uint32_t function = f->function == CTP_NONE ? CTP_NONE : t->names.functions[f->function];
        t->truth_paths[i] =
            is_tail ? t->truth_paths[parent] : mix(t->truth_paths[parent], function);
    }
}

static void find_deepest(struct truth *t)
{
    const struct profile *p = t->profile;
    t->deepest = must_calloc((size_t)p->node_count + 1, sizeof *t->deepest);
    for (uint32_t i = 0; i < p->node_count; i++) {
        if (!path_heights_has(&t->heights, i))
            continue;
        uint32_t caller = path_heights_own(&t->heights, profile_parent(p, i));
        uint64_t height = profile_value(p, t->heights.metric, i);
        if (caller != CTP_NONE && height > t->deepest[caller])
            t->deepest[caller] = height;
    }
}

static int truth_begin(struct truth *t, const struct path_map *map, const struct profile *p,
                       const char *weight, struct ct_error *err)
{
    uint32_t height = profile_find_metric(p, "height");
    *t = (struct truth){.map = map, .profile = p};
    if (height == CTP_NONE)
        return ct_fail(
            err, "%s: has no stack heights: record --engine exact --height measures them", p->name);
    t->weight = profile_find_metric(p, weight ? weight : "calls");
    if (weight && t->weight == CTP_NONE)
        return ct_fail(err, "%s: has no metric %s", p->name, weight);
    t->weight = t->weight == CTP_NONE ? 0 : t->weight;
    CT_TRY(path_names_make(map, p, &t->names, err));
    path_heights_begin(&t->heights, p, height);
    path_answer_begin(&t->answer, map);
    number_paths(t);
    find_deepest(t);
    return CT_OK;
}

static void truth_end(struct truth *t)
{
    path_names_free(&t->names);
    path_heights_end(&t->heights);
    path_answer_free(&t->answer);
    vec_free(&t->chain);
    vec_free(&t->inner);
    free(t->deepest);
    free(t->paths);
    free(t->truth_paths);
}

static const char *unit_of(const struct truth *t)
{
    return profile_string(t->profile, profile_metric(t->profile, t->weight)->unit);
}

/* The next place above a node, or CTP_NONE at the root; false: there is what is no place. */
static bool place_above(const struct truth *t, uint32_t *node)
{
    const struct profile *p = t->profile;
    do {
        *node = profile_parent(p, *node);
        if (profile_parent(p, *node) == CTP_NONE)
            *node = CTP_NONE;
    } while (*node != CTP_NONE && path_heights_is_tail(&t->heights, *node));
    return *node == CTP_NONE ||
           (profile_frame(p, profile_node_frame(p, *node))->flags & CTP_FRAME_RETURN);
}

/* The places above a node. False: some of them are not known, or are calltrail's own. */
static bool list_chain(struct truth *t, uint32_t node)
{
    t->chain.count = 0;
    while (place_above(t, &node)) {
        if (node == CTP_NONE)
            return t->chain.count != 0;
        uint32_t frame = profile_node_frame(t->profile, node);
        if (path_is_ours(t->profile, profile_frame(t->profile, frame)->module))
            return false;
        vec_push(&t->chain, node);
    }
    return false;
}

static uint32_t function_at(const struct truth *t, uint32_t node)
{
    const struct ctp_frame *f = profile_frame(t->profile, profile_node_frame(t->profile, node));
    return f->function == CTP_NONE ? CTP_NONE : t->names.functions[f->function];
}

static uint32_t place_at(const struct truth *t, uint32_t node)
{
    return t->names.frames[profile_node_frame(t->profile, node)];
}

/* Are a candidate's callers those of the chain from `from` on? */
static bool is_path(const struct truth *t, const struct path_context *c, size_t from)
{
    uint32_t node = path_map_caller(t->map, c->node);
    for (; from < t->chain.count && node != CTP_NONE; from++) {
        if (profile_node_frame(&t->map->profile, node) != place_at(t, t->chain.items[from]))
            return false;
        node = path_map_caller(t->map, node);
    }
    return from == t->chain.count && node == CTP_NONE;
}

/* Have all candidates the functions of the chain from `from` on, places set aside? */
static bool has_functions(const struct truth *t, size_t from)
{
    for (size_t i = 0; i < t->answer.candidates.count; i++) {
        uint32_t caller = path_map_caller(t->map, t->answer.candidates.items[i]->node);
        if (caller == CTP_NONE || from >= t->chain.count ||
            t->paths[caller] != t->truth_paths[t->chain.items[from]])
            return false;
    }
    return t->answer.candidates.count != 0;
}

static void count_answer(struct truth *t, struct path_scores *s, size_t from, uint64_t weight)
{
    const struct path_answer *a = &t->answer;
    bool is_right = false, functions = has_functions(t, from);
    for (size_t i = 0; i < a->candidates.count && !is_right; i++)
        is_right = is_path(t, a->candidates.items[i], from);
    for (unsigned i = 0; i < PATH_SHARES; i++) {
        struct path_score *score = &s->by[i];
        uint64_t n = i == SHARE_PATHS ? 1 : weight;
        score->right[a->quality] += is_right || a->quality == PATH_MISSING ? n : 0;
        score->incorrect[a->quality] += is_right || a->quality == PATH_MISSING ? 0 : n;
        for (unsigned k = 0; k < PATH_DEGREES; k++)
            score->within[k] += is_right && a->candidates.count <= path_degrees[k] ? n : 0;
        score->functions += functions ? n : 0;
        score->degrees += (unsigned __int128)n * a->candidates.count;
        score->answered += a->candidates.count ? n : 0;
    }
    if (a->candidates.count > s->most_paths)
        s->most_paths = (uint32_t)a->candidates.count;
}

static void count_walked(struct path_scores *s, uint64_t weight)
{
    for (unsigned i = 0; i < PATH_SHARES; i++)
        s->by[i].walked += i == SHARE_PATHS ? 1 : weight;
}

/* By how much the stack has grown above the chain's place `from`, itself included. */
static uint64_t growth_above(const struct truth *t, size_t from)
{
    uint64_t bytes = 0;
    for (size_t i = from; i + 1 < t->chain.count && t->map->growth.items.count; i++)
        bytes +=
            path_map_growth(t->map, t->profile, profile_node_frame(t->profile, t->chain.items[i]));
    return bytes;
}

/*
 * Looks a context up from where the window ends: in the innermost frame whose return address is
 * not in it.
 */
static void score_context(struct truth *t, struct path_scores *s, uint32_t node, uint32_t own,
                          uint64_t window_bytes, uint64_t weight)
{
    enum { WORD = 8, LEAST_FRAME = 24 };
    const struct profile *p = t->profile;
    uint64_t height = profile_value(p, t->heights.metric, own);
    uint64_t top = height + LEAST_FRAME;
    top = (t->deepest[own] > top ? t->deepest[own] : top) + WORD;
    size_t from = 0; /* how many places the walk finds */
    for (; top - height + WORD <= window_bytes && from < t->chain.count; from++) {
        if (from + 1 == t->chain.count) {
            count_walked(s, weight);
            return;
        }
        own = path_heights_own(&t->heights, t->chain.items[from]);
        if (own == CTP_NONE)
            return;
        height = profile_value(p, t->heights.metric, own);
    }
    t->inner.count = 0;
    for (size_t i = from; i-- > 0;)
        vec_push(&t->inner, place_at(t, t->chain.items[i]));
    struct path_query q = {.function = function_at(t, from ? t->chain.items[from - 1] : node),
                           .height_bytes = height + growth_above(t, from),
                           .outermost = place_at(t, t->chain.items[t->chain.count - 1]),
                           .inner = t->inner.items,
                           .inner_count = (uint32_t)t->inner.count,
                           .cost = weight,
                           .leaf = function_at(t, node)};
    uint64_t before = now_ns(), cycles = __builtin_ia32_rdtsc();
    path_answer_find(t->map, &q, &t->answer);
    s->lookup_cycles += __builtin_ia32_rdtsc() - cycles;
    s->lookup_ns += now_ns() - before;
    s->lookups++;
    count_answer(t, s, from, weight);
}

/* The node with the height of a function with cost of its own; CTP_NONE: there is none. */
static uint32_t own_of(const struct truth *t, uint32_t node)
{
    const struct profile *p = t->profile;
    const struct ctp_frame *f = profile_frame(p, profile_node_frame(p, node));
    if (!profile_value(p, t->weight, node) || (f->flags & CTP_FRAME_RETURN) ||
        f->function == CTP_NONE || f->gap != CTP_GAP_NONE || profile_parent(p, node) == CTP_NONE)
        return CTP_NONE;
    return path_heights_own(&t->heights, node);
}

/* What frames that grow do to the stack; the chain is that of the context. */
static void count_stack(const struct truth *t, struct path_scores *out, uint64_t height,
                        uint64_t weight)
{
    const uint64_t grown = height + growth_above(t, 0);
    out->highest_bytes = height > out->highest_bytes ? height : out->highest_bytes;
    out->highest_grown_bytes = grown > out->highest_grown_bytes ? grown : out->highest_grown_bytes;
    out->bytes += (double)height * (double)weight;
    out->grown_bytes += (double)grown * (double)weight;
}

static void take_context(struct truth *t, struct path_scores *out, uint32_t node,
                         uint64_t window_bytes)
{
    uint32_t own = own_of(t, node);
    uint64_t value = profile_value(t->profile, t->weight, node);
    if (own == CTP_NONE || !list_chain(t, node))
        return;
    out->by[SHARE_PATHS].total++;
    out->by[SHARE_WEIGHT].total += value;
    count_stack(t, out, profile_value(t->profile, t->heights.metric, own), value);
    score_context(t, out, node, own, window_bytes, value);
}

int path_score(const struct path_map *map, const struct profile *truth, const char *weight,
               uint64_t window_bytes, struct path_scores *out, struct ct_error *err)
{
    struct truth t;
    if (path_is_grown(truth))
        return ct_fail(err, "%s: was recorded with other frames: the truth has the program's own",
                       truth->name);
    if (window_bytes && map->growth.items.count)
        return ct_fail(err, "%s: its frames have grown: it is for two registers, without a window",
                       map->profile.name);
    CT_TRY(truth_begin(&t, map, truth, weight, err));
    for (unsigned pass = 0; pass < 2; pass++) { /* what is missing tells of the others */
        *out = (struct path_scores){.unit = unit_of(&t)};
        for (uint32_t i = 0; i < map->count; i++)
            out->trained += map->contexts[i].searched == PATH_BY_TRAINING;
        for (uint32_t i = 0; i < truth->node_count; i++)
            take_context(&t, out, i, window_bytes);
        path_answer_settle(&t.answer);
    }
    truth_end(&t);
    return CT_OK;
}

/* --- what training never saw -------------------------------------------------------------------
 */

struct unseen_visit {
    const struct profile *profile;
    path_unseen_visit *visit;
    void *context;
    struct path_unseen *out;
};

static void take_identifier(struct path_unseen *out, bool is_seen, uint64_t weight)
{
    out->contexts++;
    out->weight += weight;
    out->unseen += !is_seen;
    out->unseen_weight += is_seen ? 0 : weight;
}

static void take_found(void *context, const struct path_found *found)
{
    struct unseen_visit *v = context;
    bool is_seen = found->answer->quality != PATH_MISSING && !found->answer->is_searched;
    uint32_t height = path_height_node(v->profile, found->node);
    take_identifier(v->out, is_seen, found->cost);
    if (!is_seen)
        v->visit(v->context, found->node,
                 profile_frame(v->profile, profile_node_frame(v->profile, height))->offset,
                 found->cost);
}

int path_unseen(const struct path_map *map, const struct profile *p, const char *weight,
                path_unseen_visit *visit, void *context, struct path_unseen *out,
                struct ct_error *err)
{
    struct truth t;
    struct path_summary summary;
    struct unseen_visit v = {p, visit, context, out};
    const struct path_context *first;
    *out = (struct path_unseen){.unit = profile_string(p, profile_metric(p, 0)->unit)};
    if (path_has_heights(p))
        return path_each(map, p, take_found, &v, &summary, err);
    CT_TRY(truth_begin(&t, map, p, weight, err));
    out->unit = unit_of(&t);
    for (uint32_t i = 0; i < p->node_count; i++) {
        uint32_t own = own_of(&t, i);
        if (own == CTP_NONE)
            continue;
        uint64_t height = profile_value(p, t.heights.metric, own);
        uint64_t value = profile_value(p, t.weight, i);
        if (map->growth.items.count && list_chain(&t, i))
            height += growth_above(&t, 0);
        bool is_seen =
            path_map_find(map, function_at(&t, i), height, &first) != 0 && !first[0].searched;
        take_identifier(out, is_seen, value);
        if (!is_seen)
            visit(context, i, height, value);
    }
    truth_end(&t);
    return CT_OK;
}
