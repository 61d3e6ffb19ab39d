/*
 * Path maps of random programs, whose contexts, heights and answers are also worked out here by
 * definition: over lists of all contexts, without trees, indices and hashes.
 */
#include "infer/path_complete.h"
#include "infer/path_score.h"
#include "infer/path_search.h"
#include "infer/path_train.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum {
    FUNCTIONS = 7,
    SITES = 3,
    MOST_DEPTH = 9,
    CONTEXTS = 160,
    BYTES_OF_CODE = 0x100,
    TAIL = 0x80
};

static char folder[64];

/* --- random programs ---------------------------------------------------------------------------
 */

struct context {
    uint32_t parent; /* the function that called, or jumped */
    uint32_t function, calls;
    bool is_tail;
    uint32_t path[MOST_DEPTH]; /* offsets of return addresses, outermost first */
    uint32_t depth;            /* of these */
    uint64_t height;
    bool is_trained;
};

struct program {
    uint64_t state;
    uint32_t frame_bytes[FUNCTIONS];
    struct context items[CONTEXTS];
    uint32_t count;
};

static uint32_t next(struct program *p, uint32_t below)
{
    p->state = p->state * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (uint32_t)(p->state >> 33) % below;
}

static bool is_same_call(const struct context *a, const struct context *b)
{
    return a->function == b->function && a->depth == b->depth && a->is_tail == b->is_tail &&
           a->parent == b->parent && memcmp(a->path, b->path, a->depth * sizeof *a->path) == 0;
}

/* A call or a tail jump from a random context; the same one again is one more call. */
static void add_context(struct program *p, bool with_tails)
{
    uint32_t parent = next(p, p->count), site = next(p, SITES);
    struct context c = p->items[parent];
    const struct context *caller = &p->items[parent];
    c.parent = parent;
    c.calls = 1 + next(p, 50);
    c.is_tail = with_tails && caller->height && next(p, 8) == 0; /* 0 is not known there */
    c.function = 1 + next(p, FUNCTIONS - 1);
    if (!c.is_tail) {
        c.path[c.depth++] = caller->function * BYTES_OF_CODE + (site + 1) * 8;
        c.height = parent ? caller->height + p->frame_bytes[caller->function] : 0;
    }
    if (c.depth >= MOST_DEPTH)
        return;
    for (uint32_t i = 0; i < p->count; i++)
        if (i && is_same_call(&p->items[i], &c)) {
            p->items[i].calls += c.calls;
            return;
        }
    p->items[p->count++] = c;
}

static void make_program(struct program *p, uint64_t seed, bool with_tails)
{
    *p = (struct program){.state = seed * 77 + 5, .count = 1};
    for (uint32_t i = 0; i < FUNCTIONS; i++)
        p->frame_bytes[i] = 16 * (1 + next(p, 3));
    for (uint32_t i = 0; i < 4000 && p->count < CONTEXTS; i++)
        add_context(p, with_tails);
    uint32_t never =
        seed % 3 ? FUNCTIONS : FUNCTIONS - 1; /* a function that training never enters */
    for (uint32_t i = 0; i < p->count; i++)   /* a part of them, with all that leads there */
        p->items[i].is_trained = i == 0 || (p->items[p->items[i].parent].is_trained &&
                                            next(p, 10) != 0 && p->items[i].function != never);
}

/* --- as profiles -------------------------------------------------------------------------------
 */

struct building {
    struct profile_writer *writer;
    const struct program *program;
    struct key_set frames, nodes;
    VEC(uint32_t) parents, node_frames;
    VEC(uint64_t) values[4];
};

static uint32_t frame(struct building *b, uint32_t offset, uint32_t flags, uint32_t gap)
{
    uint32_t key[3] = {offset, flags, gap}, before = b->frames.count;
    uint32_t number = key_set_add(&b->frames, key);
    if (number == before)
        profile_add_frame(b->writer,
                          &(struct ctp_frame){.offset = offset,
                                              .module = gap ? CTP_NONE : 0,
                                              .function = gap ? CTP_NONE : offset / BYTES_OF_CODE,
                                              .flags = flags,
                                              .gap = gap});
    return number;
}

