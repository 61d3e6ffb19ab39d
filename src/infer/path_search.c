#include "infer/path_search.h"

#include "infer/path_complete.h"
#include "infer/path_heights.h"

#include <string.h>

enum { WORD = 8, NOT_KNOWN = 0xff, MANY = PATH_SEARCH_MOST + 1, MOST_STATES = 200 << 20 };

/* A function at a height, with the place of the thread's outermost call. */
struct identifier {
    uint64_t height_bytes, outermost; /* the place's offset, */
    uint32_t module, function;        /* and its module; of the graph */
    uint32_t frame, unused;           /* the place; of the profile */
};

struct search {
    struct path_graph graph;
    const struct profile *profile;
    struct path_trainer *trainer;
    struct path_search_result *out;
    struct key_set wanted;         /* struct identifier */
    uint32_t *modules, *functions; /* the graph's, of the profile's */
    /* Of the current outermost place, by level: how many paths there are to each function, by the
       words of its height. */
    uint8_t **counts[PATH_LEVELS];
    size_t most_words;
    const struct identifier *now;
    enum path_level level;
    bool is_whole; /* these are all paths that there are */
    uint64_t states;
    VEC(struct graph_call) path; /* innermost first */
    VEC(struct path_place) places;
};

/* --- how many paths ----------------------------------------------------------------------------
 */

static bool is_base(const struct search *s, const struct graph_call *call)
{
    return call->caller == PATH_NOBODY && call->module == s->now->module &&
           call->offset == s->now->outermost;
}

static uint8_t count_paths(struct search *s, uint32_t function, uint32_t words);

static unsigned count_calls(struct search *s, const struct graph_callers *callers, uint32_t words)
{
    unsigned sum = 0;
    for (size_t i = 0; i < callers->calls.count && sum < MANY; i++) {
        const struct graph_call *call = &callers->calls.items[i];
        if (call->level > s->level)
            continue;
        if (call->caller == PATH_NOBODY)
            sum += words == 0 && is_base(s, call);
        else if (call->bytes <= (uint64_t)words * WORD && call->bytes >= WORD)
            sum += count_paths(s, call->caller, words - (uint32_t)(call->bytes / WORD));
    }
    if (callers->is_pointed_to && s->level == PATH_BY_POINTER && sum < MANY)
        sum += count_paths(s, PATH_POINTED_TO, words);
    return sum;
}

/* Up to MANY. Each call makes the height smaller, so this ends. */
static uint8_t count_paths(struct search *s, uint32_t function, uint32_t words)
{
    uint8_t **own = &s->counts[s->level][function];
    if (!*own) {
        *own = must_calloc(s->most_words + 1, 1);
        memset(*own, NOT_KNOWN, s->most_words + 1);
    }
    uint8_t *count = &(*own)[words];
    if (*count != NOT_KNOWN)
        return *count;
    if (s->states >= MOST_STATES)
        return MANY;
    s->states++;
    unsigned sum = count_calls(s, path_graph_callers(&s->graph, function), words);
    *count = (uint8_t)(sum < MANY ? sum : MANY);
    return *count;
}

/* --- which paths -------------------------------------------------------------------------------
 */

/* A function, and the place of a call in it. */
static struct path_place place_of(const struct search *s, uint32_t function, uint64_t offset)
{
    const struct graph_function *f = &s->graph.functions.items[function];
    const struct graph_module *m = &s->graph.modules.items[f->module];
    return (struct path_place){.module = &m->module,
                               .module_path = m->path,
                               .name = f->name,
                               .function = f->offset,
                               .function_size = f->size,
                               .offset = offset};
}

/* The outermost function has no number: it is as the profile knows it. */
static struct path_place outermost_place(const struct search *s)
{
    const struct profile *p = s->profile;
    const struct ctp_frame *f = profile_frame(p, s->now->frame);
    const struct ctp_function *function = profile_function(p, f->function);
    const struct graph_module *m = &s->graph.modules.items[s->now->module];
    return (struct path_place){.module = &m->module,
                               .module_path = m->path,
                               .name = profile_string(p, function->name),
                               .function = function->offset,
                               .function_size = function->size,
                               .offset = f->offset};
}

static void write_path(struct search *s)
{
    struct path_place leaf = place_of(s, s->now->function, 0);
    s->places.count = 0;
    for (size_t i = s->path.count; i-- > 0;) {
        const struct graph_call *call = &s->path.items[i];
        vec_push(&s->places, call->caller == PATH_NOBODY ? outermost_place(s)
                                                         : place_of(s, call->caller, call->offset));
    }
    path_train_found(s->trainer, s->places.items, (uint32_t)s->places.count, &leaf,
                     s->now->height_bytes, s->is_whole);
}

