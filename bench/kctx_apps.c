/*
 * k-contexts of real programs, as the paper of the k-calling-context forest has them for its own:
 * sizes of the calling context tree, the k-slab forest and the k-calling-context forests, how hot
 * contexts are, and how short the chains are that explain them.
 *
 *     kctx_apps FOLDER
 *
 * The folder has a profile of engine exact for each program (scripts/kctx-apps). Of its processes
 * the one with the most contexts is the program (the others are shells and helpers); its threads
 * are joined. But where call sites are named, labels are functions.
 */
#include "cct/inverse_sizes.h"
#include "kctx_paper.h"
#include "profile_forest.h"

#include <dirent.h>
#include <inttypes.h>
#include <string.h>

static const uint32_t ks[] = {0, 1, 2, 3, 5, 7, 10, 15, 20, 30, 50};
static const double similar_shares[] = {10, 30, 50, 70, 90};

enum { KS = sizeof ks / sizeof *ks, SHARES = sizeof similar_shares / sizeof *similar_shares };

struct size {
    uint32_t slabs; /* nodes of the forest of slabs; there is none for k = 0 */
    uint32_t built; /* those of them that the program makes when it has one location */
    double degree;  /* of the inner nodes of the forest of slabs */
    struct inverse_size inverse;
    uint64_t hot_chains; /* k-contexts that have 90% of all calls */
};

enum kind { INVERSE, SLABS, PRUNED, KINDS };

struct app {
    char *name, *reason;
    uint64_t calls;
    uint32_t functions, cct, cct_sites, depth;
    double degree;
    uint64_t hot_functions, hot_contexts;
    struct size sizes[KS];
    struct inverse_size unbounded;
    uint32_t most_k[KINDS];        /* up to which k each is smaller than the CCT */
    double most_slabs, most_built; /* the largest of all k, as multiples of the CCT */
    double similar_share[SHARES], similar_depth[SHARES];
};

static void die(const char *text)
{
    fprintf(stderr, "bench kctx_apps: %s\n", text);
    exit(1);
}

/* ---- Reading --------------------------------------------------------------------------------- */

/* The process with the most contexts. Counts its contexts, call sites told apart, and calls. */
static uint32_t main_process(const struct profile *p, struct app *app)
{
    const uint64_t *calls = calls_of(p);
    uint32_t best = 0, count = profile_process_count(p);
    uint32_t *contexts = must_calloc((size_t)count + 1, sizeof *contexts);
    uint64_t *sums = must_calloc((size_t)count + 1, sizeof *sums);
    for (uint32_t r = 0; r < profile_root_count(p); r++) {
        const struct ctp_root *root = profile_root(p, r);
        uint32_t process = profile_thread(p, root->thread)->process;
        if (process >= count)
            die("a profile with a thread without process");
        for (uint32_t i = root->first_node; i < root->first_node + root->node_count; i++) {
            contexts[process] += calls[i] != 0;
            sums[process] += calls[i];
        }
        if (contexts[process] > contexts[best])
            best = process;
    }
    app->cct_sites = contexts[best];
    app->calls = sums[best];
    free(contexts);
    free(sums);
    return best;
}

/* ---- Measures of trees ----------------------------------------------------------------------- */

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

/* The k-SF as it is defined, by the step with two locations. */
static uint32_t slab_nodes(const struct contexts *tree, uint32_t k, double *degree)
{
    struct region region;
    struct forest forest;
    struct contexts slabs;
    struct forest_pair *places = must_calloc((size_t)tree->count + 1, sizeof *places);
    begin_forest(&forest, &region, k);
    for (uint32_t i = 0; i < tree->count; i++) {
        uint32_t parent = tree->nodes[i].parent;
        struct forest_pair above = {0, 0};
        if (parent != CONTEXTS_NONE)
            above = places[parent];
        places[i] = forest_enter_pair(&forest, FOREST_HASHED, above, tree->nodes[i].label, 0);
        if (!places[i].top)
            die("no memory for a forest");
    }
    uint32_t nodes = forest.node_count;
    if (degree) {
        contexts_from_forest(&forest, &slabs);
        *degree = contexts_degree(&slabs);
        contexts_free(&slabs);
    }
    region_end(&region);
    free(places);
    return nodes;
}

/* What of it is made with one location. */
static uint32_t built_nodes(const struct contexts *tree, uint32_t k)
{
    struct region region;
    struct forest forest;
    uint32_t *places = must_calloc((size_t)tree->count + 1, sizeof *places);
    begin_forest(&forest, &region, k);
    for (uint32_t i = 0; i < tree->count; i++) {
        uint32_t parent = tree->nodes[i].parent, label = tree->nodes[i].label;
        places[i] = parent == CONTEXTS_NONE
                        ? forest_root(&forest, label)
                        : forest_enter(&forest, FOREST_HASHED, places[parent], label, 0);
        if (!places[i])
            die("no memory for a forest");
    }
    uint32_t nodes = forest.node_count;
    region_end(&region);
    free(places);
    return nodes;
}

static void see_chains(void *user, uint32_t k, uint64_t *values, size_t count)
{
    struct app *app = user;
    for (int i = 0; i < KS; i++)
        if (ks[i] == k)
            app->sizes[i].hot_chains = hot_count(values, count);
}

