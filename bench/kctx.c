/*
 * What calling context trees and k-slab forests cost: nanoseconds for each event of a trace, nodes
 * and bytes, for each layout of nodes and each k, and how small what is similar is.
 *
 *     kctx [--rounds N] [--brief] TRACE…
 *
 * A trace is decoded once; all variants replay the same events, in turn, several rounds of them,
 * and the medians are shown. Labels are functions; call sites are not told apart. The numbers that
 * the indexed layout needs (which of its callees a call is, for its caller) are worked out
 * beforehand, as a look at the code would do. --brief leaves out the tables of single traces, but
 * for the one with the most contexts.
 */
#include "cct/inverse_sizes.h"
#include "cct/region.h"
#include "kctx_paper.h"
#include "trace/trace.h"

#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { ROUNDS = 5, ROUNDS_MAX = 99 };

/* One event of a thread that is replayed on its own; threads follow each other. */
struct event {
    uint32_t label; /* or UINT32_MAX: a return */
    uint32_t key;   /* the callee's number in its caller */
};

struct script {
    char *name; /* of the file, without its ending */
    VEC(struct event) events;
    VEC(size_t) starts; /* of threads */
    uint32_t functions, depth;
    uint32_t *degrees;
    uint64_t calls;
};

static void die(const char *text)
{
    fprintf(stderr, "bench kctx: %s\n", text);
    exit(1);
}

/* ---- Reading --------------------------------------------------------------------------------- */

/* A number for each (caller, callee), by a table of pairs. */
struct pairs {
    uint64_t *keys;
    uint32_t *numbers;
    uint64_t mask, used;
};

static uint32_t pair_number(struct pairs *p, uint32_t caller, uint32_t callee, uint32_t *degree)
{
    uint64_t key = ((uint64_t)caller << 32 | callee) + 1;
    uint64_t at = (key * UINT64_C(0x9e3779b97f4a7c15) >> 20) & p->mask;
    for (; p->keys[at]; at = (at + 1) & p->mask)
        if (p->keys[at] == key)
            return p->numbers[at];
    if (++p->used * 2 > p->mask)
        die("too many pairs of caller and callee");
    p->keys[at] = key;
    return p->numbers[at] = (*degree)++;
}

struct thread_script {
    VEC(struct event) events;
    VEC(uint32_t) stack;
};

static void read_script(const char *path, struct script *s)
{
    struct trace t;
    struct ct_error err;
    if (trace_open(path, &t, &err) != CT_OK)
        die(err.text);
    const char *slash = strrchr(path, '/');
    s->name = must_strdup(slash ? slash + 1 : path);
    s->name[strcspn(s->name, ".")] = '\0';
    VEC(struct thread_script) threads = {0};
    VEC(uint32_t) degrees = {0};
    struct pairs pairs = {.mask = (1 << 23) - 1};
    pairs.keys = must_calloc(pairs.mask + 1, sizeof *pairs.keys);
    pairs.numbers = must_calloc(pairs.mask + 1, sizeof *pairs.numbers);
    for (;;) {
        struct trace_event e;
        if (trace_next(&t, &e, &err) != CT_OK)
            die(err.text);
        if (e.kind == TRACE_END)
            break;
        while (e.thread >= threads.count)
            vec_push(&threads, (struct thread_script){.events = {0}});
        struct thread_script *thread = &threads.items[e.thread];
        if (e.kind == TRACE_RETURN) {
            vec_push(&thread->events, (struct event){UINT32_MAX, 0});
            thread->stack.count--;
            continue;
        }
        uint32_t function = t.state.labels.items[e.label].function, key = 0;
        while (function >= degrees.count)
            vec_push(&degrees, 0);
        if (thread->stack.count) {
            uint32_t caller = thread->stack.items[thread->stack.count - 1];
            key = pair_number(&pairs, caller, function, &degrees.items[caller]);
        }
        vec_push(&thread->events, (struct event){function, key});
        vec_push(&thread->stack, function);
        if (thread->stack.count > s->depth)
            s->depth = (uint32_t)thread->stack.count;
        s->calls++;
    }
    for (size_t i = 0; i < threads.count; i++) {
        vec_push(&s->starts, s->events.count);
        for (size_t k = 0; k < threads.items[i].events.count; k++)
            vec_push(&s->events, threads.items[i].events.items[k]);
        vec_free(&threads.items[i].events);
        vec_free(&threads.items[i].stack);
    }
    vec_push(&s->starts, s->events.count);
    vec_free(&threads);
    free(pairs.keys);
    free(pairs.numbers);
    s->degrees = degrees.items;
    s->functions = (uint32_t)degrees.count;
    trace_close(&t);
}

