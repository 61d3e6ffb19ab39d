/*
 * What reports show, against a computation that knows no trees: all call paths of a random profile
 * are written out as strings, refined one by one, and summed up by prefix, by suffix or by
 * function.
 */
#include "export/export.h"
#include "report/flat.h"
#include "report/report.h"
#include "report/shorten.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { ROUNDS = 150, NODES_MAX = 60, ROOTS = 5, PATH_MAX_FRAMES = NODES_MAX + 2, KEY_ROOM = 40 };

static char folder[64], path[96];

static uint64_t random_state;

static uint32_t below(uint32_t limit)
{
    random_state += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t z = (random_state ^ random_state >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    return (uint32_t)((z ^ z >> 29) % limit);
}

/* ---- Sums by key ------------------------------------------------------------------------------
 */

struct tally {
    VEC(struct sum {
        char *key;
        uint64_t value;
    })
    sums;
};

static void tally_add(struct tally *t, const char *key, uint64_t value)
{
    for (size_t i = 0; i < t->sums.count; i++)
        if (strcmp(t->sums.items[i].key, key) == 0) {
            t->sums.items[i].value += value;
            return;
        }
    if (value)
        vec_push(&t->sums, (struct sum){must_strdup(key), value});
}

static int by_key(const void *a, const void *b)
{
    return strcmp(((const struct sum *)a)->key, ((const struct sum *)b)->key);
}

/* Both have the same sums. Forgets them. */
static void tally_same(struct tally *got, struct tally *expected)
{
    for (int i = 0; i < 2; i++) {
        struct tally *t = i ? got : expected;
        if (t->sums.count)
            qsort(t->sums.items, t->sums.count, sizeof *t->sums.items, by_key);
    }
    for (size_t i = 0; i < got->sums.count && i < expected->sums.count; i++) {
        assert_string_equal(got->sums.items[i].key, expected->sums.items[i].key);
        assert_int_equal(got->sums.items[i].value, expected->sums.items[i].value);
    }
    assert_int_equal(got->sums.count, expected->sums.count);
    for (int i = 0; i < 2; i++) {
        struct tally *t = i ? got : expected;
        for (size_t k = 0; k < t->sums.count; k++)
            free(t->sums.items[k].key);
        vec_free(&t->sums);
    }
}

/* ---- Random profiles, and all their paths -----------------------------------------------------
 */

/*
 * Module 2 is module 0 again, as another process would bring it. Functions 0 and 5 are the same;
 * 1 and 6 have one name at two offsets; 2 and 7 have one name in two modules. Frames 0 to 15 are
 * two places in each; then come places without a function, of which 16 and 17 are the same, and
 * two gaps.
 */
enum { FUNCTIONS = 8, FRAMES = 22 };
static const char *const module_paths[] = {"/bin/prog", "/lib/libx.so", "/bin/prog"};
static const struct {
    const char *name;
    uint32_t module, offset;
} functions[FUNCTIONS] = {{"alpha", 0, 16}, {"beta", 0, 32},  {"gamma", 0, 48}, {"delta;x", 1, 16},
                          {"eps", 1, 32},   {"alpha", 2, 16}, {"beta", 0, 96},  {"gamma", 1, 64}};

struct call {
    char key[KEY_ROOM]; /* tells labels apart */
    char name[24];      /* as shown */
    const char *module; /* path, or NULL for what is no code */
    bool code;
};

/* What a frame is, from the description above and nothing else. */
static struct call call_of(uint32_t frame)
{
    struct call c = {.code = true};
    if (frame < 16) {
        c.module = module_paths[functions[frame / 2].module];
        snprintf(c.name, sizeof c.name, "%s", functions[frame / 2].name);
        snprintf(c.key, sizeof c.key, "%s %s %u", c.name, c.module, functions[frame / 2].offset);
    } else if (frame < 20) {
        c.module = module_paths[frame == 17 ? 2 : frame == 16 ? 0 : frame - 18];
        uint32_t offset = frame < 18 ? 0x700 : 0x800;
        snprintf(c.name, sizeof c.name, "%s+0x%x", strrchr(c.module, '/') + 1, offset);
        snprintf(c.key, sizeof c.key, "+ %s %u", c.module, offset);
    } else {
        c.code = false;
        snprintf(c.name, sizeof c.name, "gap %u", frame - 19);
        snprintf(c.key, sizeof c.key, "gap %u", frame - 19);
    }
    return c;
}

static const struct call no_context = {.key = "nothing", .name = "nothing"};
static const struct call folded_away = {.key = "folded", .name = "folded"};

struct path {
    struct call calls[PATH_MAX_FRAMES];
    uint32_t count, root;
    uint64_t value;
};

static VEC(struct path) paths;
static uint32_t parents[NODES_MAX], frames[NODES_MAX], node_roots[NODES_MAX], node_count;
static uint64_t values[NODES_MAX];

/* `places` of the frames are used: the fewer, the more recursion. */
static void make_tree(uint32_t places)
{
    node_count = ROOTS + below(NODES_MAX - ROOTS);
    uint32_t root = 0, first = 0;
    for (uint32_t i = 0; i < node_count; i++) {
        bool begins = i == node_count * root / ROOTS && root < ROOTS;
        if (begins) {
            first = i;
            root++;
        }
        uint32_t before = i - first;
        /* Half of them go on from the last one, so that paths get long and recursion happens. */
        parents[i] = begins ? CTP_NONE : below(2) ? i - 1 : first + below(before);
        frames[i] = begins ? CTP_NONE : below(20) ? below(places) : 20 + below(2);
        values[i] = below(3) ? below(1000) : 0;
        node_roots[i] = root - 1;
    }
}

static void write_profile(void)
{
    struct profile_writer *w;
    struct ct_error err = {""};
    assert_int_equal(profile_writer_open(path, &w, &err), CT_OK);
    profile_add_metric(w, &(struct ctp_metric){.name = profile_add_string(w, "zero")});
    profile_add_metric(w, &(struct ctp_metric){.name = profile_add_string(w, "cost"),
                                               .unit = profile_add_string(w, "units")});
    for (uint32_t i = 0; i < 3; i++)
        profile_add_module(w, &(struct ctp_module){.path = profile_add_string(w, module_paths[i]),
                                                   .kind = CTP_MODULE_FILE,
                                                   .size = 4096});
    for (uint32_t i = 0; i < FUNCTIONS; i++)
        profile_add_function(
            w, &(struct ctp_function){.offset = functions[i].offset,
                                      .size = 16,
                                      .name = profile_add_string(w, functions[i].name),
                                      .module = functions[i].module});
    for (uint32_t i = 0; i < FRAMES; i++) {
        struct ctp_frame frame = {.module = CTP_NONE, .function = CTP_NONE};
        if (i < 16)
            frame = (struct ctp_frame){.offset = functions[i / 2].offset + i % 2,
                                       .module = functions[i / 2].module,
                                       .function = i / 2};
        else if (i < 20)
            frame = (struct ctp_frame){.offset = i < 18 ? 0x700 : 0x800,
                                       .module = i == 17   ? 2
                                                 : i == 16 ? 0
                                                           : i - 18,
                                       .function = CTP_NONE};
        else
            frame.gap = i - 19;
        profile_add_frame(w, &frame);
    }
    profile_add_process(w, &(struct ctp_process){.pid = 7, .parent = CTP_NONE}, 0, NULL);
    profile_add_process(w, &(struct ctp_process){.pid = 8, .parent = 0}, 0, NULL);
    for (uint32_t i = 0; i < 3; i++)
        profile_add_thread(
            w, &(struct ctp_thread){.process = i / 2,
                                    .tid = 100 + i,
                                    .name = profile_add_string(w, i == 1 ? "one" : "other"),
                                    .creator = CTP_NONE});
    profile_add_epoch(w, "first");
    profile_add_epoch(w, "second");
    profile_begin_nodes(w, node_count);
    for (uint32_t i = 0; i < ROOTS; i++)
        profile_add_root(w, i % 3, i == 4 ? CTP_NONE : i / 3);
    profile_write_nodes(w, parents, frames, node_count);
    profile_write_values(w, 1, values, node_count);
    int status = profile_writer_commit(w, &err);
    assert_string_equal(err.text, "");
    assert_int_equal(status, CT_OK);
}

/* Every node's path, by following its parents. */
static void list_paths(void)
{
    paths.count = 0;
    for (uint32_t i = 0; i < node_count; i++) {
        struct path p = {.value = values[i], .root = node_roots[i]};
        uint32_t chain[NODES_MAX], length = 0;
        for (uint32_t at = i; parents[at] != CTP_NONE; at = parents[at])
            chain[length++] = frames[at];
        while (length)
            p.calls[p.count++] = call_of(chain[--length]);
        if (p.count == 0)
            p.calls[p.count++] = no_context;
        if (p.value)
            vec_push(&paths, p);
    }
}

static void random_profile(uint32_t seed, struct profile *out)
{
    struct ct_error err;
    random_state = seed;
    make_tree(seed % 2 ? 20 : 6);
    write_profile();
    list_paths();
    assert_int_equal(profile_open(path, out, &err), CT_OK);
}

static void open_view(const struct profile *p, struct view_options options, struct view *out)
{
    struct ct_error err = {""};
    options.metric = "cost";
    int status = view_open(p, &options, out, &err);
    assert_string_equal(err.text, "");
    assert_int_equal(status, CT_OK);
}

static uint64_t sum_of_paths(void)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < paths.count; i++)
        sum += paths.items[i].value;
    return sum;
}