/* Sizes against k, and up to which k each kind is smaller than the tree. */
static void measure_sizes(const struct contexts *tree, struct app *app)
{
    struct inverse_sizes sizes;
    inverse_sizes(tree, 0, ks, KS, see_chains, app, &sizes);
    for (uint32_t k = 1; k < sizes.levels; k++) {
        if (sizes.by_k[k].nodes < tree->count)
            app->most_k[INVERSE] = k;
        if (sizes.by_k[k].pruned < tree->count)
            app->most_k[PRUNED] = k;
    }
    app->unbounded = sizes.by_k[sizes.levels - 1];
    uint32_t smaller =
        1; /* k-SFs from 1 on, until one is not smaller; some are in the table, too */
    for (; smaller < sizes.levels; smaller++) {
        uint32_t nodes = slab_nodes(tree, smaller, NULL);
        if (nodes >= tree->count)
            break;
        app->most_k[SLABS] = smaller;
    }
    for (int i = 0; i < KS; i++) {
        struct size *size = &app->sizes[i];
        size->inverse = sizes.by_k[ks[i] < sizes.levels ? ks[i] : sizes.levels - 1];
        if (ks[i] == 0)
            continue;
        size->slabs = slab_nodes(tree, ks[i], &size->degree);
        size->built = built_nodes(tree, ks[i]);
        if (size->slabs > app->most_slabs * tree->count)
            app->most_slabs = (double)size->slabs / tree->count;
        if (size->built > app->most_built * tree->count)
            app->most_built = (double)size->built / tree->count;
    }
    inverse_sizes_free(&sizes);
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
    struct contexts tree;
    struct string_pool places;
    open_profile(path, &p);
    strings_init(&places);
    build_from_profile(&p,
                       &(struct profile_forest_options){.k = FOREST_UNBOUNDED,
                                                        .process = main_process(&p, app),
                                                        .by_function = true,
                                                        .places = &places},
                       &tree);
    strings_free(&places);
    profile_close(&p);
    app->cct = tree.count;
    app->degree = contexts_degree(&tree);
    mean_height(&tree, &app->depth);
    measure_heat(&tree, app);
    measure_sizes(&tree, app);
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
        const struct published *paper = published_of(a->name);
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
    puts("\n### Hot functions and contexts, and up to which k forests are smaller than the CCT "
         "(figures 9, 12, 13)\n\nHot are those that have 90% of all calls together. Sizes are "
         "nodes, "
         "as multiples of the CCT's.\n\n"
         "| | hot functions | hot contexts | k-CCF smaller up to k | pruned k-CCF | k-SF | largest "
         "k-SF | as built | 0-CCF | ∞-CCF | pruned ∞-CCF |\n"
         "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|");
    for (size_t i = 0; i < count; i++) {
        const struct app *a = &apps[i];
        if (a->reason)
            continue;
        printf("| %s | %" PRIu64 " | %" PRIu64 " | %" PRIu32 " | %" PRIu32 " | %" PRIu32
               " | %.2f | %.2f | %.4f | %.1f | %.2f |\n",
               a->name, a->hot_functions, a->hot_contexts, a->most_k[INVERSE], a->most_k[PRUNED],
               a->most_k[SLABS], a->most_slabs, a->most_built, (double)a->functions / a->cct,
               (double)a->unbounded.nodes / a->cct, (double)a->unbounded.pruned / a->cct);
    }
}

static void print_similar(const struct app *apps, size_t count)
{
    puts("\n### x%-similar ∞-CCF: mean height of its trees, and nodes as a share of the CCT's "
         "(figures 8, 13)\n");
    fputs("| |", stdout);
    for (int x = 0; x < SHARES; x++)
        printf(" height, x = %.0f |", similar_shares[x]);
    for (int x = 0; x < SHARES; x++)
        printf(" nodes, x = %.0f |", similar_shares[x]);
    fputs("\n|---|", stdout);
    for (int x = 0; x < 2 * SHARES; x++)
        fputs("---:|", stdout);
    putchar('\n');
    for (size_t i = 0; i < count; i++) {
        if (apps[i].reason)
            continue;
        printf("| %s |", apps[i].name);
        for (int x = 0; x < SHARES; x++)
            printf(" %.1f |", apps[i].similar_depth[x]);
        for (int x = 0; x < SHARES; x++)
            printf(" %.2f%% |", apps[i].similar_share[x]);
        putchar('\n');
    }
}

static void print_sizes(const struct app *a)
{
    printf("\n### %s: sizes against k (figures 10, 11, 14b)\n\nCCT: %" PRIu32
           " nodes, inner degree %.1f; %" PRIu64 " hot functions, %" PRIu64 " hot contexts.\n\n"
           "| k | k-SF nodes | as built | its degree | k-CCF nodes | pruned | k-contexts | hot "
           "ones |\n"
           "|---:|---:|---:|---:|---:|---:|---:|---:|\n",
           a->name, a->cct, a->degree, a->hot_functions, a->hot_contexts);
    for (int i = 0; i < KS; i++) {
        const struct size *s = &a->sizes[i];
        if (s->slabs)
            printf("| %" PRIu32 " | %" PRIu32 " | %" PRIu32 " | %.1f |", ks[i], s->slabs, s->built,
                   s->degree);
        else
            printf("| %" PRIu32 " | | | |", ks[i]);
        printf(" %" PRIu64 " | %" PRIu64 " | %" PRIu64 " | %" PRIu64 " |\n", s->inverse.nodes,
               s->inverse.pruned, s->inverse.chains, s->hot_chains);
    }
    printf("| ∞ | %" PRIu32 " | %" PRIu32 " | %.1f | %" PRIu64 " | %" PRIu64 " | %" PRIu64
           " | %" PRIu64 " |\n",
           a->cct, a->cct, a->degree, a->unbounded.nodes, a->unbounded.pruned, a->unbounded.chains,
           a->hot_contexts);
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
    print_similar(apps.items, apps.count);
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
