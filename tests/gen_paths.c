/*
 * gen_paths FOLDER: writes small profiles for calltrail infer, whose answers can be worked out by
 * hand. All frames of `main` take 64 bytes, of `work` and `other` 32, of `deep` 16:
 *
 *     start > main                                        0   calls
 *             main:a > work                              64   10
 *                      work:a > leaf                     96   6      \  one height: 3 paths, 6 : 3
 * : 1 main:b > other                             64   4       | other:a > leaf 96   3      /
 *                      other:b > deep                    96   5
 *                                deep:a > leaf          112   5         one path
 *             main:c > other                             64   1
 *                      other:a > leaf                    96   1      /
 *
 *     exact.ctp     as record --engine exact --height writes it
 *     less.ctp      the same without `deep`, and without what main:c calls
 *     build.ctp     exact.ctp of another build
 *     no-calls.ctp  exact.ctp with bytes instead of calls
 *     heights.ctp   as record --engine infer writes it: leaf at 96 (100 ns) and at 112 (10 ns),
 * work at 64 (50 ns), main all known (7 ns), and other:a > leaf at 64 (20 ns), where the window had
 * held a caller new.ctp       the same, and leaf at 128 (3 ns), which no run had
 *     grown.map     of exact.ctp, with 16 bytes more where other:a calls: that leaf is at 112
 */
#include "base/key_set.h"
#include "infer/path_train.h"
#include "profile/profile.h"

#include <stdio.h>
#include <string.h>

enum { START, MAIN, WORK, OTHER, DEEP, LEAF, FUNCTIONS };
enum { CODE = 0x100, A = 0x10, B = 0x20, C = 0x30 };
static const char *const names[FUNCTIONS] = {"start", "main", "work", "other", "deep", "leaf"};

struct tree {
    struct profile_writer *writer;
    struct key_set frames, nodes;
    VEC(uint32_t) parents, node_frames;
    VEC(uint64_t) values[3];
};

static uint32_t child(struct tree *t, uint32_t parent, uint32_t offset, uint32_t flags,
                      uint32_t gap)
{
    uint32_t frame_key[3] = {offset, flags, gap}, before = t->frames.count;
    uint32_t frame = parent == CTP_NONE ? CTP_NONE : key_set_add(&t->frames, frame_key);
    if (frame == before)
        profile_add_frame(t->writer, &(struct ctp_frame){.offset = offset,
                                                         .module = gap ? CTP_NONE : 0,
                                                         .function = gap ? CTP_NONE : offset / CODE,
                                                         .flags = flags,
                                                         .gap = gap});
    uint32_t key[2] = {parent, frame};
    before = t->nodes.count;
    uint32_t node = key_set_add(&t->nodes, key);
    if (node == before) {
        vec_push(&t->parents, parent);
        vec_push(&t->node_frames, frame);
        for (unsigned i = 0; i < 3; i++)
            vec_push(&t->values[i], 0);
    }
    return node;
}

static uint32_t place(struct tree *t, uint32_t parent, uint32_t function, uint32_t site)
{
    return child(t, parent, function * CODE + site, CTP_FRAME_RETURN, CTP_GAP_NONE);
}

static void begin(struct tree *t, const char *folder, const char *name, uint8_t build)
{
    char path[4096];
    struct ct_error err;
    *t = (struct tree){0};
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (profile_writer_open(path, &t->writer, &err) != CT_OK) {
        fprintf(stderr, "%s\n", err.text);
        exit(1);
    }
    key_set_init(&t->frames, 3 * sizeof(uint32_t));
    key_set_init(&t->nodes, 2 * sizeof(uint32_t));
    profile_add_module(t->writer,
                       &(struct ctp_module){.path = profile_add_string(t->writer, "/bin/program"),
                                            .kind = CTP_MODULE_FILE,
                                            .build_id = {build, 7},
                                            .build_id_size = 2});
    for (uint32_t i = 0; i < FUNCTIONS; i++)
        profile_add_function(
            t->writer, &(struct ctp_function){.offset = i * CODE,
                                              .size = CODE,
                                              .name = profile_add_string(t->writer, names[i])});
    child(t, CTP_NONE, 0, 0, 0);
}