static uint32_t child(struct building *b, uint32_t parent, uint32_t node_frame)
{
    uint32_t key[2] = {parent, node_frame}, before = b->nodes.count;
    uint32_t number = key_set_add(&b->nodes, key);
    if (number == before) {
        vec_push(&b->parents, parent);
        vec_push(&b->node_frames, node_frame);
        for (unsigned i = 0; i < 4; i++)
            vec_push(&b->values[i], 0);
    }
    return number;
}

static void begin(struct building *b, const char *path, uint8_t build)
{
    struct ct_error err;
    *b = (struct building){0};
    assert_int_equal(profile_writer_open(path, &b->writer, &err), CT_OK);
    key_set_init(&b->frames, 3 * sizeof(uint32_t));
    key_set_init(&b->nodes, 2 * sizeof(uint32_t));
    profile_add_module(b->writer,
                       &(struct ctp_module){.path = profile_add_string(b->writer, "/bin/random"),
                                            .kind = CTP_MODULE_FILE,
                                            .build_id = {build, 2, 3},
                                            .build_id_size = 3});
    for (uint32_t i = 0; i < FUNCTIONS; i++) {
        char name[16];
        snprintf(name, sizeof name, "f%u", i);
        profile_add_function(b->writer,
                             &(struct ctp_function){.offset = i * BYTES_OF_CODE,
                                                    .size = BYTES_OF_CODE,
                                                    .name = profile_add_string(b->writer, name)});
    }
    child(b, CTP_NONE, CTP_NONE);
}

static void end(struct building *b, unsigned metrics, const char *const *names)
{
    struct ct_error err;
    for (unsigned i = 0; i < metrics; i++)
        profile_add_metric(b->writer,
                           &(struct ctp_metric){.name = profile_add_string(b->writer, names[i]),
                                                .unit = profile_add_string(b->writer, names[i])});
    profile_begin_nodes(b->writer, (uint32_t)b->parents.count);
    profile_add_root(b->writer, CTP_NONE, CTP_NONE);
    profile_write_nodes(b->writer, b->parents.items, b->node_frames.items, b->parents.count);
    for (unsigned i = 0; i < metrics; i++)
        profile_write_values(b->writer, i, b->values[i].items, b->parents.count);
    assert_int_equal(profile_writer_commit(b->writer, &err), CT_OK);
    key_set_free(&b->frames);
    key_set_free(&b->nodes);
    vec_free(&b->parents);
    vec_free(&b->node_frames);
    for (unsigned i = 0; i < 4; i++)
        vec_free(&b->values[i]);
}

/* The node that what a context calls hangs below: the place that it was called, or jumped, from. */
static uint32_t place_of(struct building *b, const struct program *p, uint32_t context)
{
    const struct context *c = &p->items[context];
    if (!context)
        return 0;
    uint32_t above = place_of(b, p, c->parent);
    if (c->is_tail) /* which site it was makes no difference */
        return child(b, above, frame(b, p->items[c->parent].function * BYTES_OF_CODE + TAIL, 0, 0));
    return child(b, above, frame(b, c->path[c->depth - 1], CTP_FRAME_RETURN, 0));
}

/* As record --engine exact --height writes it; `shift`: all heights but 0 are larger. */
static void write_exact(const struct program *p, const char *path, bool only_trained,
                        uint64_t shift, uint8_t build)
{
    static const char *const names[] = {"calls", "height", "height_varies"};
    struct building b;
    begin(&b, path, build);
    for (uint32_t i = 1; i < p->count; i++) {
        const struct context *c = &p->items[i];
        if (only_trained && !c->is_trained)
            continue;
        uint32_t node = child(&b, place_of(&b, p, i), frame(&b, c->function * BYTES_OF_CODE, 0, 0));
        b.values[0].items[node] += c->calls;
        b.values[1].items[node] = c->height ? c->height + shift : 0;
    }
    end(&b, 3, names);
}

/* --- answers by definition ---------------------------------------------------------------------
 */

static bool has_path(const struct context *c, const uint32_t *path, uint32_t depth)
{
    return c->depth == depth && memcmp(c->path, path, depth * sizeof *path) == 0;
}