static void each_path(struct search *s, uint32_t function, uint32_t words)
{
    const struct graph_callers *callers = path_graph_callers(&s->graph, function);
    for (size_t i = 0; i < callers->calls.count; i++) {
        struct graph_call call = callers->calls.items[i];
        if (call.level > s->level)
            continue;
        bool is_end = call.caller == PATH_NOBODY;
        if (is_end ? words != 0 || !is_base(s, &call)
                   : call.bytes > (uint64_t)words * WORD || call.bytes < WORD)
            continue;
        uint32_t left = is_end ? 0 : words - (uint32_t)(call.bytes / WORD);
        if (!is_end && !count_paths(s, call.caller, left))
            continue;
        vec_push(&s->path, call);
        if (is_end)
            write_path(s);
        else
            each_path(s, call.caller, left);
        s->path.count--;
    }
    if (callers->is_pointed_to && s->level == PATH_BY_POINTER)
        each_path(s, PATH_POINTED_TO, words);
}

/* --- identifiers -------------------------------------------------------------------------------
 */

/* Is there a path of training to it? */
static bool is_known(const struct path_map *map, const struct path_names *names, uint32_t function,
                     uint64_t height, uint32_t frame)
{
    const struct path_context *first;
    uint32_t count = map && names->functions[function] != CTP_NONE
                         ? path_map_find(map, names->functions[function], height, &first)
                         : 0;
    for (uint32_t i = 0; i < count; i++)
        if (!first[i].searched && map->outermost[first[i].node] == names->frames[frame])
            return true;
    return false;
}

/* What is sampled: by a height in the place of the callers, or below callers that are known. */
static bool find_identifier(const struct profile *p, const struct path_heights *heights,
                            uint32_t node, uint32_t *function, uint64_t *height,
                            uint32_t *outermost)
{
    uint32_t gap = path_height_node(p, node), at = node;
    *outermost = CTP_NONE;
    if (profile_parent(p, node) == CTP_NONE || !profile_value(p, 0, node))
        return false;
    if (gap != CTP_NONE) {
        for (; at != gap && profile_parent(p, at) != gap; at = profile_parent(p, at))
            continue;
        *function = profile_frame(p, profile_node_frame(p, at))->function;
        *height = profile_frame(p, profile_node_frame(p, gap))->offset;
        *outermost = profile_node_frame(p, profile_parent(p, gap));
        return at != gap && *function != CTP_NONE && *outermost != CTP_NONE;
    }
    const struct ctp_frame *f = profile_frame(p, profile_node_frame(p, node));
    uint32_t own = heights->profile && !(f->flags & CTP_FRAME_RETURN) && f->function != CTP_NONE &&
                           f->gap == CTP_GAP_NONE
                       ? path_heights_own(heights, node)
                       : CTP_NONE;
    if (own == CTP_NONE)
        return false;
    for (at = profile_parent(p, node); profile_parent(p, at) != CTP_NONE;
         at = profile_parent(p, at)) {
        const struct ctp_frame *place = profile_frame(p, profile_node_frame(p, at));
        if (place->module == CTP_NONE || path_is_ours(p, place->module))
            return false;
        *outermost = profile_node_frame(p, at);
        if (profile_parent(p, profile_parent(p, at)) == CTP_NONE &&
            !(place->flags & CTP_FRAME_RETURN))
            return false;
    }
    *function = f->function;
    *height = profile_value(p, heights->metric, own);
    return *outermost != CTP_NONE;
}

static void take_identifiers(struct search *s, const struct path_map *map,
                             const struct path_names *names)
{
    const struct profile *p = s->profile;
    struct path_heights heights = {0};
    uint32_t metric = profile_find_metric(p, "height"), function, frame = CTP_NONE;
    uint64_t height;
    if (metric != CTP_NONE)
        path_heights_begin(&heights, p, metric);
    for (uint32_t i = 0; i < p->node_count; i++) {
        if (!find_identifier(p, &heights, i, &function, &height, &frame) ||
            is_known(map, names, function, height, frame))
            continue;
        const struct ctp_frame *f = profile_frame(p, frame);
        if (f->module == CTP_NONE || f->function == CTP_NONE || s->modules[f->module] == CTP_NONE ||
            s->functions[function] == PATH_POINTED_TO)
            continue;
        struct identifier id = {.height_bytes = height,
                                .outermost = f->offset,
                                .module = s->modules[f->module],
                                .function = s->functions[function],
                                .frame = frame};
        key_set_add(&s->wanted, &id);
    }
    if (heights.profile)
        path_heights_end(&heights);
}