static void end(struct tree *t, unsigned metrics, const char *const *metric_names,
                const char *const *units)
{
    struct ct_error err;
    for (unsigned i = 0; i < metrics; i++)
        profile_add_metric(
            t->writer, &(struct ctp_metric){.name = profile_add_string(t->writer, metric_names[i]),
                                            .unit = profile_add_string(t->writer, units[i])});
    profile_begin_nodes(t->writer, (uint32_t)t->parents.count);
    profile_add_root(t->writer, CTP_NONE, CTP_NONE);
    profile_write_nodes(t->writer, t->parents.items, t->node_frames.items, t->parents.count);
    for (unsigned i = 0; i < metrics; i++)
        profile_write_values(t->writer, i, t->values[i].items, t->parents.count);
    if (profile_writer_commit(t->writer, &err) != CT_OK) {
        fprintf(stderr, "%s\n", err.text);
        exit(1);
    }
    key_set_free(&t->frames);
    key_set_free(&t->nodes);
    vec_free(&t->parents);
    vec_free(&t->node_frames);
    for (unsigned i = 0; i < 3; i++)
        vec_free(&t->values[i]);
}

static void called(struct tree *t, uint32_t from, uint32_t function, uint64_t height,
                   uint64_t calls)
{
    uint32_t node = child(t, from, function * CODE, 0, CTP_GAP_NONE);
    t->values[0].items[node] = calls;
    t->values[1].items[node] = height;
}

static void write_exact(const char *folder, const char *name, uint8_t build, bool is_all,
                        bool has_calls)
{
    const char *const metrics[] = {has_calls ? "calls" : "size", "height", "height_varies"};
    const char *const units[] = {has_calls ? "calls" : "bytes", "bytes", "contexts"};
    struct tree t;
    begin(&t, folder, name, build);
    uint32_t start = place(&t, 0, START, A);
    uint32_t a = place(&t, start, MAIN, A), b = place(&t, start, MAIN, B);
    called(&t, start, MAIN, 0, 1);
    called(&t, a, WORK, 64, 10);
    called(&t, place(&t, a, WORK, A), LEAF, 96, 6);
    called(&t, b, OTHER, 64, 4);
    called(&t, place(&t, b, OTHER, A), LEAF, 96, 3);
    if (is_all) {
        uint32_t deep = place(&t, b, OTHER, B), c = place(&t, start, MAIN, C);
        called(&t, deep, DEEP, 96, 5);
        called(&t, place(&t, deep, DEEP, A), LEAF, 112, 5);
        called(&t, c, OTHER, 64, 1);
        called(&t, place(&t, c, OTHER, A), LEAF, 96, 1);
    }
    end(&t, 3, metrics, units);
}

static uint32_t at_height(struct tree *t, uint32_t height)
{
    return child(t, place(t, 0, START, A), height, 0, CTP_GAP_HEIGHT);
}

static void sampled(struct tree *t, uint32_t from, uint32_t function, uint64_t cost)
{
    t->values[0].items[child(t, from, function * CODE + 1, 0, CTP_GAP_NONE)] = cost;
}

static void write_heights(const char *folder, const char *name, bool is_new)
{
    static const char *const metrics[] = {"cpu"}, *const units[] = {"ns"};
    struct tree t;
    begin(&t, folder, name, 1);
    sampled(&t, at_height(&t, 96), LEAF, 100);
    sampled(&t, at_height(&t, 112), LEAF, 10);
    sampled(&t, at_height(&t, 64), WORK, 50);
    if (is_new)
        sampled(&t, at_height(&t, 128), LEAF, 3);
    sampled(&t, place(&t, 0, START, A), MAIN, 7);
    sampled(&t, place(&t, at_height(&t, 64), OTHER, A), LEAF, 20);
    end(&t, 1, metrics, units);
}

/* Where other:a calls, the stack grows by 16. */
static void write_grown(const char *folder)
{
    struct ct_error err;
    struct growth growth;
    char from[4096], to[4096];
    struct path_trainer *t = path_train_begin(NULL);
    snprintf(from, sizeof from, "%s/exact.ctp", folder);
    snprintf(to, sizeof to, "%s/grown.map", folder);
    if (path_train_add(t, from, &err) != CT_OK ||
        growth_parse("0107 310 16\n", to, &growth, &err) != CT_OK ||
        path_train_write_grown(t, &growth, to, &err) != CT_OK) {
        fprintf(stderr, "%s\n", err.text);
        exit(1);
    }
    growth_free(&growth);
    path_train_free(t);
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    write_exact(argv[1], "exact.ctp", 1, true, true);
    write_exact(argv[1], "less.ctp", 1, false, true);
    write_exact(argv[1], "build.ctp", 2, true, true);
    write_exact(argv[1], "no-calls.ctp", 1, true, false);
    write_heights(argv[1], "heights.ctp", false);
    write_heights(argv[1], "new.ctp", true);
    write_grown(argv[1]);
    return 0;
}