/* Has training met this function at the end of a path? Or, if it never met it, the path? */
static bool is_known(const struct program *p, const uint32_t *path, uint32_t depth,
                     uint32_t function)
{
    bool is_there = false, is_path = false;
    for (uint32_t i = 1; i < p->count; i++) {
        const struct context *k = &p->items[i];
        if (!k->is_trained)
            continue;
        if (k->function == function && has_path(k, path, depth))
            return true;
        is_there |= k->function == function;
        is_path |= k->depth >= depth && memcmp(k->path, path, depth * sizeof *path) == 0;
    }
    return !is_there && is_path;
}

struct expected {
    const struct context *paths[CONTEXTS];
    uint32_t count;
    bool is_whole;
};

/* Of a context of which all but the `outer` outermost places are seen. */
static struct expected answer(const struct program *p, const struct context *c, uint32_t outer,
                              uint32_t function, uint64_t height)
{
    struct expected all = {0}, whole = {.is_whole = true};
    for (uint32_t i = 1; i < p->count; i++) {
        const struct context *k = &p->items[i];
        uint32_t path[2 * MOST_DEPTH];
        bool is_there = !k->is_trained || k->function != function || k->height != height ||
                        k->path[0] != c->path[0];
        for (uint32_t j = 0; j < all.count && !is_there; j++)
            is_there = has_path(all.paths[j], k->path, k->depth);
        if (is_there)
            continue;
        all.paths[all.count++] = k;
        memcpy(path, k->path, k->depth * sizeof *path);
        memcpy(path + k->depth, c->path + outer, (c->depth - outer) * sizeof *path);
        if (is_known(p, path, k->depth + c->depth - outer, c->function))
            whole.paths[whole.count++] = k;
    }
    return whole.count ? whole : all;
}

/* The function that a place is in, at the end of the places before it, is at this height. */
static uint64_t height_at(const struct program *p, const struct context *c, uint32_t outer,
                          uint32_t *function)
{
    *function = outer < c->depth ? c->path[outer] / BYTES_OF_CODE : c->function;
    for (uint32_t i = 1; i < p->count; i++)
        if (p->items[i].function == *function && has_path(&p->items[i], c->path, outer))
            return p->items[i].height;
    fail();
    return 0;
}

/* --- the map's answers -------------------------------------------------------------------------
 */

static uint32_t place(const struct path_map *map, uint32_t offset)
{
    return path_map_place(map, 0, offset);
}

static bool has_answer(const struct path_map *map, const struct path_answer *a,
                       const struct context *c)
{
    for (size_t i = 0; i < a->candidates.count; i++) {
        uint32_t node = path_map_caller(map, a->candidates.items[i]->node), at = c->depth;
        for (; at && node != CTP_NONE; node = path_map_caller(map, node))
            if (profile_frame(&map->profile, profile_node_frame(&map->profile, node))->offset !=
                c->path[--at])
                break;
        if (!at && node == CTP_NONE)
            return true;
    }
    return false;
}

/* Did training meet a thirtieth as much of this function at its height as was asked for, or more?
 */
static bool is_usual(const struct program *p, const struct context *c, uint64_t weight)
{
    uint64_t trained = 0, asked = 0, here = 0;
    for (uint32_t i = 1; i < p->count; i++) {
        const struct context *k = &p->items[i];
        if (k->function != c->function)
            continue;
        trained += k->is_trained ? k->calls : 0;
        asked += k->calls;
        here += k->height == c->height && k->path[0] == c->path[0] ? k->calls : 0;
    }
    return weight * asked * 30 >= here * trained;
}