/* ---- Replaying ------------------------------------------------------------------------------- */

enum way { ONE_LOCATION, TWO_LOCATIONS };

static inline __attribute__((always_inline)) void
play_one(struct forest *f, enum forest_layout layout, const struct script *s, uint32_t *places)
{
    struct forest_stack stack = {.places = places, .room = s->depth};
    for (size_t t = 0; t + 1 < s->starts.count; t++) {
        stack.depth = 0;
        for (size_t i = s->starts.items[t]; i < s->starts.items[t + 1]; i++) {
            struct event e = s->events.items[i];
            if (e.label == UINT32_MAX)
                forest_return(&stack);
            else
                forest_charge(f, forest_call(f, layout, &stack, e.label, e.key), 0, 1);
        }
    }
}

static inline __attribute__((always_inline)) void play_two(struct forest *f,
                                                           enum forest_layout layout,
                                                           const struct script *s,
                                                           struct forest_pair *pairs)
{
    for (size_t t = 0; t + 1 < s->starts.count; t++) {
        struct forest_pair *top = pairs; /* what is below the first call is 0, 0 */
        *top = (struct forest_pair){0, 0};
        for (size_t i = s->starts.items[t]; i < s->starts.items[t + 1]; i++) {
            struct event e = s->events.items[i];
            if (e.label == UINT32_MAX) {
                top--;
                continue;
            }
            top[1] = forest_enter_pair(f, layout, *top, e.label, e.key);
            top++;
            forest_charge(f, top->bottom ? top->bottom : top->top, 0, 1);
        }
    }
}

/* Each variant with its layout as a constant. */
static __attribute__((noinline)) void play(struct forest *f, enum way way, const struct script *s,
                                           void *stack)
{
    bool two = way == TWO_LOCATIONS;
    switch (f->options.layout) {
    case FOREST_HASHED:
        two ? play_two(f, FOREST_HASHED, s, stack) : play_one(f, FOREST_HASHED, s, stack);
        break;
    case FOREST_SIBLINGS:
        two ? play_two(f, FOREST_SIBLINGS, s, stack) : play_one(f, FOREST_SIBLINGS, s, stack);
        break;
    case FOREST_INDEXED:
        two ? play_two(f, FOREST_INDEXED, s, stack) : play_one(f, FOREST_INDEXED, s, stack);
        break;
    }
}

struct variant {
    const char *name;
    enum forest_layout layout;
    enum way way;
};

/* The published form keeps two locations, and makes the whole k-SF; ours keeps one, and makes what
 * of it is needed. */
static const struct variant variants[] = {
    {"siblings, two locations", FOREST_SIBLINGS, TWO_LOCATIONS},
    {"indexed, two locations", FOREST_INDEXED, TWO_LOCATIONS},
    {"hashed, two locations", FOREST_HASHED, TWO_LOCATIONS},
    {"siblings", FOREST_SIBLINGS, ONE_LOCATION},
    {"indexed", FOREST_INDEXED, ONE_LOCATION},
    {"hashed", FOREST_HASHED, ONE_LOCATION},
};
static const uint32_t ks[] = {FOREST_UNBOUNDED, 1, 2, 5, 10, 20, 30, 50};

