#include "infer/path_map.h"

#include "base/search.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *const metric_names[PATH_METRICS] = {"weight", "height", "height_varies",
                                                       "searched"};

/* --- opening -----------------------------------------------------------------------------------
 */

static int check_kind(const struct profile *p, struct ct_error *err)
{
    const struct ctp_fact *fact = profile_find_fact(p, CTP_SCOPE_PROFILE, 0, PATH_MAP_FACT);
    if (!fact || fact->type != CTP_U64)
        return ct_fail(err, "%s: is not a path map: calltrail infer --train makes one", p->name);
    if (fact->value > PATH_MAP_VERSION)
        return ct_fail(err, "%s: is a path map of a newer calltrail (version %" PRIu64 ")", p->name,
                       fact->value);
    for (uint32_t i = 0; i < PATH_METRICS - (fact->value < PATH_MAP_VERSION); i++)
        if (i >= p->metric_count ||
            strcmp(profile_string(p, profile_metric(p, i)->name), metric_names[i]) != 0)
            return ct_fail(err, "%s: the path map is damaged: its metrics are others", p->name);
    return CT_OK;
}

/* Places of calls lead to other places and to functions; below functions there is nothing. */
static int check_node(const struct profile *p, uint32_t node, struct ct_error *err)
{
    uint32_t parent = profile_parent(p, node);
    const struct ctp_frame *f = profile_frame(p, profile_node_frame(p, node));
    const struct ctp_frame *above = profile_frame(p, profile_node_frame(p, parent));
    if (parent == CTP_NONE)
        return CT_OK;
    if (f->module == CTP_NONE || f->function == CTP_NONE || f->gap != CTP_GAP_NONE ||
        (profile_parent(p, parent) != CTP_NONE && !(above->flags & CTP_FRAME_RETURN)))
        return ct_fail(err, "%s: the path map is damaged: node %" PRIu32 " is no call", p->name,
                       node);
    return CT_OK;
}

static bool is_context(const struct profile *p, uint32_t node)
{
    const struct ctp_frame *f = profile_frame(p, profile_node_frame(p, node));
    return profile_parent(p, node) != CTP_NONE && !(f->flags & CTP_FRAME_RETURN);
}

static int by_identifier(const void *a, const void *b)
{
    const struct path_context *x = a, *y = b;
    if (x->function != y->function)
        return x->function < y->function ? -1 : 1;
    if (x->height_bytes != y->height_bytes)
        return x->height_bytes < y->height_bytes ? -1 : 1;
    if (x->searched != y->searched)
        return x->searched < y->searched ? -1 : 1;
    if (x->weight != y->weight)
        return x->weight > y->weight ? -1 : 1;
    return x->node < y->node ? -1 : x->node > y->node;
}

static enum path_searched searched_of(const struct profile *p, uint32_t node)
{
    bool has_any =
        p->metric_count > PATH_SEARCHED &&
        strcmp(profile_string(p, profile_metric(p, PATH_SEARCHED)->name), "searched") == 0;
    uint64_t value = has_any ? profile_value(p, PATH_SEARCHED, node) : PATH_BY_TRAINING;
    return value > PATH_SOME_FOUND ? PATH_SOME_FOUND : (enum path_searched)value;
}

static void index_contexts(struct path_map *map)
{
    const struct profile *p = &map->profile;
    uint32_t functions = profile_function_count(p), next = 0;
    for (uint32_t i = 0; i < p->node_count; i++)
        map->count += is_context(p, i);
    map->contexts = must_calloc(map->count ? map->count : 1, sizeof *map->contexts);
    for (uint32_t i = 0; i < p->node_count; i++)
        if (is_context(p, i))
            map->contexts[next++] = (struct path_context){
                .function = profile_frame(p, profile_node_frame(p, i))->function,
                .node = i,
                .height_bytes = profile_value(p, PATH_HEIGHT, i),
                .weight = profile_value(p, PATH_WEIGHT, i),
                .varies = profile_value(p, PATH_VARIES, i) != 0,
                .searched = searched_of(p, i)};
    qsort(map->contexts, map->count, sizeof *map->contexts, by_identifier);
    map->first = must_calloc((size_t)functions + 1, sizeof *map->first);
    for (uint32_t f = 0, i = 0; f <= functions; f++) {
        while (i < map->count && map->contexts[i].function < f)
            i++;
        map->first[f] = i;
    }
}

