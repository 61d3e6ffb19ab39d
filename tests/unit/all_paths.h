/*
 * Random profiles, and the same as lists of call paths, for tests that compute what a report must
 * say without knowing trees: every path is written out, refined by itself, and summed up by keys
 * that are strings.
 */
#ifndef TESTS_ALL_PATHS_H
#define TESTS_ALL_PATHS_H

#include "base/vec.h"
#include "profile/profile.h"
#include "query/refine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { NODES_MAX = 60, ROOTS = 5, PATH_MAX_FRAMES = 3 * NODES_MAX + 2, KEY_ROOM = 40 };

static char folder[64], path[96];

static uint64_t random_state;

static inline uint32_t below(uint32_t limit)
{
    random_state += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t z = (random_state ^ random_state >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    return (uint32_t)((z ^ z >> 29) % limit);
}

/* ---- Sums by key ----------------------------------------------------------------------------- */

struct tally {
    VEC(struct sum {
        char *key;
        uint64_t value;
    })
    sums;
};

static inline void tally_add(struct tally *t, const char *key, uint64_t value)
{
    for (size_t i = 0; i < t->sums.count; i++)
        if (strcmp(t->sums.items[i].key, key) == 0) {
            t->sums.items[i].value += value;
            return;
        }
    if (value)
        vec_push(&t->sums, (struct sum){must_strdup(key), value});
}

static inline int by_key(const void *a, const void *b)
{
    return strcmp(((const struct sum *)a)->key, ((const struct sum *)b)->key);
}

/* Both have the same sums. Forgets them. */
static inline void tally_same(struct tally *got, struct tally *expected)
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

/* ---- Random profiles, and all their paths ---------------------------------------------------- */

/*
 * Module 2 is module 0 again, as another process would bring it. Functions 0 and 5 are the same;
 * 1 and 6 have one name at two offsets; 2 and 7 have one name in two modules. Frames 0 to 15 are
 * two places in each; then come places without a function, of which 16 and 17 are the same, and
 * two gaps. Functions 8 to 10 are inlined: 8 is nowhere else, 9 is alpha, but that cannot be known,
 * and 10 is eps again, as its declaration shows.
 */
enum { FUNCTIONS = 11, FRAMES = 22, INLINED_MAX = 2 };
static const char *const module_paths[] = {"/bin/prog", "/lib/libx.so", "/bin/prog"};
static const struct {
    const char *name;
    uint32_t module, offset, line;
} functions[FUNCTIONS] = {{"alpha", 0, 16},  {"beta", 0, 32},  {"gamma", 0, 48}, {"delta;x", 1, 16},
                          {"eps", 1, 32, 7}, {"alpha", 2, 16}, {"beta", 0, 96},  {"gamma", 1, 64},
                          {"inl", 0, 0},     {"alpha", 0, 0},  {"eps", 1, 0, 7}};

/* What is inlined in a frame, innermost first: function + 1. */
static const uint32_t inlined[FRAMES][INLINED_MAX] = {
    [1] = {9}, [3] = {10, 9}, [6] = {11}, [8] = {11, 11}, [15] = {9, 11}, [18] = {9}};
static bool folding; /* inlined functions are not shown */

struct call {
    char key[KEY_ROOM]; /* tells labels apart */
    char name[24];      /* as shown */
    const char *module; /* path, or NULL for what is no code */
    bool code;
    uint32_t line; /* where in the function; 0: not known */
};

static inline struct call call_of_function(uint32_t function)
{
    struct call c = {.code = true, .module = module_paths[functions[function].module]};
    snprintf(c.name, sizeof c.name, "%s", functions[function].name);
    snprintf(c.key, sizeof c.key, "%s %s %u", c.name, c.module,
             functions[function].line ? functions[function].line : functions[function].offset);
    return c;
}

/* What a frame is, from the description above and nothing else. */
static inline struct call call_of(uint32_t frame)
{
    struct call c = {.code = true};
    if (frame < 16) {
        c = call_of_function(frame / 2);
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
static inline void make_tree(uint32_t places)
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

static inline void write_profile(void)
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
                                      .size = functions[i].offset ? 16 : 0,
                                      .name = profile_add_string(w, functions[i].name),
                                      .module = functions[i].module,
                                      .file = profile_add_string(w, functions[i].line ? "e.h" : ""),
                                      .line = functions[i].line});
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
        for (uint32_t k = 0; k <= INLINED_MAX && inlined[i][0]; k++) {
            bool own = k == INLINED_MAX || !inlined[i][k];
            uint32_t line = profile_add_line(
                w, &(struct ctp_line){.function = own ? frame.function : inlined[i][k] - 1,
                                      .line = i + k});
            frame.first_line = frame.line_count++ ? frame.first_line : line;
            if (own)
                break;
        }
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
static inline void list_paths(void)
{
    paths.count = 0;
    for (uint32_t i = 0; i < node_count; i++) {
        struct path p = {.value = values[i], .root = node_roots[i]};
        uint32_t chain[NODES_MAX], length = 0;
        for (uint32_t at = i; parents[at] != CTP_NONE; at = parents[at])
            chain[length++] = frames[at];
        while (length) {
            uint32_t frame = chain[--length];
            uint32_t k = 0;
            while (k < INLINED_MAX && inlined[frame][k])
                k++;
            p.calls[p.count] = call_of(frame);
            p.calls[p.count++].line = k ? frame + k : 0;
            while (k-- > 0 && !folding) {
                p.calls[p.count] = call_of_function(inlined[frame][k] - 1);
                p.calls[p.count++].line = frame + k;
            }
        }
        if (p.count == 0)
            p.calls[p.count++] = no_context;
        if (p.value)
            vec_push(&paths, p);
    }
}

static inline void random_profile(uint32_t seed, struct profile *out)
{
    struct ct_error err;
    random_state = seed;
    folding = seed % 3 == 1;
    make_tree(seed % 2 ? 20 : 6);
    write_profile();
    list_paths();
    assert_int_equal(profile_open(path, out, &err), CT_OK);
}

static inline uint64_t sum_of_paths(void)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < paths.count; i++)
        sum += paths.items[i].value;
    return sum;
}

/* ---- Refinements of paths -------------------------------------------------------------------- */

static inline bool has(const struct path *p, const char *part, uint32_t *where)
{
    for (uint32_t i = 0; i < p->count; i++)
        if (p->calls[i].code && strstr(p->calls[i].name, part)) {
            *where = i;
            return true;
        }
    return false;
}

static inline void fold_path(struct path *p)
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

static inline void fold_other_modules(struct path *p, const char *module)
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
static inline void refine_paths(enum refine_kind kind, const char *part)
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

static char joined[PATH_MAX_FRAMES * (KEY_ROOM + 1)];

/* calls[from..to), in this order or reversed. */
static inline const char *join(const struct path *p, uint32_t from, uint32_t to, bool reversed)
{
    size_t used = 0;
    joined[0] = '\0';
    for (uint32_t i = from; i < to; i++)
        used += (size_t)snprintf(joined + used, sizeof joined - used, "/%s",
                                 p->calls[reversed ? to - 1 - (i - from) : i].key);
    return joined;
}

static inline int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/test_report.XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/p.ctp", folder);
    return 0;
}

static inline int remove_folder(void **state)
{
    (void)state;
    vec_free(&paths);
    unlink(path);
    return rmdir(folder);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)

#endif
