/*
 * k-contexts of real programs, as the paper of the k-calling-context forest has them for its own:
 * sizes of the calling context tree, the k-slab forest and the k-calling-context forests, how hot
 * contexts are, and how short the chains are that explain them.
 *
 *     kctx_apps FOLDER
 *
 * The folder has a profile of engine exact for each program (scripts/kctx-apps); threads and
 * processes of one are joined. But where call sites are named, labels are functions.
 */
#include "base/strings.h"
#include "cct/contexts.h"
#include "cct/region.h"
#include "profile/profile.h"

#include <dirent.h>
#include <inttypes.h>
#include <string.h>

enum { INVERSE_NODES_MAX = 5000000 };

/* What the paper has: its tables 1 and 2. Times are in seconds there. */
struct published {
    const char *name;
    double functions, cct, cct_sites, calls, depth;
};

static const struct published papers[] = {
    {"audacity", 6880, 5264498, 13131115, 960243960, 305},
    {"evince", 4869, 2003454, 6772430, 92775397, 226},
    {"firefox", 6076, 12670331, 30294063, 617296926, 433},
    {"gedit", 5934, 3927949, 4183946, 419970719, 263},
    {"gimp", 5275, 11350729, 26107261, 819811432, 291},
    {"inkscape", 6426, 5854809, 13896175, 624835038, 299},
    {"libreoffice", 16541, 16371565, 41395182, 657189223, 268},
    {"vlc", 5808, 1844857, 3295907, 122164908, 173},
};

static const uint32_t ks[] = {0, 1, 2, 3, 5, 7, 10, 15, 20, 30, 50};
static const double similar_shares[] = {50, 70, 90};

enum {
    KS = sizeof ks / sizeof *ks,
    SHARES = sizeof similar_shares / sizeof *similar_shares,
    PAPERS = sizeof papers / sizeof *papers
};

struct size {
    uint32_t slabs, inverse, pruned; /* nodes; 0: too many to make */
    double degree;                   /* of the inner nodes of the forest of slabs */
    uint64_t chains, hot_chains;     /* k-contexts, and those that have 90% of all calls */
};

struct app {
    char *name, *reason;
    uint64_t calls;
    uint32_t functions, cct, cct_sites, depth;
    double degree;
    uint64_t hot_functions, hot_contexts;
    struct size sizes[KS];
    uint32_t most_k[3]; /* up to which k-CCF, k-SF and pruned k-CCF are smaller than the CCT */
    double similar_share[SHARES], similar_depth[SHARES];
};

static void die(const char *text)
{
    fprintf(stderr, "bench kctx_apps: %s\n", text);
    exit(1);
}

/* ---- Reading --------------------------------------------------------------------------------- */

static uint32_t calls_metric(const struct profile *p)
{
    for (uint32_t i = 0; i < profile_metric_count(p); i++)
        if (strcmp(profile_string(p, profile_metric(p, i)->name), "calls") == 0)
            return i;
    die("a profile without calls");
    return 0;
}

/* A label for each frame: its function, in whatever process. */
static uint32_t *label_frames(const struct profile *p, struct string_pool *names)
{
    uint32_t count = profile_frame_count(p);
    uint32_t *labels = must_calloc((size_t)count + 1, sizeof *labels);
    for (uint32_t i = 0; i < count; i++) {
        const struct ctp_frame *f = profile_frame(p, i);
        const char *module = f->module < profile_module_count(p)
                                 ? profile_string(p, profile_module(p, f->module)->path)
                                 : "";
        uint64_t place = f->function < profile_function_count(p)
                             ? profile_function(p, f->function)->offset
                             : f->offset;
        char *name = must_format("%s+%" PRIx64 " %" PRIu32, module, place, f->gap);
        labels[i] = strings_add(names, name);
        free(name);
    }
    return labels;
}

static void begin(struct forest *f, struct region *region, uint32_t k)
{
    struct ct_error err;
    if (region_begin(region, UINT64_C(16) << 30, &err) != CT_OK)
        die(err.text);
    if (!forest_begin(f, &region->memory,
                      &(struct forest_options){.layout = FOREST_HASHED, .k = k, .metric_count = 1}))
        die("no memory");
}