/* ---- What the two sides say -------------------------------------------------------------------
 */

/* The key that call_of gives, from a label. */
static void label_key(const struct view *view, uint32_t label, char *key)
{
    const struct label *l = &view->labels.items.items[label];
    const char *module =
        l->module == CTP_NONE
            ? ""
            : profile_string(view->profile, profile_module(view->profile, l->module)->path);
    char text[64];
    const char *name = label_name(&view->labels, label, text, sizeof text);
    if (l->kind == LABEL_FUNCTION)
        snprintf(key, KEY_ROOM, "%s %s %u", name, module, (unsigned)l->number);
    else if (l->kind == LABEL_PLACE)
        snprintf(key, KEY_ROOM, "+ %s %u", module, (unsigned)l->number);
    else if (l->kind == LABEL_GAP)
        snprintf(key, KEY_ROOM, "gap %u", (unsigned)l->number);
    else
        snprintf(key, KEY_ROOM, "%s", l->kind == LABEL_FOLDED ? "folded" : "nothing");
}

static char joined[PATH_MAX_FRAMES * (KEY_ROOM + 1)];

/* calls[from..to), in this order or reversed. */
static const char *join(const struct path *p, uint32_t from, uint32_t to, bool reversed)
{
    size_t used = 0;
    joined[0] = '\0';
    for (uint32_t i = from; i < to; i++)
        used += (size_t)snprintf(joined + used, sizeof joined - used, "/%s",
                                 p->calls[reversed ? to - 1 - (i - from) : i].key);
    return joined;
}