static void ask(const struct program *p, const struct path_map *map, const struct context *c,
                uint32_t outer, struct path_answer *a)
{
    uint32_t inner[MOST_DEPTH], function;
    uint64_t height = height_at(p, c, outer, &function);
    struct path_query q = {.function = path_map_function(map, 0, function * BYTES_OF_CODE),
                           .height_bytes = height,
                           .outermost = place(map, c->path[0]),
                           .inner = inner,
                           .inner_count = c->depth - outer,
                           .cost = c->calls,
                           .leaf = path_map_function(map, 0, c->function * BYTES_OF_CODE)};
    for (uint32_t i = outer; i < c->depth; i++)
        inner[i - outer] = place(map, c->path[i]);
    path_answer_find(map, &q, a);
    struct expected e = answer(p, c, outer, function, height);
    assert_int_equal(a->candidates.count, e.count);
    for (uint32_t i = 0; i < e.count; i++)
        assert_true(has_answer(map, a, e.paths[i]));
    bool is_sure =
        e.count == 1 && e.is_whole && !a->has_missed[q.function] && !a->is_unfit &&
        (outer < c->depth || !a->is_settled || is_usual(p, c, a->candidates.items[0]->weight));
    assert_int_equal(a->quality, !e.count      ? PATH_MISSING
                                 : e.count > 1 ? PATH_AMBIGUOUS
                                 : is_sure     ? PATH_PRECISE
                                               : PATH_LIKELY);
}

static const char *file(const char *name)
{
    static char paths[4][96];
    static unsigned turn;
    char *path = paths[turn++ % 4];
    snprintf(path, sizeof *paths, "%s/%s", folder, name);
    return path;
}

static void train(const char *out, unsigned count, const char *const *profiles)
{
    struct ct_error err;
    struct path_trainer *t = path_train_begin(NULL);
    for (unsigned i = 0; i < count; i++)
        assert_int_equal(path_train_add(t, profiles[i], &err), CT_OK);
    assert_int_equal(path_train_write(t, out, &err), CT_OK);
    path_train_free(t);
}

static void open_map(const char *path, struct path_map *map)
{
    struct ct_error err = {{0}};
    if (path_map_open(path, map, &err) != CT_OK)
        fail_msg("%s", err.text);
}

/* --- tests -------------------------------------------------------------------------------------
 */

static void answers_are_those_of_the_definition(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 60; seed++) {
        static struct program p;
        struct path_map map;
        struct path_answer a;
        make_program(&p, seed, seed % 2);
        write_exact(&p, file("exact.ctp"), true, 0, 1);
        train(file("map.ctp"), 1, (const char *[]){file("exact.ctp")});
        open_map(file("map.ctp"), &map);
        path_answer_begin(&a, &map);
        for (unsigned pass = 0; pass < 2; pass++) {
            for (uint32_t i = 1; i < p.count; i++)
                for (uint32_t outer = 1; outer <= p.items[i].depth; outer++)
                    ask(&p, &map, &p.items[i], outer, &a);
            assert_true(pass || a.asked > CONTEXTS);
            path_answer_settle(&a);
        }
        path_answer_free(&a);
        path_map_close(&map);
    }
}

/* --- searching, by definition ------------------------------------------------------------------
 */

/* A call that training met: a place, what it calls, and the frame of the caller. */
struct call {
    uint32_t place, callee;
};

static uint32_t list_calls(const struct program *p, struct call *calls)
{
    uint32_t count = 0;
    for (uint32_t i = 1; i < p->count; i++) {
        const struct context *c = &p->items[i];
        struct call call = {c->path[c->depth - 1], c->function};
        bool is_there = !c->is_trained;
        for (uint32_t k = 0; k < count && !is_there; k++)
            is_there = calls[k].place == call.place && calls[k].callee == call.callee;
        if (!is_there)
            calls[count++] = call;
    }
    return count;
}

/* The path of a context is looked for in all orders of calls with the same outermost one. */
struct orders {
    const struct program *program;
    const struct call *calls;
    uint32_t call_count;
    const struct context *context;
    uint32_t count;
    bool has_path;
};

/* `depth` places of the context's path are to come, if all that came were of it. */
static void list_orders(struct orders *o, uint32_t function, uint64_t height, uint32_t depth,
                        bool is_path)
{
    const struct context *c = o->context;
    for (uint32_t i = 0; i < o->call_count; i++) {
        uint32_t place = o->calls[i].place, caller = place / BYTES_OF_CODE;
        uint32_t bytes = o->program->frame_bytes[caller];
        bool is_next = is_path && depth && c->path[depth - 1] == place;
        if (o->calls[i].callee != function)
            continue;
        if (!caller && height == 0 && place == c->path[0]) {
            o->count++;
            o->has_path |= is_next && depth == 1;
        } else if (caller && bytes <= height) {
            list_orders(o, caller, height - bytes, depth ? depth - 1 : 0, is_next);
        }
    }
}

