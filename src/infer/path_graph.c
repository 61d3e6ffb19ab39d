#include "infer/path_graph.h"

#include "base/search.h"

#include <string.h>

struct code_key {
    uint64_t offset;
    uint32_t module, unused;
};

void path_graph_begin(struct path_graph *g)
{
    *g = (struct path_graph){0};
    key_set_init(&g->function_keys, sizeof(struct code_key));
    path_graph_function(g, CTP_NONE, 0, 0, "");
}

void path_graph_free(struct path_graph *g)
{
    for (size_t i = 0; i < g->modules.count; i++)
        free(g->modules.items[i].path);
    for (size_t i = 0; i < g->functions.count; i++)
        free(g->functions.items[i].name);
    for (size_t i = 0; i < g->callers.count; i++)
        vec_free(&g->callers.items[i].calls);
    key_set_free(&g->function_keys);
    vec_free(&g->modules);
    vec_free(&g->functions);
    vec_free(&g->calls);
    vec_free(&g->jumps);
    vec_free(&g->callers);
    free(g->first_call);
    free(g->first_jump);
}

uint32_t path_graph_module(struct path_graph *g, const struct ctp_module *m, const char *path)
{
    for (size_t i = 0; i < g->modules.count; i++) {
        const struct graph_module *known = &g->modules.items[i];
        if (known->module.build_id_size == m->build_id_size &&
            memcmp(known->module.build_id, m->build_id, sizeof m->build_id) == 0 &&
            (m->build_id_size || strcmp(known->path, path) == 0))
            return (uint32_t)i;
    }
    vec_push(&g->modules, (struct graph_module){*m, must_strdup(path), false});
    return (uint32_t)g->modules.count - 1;
}

uint32_t path_graph_function(struct path_graph *g, uint32_t module, uint64_t offset, uint64_t size,
                             const char *name)
{
    struct code_key key = {offset, module, 0};
    uint32_t number = key_set_add(&g->function_keys, &key);
    if (number == g->functions.count)
        vec_push(&g->functions, (struct graph_function){module, offset, size, must_strdup(name)});
    return number;
}

uint32_t path_graph_find(const struct path_graph *g, uint32_t module, uint64_t offset)
{
    struct code_key key = {offset, module, 0};
    uint32_t number;
    return key_set_find(&g->function_keys, &key, &number) ? number : CTP_NONE;
}

/* --- what training met -------------------------------------------------------------------------
 */

struct training {
    struct path_graph *graph;
    const struct path_map *map;
    uint32_t *modules, *functions;        /* the graph's, of the map's */
    const struct path_context **contexts; /* by the place that called, function and height */
    uint32_t count;
    struct key_set seen;
};

static uint32_t parent_of(const struct path_map *map, const struct path_context *c)
{
    return profile_parent(&map->profile, c->node);
}

static const struct path_map *sorted_map;

static int by_place(const void *a, const void *b)
{
    const struct path_context *x = *(const struct path_context *const *)a;
    const struct path_context *y = *(const struct path_context *const *)b;
    uint32_t p = parent_of(sorted_map, x), q = parent_of(sorted_map, y);
    if (p != q)
        return p < q ? -1 : 1;
    if (x->function != y->function)
        return x->function < y->function ? -1 : 1;
    return x->height_bytes < y->height_bytes ? -1 : x->height_bytes > y->height_bytes;
}

/* The contexts of a function that was called at a node, lowest first; returns how many. */
static uint32_t find_contexts(const struct training *t, uint32_t node, uint32_t function,
                              uint32_t *first)
{
    uint32_t to;
    SEARCH(*first, t->count,
           parent_of(t->map, t->contexts[*first]) < node ||
               (parent_of(t->map, t->contexts[*first]) == node &&
                t->contexts[*first]->function < function));
    for (to = *first; to < t->count && parent_of(t->map, t->contexts[to]) == node &&
                      t->contexts[to]->function == function;)
        to++;
    return to - *first;
}

static void add_call(struct training *t, const struct graph_call *call)
{
    uint32_t before = t->seen.count;
    if (key_set_add(&t->seen, call) == before)
        vec_push(&t->graph->calls, *call);
}

/*
 * A call, with the frame of the function that made it. Where both heights vary, as below an aligned
 * frame, they vary alike: the n-th belongs to the n-th.
 */
static void take_context(struct training *t, uint32_t index)
{
    const struct profile *p = &t->map->profile;
    const struct path_context *c = t->contexts[index];
    uint32_t place = parent_of(t->map, c), above = profile_parent(p, place), first, own_first;
    const struct ctp_frame *f = profile_frame(p, profile_node_frame(p, place));
    if (above == CTP_NONE || c->searched)
        return;
    struct graph_call call = {.caller = PATH_NOBODY,
                              .callee = t->functions[c->function],
                              .module = t->modules[f->module],
                              .level = PATH_BY_CALL,
                              .is_trained = true,
                              .offset = f->offset};
    if (profile_parent(p, above) == CTP_NONE) {
        if (!c->height_bytes)
            add_call(t, &call);
        return;
    }
    uint32_t count = find_contexts(t, above, f->function, &first);
    uint32_t own = find_contexts(t, place, c->function, &own_first);
    call.caller = t->functions[f->function];
    for (uint32_t i = 0; i < count; i++) {
        uint64_t height = t->contexts[first + i]->height_bytes;
        if ((own > 1 && count == own && i != index - own_first) || height >= c->height_bytes)
            continue;
        call.bytes = c->height_bytes - height;
        add_call(t, &call);
    }
}