struct code_key {
    uint64_t offset;
    uint32_t module, unused;
};

/* By module and offset, the functions and the places of calls; of several the first. */
static void index_code(struct path_map *map)
{
    const struct profile *p = &map->profile;
    key_set_init(&map->functions, sizeof(struct code_key));
    key_set_init(&map->places, sizeof(struct code_key));
    for (uint32_t i = 0; i < profile_function_count(p); i++) {
        struct code_key key = {profile_function(p, i)->offset, profile_function(p, i)->module, 0};
        uint32_t before = map->functions.count;
        if (key_set_add(&map->functions, &key) == before)
            vec_push(&map->function_numbers, i);
    }
    for (uint32_t i = 0; i < profile_frame_count(p); i++) {
        struct code_key key = {profile_frame(p, i)->offset, profile_frame(p, i)->module, 0};
        uint32_t before = map->places.count;
        if ((profile_frame(p, i)->flags & CTP_FRAME_RETURN) &&
            key_set_add(&map->places, &key) == before)
            vec_push(&map->place_numbers, i);
    }
}

struct child_key {
    uint32_t parent, frame;
};

/* Nodes are numbered as in the profile, less one: the root is the first. */
static int index_nodes(struct path_map *map, struct ct_error *err)
{
    const struct profile *p = &map->profile;
    key_set_init(&map->children, sizeof(struct child_key));
    key_set_init(&map->called, sizeof(struct child_key));
    map->outermost = must_calloc(p->node_count ? p->node_count : 1, sizeof *map->outermost);
    map->trained = must_calloc(p->node_count ? p->node_count : 1, sizeof *map->trained);
    for (uint32_t i = 0; i < p->node_count; i++) {
        uint32_t parent = profile_parent(p, i), frame = profile_node_frame(p, i);
        struct child_key key = {parent, frame}, call = {parent, profile_frame(p, frame)->function};
        map->outermost[i] = parent == CTP_NONE ? CTP_NONE
                            : parent == 0      ? frame
                                               : map->outermost[parent];
        if ((parent == CTP_NONE) != (i == 0) || (i && key_set_add(&map->children, &key) != i - 1))
            return ct_fail(err, "%s: the path map is damaged: node %" PRIu32 " occurs twice",
                           p->name, i);
        if (i && is_context(p, i) && searched_of(p, i) == PATH_BY_TRAINING) {
            key_set_add(&map->called, &call);
            map->trained[i] = true;
        }
    }
    for (uint32_t i = p->node_count; i-- > 1;)
        map->trained[profile_parent(p, i)] |= map->trained[i];
    return CT_OK;
}

static int read_growth(struct path_map *map, struct ct_error *err)
{
    const struct profile *p = &map->profile;
    const struct ctp_fact *fact = profile_find_fact(p, CTP_SCOPE_PROFILE, 0, PATH_GROWTH_FACT);
    if (!fact || fact->type != CTP_STRING)
        return CT_OK;
    return growth_parse(profile_string(p, (uint32_t)fact->value), p->name, &map->growth, err);
}

/* Of a profile that is open, and stays so with the map. */
static int take_profile(struct path_map *map, struct ct_error *err)
{
    int status = check_kind(&map->profile, err);
    if (status == CT_OK)
        status = profile_validate(&map->profile, err);
    for (uint32_t i = 0; i < map->profile.node_count && status == CT_OK; i++)
        status = check_node(&map->profile, i, err);
    if (status == CT_OK)
        status = read_growth(map, err);
    if (status != CT_OK) {
        profile_close(&map->profile);
        return status;
    }
    index_contexts(map);
    index_code(map);
    status = index_nodes(map, err);
    if (status != CT_OK)
        path_map_close(map);
    return status;
}

int path_map_open(const char *path, struct path_map *out, struct ct_error *err)
{
    *out = (struct path_map){0};
    CT_TRY(profile_open(path, &out->profile, err));
    return take_profile(out, err);
}