/* The answers of a map to an identifier with that outermost place. */
static void find_answers(const struct path_map *map, const struct context *c, struct path_answer *a)
{
    const struct path_context *first;
    uint32_t count = path_map_find(map, path_map_function(map, 0, c->function * BYTES_OF_CODE),
                                   c->height, &first);
    a->candidates.count = 0;
    for (uint32_t i = 0; i < count; i++)
        if (map->outermost[first[i].node] == place(map, c->path[0]))
            vec_push(&a->candidates, &first[i]);
}

static void search(const char *map_path, const char *profile_path, const char *out)
{
    struct path_map map;
    struct path_search_result r;
    struct map_cache cache = {0};
    struct profile p;
    struct ct_error err;
    open_map(map_path, &map);
    assert_int_equal(profile_open(profile_path, &p, &err), CT_OK);
    struct path_trainer *t = path_train_begin(NULL);
    assert_int_equal(path_train_take(t, &map.profile, &err), CT_OK);
    assert_int_equal(path_search(&map, &p, &cache, t, &r, &err), CT_OK);
    assert_int_equal(path_train_write(t, out, &err), CT_OK);
    path_train_free(t);
    profile_close(&p);
    path_map_close(&map);
}

static void paths_are_searched_in_all_orders(void **state)
{
    enum { MOST_HEIGHT = 112 }; /* of higher ones there are too many orders to list */
    static struct program p;
    static struct call calls[CONTEXTS];
    struct path_answer a = {0};
    uint32_t found = 0, cut = 0, none = 0;
    (void)state;
    for (uint64_t seed = 1; seed < 60; seed++) {
        struct path_map map, more;
        make_program(&p, seed, false);
        write_exact(&p, file("exact.ctp"), true, 0, 1);
        write_exact(&p, file("all.ctp"), false, 0, 1);
        train(file("map.ctp"), 1, (const char *[]){file("exact.ctp")});
        search(file("map.ctp"), file("all.ctp"), file("more.ctp"));
        open_map(file("map.ctp"), &map);
        open_map(file("more.ctp"), &more);
        struct orders o = {&p, calls, list_calls(&p, calls), NULL, 0, false};
        for (uint32_t i = 1; i < p.count; i++) {
            const struct context *c = o.context = &p.items[i];
            find_answers(&map, c, &a);
            if (c->height > MOST_HEIGHT || a.candidates.count)
                continue;
            o.count = 0;
            o.has_path = false;
            list_orders(&o, c->function, c->height, c->depth, true);
            find_answers(&more, c, &a);
            assert_int_equal(a.candidates.count, o.count > PATH_SEARCH_MOST ? 0 : o.count);
            assert_int_equal(has_answer(&more, &a, c), a.candidates.count && o.has_path);
            for (uint32_t k = 0; k < a.candidates.count; k++)
                assert_int_equal(a.candidates.items[k]->searched, PATH_ALL_FOUND);
            found += a.candidates.count != 0;
            cut += o.count > PATH_SEARCH_MOST;
            none += o.count == 0;
        }
        path_map_close(&more);
        path_map_close(&map);
    }
    vec_free(&a.candidates);
    assert_true(found > 50 && cut > 5 && none > 5);
}

/* A map of two parts, of itself and a part, or of a map: the weights are sums, the paths the same.
 */
