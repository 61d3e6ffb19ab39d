#include "infer/path_train.h"

#include "base/key_set.h"
#include "infer/path_heights.h"
#include "infer/path_map.h"

#include <string.h>

/* Equal byte by byte for what is the same. */
struct module_key {
    uint8_t build_id[CTP_BUILD_ID_ROOM];
    uint64_t path; /* of a module without a build-id: offset of the string, plus one */
};

struct known_module {
    struct ctp_module module; /* its path is a string of the trainer */
    char *path;
};

struct known_function {
    struct ctp_function function;
    char *name;
};

struct code_key {
    uint64_t offset;
    uint32_t module, flags;
};

struct node_key {
    uint32_t parent, frame;
};

struct known_node {
    uint32_t parent, frame;
    uint64_t weight, height_bytes;
    bool is_context, varies;
    uint8_t searched; /* enum path_searched */
};

struct path_trainer {
    const char *weight; /* as it was asked for, or NULL */
    char *weight_unit;  /* of the first profile */
    uint64_t trained_on;
    struct key_set module_keys, function_keys, frame_keys, node_keys;
    VEC(struct known_module) modules;
    VEC(struct known_function) functions;
    VEC(struct ctp_frame) frames; /* with modules and functions of the trainer */
    VEC(struct known_node) nodes; /* the first is the root */
};

struct path_trainer *path_train_begin(const char *weight)
{
    struct path_trainer *t = must_calloc(1, sizeof *t);
    t->weight = weight;
    key_set_init(&t->module_keys, sizeof(struct module_key));
    key_set_init(&t->function_keys, sizeof(struct code_key));
    key_set_init(&t->frame_keys, sizeof(struct code_key));
    key_set_init(&t->node_keys, sizeof(struct node_key));
    vec_push(&t->nodes,
             (struct known_node){CTP_NONE, CTP_NONE, 0, 0, false, false, PATH_BY_TRAINING});
    return t;
}

void path_train_free(struct path_trainer *t)
{
    for (size_t i = 0; i < t->modules.count; i++)
        free(t->modules.items[i].path);
    for (size_t i = 0; i < t->functions.count; i++)
        free(t->functions.items[i].name);
    vec_free(&t->modules);
    vec_free(&t->functions);
    vec_free(&t->frames);
    vec_free(&t->nodes);
    key_set_free(&t->module_keys);
    key_set_free(&t->function_keys);
    key_set_free(&t->frame_keys);
    key_set_free(&t->node_keys);
    free(t->weight_unit);
    free(t);
}

uint32_t path_train_count(const struct path_trainer *t)
{
    uint32_t count = 0;
    for (size_t i = 0; i < t->nodes.count; i++)
        count += t->nodes.items[i].is_context;
    return count;
}

/* --- what a profile calls its code, in the trainer ---------------------------------------------
 */

struct source {
    const struct profile *profile;
    uint32_t weight, height, varies, searched; /* metrics; the last two may be CTP_NONE */
    uint32_t *modules;                         /* of the trainer */
    struct path_heights heights;
};

static uint32_t add_module(struct path_trainer *t, const struct ctp_module *m, const char *path)
{
    struct module_key key = {0};
    memcpy(key.build_id, m->build_id, sizeof key.build_id);
    for (size_t i = 0; i < t->modules.count && !m->build_id_size; i++)
        if (!t->modules.items[i].module.build_id_size &&
            strcmp(t->modules.items[i].path, path) == 0)
            return (uint32_t)i;
    key.path = m->build_id_size ? 0 : t->modules.count + 1;
    uint32_t before = t->module_keys.count, number = key_set_add(&t->module_keys, &key);
    if (number == before)
        vec_push(&t->modules, (struct known_module){*m, must_strdup(path)});
    return number;
}

/* One program, or library, in two builds: a map holds for one of each. */
static int check_builds(const struct path_trainer *t, const char *name, struct ct_error *err)
{
    for (size_t i = 0; i < t->modules.count; i++)
        for (size_t k = 0; k < i; k++)
            if (strcmp(t->modules.items[i].path, t->modules.items[k].path) == 0)
                return ct_fail(err,
                               "%s: %s is of another build than in what was given before: a map "
                               "holds for one build",
                               name, t->modules.items[i].path);
    return CT_OK;
}

static uint32_t know_function(struct path_trainer *t, struct ctp_function known, const char *name)
{
    struct code_key key = {known.offset, known.module, 0};
    uint32_t before = t->function_keys.count, number = key_set_add(&t->function_keys, &key);
    if (number == before)
        vec_push(&t->functions, (struct known_function){known, must_strdup(name)});
    return number;
}

static uint32_t add_function(struct path_trainer *t, const struct source *s, uint32_t index)
{
    const struct ctp_function *f = profile_function(s->profile, index);
    return know_function(t,
                         (struct ctp_function){
                             .offset = f->offset, .size = f->size, .module = s->modules[f->module]},
                         profile_string(s->profile, f->name));
}