static void check_contexts(const struct view *view)
{
    struct tally got = {0}, expected = {0};
    for (size_t i = 0; i < paths.count; i++)
        tally_add(&expected, join(&paths.items[i], 0, paths.items[i].count, false),
                  paths.items[i].value);
    const struct tree *tree = &view->tree;
    for (uint32_t i = 1; i < tree->count; i++) {
        struct path p = {0};
        uint32_t depth = 0;
        for (uint32_t at = i; at; at = tree->nodes[at].parent)
            depth++;
        p.count = depth;
        for (uint32_t at = i; at; at = tree->nodes[at].parent)
            label_key(view, tree->nodes[at].label, p.calls[--depth].key);
        const char *key = join(&p, 0, p.count, false);
        for (size_t k = 0; k < got.sums.count; k++) /* equal contexts have been joined */
            assert_string_not_equal(got.sums.items[k].key, key);
        tally_add(&got, key, tree->nodes[i].self);
    }
    tally_same(&got, &expected);
    assert_int_equal(tree->nodes[0].self, 0);
    assert_int_equal(tree->totals[0], sum_of_paths());
}

static void tally_outline(const struct view *view, const struct outline *outline,
                          struct tally *totals)
{
    uint64_t self = 0, tops = 0;
    for (uint32_t i = 0; i < outline->rows.count; i++) {
        const struct outline_row *row = &outline->rows.items[i];
        struct path p = {.count = row->depth + 1};
        uint32_t at = i;
        for (uint32_t k = p.count; k-- > 0; at = outline->rows.items[at].parent)
            label_key(view, outline->rows.items[at].label, p.calls[k].key);
        assert_int_equal(at, TREE_NONE);
        assert_true(row->total <= view->total);
        self += row->self;
        tops += row->depth == 0 ? row->total : 0;
        tally_add(totals, join(&p, 0, p.count, false), row->total);
    }
    assert_int_equal(self, tops);
}