int path_map_from_bytes(const void *bytes, size_t size, const char *name, struct path_map *out,
                        struct ct_error *err)
{
    *out = (struct path_map){0};
    CT_TRY(profile_from_bytes(bytes, size, name, &out->profile, err));
    return take_profile(out, err);
}

void path_map_close(struct path_map *map)
{
    free(map->contexts);
    free(map->first);
    free(map->outermost);
    free(map->trained);
    key_set_free(&map->children);
    key_set_free(&map->called);
    key_set_free(&map->functions);
    key_set_free(&map->places);
    vec_free(&map->function_numbers);
    vec_free(&map->place_numbers);
    growth_free(&map->growth);
    profile_close(&map->profile);
}

/* --- looking up --------------------------------------------------------------------------------
 */

uint32_t path_map_find(const struct path_map *map, uint32_t function, uint64_t height_bytes,
                       const struct path_context **first)
{
    *first = NULL;
    if (function >= profile_function_count(&map->profile))
        return 0;
    const struct path_context *own = map->contexts + map->first[function];
    uint32_t count = map->first[function + 1] - map->first[function], from, to;
    SEARCH(from, count, own[from].height_bytes < height_bytes);
    for (to = from; to < count && own[to].height_bytes == height_bytes;)
        to++;
    *first = own + from;
    return to - from;
}

uint32_t path_map_module(const struct path_map *map, const uint8_t *build_id, uint32_t size)
{
    for (uint32_t i = 0; i < profile_module_count(&map->profile); i++) {
        const struct ctp_module *m = profile_module(&map->profile, i);
        if (size && m->build_id_size == size && memcmp(m->build_id, build_id, size) == 0)
            return i;
    }
    return CTP_NONE;
}

uint32_t path_map_function(const struct path_map *map, uint32_t module, uint64_t offset)
{
    struct code_key key = {offset, module, 0};
    uint32_t number;
    return module != CTP_NONE && key_set_find(&map->functions, &key, &number)
               ? map->function_numbers.items[number]
               : CTP_NONE;
}

uint32_t path_map_place(const struct path_map *map, uint32_t module, uint64_t offset)
{
    struct code_key key = {offset, module, 0};
    uint32_t number;
    return module != CTP_NONE && key_set_find(&map->places, &key, &number)
               ? map->place_numbers.items[number]
               : CTP_NONE;
}

uint32_t path_map_child(const struct path_map *map, uint32_t node, uint32_t frame)
{
    struct child_key key = {node, frame};
    uint32_t number;
    return key_set_find(&map->children, &key, &number) && map->trained[number + 1] ? number + 1
                                                                                   : CTP_NONE;
}

bool path_map_calls(const struct path_map *map, uint32_t node, uint32_t function)
{
    struct child_key key = {node, function};
    uint32_t number;
    return key_set_find(&map->called, &key, &number);
}

uint32_t path_map_caller(const struct path_map *map, uint32_t node)
{
    uint32_t parent = profile_parent(&map->profile, node);
    return profile_parent(&map->profile, parent) == CTP_NONE ? CTP_NONE : parent;
}

/* --- frames that have grown --------------------------------------------------------------------
 */

static_assert((unsigned)GROWTH_BUILD_ID_ROOM == (unsigned)CTP_BUILD_ID_ROOM, "they are the same");

uint32_t path_map_growth(const struct path_map *map, const struct profile *p, uint32_t frame)
{
    const struct ctp_frame *f = profile_frame(p, frame);
    if (!map->growth.items.count || !(f->flags & CTP_FRAME_RETURN) || f->module == CTP_NONE ||
        f->offset > UINT32_MAX)
        return 0;
    const struct ctp_module *m = profile_module(p, f->module);
    return growth_at(&map->growth, m->build_id, m->build_id_size, (uint32_t)f->offset);
}

bool path_is_grown(const struct profile *p)
{
    for (uint32_t i = 0; i < profile_fact_count(p); i++)
        if (strcmp(profile_string(p, profile_fact(p, i)->key), PATH_GROWN_FACT) == 0)
            return true;
    return false;
}