/* Of the variants. */
enum { TWO_SIBLINGS, TWO_INDEXED, TWO_HASHED, SIBLINGS, INDEXED, HASHED };
static const double similar_shares[] = {90, 80, 50, 25, 10};

enum {
    VARIANTS = sizeof variants / sizeof *variants,
    KS = sizeof ks / sizeof *ks,
    SHARES = sizeof similar_shares / sizeof *similar_shares
};

struct outcome {
    double ns[ROUNDS_MAX], median;
    uint32_t nodes;
    uint64_t bytes;
};

/* What is left of a trace when it has been measured. */
struct result {
    char *name;
    uint64_t calls;
    uint32_t functions, depth;
    double degree; /* of the inner nodes of its CCT */
    struct outcome all[VARIANTS][KS];
    double best[KS]; /* nanoseconds */
    struct inverse_sizes inverses;
    double similar_share[SHARES];
};

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void begin(struct forest *f, struct region *region, const struct script *s, uint32_t k,
                  const struct variant *v)
{
    struct ct_error err;
    if (region_begin(region, UINT64_C(16) << 30, &err) != CT_OK)
        die(err.text);
    if (!forest_begin(f, &region->memory,
                      &(struct forest_options){
                          .layout = v->layout, .k = k, .metric_count = 1, .degrees = s->degrees}))
        die("no memory");
}

static void measure(const struct script *s, uint32_t k, const struct variant *v, int round,
                    struct outcome *out)
{
    struct region region;
    struct forest f;
    void *stack = must_calloc((size_t)s->depth + 2, sizeof(struct forest_pair));
    begin(&f, &region, s, k, v);
    double start = now_ns();
    play(&f, v->way, s, stack);
    out->ns[round] = (now_ns() - start) / (double)s->events.count;
    if (f.lost)
        die("calls were lost");
    out->nodes = f.node_count;
    out->bytes = region.used_bytes;
    region_end(&region);
    free(stack);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, by_value);
    return values[count / 2];
}

/* What the calling context tree becomes, by which all inverses are known. */
static void measure_tree(const struct script *s, struct result *r)
{
    struct region region;
    struct forest f;
    struct contexts tree, similar;
    void *stack = must_calloc((size_t)s->depth + 2, sizeof(struct forest_pair));
    begin(&f, &region, s, FOREST_UNBOUNDED, &variants[HASHED]);
    play(&f, ONE_LOCATION, s, stack);
    contexts_from_forest(&f, &tree);
    region_end(&region);
    free(stack);
    r->degree = contexts_degree(&tree);
    inverse_sizes(&tree, 0, NULL, 0, NULL, NULL, &r->inverses);
    for (int x = 0; x < SHARES; x++) {
        contexts_similar(&tree, CONTEXTS_UNBOUNDED, 0, similar_shares[x], &similar);
        r->similar_share[x] = 100.0 * similar.count / tree.count;
        contexts_free(&similar);
    }
    contexts_free(&tree);
}

static struct result *measure_trace(const char *path, int rounds)
{
    struct script s = {0};
    struct result *r = must_calloc(1, sizeof *r);
    read_script(path, &s);
    for (int round = 0; round < rounds; round++)
        for (int k = 0; k < KS; k++)
            for (int v = 0; v < VARIANTS; v++)
                measure(&s, ks[k], &variants[v], round, &r->all[v][k]);
    for (int k = 0; k < KS; k++)
        for (int v = 0; v < VARIANTS; v++) {
            struct outcome *o = &r->all[v][k];
            if (o->nodes != r->all[v < SIBLINGS ? TWO_SIBLINGS : SIBLINGS][k].nodes)
                die("layouts do not agree on the number of nodes");
            o->median = median(o->ns, rounds);
            if (v == 0 || o->median < r->best[k])
                r->best[k] = o->median;
        }
    r->name = s.name;
    r->calls = s.calls;
    r->functions = s.functions;
    r->depth = s.depth;
    measure_tree(&s, r);
    free(s.degrees);
    vec_free(&s.events);
    vec_free(&s.starts);
    return r;
}