static const struct outline_options everything = {.min_total = 1};

static void check_topdown(const struct view *view)
{
    struct tally got = {0}, expected = {0};
    for (size_t i = 0; i < paths.count; i++)
        for (uint32_t n = 1; n <= paths.items[i].count; n++)
            tally_add(&expected, join(&paths.items[i], 0, n, false), paths.items[i].value);
    struct outline outline;
    outline_topdown(view, &everything, &outline);
    tally_outline(view, &outline, &got);
    outline_free(&outline);
    tally_same(&got, &expected);
}

static void check_bottomup(const struct view *view)
{
    struct tally got = {0}, expected = {0};
    for (size_t i = 0; i < paths.count; i++)
        for (uint32_t n = 0; n < paths.items[i].count; n++)
            tally_add(&expected, join(&paths.items[i], n, paths.items[i].count, true),
                      paths.items[i].value);
    struct outline outline;
    outline_bottomup(view, &everything, &outline);
    tally_outline(view, &outline, &got);
    outline_free(&outline);
    tally_same(&got, &expected);
}

static void check_flat(const struct view *view)
{
    struct tally self = {0}, total = {0}, expected_self = {0}, expected_total = {0};
    for (size_t i = 0; i < paths.count; i++) {
        const struct path *p = &paths.items[i];
        tally_add(&expected_self, p->calls[p->count - 1].key, p->value);
        for (uint32_t n = 0; n < p->count; n++) {
            bool seen = false;
            for (uint32_t k = 0; k < n; k++)
                seen |= strcmp(p->calls[k].key, p->calls[n].key) == 0;
            if (!seen)
                tally_add(&expected_total, p->calls[n].key, p->value);
        }
    }
    uint32_t count;
    struct flat_row *rows = flat_rows(view, &count);
    for (uint32_t i = 0; i < count; i++) {
        char key[KEY_ROOM];
        label_key(view, rows[i].label, key);
        tally_add(&self, key, rows[i].self);
        tally_add(&total, key, rows[i].total);
        assert_true(share_percent(rows[i].total, view->total) <= 100);
    }
    free(rows);
    tally_same(&self, &expected_self);
    tally_same(&total, &expected_total);
}

/* The function `gamma` of both modules, as roots of two trees. */
static void check_callers_and_callees(const struct view *view)
{
    struct tally got[2] = {0}, expected[2] = {0};
    for (size_t i = 0; i < paths.count; i++) {
        const struct path *p = &paths.items[i];
        uint32_t outermost = 0;
        while (outermost < p->count && strcmp(p->calls[outermost].name, "gamma") != 0)
            outermost++;
        for (uint32_t n = outermost + 1; n <= p->count; n++)
            tally_add(&expected[0], join(p, outermost, n, false), p->value);
        for (uint32_t n = 0; n <= outermost && outermost < p->count; n++)
            tally_add(&expected[1], join(p, n, outermost + 1, true), p->value);
    }
    bool *wanted = must_calloc(view->labels.items.count, sizeof *wanted);
    for (uint32_t i = 0; i < view->labels.items.count; i++) {
        char text[64];
        wanted[i] = strcmp(label_name(&view->labels, i, text, sizeof text), "gamma") == 0;
    }
    struct outline outline;
    outline_callees(view, wanted, &everything, &outline);
    tally_outline(view, &outline, &got[0]);
    outline_free(&outline);
    outline_callers(view, wanted, &everything, &outline);
    tally_outline(view, &outline, &got[1]);
    outline_free(&outline);
    free(wanted);
    tally_same(&got[0], &expected[0]);
    tally_same(&got[1], &expected[1]);
}