/* The calling context tree of functions. */
static void read_tree(const struct profile *p, struct app *app, struct contexts *out)
{
    struct string_pool names;
    struct region region;
    struct forest forest;
    uint32_t metric = calls_metric(p);
    strings_init(&names);
    uint32_t *labels = label_frames(p, &names);
    uint32_t *places = must_calloc((size_t)p->node_count + 1, sizeof *places);
    begin(&forest, &region, FOREST_UNBOUNDED);
    for (uint32_t i = 0; i < p->node_count; i++) {
        uint32_t frame = p->node_frames[i], parent = p->parents[i];
        if (frame == CTP_NONE)
            continue;
        uint32_t above = parent == CTP_NONE ? 0 : places[parent];
        places[i] = above ? forest_enter(&forest, FOREST_HASHED, above, labels[frame], 0)
                          : forest_root(&forest, labels[frame]);
        forest_charge(&forest, places[i], 0, p->values[metric][i]);
        app->cct_sites += p->values[metric][i] != 0;
        app->calls += p->values[metric][i];
    }
    if (forest.lost)
        die("no memory for a tree");
    contexts_from_forest(&forest, out);
    region_end(&region);
    free(labels);
    free(places);
    strings_free(&names);
}

/* ---- Measures of trees ----------------------------------------------------------------------- */

static double inner_degree(const struct contexts *c)
{
    uint8_t *is_inner = must_calloc((size_t)c->count + 1, 1);
    uint32_t children = 0, inner = 0;
    for (uint32_t i = 0; i < c->count; i++)
        if (c->nodes[i].parent != CONTEXTS_NONE) {
            children++;
            is_inner[c->nodes[i].parent] = 1;
        }
    for (uint32_t i = 0; i < c->count; i++)
        inner += is_inner[i];
    free(is_inner);
    return inner ? (double)children / inner : 0;
}

/* The mean height of trees; in `deepest` the greatest. */
static double mean_height(const struct contexts *c, uint32_t *deepest)
{
    uint32_t *depths = must_calloc((size_t)c->count + 1, sizeof *depths);
    uint32_t *heights = must_calloc((size_t)c->count + 1, sizeof *heights);
    uint64_t sum = 0, trees = 0;
    *deepest = 0;
    for (uint32_t i = 0; i < c->count; i++) {
        uint32_t parent = c->nodes[i].parent;
        depths[i] = parent == CONTEXTS_NONE ? 0 : depths[parent] + 1;
    }
    for (uint32_t i = c->count; i-- > 0;) {
        uint32_t parent = c->nodes[i].parent;
        if (parent == CONTEXTS_NONE) {
            sum += heights[i];
            trees++;
        } else if (heights[i] + 1 > heights[parent]) {
            heights[parent] = heights[i] + 1;
        }
        if (depths[i] > *deepest)
            *deepest = depths[i];
    }
    free(depths);
    free(heights);
    return trees ? (double)sum / (double)trees : 0;
}

static int greater_first(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x < y) - (x > y);
}

/* How many of the values, the greatest first, have 90% of their sum. Sorts them. */
static uint64_t hot_count(uint64_t *values, size_t count)
{
    uint64_t sum = 0, part = 0;
    size_t hot = 0;
    for (size_t i = 0; i < count; i++)
        sum += values[i];
    qsort(values, count, sizeof *values, greater_first);
    while (hot < count && (double)part < 0.9 * (double)sum)
        part += values[hot++];
    return hot;
}

/* Of an inverse: what a node has and its callers have not is the calls of one k-context. */
static void count_chains(const struct contexts *inverse, struct size *out)
{
    uint64_t *own = must_calloc((size_t)inverse->count + 1, sizeof *own);
    size_t chains = 0;
    for (uint32_t i = 0; i < inverse->count; i++) {
        own[i] += inverse->values[i];
        if (inverse->nodes[i].parent != CONTEXTS_NONE)
            own[inverse->nodes[i].parent] -= inverse->values[i];
    }
    for (uint32_t i = 0; i < inverse->count; i++)
        if (own[i])
            own[chains++] = own[i];
    out->chains = chains;
    out->hot_chains = hot_count(own, chains);
    free(own);
}

static uint32_t slab_nodes(const struct contexts *tree, uint32_t k, double *degree)
{
    struct region region;
    struct forest forest;
    struct contexts slabs;
    uint32_t *places = must_calloc((size_t)tree->count + 1, sizeof *places);
    begin(&forest, &region, k);
    for (uint32_t i = 0; i < tree->count; i++) {
        uint32_t parent = tree->nodes[i].parent, label = tree->nodes[i].label;
        places[i] = parent == CONTEXTS_NONE
                        ? forest_root(&forest, label)
                        : forest_enter(&forest, FOREST_HASHED, places[parent], label, 0);
        forest_charge(&forest, places[i], 0, tree->values[i]);
    }
    if (forest.lost)
        die("no memory for a forest");
    uint32_t nodes = forest.node_count;
    if (degree) {
        contexts_from_forest(&forest, &slabs);
        *degree = inner_degree(&slabs);
        contexts_free(&slabs);
    }
    region_end(&region);
    free(places);
    return nodes;
}