static uint32_t add_frame(struct path_trainer *t, struct code_key key, uint32_t function)
{
    uint32_t before = t->frame_keys.count, number = key_set_add(&t->frame_keys, &key);
    if (number == before)
        vec_push(&t->frames, (struct ctp_frame){.offset = key.offset,
                                                .module = key.module,
                                                .function = function,
                                                .flags = key.flags});
    return number;
}

static uint32_t add_node(struct path_trainer *t, uint32_t parent, uint32_t frame)
{
    struct node_key key = {parent, frame};
    uint32_t before = t->node_keys.count, number = key_set_add(&t->node_keys, &key);
    if (number == before)
        vec_push(&t->nodes,
                 (struct known_node){parent, frame, 0, 0, false, false, PATH_BY_TRAINING});
    return number + 1; /* the root has no key */
}

/* --- contexts ----------------------------------------------------------------------------------
 */

/* The place of a call below a node of the trainer. */
static uint32_t add_place(struct path_trainer *t, const struct source *s, uint32_t above,
                          const struct ctp_frame *f)
{
    struct code_key key = {f->offset, s->modules[f->module], f->flags & CTP_FRAME_RETURN};
    return add_node(t, above, add_frame(t, key, add_function(t, s, f->function)));
}

/*
 * The node for a height of a function in a context. Each height has a node of its own, told apart
 * by an offset that counts from the function's.
 */
static uint32_t node_of_height(struct path_trainer *t, uint32_t above, struct code_key key,
                               uint32_t function, uint64_t height, enum path_searched searched)
{
    struct known_node *known;
    uint32_t own;
    for (unsigned i = 0;; i++) {
        own = add_node(t, above, add_frame(t, key, function));
        known = &t->nodes.items[own];
        if (!known->is_context || known->height_bytes == height || i == PATH_MOST_HEIGHTS - 1)
            break;
        known->varies |= !searched;
        key.offset++;
    }
    known->varies |= !searched && known->is_context && known->height_bytes != height;
    if (!known->is_context)
        known->height_bytes = height;
    if (!known->is_context || !searched)
        known->searched = (uint8_t)searched;
    known->is_context = true;
    return own;
}

static enum path_searched searched_of(const struct source *s, uint32_t node)
{
    uint64_t value = s->searched == CTP_NONE ? 0 : profile_value(s->profile, s->searched, node);
    return value > PATH_SOME_FOUND ? PATH_SOME_FOUND : (enum path_searched)value;
}

/* `node` has the height, `weight` is of it or of a place in the same function and context. */
static void add_context(struct path_trainer *t, const struct source *s, uint32_t above,
                        uint32_t node, uint64_t weight)
{
    const struct profile *p = s->profile;
    const struct ctp_frame *f = profile_frame(p, profile_node_frame(p, node));
    struct code_key key = {profile_function(p, f->function)->offset, s->modules[f->module], 0};
    uint32_t own = node_of_height(t, above, key, add_function(t, s, f->function),
                                  profile_value(p, s->height, node), searched_of(s, node));
    struct known_node *known = &t->nodes.items[own];
    known->varies |= s->varies != CTP_NONE && profile_value(p, s->varies, node);
    known->weight = known->weight + weight < weight ? UINT64_MAX : known->weight + weight;
}

/* The cost of a node with all below it. */
static uint64_t *sum_up(const struct profile *p, uint32_t metric)
{
    uint64_t *sums = must_calloc(p->node_count ? p->node_count : 1, sizeof *sums);
    for (uint32_t i = p->node_count; i-- > 0;) {
        uint32_t parent = profile_parent(p, i);
        sums[i] += profile_value(p, metric, i);
        if (parent != CTP_NONE)
            sums[parent] += sums[i];
    }
    return sums;
}

static void add_nodes(struct path_trainer *t, const struct source *s)
{
    const struct profile *p = s->profile;
    uint32_t *own = must_calloc(p->node_count ? p->node_count : 1, sizeof *own);
    uint64_t *sums = sum_up(p, s->weight);
    for (uint32_t i = 0; i < p->node_count; i++) {
        uint32_t parent = profile_parent(p, i), above = parent == CTP_NONE ? 0 : own[parent];
        const struct ctp_frame *f = profile_frame(p, profile_node_frame(p, i));
        own[i] = CTP_NONE;
        if (parent == CTP_NONE)
            own[i] = 0;
        if (parent == CTP_NONE || above == CTP_NONE || f->module == CTP_NONE ||
            f->function == CTP_NONE || profile_function(p, f->function)->module != f->module ||
            s->modules[f->module] == CTP_NONE)
            continue;
        if (f->flags & CTP_FRAME_RETURN)
            own[i] = add_place(t, s, above, f);
        else if (path_heights_is_tail(&s->heights, i))
            own[i] = above; /* its frame is that of what it jumped to */
        bool is_return = f->flags & CTP_FRAME_RETURN;
        uint64_t weight = is_return ? sums[i] : profile_value(p, s->weight, i);
        uint32_t node = path_heights_has(&s->heights, i) ? i : CTP_NONE;
        if (node == CTP_NONE && !is_return && weight) /* a sample in the function */
            node = path_heights_own(&s->heights, i);
        if (node != CTP_NONE)
            add_context(t, s, above, node, weight);
    }
    free(sums);
    free(own);
}