static void maps_are_merged(void **state)
{
    static struct program p;
    struct path_map whole, merged;
    (void)state;
    make_program(&p, 9, true);
    write_exact(&p, file("exact.ctp"), false, 0, 1);
    write_exact(&p, file("part.ctp"), true, 0, 1);
    train(file("whole.map"), 2, (const char *[]){file("exact.ctp"), file("part.ctp")});
    train(file("part.map"), 1, (const char *[]){file("part.ctp")});
    train(file("merged.map"), 2, (const char *[]){file("part.map"), file("exact.ctp")});
    open_map(file("whole.map"), &whole);
    open_map(file("merged.map"), &merged);
    assert_int_equal(whole.count, merged.count);
    assert_int_equal(whole.profile.node_count, merged.profile.node_count);
    uint64_t sums[2] = {0};
    for (uint32_t i = 0; i < whole.count; i++) {
        sums[0] += whole.contexts[i].weight;
        sums[1] += merged.contexts[i].weight;
        assert_false(whole.contexts[i].varies);
    }
    uint64_t calls = 0;
    for (uint32_t i = 1; i < p.count; i++)
        calls += p.items[i].calls * (1 + p.items[i].is_trained);
    assert_int_equal(sums[0], calls);
    assert_int_equal(sums[1], calls);
    path_map_close(&whole);
    path_map_close(&merged);
}

/* A stack that is aligned begins elsewhere in each run: each height is known, and said to vary. */
static void contexts_have_several_heights(void **state)
{
    static struct program p;
    struct path_map map;
    const struct path_context *found;
    const char *profiles[10];
    (void)state;
    make_program(&p, 3, false);
    for (unsigned i = 0; i < 10; i++) {
        char *path = must_format("%s/run%u.ctp", folder, i);
        write_exact(&p, path, false, i * 16, 1);
        profiles[i] = path;
    }
    train(file("map.ctp"), 10, profiles);
    open_map(file("map.ctp"), &map);
    for (uint32_t i = 1; i < p.count; i++) {
        const struct context *c = &p.items[i];
        uint32_t function = path_map_function(&map, 0, c->function * BYTES_OF_CODE);
        for (unsigned k = 0; k < PATH_MOST_HEIGHTS && c->height; k++) {
            bool is_there = false;
            uint32_t count = path_map_find(&map, function, c->height + 16 * k, &found);
            for (uint32_t n = 0; n < count; n++)
                is_there |=
                    found[n].varies &&
                    has_answer(&map,
                               &(struct path_answer){
                                   .candidates = {&(const struct path_context *){&found[n]}, 1, 1}},
                               c);
            assert_true(is_there);
        }
    }
    path_map_close(&map);
    for (unsigned i = 0; i < 10; i++)
        free((void *)profiles[i]);
}

/* The score's numbers, with two registers, are those of asking for each context. */
static void scores_are_counts_of_answers(void **state)
{
    (void)state;
    for (uint64_t seed = 40; seed < 50; seed++) {
        static struct program p;
        struct path_map map;
        struct path_answer a;
        struct path_scores s;
        struct profile truth;
        struct ct_error err;
        uint64_t right[PATH_QUALITIES] = {0}, wrong[PATH_QUALITIES] = {0}, few = 0, calls = 0;
        make_program(&p, seed, false);
        write_exact(&p, file("truth.ctp"), false, 0, 1);
        write_exact(&p, file("part.ctp"), true, 0, 1);
        train(file("map.ctp"), 1, (const char *[]){file("part.ctp")});
        open_map(file("map.ctp"), &map);
        path_answer_begin(&a, &map);
        for (unsigned pass = 0; pass < 2; pass++) {
            for (uint32_t i = 1; i < p.count; i++) {
                ask(&p, &map, &p.items[i], p.items[i].depth, &a);
                bool is_right = a.quality == PATH_MISSING || has_answer(&map, &a, &p.items[i]);
                uint64_t n = pass ? p.items[i].calls : 0;
                *(is_right ? &right[a.quality] : &wrong[a.quality]) += n;
                few +=
                    a.quality != PATH_MISSING && is_right && a.candidates.count <= PATH_FEW ? n : 0;
                calls += n;
            }
            path_answer_settle(&a);
        }
        assert_int_equal(profile_open(file("truth.ctp"), &truth, &err), CT_OK);
        assert_int_equal(path_score(&map, &truth, NULL, 0, &s, &err), CT_OK);
        assert_int_equal(s.by[SHARE_WEIGHT].total, calls);
        assert_int_equal(s.by[SHARE_PATHS].total, p.count - 1);
        assert_int_equal(s.by[SHARE_WEIGHT].within[2], few);
        for (unsigned q = 0; q < PATH_QUALITIES; q++) {
            assert_int_equal(s.by[SHARE_WEIGHT].right[q], right[q]);
            assert_int_equal(s.by[SHARE_WEIGHT].incorrect[q], wrong[q]);
        }
        assert_int_equal(path_score(&map, &truth, NULL, 1 << 20, &s, &err), CT_OK);
        assert_int_equal(s.by[SHARE_WEIGHT].walked, calls); /* the window holds all of it */
        profile_close(&truth);
        path_answer_free(&a);
        path_map_close(&map);
    }
}