static void check_all(const struct view *view)
{
    check_contexts(view);
    check_topdown(view);
    check_bottomup(view);
    check_flat(view);
    check_callers_and_callees(view);
}

/* ---- Refinements of paths ---------------------------------------------------------------------
 */

static bool has(const struct path *p, const char *part, uint32_t *where)
{
    for (uint32_t i = 0; i < p->count; i++)
        if (p->calls[i].code && strstr(p->calls[i].name, part)) {
            *where = i;
            return true;
        }
    return false;
}

static void fold_path(struct path *p)
{
    uint32_t length = 0;
    for (uint32_t i = 0; i < p->count; i++) {
        uint32_t at = 0;
        while (at < length && strcmp(p->calls[at].key, p->calls[i].key) != 0)
            at++;
        p->calls[at] = p->calls[i];
        length = at + 1;
    }
    p->count = length;
}

static void fold_other_modules(struct path *p, const char *module)
{
    uint32_t length = 0;
    for (uint32_t i = 0; i < p->count; i++)
        if (!p->calls[i].code || strstr(p->calls[i].module, module))
            p->calls[length++] = p->calls[i];
    if (length == 0)
        p->calls[length++] = folded_away;
    p->count = length;
}

/* The same as refine() does, to the list of paths. `part` is what the pattern matches. */
static void refine_paths(enum refine_kind kind, const char *part)
{
    size_t kept = 0;
    for (size_t i = 0; i < paths.count; i++) {
        struct path p = paths.items[i];
        uint32_t where = 0;
        bool found = part && kind <= REFINE_SHOW_FROM && has(&p, part, &where);
        if (kind <= REFINE_SHOW_FROM && found == (kind == REFINE_IGNORE))
            continue;
        if (kind == REFINE_SHOW_FROM) {
            memmove(p.calls, p.calls + where, (p.count - where) * sizeof *p.calls);
            p.count -= where;
        }
        if (kind == REFINE_FOLD_RECURSION)
            fold_path(&p);
        if (kind == REFINE_ONLY_MODULE)
            fold_other_modules(&p, part);
        paths.items[kept++] = p;
    }
    paths.count = kept;
}

static const struct {
    struct refinement refinement;
    const char *part;
} refinements[] = {
    {{REFINE_FOCUS, "^alp?ha$"}, "alpha"},
    {{REFINE_FOCUS, "beta|gamma\\+"}, "beta"},
    {{REFINE_IGNORE, "delta"}, "delta"},
    {{REFINE_IGNORE, "^gamma$"}, "gamma"},
    {{REFINE_SHOW_FROM, "beta"}, "beta"},
    {{REFINE_SHOW_FROM, "[p]rog\\+0x7"}, "prog+0x7"},
    {{REFINE_ONLY_MODULE, "libnone*,pro?"}, "prog"},
    {{REFINE_ONLY_MODULE, "/lib/*"}, "libx"},
    {{REFINE_FOLD_RECURSION, NULL}, NULL},
};
enum { REFINEMENTS = sizeof refinements / sizeof *refinements };

/* ---- Tests ------------------------------------------------------------------------------------
 */

static void views_agree_with_all_paths(void **state)
{
    (void)state;
    for (uint32_t seed = 0; seed < ROUNDS; seed++) {
        struct profile p;
        struct view view;
        random_profile(seed, &p);
        open_view(&p, (struct view_options){0}, &view);
        assert_int_equal(view.total, sum_of_paths());
        check_all(&view);
        view_close(&view);
        profile_close(&p);
    }
}