/* --- profiles ----------------------------------------------------------------------------------
 */

static int find_metrics(struct path_trainer *t, struct source *s, struct ct_error *err)
{
    const struct profile *p = s->profile;
    static const char *const usual[] = {"weight", "calls"};
    s->height = profile_find_metric(p, "height");
    s->varies = profile_find_metric(p, "height_varies");
    s->searched = profile_find_fact(p, CTP_SCOPE_PROFILE, 0, PATH_MAP_FACT)
                      ? profile_find_metric(p, "searched")
                      : CTP_NONE;
    s->weight = t->weight ? profile_find_metric(p, t->weight) : CTP_NONE;
    if (s->height == CTP_NONE)
        return ct_fail(err,
                       "%s: has no stack heights: record --engine exact --height, or --engine "
                       "infer, measures them",
                       p->name);
    if (t->weight && s->weight == CTP_NONE)
        return ct_fail(err, "%s: has no metric %s", p->name, t->weight);
    for (unsigned i = 0; i < 2 && s->weight == CTP_NONE; i++)
        s->weight = profile_find_metric(p, usual[i]);
    if (s->weight == CTP_NONE)
        s->weight = 0;
    const char *unit = profile_string(p, profile_metric(p, s->weight)->unit);
    if (!t->weight_unit)
        t->weight_unit = must_strdup(unit);
    else if (strcmp(t->weight_unit, unit) != 0)
        return ct_fail(err,
                       "%s: its weights are %s, and those given before are %s: --weight METRIC "
                       "names one that all have",
                       p->name, unit, t->weight_unit);
    return CT_OK;
}

int path_train_take(struct path_trainer *t, const struct profile *p, struct ct_error *err)
{
    struct source s = {.profile = p};
    if (profile_find_fact(p, CTP_SCOPE_PROFILE, 0, PATH_GROWTH_FACT) || path_is_grown(p))
        return ct_fail(err, "%s: its frames have grown (--resize): train with those of the program",
                       p->name);
    CT_TRY(find_metrics(t, &s, err));
    uint32_t modules = profile_module_count(p);
    s.modules = must_calloc((size_t)modules + 1, sizeof *s.modules);
    for (uint32_t i = 0; i < modules; i++)
        s.modules[i] = path_is_ours(p, i)
                           ? CTP_NONE
                           : add_module(t, profile_module(p, i),
                                        profile_string(p, profile_module(p, i)->path));
    int status = check_builds(t, p->name, err);
    if (status == CT_OK) {
        path_heights_begin(&s.heights, p, s.height);
        add_nodes(t, &s);
        path_heights_end(&s.heights);
        const struct ctp_fact *before = profile_find_fact(p, CTP_SCOPE_PROFILE, 0, "trained_on");
        t->trained_on += before && before->type == CTP_U64 ? before->value : 1;
    }
    free(s.modules);
    return status;
}

int path_train_add(struct path_trainer *t, const char *path, struct ct_error *err)
{
    struct profile p;
    CT_TRY(profile_open(path, &p, err));
    int status = profile_validate(&p, err);
    if (status == CT_OK)
        status = path_train_take(t, &p, err);
    profile_close(&p);
    return status;
}

/* --- paths that were searched -------------------------------------------------------------------
 */

static uint32_t know_place(struct path_trainer *t, const struct path_place *place,
                           struct code_key *key)
{
    key->module = add_module(t, place->module, place->module_path);
    return know_function(t,
                         (struct ctp_function){.offset = place->function,
                                               .size = place->function_size,
                                               .module = key->module},
                         place->name);
}

void path_train_found(struct path_trainer *t, const struct path_place *places, uint32_t count,
                      const struct path_place *leaf, uint64_t height_bytes, bool is_whole)
{
    uint32_t above = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct code_key key = {places[i].offset, 0, CTP_FRAME_RETURN};
        uint32_t function = know_place(t, &places[i], &key);
        above = add_node(t, above, add_frame(t, key, function));
    }
    struct code_key key = {leaf->function, 0, 0};
    uint32_t function = know_place(t, leaf, &key);
    node_of_height(t, above, key, function, height_bytes,
                   is_whole ? PATH_ALL_FOUND : PATH_SOME_FOUND);
}