void path_graph_train(struct path_graph *g, const struct path_map *map)
{
    const struct profile *p = &map->profile;
    uint32_t modules = profile_module_count(p), functions = profile_function_count(p);
    struct training t = {.graph = g, .map = map, .count = map->count};
    t.modules = must_calloc((size_t)modules + 1, sizeof *t.modules);
    t.functions = must_calloc((size_t)functions + 1, sizeof *t.functions);
    t.contexts = must_calloc((size_t)map->count + 1, sizeof *t.contexts);
    key_set_init(&t.seen, sizeof(struct graph_call));
    for (uint32_t i = 0; i < modules; i++) {
        const struct ctp_module *m = profile_module(p, i);
        t.modules[i] = path_graph_module(g, m, profile_string(p, m->path));
    }
    for (uint32_t i = 0; i < functions; i++) {
        const struct ctp_function *f = profile_function(p, i);
        t.functions[i] = path_graph_function(g, t.modules[f->module], f->offset, f->size,
                                             profile_string(p, f->name));
    }
    for (uint32_t i = 0; i < map->count; i++)
        t.contexts[i] = &map->contexts[i];
    sorted_map = map;
    qsort(t.contexts, t.count, sizeof *t.contexts, by_place);
    for (uint32_t i = 0; i < t.count; i++)
        take_context(&t, i);
    key_set_free(&t.seen);
    free(t.modules);
    free(t.functions);
    free(t.contexts);
}

/* --- callers -----------------------------------------------------------------------------------
 */

static int by_callee(const void *a, const void *b)
{
    const struct graph_call *x = a, *y = b;
    return x->callee < y->callee ? -1 : x->callee > y->callee;
}

static int by_target(const void *a, const void *b)
{
    const struct graph_jump *x = a, *y = b;
    return x->to < y->to ? -1 : x->to > y->to;
}

void path_graph_seal(struct path_graph *g)
{
    uint32_t count = (uint32_t)g->functions.count;
    if (g->calls.count)
        qsort(g->calls.items, g->calls.count, sizeof *g->calls.items, by_callee);
    if (g->jumps.count)
        qsort(g->jumps.items, g->jumps.count, sizeof *g->jumps.items, by_target);
    g->first_call = must_calloc((size_t)count + 1, sizeof *g->first_call);
    g->first_jump = must_calloc((size_t)count + 1, sizeof *g->first_jump);
    for (uint32_t f = 0, i = 0, k = 0; f <= count; f++) {
        while (i < g->calls.count && g->calls.items[i].callee < f)
            i++;
        while (k < g->jumps.count && g->jumps.items[k].to < f)
            k++;
        g->first_call[f] = i;
        g->first_jump[f] = k;
        if (f < count)
            vec_push(&g->callers, (struct graph_callers){0});
    }
}

static int by_code(const void *a, const void *b)
{
    const struct graph_call *x = a, *y = b;
    if (x->module != y->module)
        return x->module < y->module ? -1 : 1;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? -1 : 1;
    return x->level < y->level ? -1 : x->level > y->level;
}

/* A call that training met is there once, though the code has it, too. */
static void keep_one_of_each(struct graph_callers *c)
{
    size_t kept = 0;
    if (c->calls.count)
        qsort(c->calls.items, c->calls.count, sizeof *c->calls.items, by_code);
    for (size_t i = 0; i < c->calls.count; i++) {
        const struct graph_call *last = kept ? &c->calls.items[kept - 1] : NULL;
        const struct graph_call *next = &c->calls.items[i];
        if (!last || last->module != next->module || last->offset != next->offset ||
            last->bytes != next->bytes)
            c->calls.items[kept++] = *next;
    }
    c->calls.count = kept;
}

/* A function, and all that jump to it, and to these. */
const struct graph_callers *path_graph_callers(struct path_graph *g, uint32_t function)
{
    struct graph_callers *out = &g->callers.items[function];
    if (out->is_listed)
        return out;
    struct key_set reached;
    VEC(uint32_t) level = {0};
    out->is_listed = true;
    key_set_init(&reached, sizeof function);
    key_set_add(&reached, &function);
    vec_push(&level, 0);
    for (uint32_t i = 0; i < reached.count; i++) {
        uint32_t f;
        memcpy(&f, key_set_get(&reached, i), sizeof f);
        if (f == PATH_POINTED_TO && i) { /* its callers are listed once, for all */
            out->is_pointed_to = true;
            continue;
        }
        for (uint32_t c = g->first_call[f]; c < g->first_call[f + 1]; c++) {
            struct graph_call call = g->calls.items[c];
            if (f != function && call.is_trained)
                continue; /* training says itself where it leads */
            call.level = (uint16_t)(call.level > level.items[i] ? call.level : level.items[i]);
            vec_push(&out->calls, call);
        }
        for (uint32_t j = g->first_jump[f]; j < g->first_jump[f + 1]; j++) {
            const struct graph_jump *jump = &g->jumps.items[j];
            uint32_t before = reached.count;
            if (key_set_add(&reached, &jump->from) == before)
                vec_push(&level, jump->level > level.items[i] ? jump->level : level.items[i]);
        }
    }
    vec_free(&level);
    key_set_free(&reached);
    keep_one_of_each(out);
    return out;
}