static void each_refinement_agrees_with_all_paths(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < REFINEMENTS; i++)
        for (uint32_t seed = 0; seed < ROUNDS / 3; seed++) {
            struct profile p;
            struct view view;
            random_profile(seed + 1000 * i, &p);
            uint64_t whole = sum_of_paths();
            open_view(&p,
                      (struct view_options){.refinements = &refinements[i].refinement,
                                            .refinement_count = 1},
                      &view);
            refine_paths(refinements[i].refinement.kind, refinements[i].part);
            assert_int_equal(view.total, whole);
            check_all(&view);
            view_close(&view);
            profile_close(&p);
        }
}

static void refinements_apply_one_after_the_other(void **state)
{
    (void)state;
    for (uint32_t seed = 0; seed < ROUNDS; seed++) {
        struct profile p;
        struct view view;
        struct refinement list[4];
        random_profile(seed, &p);
        size_t count = 2 + below(3);
        for (size_t i = 0; i < count; i++) {
            uint32_t which = below(REFINEMENTS);
            list[i] = refinements[which].refinement;
            refine_paths(list[i].kind, refinements[which].part);
        }
        open_view(&p, (struct view_options){.refinements = list, .refinement_count = count}, &view);
        check_all(&view);
        view_close(&view);
        profile_close(&p);
    }
}

/* Root i is thread i % 3 (processes 0, 0, 1) in phase i / 3, the last in none. */
static void threads_processes_and_phases_are_chosen(void **state)
{
    (void)state;
    static const struct {
        struct view_options options;
        unsigned roots; /* bits */
    } choices[] = {
        {{.thread = "one"}, 0x12},
        {{.thread = "other"}, 0x0d},
        {{.thread = "102"}, 0x04},
        {{.process = "7"}, 0x1b},
        {{.process = "8"}, 0x04},
        {{.phase = "first"}, 0x07},
        {{.phase = "second"}, 0x08},
        {{.phase = "(no phase)"}, 0x10},
        {{.thread = "one", .phase = "first"}, 0x02},
    };
    for (uint32_t i = 0; i < sizeof choices / sizeof *choices; i++)
        for (uint32_t seed = 0; seed < 20; seed++) {
            struct profile p;
            struct view view;
            random_profile(seed, &p);
            size_t kept = 0;
            for (size_t k = 0; k < paths.count; k++)
                if (choices[i].roots >> paths.items[k].root & 1)
                    paths.items[kept++] = paths.items[k];
            paths.count = kept;
            open_view(&p, choices[i].options, &view);
            assert_int_equal(view.total, sum_of_paths());
            check_all(&view);
            view_close(&view);
            profile_close(&p);
        }
}

/* Groups have the sums of their roots, whatever is refined below them. */
static void groups_sum_up_their_roots(void **state)
{
    (void)state;
    static const uint32_t groups[][ROOTS] = {[GROUP_THREAD] = {0, 1, 2, 0, 1},
                                             [GROUP_PROCESS] = {0, 0, 1, 0, 0},
                                             [GROUP_PHASE] = {0, 0, 0, 1, CTP_NONE}};
    for (uint32_t seed = 0; seed < ROUNDS; seed++) {
        struct profile p;
        struct view view;
        random_profile(seed, &p);
        enum view_grouping grouping = GROUP_THREAD + seed % 3;
        uint32_t which = below(REFINEMENTS);
        refine_paths(refinements[which].refinement.kind, refinements[which].part);
        open_view(&p,
                  (struct view_options){.grouping = grouping,
                                        .refinements = &refinements[which].refinement,
                                        .refinement_count = 1},
                  &view);
        struct tally got = {0}, expected = {0};
        char key[16];
        for (size_t i = 0; i < paths.count; i++) {
            snprintf(key, sizeof key, "%u", groups[grouping][paths.items[i].root]);
            tally_add(&expected, key, paths.items[i].value);
        }
        for (uint32_t i = 1; i < view.tree.count; i += view.tree.sizes[i]) {
            const struct label *label = &view.labels.items.items[view.tree.nodes[i].label];
            assert_int_equal(label->kind, LABEL_GROUP);
            assert_int_equal(view.tree.nodes[i].self, 0); /* contexts have it all */
            snprintf(key, sizeof key, "%u", (unsigned)label->number);
            tally_add(&got, key, view.tree.totals[i]);
        }
        tally_same(&got, &expected);
        view_close(&view);
        profile_close(&p);
    }
}