/* ---- Tables ---------------------------------------------------------------------------------- */

static const char *k_text(uint32_t k, char *text)
{
    sprintf(text, k == FOREST_UNBOUNDED ? "CCT" : "%" PRIu32 "-SF", k);
    return text;
}

static void print_k_columns(int from)
{
    char text[16];
    for (int k = from; k < KS; k++)
        printf(" %s |", k_text(ks[k], text));
}

static void print_line(int columns)
{
    fputs("\n|---|", stdout);
    while (columns-- > 0)
        fputs("---:|", stdout);
    putchar('\n');
}

static void print_speed(const struct result *r)
{
    printf("\n### %s: nanoseconds for each event (figure 14a)\n\n| layout |", r->name);
    print_k_columns(0);
    print_line(KS);
    for (int v = 0; v < VARIANTS; v++) {
        printf("| %s |", variants[v].name);
        for (int k = 0; k < KS; k++)
            printf(" %.1f |", r->all[v][k].median);
        putchar('\n');
    }
}

static void print_space(const struct result *r)
{
    char text[16];
    double tree = r->all[HASHED][0].nodes;
    printf(
        "\n### %s: space\n\n| | nodes | of the CCT | as built with one location | of the CCT | MB, "
        "hashed | MB, siblings | MB, indexed | k-CCF nodes | pruned |\n"
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n",
        r->name);
    for (int i = 0; i < KS; i++) {
        int k = (i + 1) % KS; /* the tree at the end */
        uint32_t last = r->inverses.levels - 1;
        uint32_t whole = r->all[TWO_HASHED][k].nodes, built = r->all[HASHED][k].nodes;
        const struct inverse_size *inverse = &r->inverses.by_k[ks[k] < last ? ks[k] : last];
        printf("| %s | %" PRIu32 " | %.3f | %" PRIu32 " | %.3f | %.1f | %.1f | %.1f | %" PRIu64
               " | %" PRIu64 " |\n",
               k_text(ks[k], text), whole, whole / tree, built, built / tree,
               (double)r->all[HASHED][k].bytes / 1e6, (double)r->all[SIBLINGS][k].bytes / 1e6,
               (double)r->all[INDEXED][k].bytes / 1e6, inverse->nodes, inverse->pruned);
    }
}

/* Speed of all traces, against the bars. */
static void print_multiples(struct result *const *results, size_t count)
{
    puts("\n### The best k-SF as a multiple of the best CCT\n");
    fputs("| | best CCT, ns for each event | siblings, of that | degree |", stdout);
    print_k_columns(1);
    print_line(KS + 2);
    for (size_t i = 0; i < count; i++) {
        const struct result *r = results[i];
        printf("| %s | %.1f | %.1f | %.1f |", r->name, r->best[0],
               r->all[SIBLINGS][0].median / r->best[0], r->degree);
        for (int k = 1; k < KS; k++)
            printf(" %.2f |", r->best[k] / r->best[0]);
        putchar('\n');
    }
    puts("\nThe same for hashed nodes alone, which need no numbers beforehand:\n");
    fputs("| | CCT, ns for each event | of the best CCT |", stdout);
    print_k_columns(1);
    print_line(KS + 1);
    for (size_t i = 0; i < count; i++) {
        const struct result *r = results[i];
        double tree = r->all[HASHED][0].median;
        printf("| %s | %.1f | %.2f |", r->name, tree, tree / r->best[0]);
        for (int k = 1; k < KS; k++)
            printf(" %.2f |", r->all[HASHED][k].median / tree);
        putchar('\n');
    }
}