static void name_code(struct search *s)
{
    const struct profile *p = s->profile;
    s->modules = must_calloc((size_t)profile_module_count(p) + 1, sizeof *s->modules);
    s->functions = must_calloc((size_t)profile_function_count(p) + 1, sizeof *s->functions);
    for (uint32_t i = 0; i < profile_module_count(p); i++) {
        const struct ctp_module *m = profile_module(p, i);
        s->modules[i] = path_is_ours(p, i)
                            ? CTP_NONE
                            : path_graph_module(&s->graph, m, profile_string(p, m->path));
    }
    for (uint32_t i = 0; i < profile_function_count(p); i++) {
        const struct ctp_function *f = profile_function(p, i);
        uint32_t module = s->modules[f->module];
        s->functions[i] = module == CTP_NONE
                              ? PATH_POINTED_TO
                              : path_graph_function(&s->graph, module, f->offset, f->size,
                                                    profile_string(p, f->name));
    }
}

/* --- the search --------------------------------------------------------------------------------
 */

static void forget_counts(struct search *s)
{
    for (unsigned level = 0; level < PATH_LEVELS; level++)
        for (size_t i = 0; i < s->graph.functions.count; i++) {
            free(s->counts[level][i]);
            s->counts[level][i] = NULL;
        }
}

static uint8_t count_at(struct search *s, enum path_level level, uint32_t words)
{
    s->level = level;
    return count_paths(s, s->now->function, words);
}

static void search_one(struct search *s)
{
    struct path_search_result *r = s->out;
    uint32_t words = (uint32_t)(s->now->height_bytes / WORD);
    bool is_too_high = s->now->height_bytes % WORD || s->now->height_bytes > PATH_SEARCH_MOST_BYTES;
    uint8_t known = is_too_high ? MANY : count_at(s, PATH_BY_CALL, words);
    uint8_t all = known == MANY ? MANY : count_at(s, PATH_BY_POINTER, words);
    if (known == MANY || (!known && all == MANY)) {
        r->cut++;
        return;
    }
    if (!all) {
        r->none++;
        return;
    }
    s->level = known ? PATH_BY_CALL : PATH_BY_POINTER;
    s->is_whole = !known || known == all;
    r->found[s->level]++;
    r->whole[s->level] += s->is_whole;
    r->single += all == 1;
    each_path(s, s->now->function, words);
}

static int by_outermost(const void *a, const void *b)
{
    const struct identifier *x = a, *y = b;
    if (x->module != y->module)
        return x->module < y->module ? -1 : 1;
    return x->outermost < y->outermost ? -1 : x->outermost > y->outermost;
}

/* Those of one outermost place together: counts hold for it. */
static void search_all(struct search *s)
{
    size_t count = s->wanted.count;
    struct identifier *ids = must_calloc(count, sizeof *ids);
    memcpy(ids, key_set_get(&s->wanted, 0), count * sizeof *ids);
    qsort(ids, count, sizeof *ids, by_outermost);
    for (size_t i = 0; i < count; i++)
        if (ids[i].height_bytes <= PATH_SEARCH_MOST_BYTES &&
            ids[i].height_bytes / WORD > s->most_words)
            s->most_words = ids[i].height_bytes / WORD;
    for (unsigned level = 0; level < PATH_LEVELS; level++)
        s->counts[level] = must_calloc(s->graph.functions.count, sizeof *s->counts[level]);
    for (size_t i = 0; i < count; i++) {
        if (i && by_outermost(&ids[i - 1], &ids[i]) != 0) {
            forget_counts(s);
            s->states = 0;
        }
        s->now = &ids[i];
        search_one(s);
    }
    forget_counts(s);
    for (unsigned level = 0; level < PATH_LEVELS; level++)
        free(s->counts[level]);
    free(ids);
}

int path_search(const struct path_map *map, const struct profile *p, struct map_cache *cache,
                struct path_trainer *trainer, struct path_search_result *out, struct ct_error *err)
{
    struct search s = {.profile = p, .trainer = trainer, .out = out};
    struct path_names names = {0};
    *out = (struct path_search_result){0};
    if (path_is_grown(p))
        return ct_fail(err, "%s: its frames have grown (--resize): the code says nothing of them",
                       p->name);
    if (map)
        CT_TRY(path_names_make(map, p, &names, err));
    path_graph_begin(&s.graph);
    key_set_init(&s.wanted, sizeof(struct identifier));
    name_code(&s);
    take_identifiers(&s, map, &names);
    if (s.wanted.count) {
        if (map)
            path_graph_train(&s.graph, map);
        path_graph_read_code(&s.graph, cache);
        path_graph_seal(&s.graph);
        search_all(&s);
    }
    out->identifiers = s.wanted.count;
    out->unsized = s.graph.unsized;
    out->unread = s.graph.unread;
    path_names_free(&names);
    key_set_free(&s.wanted);
    path_graph_free(&s.graph);
    vec_free(&s.path);
    vec_free(&s.places);
    free(s.modules);
    free(s.functions);
    return CT_OK;
}