/* As record --engine infer writes it, of each context a cost, with so many places in the window. */
static void write_heights(const struct program *p, const char *path, uint32_t places)
{
    static const char *const names[] = {"cpu"};
    struct building b;
    begin(&b, path, 1);
    for (uint32_t i = 1; i < p->count; i++) {
        const struct context *c = &p->items[i];
        uint32_t outer = c->depth > places + 1 ? c->depth - places : 1, function;
        uint64_t height = height_at(p, c, outer, &function);
        uint32_t node = child(&b, 0, frame(&b, c->path[0], CTP_FRAME_RETURN, 0));
        if (height)
            node = child(&b, node, frame(&b, (uint32_t)height, 0, CTP_GAP_HEIGHT));
        for (uint32_t k = outer; k < c->depth; k++)
            node = child(&b, node, frame(&b, c->path[k], CTP_FRAME_RETURN, 0));
        node = child(&b, node, frame(&b, c->function * BYTES_OF_CODE + 3, 0, 0));
        b.values[0].items[node] += c->calls;
    }
    end(&b, 1, names);
}

static uint64_t sum_of(const struct profile *p, uint32_t metric)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < p->node_count; i++)
        sum += profile_value(p, metric, i);
    return sum;
}

/* The cost of a path in a profile. */
static uint64_t cost_of(const struct profile *p, uint32_t metric, const struct context *c)
{
    uint64_t cost = 0;
    for (uint32_t i = 0; i < p->node_count; i++) {
        const struct ctp_frame *f = profile_frame(p, profile_node_frame(p, i));
        uint32_t node = profile_parent(p, i), at = c->depth;
        if (f->offset != c->function * BYTES_OF_CODE + 3u)
            continue;
        while (at && profile_frame(p, profile_node_frame(p, node))->offset == c->path[at - 1]) {
            node = profile_parent(p, node);
            at--;
        }
        cost += !at && profile_parent(p, node) == CTP_NONE ? profile_value(p, metric, i) : 0;
    }
    return cost;
}

static void check_completed(const struct program *p, const struct profile *out,
                            const struct path_summary *s)
{
    uint64_t calls = 0;
    for (uint32_t i = 1; i < p->count; i++)
        calls += p->items[i].calls;
    assert_int_equal(sum_of(out, 0), calls);
    for (unsigned q = 0; q < PATH_MISSING; q++)
        assert_int_equal(sum_of(out, 1 + q), s->cost[q]);
    for (uint32_t i = 1; i < p->count;
         i++) { /* what is precise is all of it, and true: all is known */
        uint64_t cost = cost_of(out, 1 + PATH_PRECISE, &p->items[i]), own = 0;
        for (uint32_t k = 1; k < p->count; k++)
            if (p->items[k].function == p->items[i].function &&
                has_path(&p->items[k], p->items[i].path, p->items[i].depth))
                own += p->items[k].calls;
        assert_true(cost == 0 || cost == own);
    }
}