static bool can_invert(const struct contexts *tree, uint32_t k)
{
    return (double)tree->count * (k + 1.0) <= INVERSE_NODES_MAX;
}

static void measure_sizes(const struct contexts *tree, uint32_t k, struct size *out)
{
    struct contexts inverse, pruned;
    out->slabs = k ? slab_nodes(tree, k, &out->degree) : 0;
    if (!can_invert(tree, k))
        return;
    contexts_invert(tree, k, &inverse);
    out->inverse = inverse.count;
    count_chains(&inverse, out);
    contexts_prune(&inverse, &pruned);
    out->pruned = pruned.count;
    contexts_free(&pruned);
    contexts_free(&inverse);
}

/* Up to which k each kind is smaller than the tree. */
static void measure_most_k(const struct contexts *tree, struct app *app)
{
    enum { MOST = 50 };
    bool more[3] = {true, true, true};
    for (uint32_t k = 1; k <= MOST && (more[0] || more[1] || more[2]); k++) {
        struct contexts inverse, pruned;
        uint32_t sizes[3] = {UINT32_MAX, UINT32_MAX, UINT32_MAX};
        if (more[1])
            sizes[1] = slab_nodes(tree, k, NULL);
        if ((more[0] || more[2]) && can_invert(tree, k)) {
            contexts_invert(tree, k, &inverse);
            contexts_prune(&inverse, &pruned);
            sizes[0] = inverse.count;
            sizes[2] = pruned.count;
            contexts_free(&inverse);
            contexts_free(&pruned);
        }
        for (int i = 0; i < 3; i++) {
            more[i] = more[i] && sizes[i] < tree->count;
            if (more[i])
                app->most_k[i] = k;
        }
    }
}

static void measure_heat(const struct contexts *tree, struct app *app)
{
    struct contexts functions;
    uint64_t *values = must_calloc((size_t)tree->count + 1, sizeof *values);
    memcpy(values, tree->values, tree->count * sizeof *values);
    app->hot_contexts = hot_count(values, tree->count);
    contexts_invert(tree, 0, &functions);
    app->functions = functions.count;
    memcpy(values, functions.values, functions.count * sizeof *values);
    app->hot_functions = hot_count(values, functions.count);
    contexts_free(&functions);
    free(values);
}

static void measure(const char *path, struct app *app)
{
    struct profile p;
    struct ct_error err;
    struct contexts tree;
    if (profile_open(path, &p, &err) != CT_OK || profile_validate(&p, &err) != CT_OK)
        die(err.text);
    read_tree(&p, app, &tree);
    profile_close(&p);
    app->cct = tree.count;
    app->degree = inner_degree(&tree);
    mean_height(&tree, &app->depth);
    measure_heat(&tree, app);
    for (int i = 0; i < KS; i++)
        measure_sizes(&tree, ks[i], &app->sizes[i]);
    measure_most_k(&tree, app);
    for (int i = 0; i < SHARES; i++) {
        struct contexts similar;
        uint32_t deepest;
        contexts_similar(&tree, CONTEXTS_UNBOUNDED, 0, similar_shares[i], &similar);
        app->similar_share[i] = 100.0 * similar.count / tree.count;
        app->similar_depth[i] = mean_height(&similar, &deepest);
        contexts_free(&similar);
    }
    contexts_free(&tree);
}

/* ---- Tables ---------------------------------------------------------------------------------- */

static const struct published *paper_of(const char *name)
{
    for (int i = 0; i < PAPERS; i++)
        if (strcmp(papers[i].name, name) == 0)
            return &papers[i];
    return NULL;
}

/* A number, and the paper's in brackets if it has one. */
static void cell(double ours, const struct published *paper, double theirs)
{
    if (paper)
        printf(" %.0f (%.0f) |", ours, theirs);
    else
        printf(" %.0f |", ours);
}

static void print_apps(const struct app *apps, size_t count)
{
    puts("### Programs (in brackets: the paper's table 1)\n\n| | functions | CCT nodes | with call "
         "sites | calls | depth | degree |\n|---|---:|---:|---:|---:|---:|---:|");
    for (size_t i = 0; i < count; i++) {
        const struct app *a = &apps[i];
        const struct published *paper = paper_of(a->name);
        if (a->reason)
            continue;
        printf("| %s |", a->name);
        cell(a->functions, paper, paper ? paper->functions : 0);
        cell(a->cct, paper, paper ? paper->cct : 0);
        cell(a->cct_sites, paper, paper ? paper->cct_sites : 0);
        cell((double)a->calls, paper, paper ? paper->calls : 0);
        cell(a->depth, paper, paper ? paper->depth : 0);
        printf(" %.1f |\n", a->degree);
    }
    for (size_t i = 0; i < count; i++)
        if (apps[i].reason)
            printf("\n%s could not be recorded: %s.\n", apps[i].name, apps[i].reason);
}