/* --- writing -----------------------------------------------------------------------------------
 */

static void write_code(const struct path_trainer *t, struct profile_writer *w)
{
    for (size_t i = 0; i < t->modules.count; i++) {
        struct ctp_module m = t->modules.items[i].module;
        m.path = profile_add_string(w, t->modules.items[i].path);
        profile_add_module(w, &m);
    }
    for (size_t i = 0; i < t->functions.count; i++) {
        struct ctp_function f = t->functions.items[i].function;
        f.name = profile_add_string(w, t->functions.items[i].name);
        profile_add_function(w, &f);
    }
    for (size_t i = 0; i < t->frames.count; i++)
        profile_add_frame(w, &t->frames.items[i]);
}

static void write_metrics(const struct path_trainer *t, struct profile_writer *w)
{
    const char *unit = t->weight_unit ? t->weight_unit : "calls";
    const struct {
        const char *name, *unit, *description;
    } metrics[PATH_METRICS] = {
        [PATH_WEIGHT] = {"weight", unit, "how often training met this context"},
        [PATH_HEIGHT] = {"height", "bytes",
                         "stack between the outermost return address and this context's own: of "
                         "each context alone, sums mean nothing"},
        [PATH_VARIES] = {"height_varies", "contexts",
                         "contexts that were met with another height, too"},
        [PATH_SEARCHED] = {
            "searched", "contexts",
            "contexts that training never met: a search of the call graph did; 2: there "
            "may be others"}};
    for (unsigned i = 0; i < PATH_METRICS; i++)
        profile_add_metric(
            w, &(struct ctp_metric){.name = profile_add_string(w, metrics[i].name),
                                    .unit = profile_add_string(w, metrics[i].unit),
                                    .description = profile_add_string(w, metrics[i].description),
                                    .kind = CTP_METRIC_EXACT});
    profile_fact_u64(w, CTP_SCOPE_PROFILE, 0, PATH_MAP_FACT, PATH_MAP_VERSION);
    profile_fact_u64(w, CTP_SCOPE_PROFILE, 0, "trained_on", t->trained_on);
}

static uint64_t value_of(const struct known_node *n, enum path_map_metric metric)
{
    return metric == PATH_WEIGHT   ? n->weight
           : metric == PATH_HEIGHT ? n->height_bytes
           : metric == PATH_VARIES ? n->varies
                                   : n->searched;
}

/* The bytes by which the stack has grown above what each node leads to. The frame of the outermost
 * place is not counted in heights. */
static uint64_t *list_growth(const struct path_trainer *t, const struct growth *growth)
{
    uint64_t *grown = must_calloc(t->nodes.count, sizeof *grown);
    for (size_t i = 1; i < t->nodes.count; i++) {
        const struct known_node *n = &t->nodes.items[i];
        const struct ctp_frame *f = &t->frames.items[n->frame];
        const struct ctp_module *m = &t->modules.items[f->module].module;
        grown[i] = grown[n->parent];
        if (n->parent && (f->flags & CTP_FRAME_RETURN) && f->offset <= UINT32_MAX)
            grown[i] += growth_at(growth, m->build_id, m->build_id_size, (uint32_t)f->offset);
    }
    return grown;
}

static void write_growth(const struct growth *growth, struct profile_writer *w)
{
    char *text = growth_text(growth);
    if (growth->items.count)
        profile_fact_string(w, CTP_SCOPE_PROFILE, 0, PATH_GROWTH_FACT, text);
    free(text);
}

int path_train_write_grown(const struct path_trainer *t, const struct growth *growth,
                           const char *path, struct ct_error *err)
{
    struct profile_writer *w;
    if (!path_train_count(t))
        return ct_fail(err, "%s: nothing to write: no context has a known stack height", path);
    CT_TRY(profile_writer_open(path, &w, err));
    uint64_t *grown = list_growth(t, growth);
    write_code(t, w);
    write_metrics(t, w);
    write_growth(growth, w);
    profile_begin_nodes(w, (uint32_t)t->nodes.count);
    profile_add_root(w, CTP_NONE, CTP_NONE);
    for (size_t i = 0; i < t->nodes.count; i++) {
        struct known_node n = t->nodes.items[i];
        n.height_bytes += n.is_context ? grown[i] : 0;
        profile_write_nodes(w, &n.parent, &n.frame, 1);
        for (unsigned m = 0; m < PATH_METRICS; m++) {
            uint64_t value = value_of(&n, (enum path_map_metric)m);
            profile_write_values(w, m, &value, 1);
        }
    }
    free(grown);
    return profile_writer_commit(w, err);
}

int path_train_write(const struct path_trainer *t, const char *path, struct ct_error *err)
{
    static const struct growth none;
    return path_train_write_grown(t, &none, path, err);
}