int path_map_fits(const struct path_map *map, const struct profile *p, struct ct_error *err)
{
    const struct ctp_fact *whole = profile_find_fact(p, CTP_SCOPE_PROFILE, 0, PATH_GROWN_FACT);
    char expected[20] = "";
    if (map->growth.items.count)
        snprintf(expected, sizeof expected, "%016" PRIx64, growth_number(&map->growth));
    bool fits = (whole != NULL) == (map->growth.items.count != 0);
    for (uint32_t i = 0; i < profile_fact_count(p) && fits; i++) {
        const struct ctp_fact *fact = profile_fact(p, i); /* of any process that was merged */
        if (strcmp(profile_string(p, fact->key), PATH_GROWN_FACT) == 0)
            fits = fact->type == CTP_STRING &&
                   strcmp(profile_string(p, (uint32_t)fact->value), expected) == 0;
    }
    if (fits)
        return CT_OK;
    return ct_fail(err,
                   "%s was recorded with other frames than those of %s: record --resize MAP, and "
                   "the same map, belong together",
                   p->name, map->profile.name);
}

/* --- the names of a profile --------------------------------------------------------------------
 */

static const char *base_name(const struct profile *p, const struct ctp_module *m)
{
    const char *path = profile_string(p, m->path), *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

bool path_is_ours(const struct profile *p, uint32_t module)
{
    static const char ours[] = "libcalltrail-";
    return strncmp(base_name(p, profile_module(p, module)), ours, strlen(ours)) == 0;
}

static bool is_same_build(const struct ctp_module *a, const struct ctp_module *b)
{
    return a->build_id_size == b->build_id_size &&
           memcmp(a->build_id, b->build_id, sizeof a->build_id) == 0;
}

/* The map's module; CTP_NONE: training did not see it. */
static int find_module(const struct path_map *map, const struct profile *p, uint32_t index,
                       uint32_t *out, struct ct_error *err)
{
    const struct ctp_module *m = profile_module(p, index);
    bool has_another = false;
    *out = CTP_NONE;
    if (m->kind != CTP_MODULE_FILE && m->kind != CTP_MODULE_VDSO)
        return CT_OK;
    for (uint32_t i = 0; i < profile_module_count(&map->profile); i++) {
        const struct ctp_module *known = profile_module(&map->profile, i);
        bool has_name = strcmp(base_name(p, m), base_name(&map->profile, known)) == 0;
        if (is_same_build(m, known) && (m->build_id_size || has_name)) {
            *out = i;
            return CT_OK;
        }
        has_another |= has_name;
    }
    if (has_another && m->kind == CTP_MODULE_FILE)
        return ct_fail(err,
                       "%s: %s has another build-id in %s: a map holds for the build that it was "
                       "trained with (calltrail infer --train makes a new one)",
                       map->profile.name, base_name(p, m), p->name);
    return CT_OK;
}

int path_names_make(const struct path_map *map, const struct profile *p, struct path_names *out,
                    struct ct_error *err)
{
    uint32_t count = profile_module_count(p);
    uint32_t *modules = must_calloc((size_t)count + 1, sizeof *modules);
    for (uint32_t i = 0; i < count; i++)
        if (find_module(map, p, i, &modules[i], err) != CT_OK) {
            free(modules);
            return CT_ERROR;
        }
    out->functions = must_calloc((size_t)profile_function_count(p) + 1, sizeof *out->functions);
    out->frames = must_calloc((size_t)profile_frame_count(p) + 1, sizeof *out->frames);
    for (uint32_t i = 0; i < profile_function_count(p); i++) {
        const struct ctp_function *f = profile_function(p, i);
        out->functions[i] =
            f->module < count ? path_map_function(map, modules[f->module], f->offset) : CTP_NONE;
    }
    for (uint32_t i = 0; i < profile_frame_count(p); i++) {
        const struct ctp_frame *f = profile_frame(p, i);
        out->frames[i] = f->module < count && (f->flags & CTP_FRAME_RETURN)
                             ? path_map_place(map, modules[f->module], f->offset)
                             : CTP_NONE;
    }
    out->modules = modules;
    return CT_OK;
}

void path_names_free(struct path_names *names)
{
    free(names->functions);
    free(names->frames);
    free(names->modules);
}