static void print_heat(const struct app *apps, size_t count)
{
    puts("\n### Hot functions and contexts, similar ∞-CCF, and up to which k forests are smaller "
         "than "
         "the CCT (figures 8, 9, 12, 13)\n\nHot are those that have 90% of all calls together. The "
         "similar ∞-CCF: mean height of its trees, and its nodes as a share of the CCT's.\n");
    puts(
        "| | hot functions | hot contexts | height at 50% | 70% | 90% | nodes at 50% | 70% | 90% | "
        "k-CCF up to | k-SF | pruned | 0-CCF, of the CCT | 50-CCF |\n"
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|");
    for (size_t i = 0; i < count; i++) {
        const struct app *a = &apps[i];
        if (a->reason)
            continue;
        printf("| %s | %" PRIu64 " | %" PRIu64 " |", a->name, a->hot_functions, a->hot_contexts);
        for (int k = 0; k < SHARES; k++)
            printf(" %.1f |", a->similar_depth[k]);
        for (int k = 0; k < SHARES; k++)
            printf(" %.2f%% |", a->similar_share[k]);
        printf(" %" PRIu32 " | %" PRIu32 " | %" PRIu32 " | %.4f |", a->most_k[0], a->most_k[1],
               a->most_k[2], (double)a->functions / a->cct);
        if (a->sizes[KS - 1].inverse)
            printf(" %.1f |\n", (double)a->sizes[KS - 1].inverse / a->cct);
        else
            puts(" - |");
    }
}

static void print_count(uint64_t value)
{
    if (value)
        printf(" %" PRIu64 " |", value);
    else
        fputs(" - |", stdout);
}

static void print_sizes(const struct app *a)
{
    printf("\n### %s: sizes against k (figures 10, 11, 14b)\n\nCCT: %" PRIu32
           " nodes, inner degree %.1f. A dash: not made, or more than %d million nodes.\n\n"
           "| k | k-SF nodes | its degree | k-CCF nodes | pruned | k-contexts | hot ones |\n"
           "|---:|---:|---:|---:|---:|---:|---:|\n",
           a->name, a->cct, a->degree, INVERSE_NODES_MAX / 1000000);
    for (int i = 0; i < KS; i++) {
        const struct size *s = &a->sizes[i];
        printf("| %" PRIu32 " |", ks[i]);
        print_count(s->slabs);
        if (s->slabs)
            printf(" %.1f |", s->degree);
        else
            fputs(" - |", stdout);
        print_count(s->inverse);
        print_count(s->pruned);
        print_count(s->chains);
        print_count(s->hot_chains);
        putchar('\n');
    }
}

/* ---- All of a folder ------------------------------------------------------------------------- */

static char *first_line(const char *path)
{
    char text[256] = "";
    FILE *file = fopen(path, "r");
    if (!file || !fgets(text, sizeof text, file))
        die("a reason that cannot be read");
    fclose(file);
    text[strcspn(text, "\n")] = '\0';
    return must_strdup(text);
}

int main(int argc, char **argv)
{
    struct dirent **entries;
    VEC(struct app) apps = {0};
    int count = argc == 2 ? scandir(argv[1], &entries, NULL, alphasort) : -1;
    if (count < 0)
        die("usage: kctx_apps FOLDER");
    for (int i = 0; i < count; i++) {
        char *name = entries[i]->d_name, *dot = strrchr(name, '.');
        char *path = must_format("%s/%s", argv[1], name);
        struct app app = {0};
        bool is_profile = dot && strcmp(dot, ".ctp") == 0;
        if (dot && (is_profile || strcmp(dot, ".reason") == 0)) {
            app.name = must_strdup(name);
            app.name[dot - name] = '\0';
            fprintf(stderr, "%s\n", app.name);
            if (is_profile)
                measure(path, &app);
            else
                app.reason = first_line(path);
            vec_push(&apps, app);
        }
        free(path);
        free(entries[i]);
    }
    free(entries);
    print_apps(apps.items, apps.count);
    print_heat(apps.items, apps.count);
    const struct app *largest = NULL;
    for (size_t i = 0; i < apps.count; i++)
        if (!apps.items[i].reason && (!largest || apps.items[i].cct > largest->cct))
            largest = &apps.items[i];
    for (size_t i = 0; i < apps.count; i++)
        if (!apps.items[i].reason &&
            (&apps.items[i] == largest || strcmp(apps.items[i].name, "inkscape") == 0))
            print_sizes(&apps.items[i]);
    for (size_t i = 0; i < apps.count; i++) {
        free(apps.items[i].name);
        free(apps.items[i].reason);
    }
    vec_free(&apps);
    return 0;
}