/* From which k on the paper's siblings are as fast as its indexed nodes. */
static void print_siblings_k(const struct result *r, const struct published *paper)
{
    int k = 1;
    while (k < KS && r->all[TWO_SIBLINGS][k].median > r->all[TWO_INDEXED][k].median)
        k++;
    if (k < KS)
        printf(" %" PRIu32, ks[k]);
    else
        printf(" above %" PRIu32, ks[KS - 1]);
    if (paper)
        printf(" (%.0f)", paper->siblings_k);
    puts(" |");
}

/* The paper's columns, its own step. Its seconds are made into nanoseconds for each event. */
static void print_times(struct result *const *results, size_t count)
{
    puts("\n### Time to build, in nanoseconds for each event (in brackets: the paper's table 2)\n\n"
         "| | calls | functions | CCT nodes | depth | CCT, siblings | 1-SF, siblings | 1-SF, "
         "indexed | "
         "CCT, indexed | siblings as fast as indexed from k on |\n"
         "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|");
    for (size_t i = 0; i < count; i++) {
        const struct result *r = results[i];
        const struct published *paper = published_of(r->name);
        const double ours[] = {r->all[SIBLINGS][0].median, r->all[TWO_SIBLINGS][1].median,
                               r->all[TWO_INDEXED][1].median, r->all[INDEXED][0].median};
        double theirs[4] = {0};
        if (paper)
            memcpy(theirs,
                   (double[]){paper->cct_s, paper->slabs_s, paper->indexed_slabs_s,
                              paper->indexed_cct_s},
                   sizeof theirs);
        printf("| %s | %" PRIu64 " | %" PRIu32 " | %" PRIu32 " | %" PRIu32 " |", r->name, r->calls,
               r->functions, r->all[0][0].nodes, r->depth);
        for (int c = 0; c < 4; c++)
            if (paper)
                printf(" %.1f (%.1f) |", ours[c], theirs[c] * 1e9 / (2 * paper->calls));
            else
                printf(" %.1f |", ours[c]);
        print_siblings_k(r, paper);
    }
}

static void print_similar(struct result *const *results, size_t count)
{
    puts("\n### Similar ∞-CCF, nodes as a share of the CCT\n");
    fputs("| |", stdout);
    for (int x = 0; x < SHARES; x++)
        printf(" x = %.0f%% |", similar_shares[x]);
    print_line(SHARES);
    for (size_t i = 0; i < count; i++) {
        printf("| %s |", results[i]->name);
        for (int x = 0; x < SHARES; x++)
            printf(" %.2f%% |", results[i]->similar_share[x]);
        putchar('\n');
    }
}

static void print_results(struct result *const *results, size_t count, bool brief)
{
    const struct result *largest = results[0];
    for (size_t i = 0; i < count; i++)
        if (results[i]->all[0][0].nodes > largest->all[0][0].nodes)
            largest = results[i];
    print_times(results, count);
    print_multiples(results, count);
    if (!brief)
        print_similar(results, count);
    for (size_t i = 0; i < count; i++)
        if (!brief || results[i] == largest) {
            print_speed(results[i]);
            print_space(results[i]);
        }
}

int main(int argc, char **argv)
{
    int rounds = ROUNDS, at = 1;
    bool brief = false;
    VEC(struct result *) results = {0};
    for (; at < argc && argv[at][0] == '-'; at++) {
        if (strcmp(argv[at], "--brief") == 0)
            brief = true;
        else if (at + 1 < argc && strcmp(argv[at], "--rounds") == 0)
            rounds = atoi(argv[++at]);
        else
            break;
    }
    if (at >= argc || argv[at][0] == '-' || rounds < 1 || rounds > ROUNDS_MAX) {
        fputs("usage: kctx [--rounds N] [--brief] TRACE...\n", stderr);
        return 2;
    }
    for (; at < argc; at++)
        vec_push(&results, measure_trace(argv[at], rounds));
    print_results(results.items, results.count, brief);
    for (size_t i = 0; i < results.count; i++) {
        inverse_sizes_free(&results.items[i]->inverses);
        free(results.items[i]->name);
        free(results.items[i]);
    }
    vec_free(&results);
    return 0;
}
