/*
 * What calling context trees and k-slab forests cost: nanoseconds for each event of a trace, nodes
 * and bytes, for each layout of nodes and each k, and how small what is similar is.
 *
 *     kctx [--rounds N] TRACE…
 *
 * A trace is decoded once; all variants replay the same events, in turn, several rounds of them,
 * and the medians are shown. Labels are functions; call sites are not told apart. The numbers that
 * the indexed layout needs (which of its callees a call is, for its caller) are worked out
 * beforehand, as a look at the code would do.
 */
#include "cct/contexts.h"
#include "cct/region.h"
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
    const char *name;
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
    s->name = slash ? slash + 1 : path;
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
static __attribute__((noinline)) void play(struct forest *f, const struct script *s, void *stack)
{
    bool two = f->options.pairs;
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

/* The published form keeps two locations; ours one. */
static const struct variant variants[] = {
    {"siblings, two locations", FOREST_SIBLINGS, TWO_LOCATIONS},
    {"indexed, two locations", FOREST_INDEXED, TWO_LOCATIONS},
    {"hashed, two locations", FOREST_HASHED, TWO_LOCATIONS},
    {"siblings", FOREST_SIBLINGS, ONE_LOCATION},
    {"indexed", FOREST_INDEXED, ONE_LOCATION},
    {"hashed", FOREST_HASHED, ONE_LOCATION},
};
static const uint32_t ks[] = {FOREST_UNBOUNDED, 1, 2, 5, 10, 20};

enum { VARIANTS = sizeof variants / sizeof *variants, KS = sizeof ks / sizeof *ks };

struct outcome {
    double ns[ROUNDS_MAX];
    uint32_t nodes;
    uint64_t bytes;
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
                      &(struct forest_options){.layout = v->layout,
                                               .k = k,
                                               .metric_count = 1,
                                               .pairs = v->way == TWO_LOCATIONS,
                                               .degrees = s->degrees}))
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
    play(&f, s, stack);
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

/* ---- Tables ---------------------------------------------------------------------------------- */

static const char *k_text(uint32_t k, char *text)
{
    sprintf(text, k == FOREST_UNBOUNDED ? "CCT" : "%" PRIu32 "-SF", k);
    return text;
}

static void print_speed(const struct script *s, int rounds, struct outcome (*all)[KS])
{
    double best[KS], medians[VARIANTS][KS];
    char text[16];
    printf("\n### %s: nanoseconds for each event\n\n| layout |", s->name);
    for (int k = 0; k < KS; k++) {
        printf(" %s |", k_text(ks[k], text));
        best[k] = 1e300;
    }
    fputs("\n|---|", stdout);
    for (int k = 0; k < KS; k++)
        fputs("---:|", stdout);
    putchar('\n');
    for (int v = 0; v < VARIANTS; v++) {
        printf("| %s |", variants[v].name);
        for (int k = 0; k < KS; k++) {
            double ns = medians[v][k] = median(all[v][k].ns, rounds);
            if (ns < best[k])
                best[k] = ns;
            printf(" %.1f |", ns);
        }
        putchar('\n');
    }
    fputs("| **best, as a multiple of the best CCT** |", stdout);
    for (int k = 0; k < KS; k++)
        printf(" %.2f |", best[k] / best[0]);
    printf("\n\nThe best CCT is %.1f times as fast as siblings.\n", medians[3][0] / best[0]);
}

static void print_space(const struct script *s, struct outcome (*all)[KS])
{
    char text[16];
    double tree = all[5][0].nodes;
    printf("\n### %s: space\n\n| | nodes | of the CCT | MB, hashed | MB, siblings | MB, indexed | "
           "k-CCF nodes | pruned |\n|---|---:|---:|---:|---:|---:|---:|---:|\n",
           s->name);
    for (int i = 0; i < KS; i++) {
        int k = (i + 1) % KS; /* the tree at the end */
        const struct outcome *hashed = &all[5][k];
        struct region region;
        struct forest f;
        struct contexts forest, inverse, pruned;
        void *stack = must_calloc((size_t)s->depth + 2, sizeof(struct forest_pair));
        begin(&f, &region, s, ks[k], &variants[5]);
        play(&f, s, stack);
        contexts_from_forest(&f, &forest);
        printf("| %s | %" PRIu32 " | %.3f | %.1f | %.1f | %.1f |", k_text(ks[k], text),
               hashed->nodes, hashed->nodes / tree, (double)hashed->bytes / 1e6,
               (double)all[3][k].bytes / 1e6, (double)all[4][k].bytes / 1e6);
        /* The whole inverse can have depth times as many nodes: not where that is too many. */
        if ((double)forest.count * (ks[k] < s->depth ? ks[k] : s->depth) > 2e7) {
            puts(" - | - |");
        } else {
            contexts_invert(&forest, ks[k], &inverse);
            contexts_prune(&inverse, &pruned);
            printf(" %" PRIu32 " | %" PRIu32 " |\n", inverse.count, pruned.count);
            contexts_free(&inverse);
            contexts_free(&pruned);
        }
        if (ks[k] == FOREST_UNBOUNDED) {
            static const double shares[] = {90, 80, 50, 25, 10};
            fputs("\nSimilar ∞-CCF, nodes as a share of the CCT:", stdout);
            for (size_t x = 0; x < sizeof shares / sizeof *shares; x++) {
                struct contexts similar;
                contexts_similar(&forest, CONTEXTS_UNBOUNDED, 0, shares[x], &similar);
                printf("%s %.2f%% at x = %.0f%%", x ? "," : "", 100 * similar.count / tree,
                       shares[x]);
                contexts_free(&similar);
            }
            puts(".");
        }
        contexts_free(&forest);
        region_end(&region);
        free(stack);
    }
}

static void bench(const char *path, int rounds)
{
    struct script s = {0};
    read_script(path, &s);
    struct outcome(*all)[KS] = must_calloc(VARIANTS, sizeof *all);
    for (int round = 0; round < rounds; round++)
        for (int k = 0; k < KS; k++)
            for (int v = 0; v < VARIANTS; v++)
                measure(&s, ks[k], &variants[v], round, &all[v][k]);
    for (int k = 0; k < KS; k++)
        for (int v = 1; v < VARIANTS; v++)
            if (all[v][k].nodes != all[0][k].nodes)
                die("layouts do not agree on the number of nodes");
    print_speed(&s, rounds, all);
    printf("%" PRIu64 " calls of %" PRIu32 " functions, depth %" PRIu32 ", %.1f calls for each "
           "context.\n",
           s.calls, s.functions, s.depth, (double)s.calls / all[0][0].nodes);
    print_space(&s, all);
    free(all);
    free(s.degrees);
    vec_free(&s.events);
    vec_free(&s.starts);
}

int main(int argc, char **argv)
{
    int rounds = ROUNDS, first = 1;
    if (argc > 2 && strcmp(argv[1], "--rounds") == 0) {
        rounds = atoi(argv[2]);
        first = 3;
    }
    if (first >= argc || rounds < 1 || rounds > ROUNDS_MAX) {
        fputs("usage: kctx [--rounds N] TRACE...\n", stderr);
        return 2;
    }
    for (int i = first; i < argc; i++) {
        bench(argv[i], rounds);
        fflush(stdout);
    }
    return 0;
}