static void completed_profiles_have_all_cost(void **state)
{
    (void)state;
    for (uint32_t places = 0; places < 4; places++) {
        static struct program p;
        struct path_map map;
        struct profile in, out;
        struct path_summary s;
        struct ct_error err;
        make_program(&p, 60 + places, true);
        write_exact(&p, file("exact.ctp"), false, 0, 1);
        train(file("map.ctp"), 1, (const char *[]){file("exact.ctp")});
        write_heights(&p, file("in.ctp"), places);
        open_map(file("map.ctp"), &map);
        assert_int_equal(profile_open(file("in.ctp"), &in, &err), CT_OK);
        assert_int_equal(path_each(&map, &in, NULL, NULL, &s, &err), CT_OK);
        assert_int_equal(s.cost[PATH_MISSING] + s.cost[PATH_LIKELY], 0);
        assert_true(s.cost[PATH_PRECISE] && (places || s.cost[PATH_AMBIGUOUS]));
        assert_int_equal(path_complete(&map, &in, 0, file("out.ctp"), &err), CT_OK);
        assert_int_equal(profile_open(file("out.ctp"), &out, &err), CT_OK);
        assert_int_equal(profile_validate(&out, &err), CT_OK);
        check_completed(&p, &out, &s);
        profile_close(&out);
        /* Of the heaviest path alone: what the others would have had stays where it was. */
        assert_int_equal(path_complete(&map, &in, 1, file("out.ctp"), &err), CT_OK);
        assert_int_equal(profile_open(file("out.ctp"), &out, &err), CT_OK);
        assert_int_equal(sum_of(&out, 0), sum_of(&in, 0));
        assert_true(sum_of(&out, 1 + PATH_AMBIGUOUS) <
                    s.cost[PATH_AMBIGUOUS] + !s.cost[PATH_AMBIGUOUS]);
        profile_close(&out);
        assert_int_equal(path_complete(&map, &in, 0, file("twice.ctp"), &err), CT_OK);
        profile_close(&in);
        assert_int_equal(profile_open(file("twice.ctp"), &in, &err), CT_OK);
        assert_int_equal(path_complete(&map, &in, 0, file("again.ctp"), &err), CT_ERROR);
        profile_close(&in);
        path_map_close(&map);
    }
}

static void another_build_is_refused(void **state)
{
    static struct program p;
    struct path_map map;
    struct profile other;
    struct path_names names;
    struct ct_error err;
    (void)state;
    make_program(&p, 1, false);
    write_exact(&p, file("exact.ctp"), false, 0, 1);
    write_exact(&p, file("other.ctp"), false, 0, 2);
    train(file("map.ctp"), 1, (const char *[]){file("exact.ctp")});
    open_map(file("map.ctp"), &map);
    assert_int_equal(profile_open(file("other.ctp"), &other, &err), CT_OK);
    assert_int_equal(path_names_make(&map, &other, &names, &err), CT_ERROR);
    assert_non_null(strstr(err.text, "random has another build-id in"));
    struct path_trainer *t = path_train_begin(NULL);
    assert_int_equal(path_train_add(t, file("exact.ctp"), &err), CT_OK);
    assert_int_equal(path_train_add(t, file("other.ctp"), &err), CT_ERROR);
    assert_non_null(strstr(err.text, "another build"));
    path_train_free(t);
    profile_close(&other);
    path_map_close(&map);
}

static void what_is_no_map_is_refused(void **state)
{
    static struct program p;
    struct path_map map;
    struct ct_error err;
    (void)state;
    make_program(&p, 1, false);
    write_exact(&p, file("exact.ctp"), false, 0, 1);
    write_heights(&p, file("in.ctp"), 0);
    assert_int_equal(path_map_open(file("exact.ctp"), &map, &err), CT_ERROR);
    assert_non_null(strstr(err.text, "is not a path map"));
    struct path_trainer *t = path_train_begin(NULL);
    assert_int_equal(path_train_add(t, file("in.ctp"), &err), CT_ERROR);
    assert_non_null(strstr(err.text, "has no stack heights"));
    path_train_free(t);
}

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/test_infer.XXXXXX");
    return mkdtemp(folder) ? 0 : 1;
}

static int remove_folder(void **state)
{
    char command[128];
    (void)state;
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_are_those_of_the_definition),
        cmocka_unit_test(paths_are_searched_in_all_orders),
        cmocka_unit_test(maps_are_merged),
        cmocka_unit_test(contexts_have_several_heights),
        cmocka_unit_test(scores_are_counts_of_answers),
        cmocka_unit_test(completed_profiles_have_all_cost),
        cmocka_unit_test(another_build_is_refused),
        cmocka_unit_test(what_is_no_map_is_refused),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