/* What is printed with `kind` as CSV, without limits. */
static char *print_csv(const struct view *view, enum report_kind kind)
{
    char *text;
    size_t size;
    struct terminal terminal = {.out = open_memstream(&text, &size), .columns = 80};
    struct report_options options = {.kind = kind, .format = SHEET_CSV};
    struct ct_error err;
    assert_int_equal(report_print(view, &options, &terminal, &err), CT_OK);
    fclose(terminal.out);
    return text;
}

static void printed_self_values_sum_to_the_total(void **state)
{
    (void)state;
    static const struct {
        enum report_kind kind;
        int column; /* that must sum to the total */
        int share_column;
        bool tops_only; /* of rows with depth 0 */
    } prints[] = {
        {REPORT_CONTEXTS, 1, 0, false},  {REPORT_TOPDOWN, 6, 1, false},
        {REPORT_TOPDOWN, 3, 2, true},    {REPORT_BOTTOMUP, 2, 1, true},
        {REPORT_FLAT, 2, 1, false},      {REPORT_THREADS, 1, 0, false},
        {REPORT_PROCESSES, 1, 0, false}, {REPORT_PHASES, 1, 0, false},
    };
    for (uint32_t seed = 0; seed < ROUNDS; seed++) {
        struct profile p;
        random_profile(seed, &p);
        for (size_t i = 0; i < sizeof prints / sizeof *prints; i++) {
            struct view view;
            open_view(&p, (struct view_options){.grouping = report_grouping(prints[i].kind)},
                      &view);
            char *text = print_csv(&view, prints[i].kind), *rest = text;
            uint64_t sum = 0;
            strsep(&rest, "\n");
            for (char *line; (line = strsep(&rest, "\n")) != NULL && *line;) {
                char *cells[8] = {0};
                for (int k = 0; k < 8 && line; k++)
                    cells[k] = strsep(&line, ",");
                assert_true(strtod(cells[prints[i].share_column], NULL) <= 100);
                if (!prints[i].tops_only || strcmp(cells[0], "0") == 0)
                    sum += strtoull(cells[prints[i].column], NULL, 10);
            }
            assert_int_equal(sum, sum_of_paths());
            free(text);
            view_close(&view);
        }
        profile_close(&p);
    }
}

/* Of a limited outline, no row that is missing is heavier than one that is there. */
static void limits_keep_the_heaviest_rows(void **state)
{
    (void)state;
    for (uint32_t seed = 0; seed < ROUNDS; seed++) {
        struct profile p;
        struct view view;
        random_profile(seed, &p);
        open_view(&p, (struct view_options){0}, &view);
        for (int up = 0; up < 2; up++) {
            struct outline all, some;
            struct outline_options options = {.min_total = 1, .limit_rows = 1 + below(12)};
            (up ? outline_bottomup : outline_topdown)(&view, &everything, &all);
            (up ? outline_bottomup : outline_topdown)(&view, &options, &some);
            uint32_t expected =
                options.limit_rows < all.rows.count ? options.limit_rows : (uint32_t)all.rows.count;
            assert_int_equal(some.rows.count, expected);
            uint64_t lightest = UINT64_MAX;
            for (uint32_t i = 0; i < some.rows.count; i++)
                if (some.rows.items[i].total < lightest)
                    lightest = some.rows.items[i].total;
            uint32_t heavier = 0;
            for (uint32_t i = 0; i < all.rows.count; i++)
                heavier += all.rows.items[i].total > lightest;
            assert_true(heavier < options.limit_rows);
            outline_free(&all);
            outline_free(&some);
        }
        view_close(&view);
        profile_close(&p);
    }
}

static void folded_stacks_agree_with_all_paths(void **state)
{
    (void)state;
    static const char *const thread_names[] = {"other", "one", "other", "other", "one"};
    for (uint32_t seed = 0; seed < ROUNDS; seed++) {
        struct profile p;
        struct view view;
        bool by_thread = seed % 2;
        random_profile(seed, &p);
        open_view(&p,
                  (struct view_options){.identity = LABEL_BY_NAME,
                                        .grouping = by_thread ? GROUP_THREAD : GROUP_NOTHING},
                  &view);
        struct tally got = {0}, expected = {0};
        for (size_t i = 0; i < paths.count; i++) {
            size_t used = 0;
            if (by_thread)
                used = (size_t)sprintf(joined, ";%s", thread_names[paths.items[i].root]);
            for (uint32_t k = 0; k < paths.items[i].count; k++) {
                const struct call *c = &paths.items[i].calls[k];
                const char *name =
                    strcmp(c->key, "nothing") == 0 ? "(context not known)"
                    : strcmp(c->key, "gap 1") == 0 ? "(walk ended: more frames than could be kept)"
                    : strcmp(c->key, "gap 2") == 0 ? "(walk ended: code outside every module)"
                    : strcmp(c->name, "delta;x") == 0 ? "delta:x"
                                                      : c->name;
                used += (size_t)snprintf(joined + used, sizeof joined - used, ";%s", name);
            }
            tally_add(&expected, joined + 1, paths.items[i].value);
        }
        char *text, *rest;
        size_t size;
        FILE *out = open_memstream(&text, &size);
        export_folded(&view, out);
        fclose(out);
        rest = text;
        for (char *line; (line = strsep(&rest, "\n")) != NULL && *line;) {
            char *space = strrchr(line, ' ');
            *space = '\0';
            for (size_t k = 0; k < got.sums.count; k++) /* identical lines are merged */
                assert_string_not_equal(got.sums.items[k].key, line);
            tally_add(&got, line, strtoull(space + 1, NULL, 10));
        }
        tally_same(&got, &expected);
        free(text);
        view_close(&view);
        profile_close(&p);
    }
}

static void names_are_cut_with_care(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        size_t columns;
        const char *expected;
    } cases[] = {
        {"short", 10, "short"},
        {"std::map<K, std::vector<V> >::at(K const&)", 40, "std::map<...>::at(K const&)"},
        {"std::map<Key, std::vector<Value, Alloc> >::at(int)", 45,
         "std::map<Key, std::vector<...> >::at(int)"},
        {"std::map<Key, std::vector<Value> >::at(int)", 25, "std::map<...>::at(int)"},
        {"std::map<Key, Value>::at(int, int, int)", 25, "std::map<...>::at(...)"},
        {"a::operator<<(a long list, of parameters)", 20, "a::operator<<(...)"},
        {"a::operator()(a long list, of parameters)", 20, "a::operator()(...)"},
        {"(anonymous namespace)::function(with parameters)", 40,
         "(anonymous namespace)::function(...)"},
        {"x->y<unbalanced", 12, "x->y<...nced"},
        {"0123456789abcdefghij", 11, "0123...ghij"},
        {"(walk ended: stack not readable)", 20, "(walk end...eadable)"},
        {"na\xc3\xafve \xe5\x87\xbd\xe6\x95\xb0 with a tail", 11, "na\xc3\xafv...tail"},
        {"abcdefghij", 5, "abcde"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *name = text_clean(cases[i].name);
        name_shorten(name, cases[i].columns);
        assert_true(text_columns(name) <= cases[i].columns);
        assert_string_equal(name, cases[i].expected);
        free(name);
    }
    char *clean = text_clean("a\x1b[1m\n\xc2\x9b");
    assert_string_equal(clean, "a\\x1b[1m\\x0a\\xc2\\x9b");
    free(clean);
}

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/test_report.XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/p.ctp", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    vec_free(&paths);
    unlink(path);
    return rmdir(folder);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(views_agree_with_all_paths),
        TEST(each_refinement_agrees_with_all_paths),
        TEST(refinements_apply_one_after_the_other),
        TEST(threads_processes_and_phases_are_chosen),
        TEST(groups_sum_up_their_roots),
        TEST(printed_self_values_sum_to_the_total),
        TEST(limits_keep_the_heaviest_rows),
        TEST(folded_stacks_agree_with_all_paths),
        TEST(names_are_cut_with_care),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
