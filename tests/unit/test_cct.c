/*
 * Trees of calls, their inverses and explanations: the properties that the paper on
 * k-calling-context forests states, on random traces, against brute force that knows no trees, only
 * stacks.
 */
#include "cct/contexts.h"
#include "cct/explain.h"
#include "cct/inverse_sizes.h"
#include "cct/region.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { ROUNDS = 500, DEPTH_MAX = 24, CALLS_MAX = 120, PATHS_MAX = 4000, METRICS = 2, SITES = 3 };

static uint64_t state;

static uint64_t next(void)
{
    uint64_t z = state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static uint32_t below(uint32_t limit)
{
    return (uint32_t)((next() >> 32) * limit >> 32);
}

/* ---- Traces: the stack after each call --------------------------------------------------------
 */

struct stack {
    uint32_t labels[DEPTH_MAX];
    uint32_t depth;
};

struct event {
    uint32_t label; /* UINT32_MAX: a return */
    uint32_t thread;
    uint64_t weight;
};

static struct trace {
    struct event events[CALLS_MAX * 2];
    uint32_t event_count;
    struct stack calls[CALLS_MAX]; /* the stack as each call leaves it */
    uint64_t weights[CALLS_MAX];
    uint32_t call_count, functions, threads, depth;
    bool root_recurs; /* the function of a thread's root is called by another one, too */
} trace;

static struct stack stacks[4];

static void add_call(uint32_t thread, uint32_t label)
{
    struct stack *stack = &stacks[thread];
    uint64_t weight = below(100);
    stack->labels[stack->depth++] = label;
    trace.events[trace.event_count++] = (struct event){label, thread, weight};
    trace.weights[trace.call_count] = weight;
    trace.calls[trace.call_count++] = *stack;
    if (stack->depth > trace.depth)
        trace.depth = stack->depth;
}

static void add_return(uint32_t thread)
{
    stacks[thread].depth--;
    trace.events[trace.event_count++] = (struct event){UINT32_MAX, thread, 0};
}

static void note_roots(void)
{
    for (uint32_t i = 0; i < trace.call_count; i++)
        for (uint32_t k = 0; k < trace.call_count; k++)
            for (uint32_t at = 1; at < trace.calls[k].depth; at++)
                if (trace.calls[k].labels[at] == trace.calls[i].labels[0])
                    trace.root_recurs = true;
}

static void make_trace(uint64_t seed)
{
    state = seed;
    memset(&trace, 0, sizeof trace);
    memset(stacks, 0, sizeof stacks);
    trace.functions = 1 + below(below(2) ? 3 : 9);
    trace.threads = below(3) ? 1 : 1 + below(4);
    uint32_t depth_max = 1 + below(below(2) ? 6 : DEPTH_MAX), calls = below(CALLS_MAX);
    uint32_t fanout = 1 + below(4), share = 30 + below(60), root_only = below(2);
    if (below(5) == 0) { /* bushy: more callees than a node has in a list */
        trace.functions = fanout = 20 + below(40);
        depth_max = 2 + below(3);
    }
    while (trace.call_count < calls && trace.event_count < CALLS_MAX * 2 - 1) {
        uint32_t thread = below(trace.threads);
        struct stack *stack = &stacks[thread];
        if (stack->depth && (stack->depth >= depth_max || below(100) >= share)) {
            add_return(thread);
            continue;
        }
        /* Half of the traces never call the root's function again. */
        uint32_t label =
            stack->depth ? (stack->labels[stack->depth - 1] * 3 + below(fanout)) % trace.functions
                         : 0;
        add_call(thread, stack->depth ? label + root_only : 0);
    }
    trace.functions += root_only;
    note_roots();
}

/* ---- Brute force: chains of callers as they stand in the stacks -------------------------------
 */

struct chain {
    uint32_t labels[DEPTH_MAX]; /* the function first, outwards */
    uint32_t length;            /* callers */
    uint64_t values[METRICS];
};

static struct chain chains[PATHS_MAX];
static uint32_t chain_count;

static struct chain *find_chain(const uint32_t *labels, uint32_t length)
{
    for (uint32_t i = 0; i < chain_count; i++)
        if (chains[i].length == length &&
            memcmp(chains[i].labels, labels, (length + 1) * sizeof *labels) == 0)
            return &chains[i];
    return NULL;
}

/* Definition 3: every call activates its chains of q <= k callers. */
static void count_chains(uint32_t k)
{
    chain_count = 0;
    for (uint32_t i = 0; i < trace.call_count; i++) {
        const struct stack *s = &trace.calls[i];
        uint32_t reversed[DEPTH_MAX];
        for (uint32_t at = 0; at < s->depth; at++)
            reversed[at] = s->labels[s->depth - 1 - at];
        for (uint32_t q = 0; q < s->depth && q <= k; q++) {
            struct chain *chain = find_chain(reversed, q);
            if (!chain) {
                assert_true(chain_count < PATHS_MAX);
                chain = &chains[chain_count++];
                *chain = (struct chain){.length = q};
                memcpy(chain->labels, reversed, (q + 1) * sizeof *reversed);
            }
            chain->values[0]++;
            chain->values[1] += trace.weights[i];
        }
    }
}

/* ---- Ours ------------------------------------------------------------------------------------ */

static uint32_t degrees[64];

static void build(enum forest_layout layout, bool pairs, uint32_t k, uint32_t *map,
                  struct contexts *out)
{
    struct region region;
    struct forest f;
    struct ct_error err;
    assert_int_equal(region_begin(&region, 64 << 20, &err), CT_OK);
    for (uint32_t i = 0; i < 64; i++)
        degrees[i] = 64;
    assert_true(
        forest_begin(&f, &region.memory,
                     &(struct forest_options){
                         .layout = layout, .k = k, .metric_count = METRICS, .degrees = degrees}));
    uint32_t places[4][DEPTH_MAX];
    struct forest_pair two[4][DEPTH_MAX + 1];
    struct forest_stack one[4];
    memset(two, 0, sizeof two);
    for (uint32_t t = 0; t < 4; t++)
        one[t] = (struct forest_stack){.places = places[t], .room = DEPTH_MAX};
    for (uint32_t i = 0; i < trace.event_count; i++) {
        struct event e = trace.events[i];
        struct forest_stack *s = &one[e.thread];
        if (e.label == UINT32_MAX) {
            forest_return(s);
            continue;
        }
        uint32_t label = map ? map[e.label] : e.label, place;
        if (pairs) {
            struct forest_pair *pair = &two[e.thread][s->depth++];
            pair[1] = forest_enter_pair(&f, layout, pair[0], label, label);
            place = pair[1].bottom ? pair[1].bottom : pair[1].top;
        } else {
            place = forest_call(&f, layout, s, label, label);
        }
        forest_charge(&f, place, 0, 1);
        forest_charge(&f, place, 1, e.weight);
    }
    assert_int_equal(f.lost, 0);
    contexts_from_forest(&f, out);
    region_end(&region);
}

static uint32_t find_node(const struct contexts *c, uint32_t parent, uint32_t label)
{
    for (uint32_t i = 0; i < c->count; i++)
        if (c->nodes[i].parent == parent && c->nodes[i].label == label)
            return i;
    return CONTEXTS_NONE;
}

/* Whether every node of a is in b, with the same values; equal sizes make them equal. */
static void assert_within(const struct contexts *a, const struct contexts *b)
{
    uint32_t *twin = test_malloc((a->count + 1) * sizeof *twin);
    for (uint32_t i = 0; i < a->count; i++) {
        uint32_t parent = a->nodes[i].parent;
        assert_true(parent == CONTEXTS_NONE || parent < i);
        twin[i] = find_node(b, parent == CONTEXTS_NONE ? parent : twin[parent], a->nodes[i].label);
        assert_int_not_equal(twin[i], CONTEXTS_NONE);
        assert_memory_equal(a->values + (size_t)i * METRICS, b->values + (size_t)twin[i] * METRICS,
                            METRICS * sizeof *a->values);
    }
    test_free(twin);
}

static void assert_same(const struct contexts *a, const struct contexts *b)
{
    assert_int_equal(a->count, b->count);
    assert_within(a, b);
}

static uint32_t level_of(const struct contexts *c, uint32_t node)
{
    uint32_t level = 0;
    while ((node = c->nodes[node].parent) != CONTEXTS_NONE)
        level++;
    return level;
}

static bool has_children(const struct contexts *c, uint32_t node)
{
    for (uint32_t i = 0; i < c->count; i++)
        if (c->nodes[i].parent == node)
            return true;
    return false;
}

/* Property 3, and the values: nodes are the chains that were counted, no more and no fewer. */
static void assert_counted(const struct contexts *c)
{
    assert_int_equal(c->count, chain_count);
    for (uint32_t i = 0; i < c->count; i++) {
        uint32_t labels[DEPTH_MAX], length = level_of(c, i);
        for (uint32_t at = i, k = length; at != CONTEXTS_NONE; at = c->nodes[at].parent, k--)
            labels[k] = c->nodes[at].label;
        const struct chain *chain = find_chain(labels, length);
        assert_non_null(chain);
        assert_memory_equal(chain->values, c->values + (size_t)i * METRICS, sizeof chain->values);
    }
}

static double power(uint32_t base, uint32_t exponent)
{
    double result = 1;
    while (exponent--)
        result *= base;
    return result;
}

/* ---- The paper's statements ------------------------------------------------------------------ */

static void check_counters(const struct contexts *c)
{
    uint64_t leaves = 0;
    for (uint32_t i = 0; i < c->count; i++) {
        uint64_t children = 0;
        for (uint32_t k = i + 1; k < c->count; k++)
            if (c->nodes[k].parent == i) {
                children += c->values[(size_t)k * METRICS];
                assert_true(c->values[(size_t)i * METRICS] >=
                            c->values[(size_t)k * METRICS]); /* a */
            }
        if (!has_children(c, i))
            leaves += c->values[(size_t)i * METRICS];
        else if (!trace.root_recurs)
            assert_int_equal(children, c->values[(size_t)i * METRICS]); /* b */
    }
    /* c; like b and 7 it needs roots without a caller: ⟨r⟩ and ⟨r, r⟩ share the node r. */
    if (!trace.root_recurs)
        assert_int_equal(leaves, trace.call_count);
    else
        assert_true(leaves <= trace.call_count);
}

static void check_shape(const struct contexts *c, const struct contexts *cct, uint32_t k)
{
    uint32_t roots = 0, leaves = 0, d = trace.depth ? trace.depth - 1 : 0;
    for (uint32_t i = 0; i < c->count; i++) {
        assert_true(level_of(c, i) <= k); /* 2 */
        roots += c->nodes[i].parent == CONTEXTS_NONE;
        if (has_children(c, i))
            continue;
        leaves++;
        if (k >= d)
            assert_int_equal(c->nodes[i].label, 0); /* 6: every thread begins with function 0 */
    }
    bool called[64] = {false};
    uint32_t functions = 0;
    for (uint32_t i = 0; i < trace.call_count; i++) {
        bool *known = &called[trace.calls[i].labels[trace.calls[i].depth - 1]];
        functions += !*known;
        *known = true;
    }
    assert_int_equal(roots, functions); /* 2 */
    if (k >= d && !trace.root_recurs)
        assert_int_equal(leaves, cct->count); /* 7 */
    double most = 0;
    for (uint32_t q = 0; q <= k && most < 1e12; q++)
        most += power(functions, q + 1);
    assert_true(c->count <= most); /* theorem 1 */
    assert_true(c->count <= cct->count * (uint64_t)((k < d ? k : d) + 1));
}

static void check_traces(void **unused)
{
    (void)unused;
    static const enum forest_layout layouts[] = {FOREST_HASHED, FOREST_SIBLINGS, FOREST_INDEXED};
    uint32_t recursive = 0;
    for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
        make_trace(seed);
        recursive += trace.root_recurs;
        struct contexts cct, before = {0};
        build(FOREST_HASHED, false, FOREST_UNBOUNDED, NULL, &cct);
        for (uint32_t k = 0; k <= trace.depth + 1; k++) {
            struct contexts from_tree;
            count_chains(k);
            contexts_invert(&cct, k, &from_tree);
            assert_counted(&from_tree);
            check_shape(&from_tree, &cct, k);
            check_counters(&from_tree);
            if (k > 0)
                assert_within(&before, &from_tree); /* 4 */
            if (k >= trace.depth && k > 0)
                assert_same(&before, &from_tree); /* 5 */
            for (int variant = 0; k > 0 && variant < 6; variant++) {
                struct contexts slabs, from_slabs;
                build(layouts[variant / 2], variant & 1, k, NULL, &slabs);
                contexts_invert(&slabs, k, &from_slabs);
                assert_same(&from_slabs, &from_tree);
                assert_true(slabs.count <= 2 * cct.count); /* lemma 2 */
                contexts_free(&slabs);
                contexts_free(&from_slabs);
            }
            contexts_free(&before);
            before = from_tree;
        }
        contexts_free(&before);
        contexts_free(&cct);
    }
    assert_in_range(recursive, ROUNDS / 10, ROUNDS * 9 / 10); /* both kinds were there */
}

/* k = 0 are the calls of each function, k = 1 adds those of each pair. */
static void check_vertices_and_edges(void **unused)
{
    (void)unused;
    for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
        make_trace(seed);
        uint64_t vertices[64] = {0}, edges[64][64] = {{0}};
        for (uint32_t i = 0; i < trace.call_count; i++) {
            const struct stack *s = &trace.calls[i];
            vertices[s->labels[s->depth - 1]]++;
            if (s->depth > 1)
                edges[s->labels[s->depth - 2]][s->labels[s->depth - 1]]++;
        }
        struct contexts slabs, ccf;
        build(FOREST_HASHED, false, 1, NULL, &slabs);
        contexts_invert(&slabs, 1, &ccf);
        uint64_t seen = 0, there = 0;
        for (uint32_t i = 0; i < ccf.count; i++) {
            const struct context *node = &ccf.nodes[i];
            uint64_t expected = node->parent == CONTEXTS_NONE
                                    ? vertices[node->label]
                                    : edges[node->label][ccf.nodes[node->parent].label];
            assert_int_equal(ccf.values[(size_t)i * METRICS], expected);
            seen++;
        }
        for (uint32_t a = 0; a < 64; a++) {
            there += vertices[a] != 0;
            for (uint32_t b = 0; b < 64; b++)
                there += edges[a][b] != 0;
        }
        assert_int_equal(seen, there);
        contexts_free(&slabs);
        contexts_free(&ccf);
    }
}

/* Every path from a root is one of the chains, as they stand in stacks. */
static void assert_listed(const struct contexts *c)
{
    for (uint32_t i = 0; i < c->count; i++) {
        uint32_t labels[DEPTH_MAX], length = level_of(c, i);
        for (uint32_t at = i, n = length; at != CONTEXTS_NONE; at = c->nodes[at].parent, n--)
            labels[n] = c->nodes[at].label;
        assert_non_null(find_chain(labels, length));
    }
}

/* Definition 7: the paths of the k-SF are those of at most 2k-1 steps down from the nodes of the
 * CCT at levels that are multiples of k. */
static void check_slabs_by_definition(void **unused)
{
    (void)unused;
    for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
        make_trace(seed);
        for (uint32_t k = 1; k <= 5; k++) {
            chain_count = 0;
            for (uint32_t i = 0; i < trace.call_count; i++)
                for (uint32_t start = 0; start < trace.calls[i].depth; start += k) {
                    uint32_t length = trace.calls[i].depth - 1 - start;
                    if (length > 2 * k - 1 || find_chain(trace.calls[i].labels + start, length))
                        continue;
                    chains[chain_count] = (struct chain){.length = length};
                    memcpy(chains[chain_count++].labels, trace.calls[i].labels + start,
                           (length + 1) * sizeof(uint32_t));
                }
            struct contexts slabs, built;
            build(FOREST_HASHED, true, k, NULL, &slabs);
            assert_int_equal(slabs.count, chain_count);
            assert_listed(&slabs);
            /* With one location: not all of them, but no others. */
            build(FOREST_HASHED, false, k, NULL, &built);
            assert_listed(&built);
            contexts_free(&built);
            /* Lemma 2 has |V|^2k, which counts the longest paths; their beginnings are nodes too.
             */
            double most = 0;
            for (uint32_t i = 1; i <= 2 * k; i++)
                most += power(trace.functions, i);
            assert_true(slabs.count <= most);
            contexts_free(&slabs);
        }
    }
}

/* ---- What is made of inverses ---------------------------------------------------------------- */

static bool is_chain(const struct contexts *c, uint32_t node)
{
    uint32_t child = CONTEXTS_NONE;
    for (uint32_t i = node + 1; i < c->count; i++)
        if (c->nodes[i].parent == node) {
            if (child != CONTEXTS_NONE)
                return false;
            child = i;
        }
    return child == CONTEXTS_NONE ||
           (memcmp(c->values + (size_t)node * METRICS, c->values + (size_t)child * METRICS,
                   METRICS * sizeof *c->values) == 0 &&
            is_chain(c, child));
}

static void check_pruning(void **unused)
{
    (void)unused;
    uint64_t cut = 0;
    for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
        make_trace(seed);
        for (uint32_t k = 1; k <= trace.depth + 1; k += 2) {
            struct contexts source, ccf, pruned, restored;
            build(FOREST_HASHED, false, k, NULL, &source);
            contexts_invert(&source, k, &ccf);
            contexts_prune(&ccf, &pruned);
            contexts_restore(&pruned, &source, k, &restored);
            assert_same(&restored, &ccf);
            uint32_t expected = 0;
            for (uint32_t i = 0; i < ccf.count; i++) {
                uint32_t parent = ccf.nodes[i].parent;
                expected += parent == CONTEXTS_NONE || !is_chain(&ccf, parent);
            }
            assert_int_equal(pruned.count, expected);
            cut += ccf.count - pruned.count;
            contexts_free(&source);
            contexts_free(&ccf);
            contexts_free(&pruned);
            contexts_free(&restored);
        }
    }
    assert_true(cut > 1000);
}

static void check_similar(void **unused)
{
    (void)unused;
    for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
        make_trace(seed);
        struct contexts cct, ccf, similar;
        uint32_t metric = seed % METRICS, percent = 1 + below(100);
        build(FOREST_HASHED, false, FOREST_UNBOUNDED, NULL, &cct);
        contexts_invert(&cct, CONTEXTS_UNBOUNDED, &ccf);
        contexts_similar(&cct, CONTEXTS_UNBOUNDED, metric, percent, &similar);
        assert_true(similar.count <= ccf.count);
        uint32_t expected = 0;
        for (uint32_t i = 0; i < ccf.count; i++) {
            uint32_t root = i;
            while (ccf.nodes[root].parent != CONTEXTS_NONE)
                root = ccf.nodes[root].parent;
            uint64_t value = ccf.values[(size_t)i * METRICS + metric];
            expected +=
                value && value * 100 >= ccf.values[(size_t)root * METRICS + metric] * percent;
        }
        assert_int_equal(similar.count, expected);
        for (uint32_t i = 0; i < similar.count; i++) {
            uint32_t labels[DEPTH_MAX], length = level_of(&similar, i);
            for (uint32_t at = i, n = length; at != CONTEXTS_NONE; at = similar.nodes[at].parent)
                labels[n--] = similar.nodes[at].label;
            count_chains(length);
            const struct chain *chain = find_chain(labels, length);
            assert_non_null(chain);
            assert_int_equal(chain->values[metric], similar.values[(size_t)i * METRICS + metric]);
        }
        contexts_free(&cct);
        contexts_free(&ccf);
        contexts_free(&similar);
    }
}

/* Sizes of inverses that were not made, against those of the ones that are. */
struct seen_values {
    uint32_t k, times;
    uint64_t sum, count;
};

static void see_values(void *user, uint32_t k, uint64_t *values, size_t count)
{
    struct seen_values *seen = user;
    *seen = (struct seen_values){.k = k, .times = seen->times + 1, .count = count};
    for (size_t i = 0; i < count; i++)
        seen->sum += values[i];
}

static void check_sizes(const struct contexts *forest, uint32_t k, uint32_t metric)
{
    struct inverse_sizes sizes;
    struct seen_values seen = {0};
    struct contexts inverse, pruned;
    uint64_t chains_with_value = 0, sum = 0;
    inverse_sizes(forest, metric, &k, 1, see_values, &seen, &sizes);
    contexts_invert(forest, k, &inverse);
    contexts_prune(&inverse, &pruned);
    for (uint32_t i = 0; i < inverse.count; i++) {
        uint64_t own = inverse.values[(size_t)i * METRICS + metric];
        for (uint32_t c = i + 1; c < inverse.count; c++)
            if (inverse.nodes[c].parent == i)
                own -= inverse.values[(size_t)c * METRICS + metric];
        chains_with_value += own != 0;
        sum += own;
    }
    const struct inverse_size *size = sizes.levels
                                          ? &sizes.by_k[k < sizes.levels ? k : sizes.levels - 1]
                                          : &(struct inverse_size){0};
    assert_int_equal(size->nodes, inverse.count);
    assert_int_equal(size->pruned, pruned.count);
    assert_int_equal(size->chains, chains_with_value);
    assert_int_equal(seen.times, 1);
    assert_int_equal(seen.k, k);
    assert_int_equal(seen.count, chains_with_value);
    assert_int_equal(seen.sum, sum);
    contexts_free(&inverse);
    contexts_free(&pruned);
    inverse_sizes_free(&sizes);
}

static void check_inverse_sizes(void **unused)
{
    (void)unused;
    for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
        make_trace(seed);
        for (uint32_t k = 0; k <= trace.depth + 1; k++) {
            struct contexts cct, slabs;
            build(FOREST_HASHED, false, FOREST_UNBOUNDED, NULL, &cct);
            check_sizes(&cct, k, seed % METRICS);
            contexts_free(&cct);
            if (k == 0)
                continue;
            build(FOREST_HASHED, false, k, NULL, &slabs);
            check_sizes(&slabs, k, seed % METRICS);
            contexts_free(&slabs);
        }
    }
}

/* Labels of call sites, made into labels of functions afterwards, and at once. */
static void check_sites(void **unused)
{
    (void)unused;
    for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
        make_trace(seed);
        uint32_t function_of[64];
        for (uint32_t i = 0; i < 64; i++)
            function_of[i] = i / SITES;
        struct contexts with, without, joined;
        build(FOREST_HASHED, false, FOREST_UNBOUNDED, NULL, &with);
        build(FOREST_HASHED, false, FOREST_UNBOUNDED, function_of, &without);
        contexts_relabel(&with, function_of, &joined);
        assert_same(&joined, &without);
        contexts_free(&with);
        contexts_free(&without);
        contexts_free(&joined);
    }
}

/* ---- Explanations ---------------------------------------------------------------------------- */

static uint64_t value_of(const uint32_t *labels, uint32_t length)
{
    const struct chain *chain = find_chain(labels, length);
    return chain ? chain->values[0] : 0;
}

/* The heaviest caller of a chain, by looking at all labels. */
static uint32_t best_caller(uint32_t *labels, uint32_t length, uint64_t *value)
{
    uint32_t best = 0;
    *value = 0;
    for (uint32_t label = 0; label < 64; label++) {
        labels[length + 1] = label;
        uint64_t own = value_of(labels, length + 1);
        if (own > *value) {
            *value = own;
            best = label;
        }
    }
    return best;
}

/* One chain by the words of the definition: longer while it keeps the share; then the shortest of
 * the same value. `labels` begins with the function and its direct caller. */
static void check_chain(const struct explanation *e, size_t which, uint32_t *labels, uint64_t whole,
                        double percent, uint32_t k)
{
    const struct explained_chain *chain = &e->chains.items[which];
    uint32_t longest = 1, shortest = 1;
    for (uint64_t value; longest < k && longest + 1 < DEPTH_MAX; longest++) {
        uint32_t caller = best_caller(labels, longest, &value);
        if (value == 0 || (double)value * 100 < (double)whole * percent)
            break;
        labels[longest + 1] = caller;
    }
    while (value_of(labels, shortest) != value_of(labels, longest))
        shortest++;
    assert_int_equal(chain->reach, longest);
    assert_int_equal(chain->callers, shortest);
    assert_int_equal(chain->value, value_of(labels, longest));
    assert_memory_equal(e->callers.items + chain->first, labels + 1, longest * sizeof *labels);
}

static void check_explanation(const struct explanation *e, const struct explain_options *o)
{
    uint32_t labels[DEPTH_MAX + 2] = {e->label};
    uint64_t total = value_of(labels, 0), best, seen = 0;
    assert_int_equal(e->value, total);
    uint32_t caller = best_caller(labels, 0, &best);
    bool one = best && (double)best * 100 >= (double)total * o->percent;
    assert_int_equal(e->one_chain, one);
    if (one) {
        assert_int_equal(e->chains.count, 1);
        labels[1] = caller;
        check_chain(e, 0, labels, total, o->percent, o->k);
        return;
    }
    for (size_t i = 0; i < e->chains.count; i++) {
        assert_true((double)seen * 100 < (double)total * o->percent);
        labels[1] = e->callers.items[e->chains.items[i].first];
        uint64_t own = value_of(labels, 1);
        assert_true(own <= best);
        best = own; /* heaviest first */
        seen += own;
        check_chain(e, i, labels, own, o->percent, o->k);
    }
    bool enough = (double)seen * 100 >= (double)total * o->percent;
    assert_int_equal(e->spread, !enough);
    assert_true(enough || e->chains.count == o->chains_max || e->chains.count == e->caller_count);
}

static void check_explaining(void **unused)
{
    (void)unused;
    uint32_t one = 0, several = 0, spread = 0;
    for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
        make_trace(seed);
        struct explain_options o = {50 + below(51), 1 + below(8), 1 + below(4)};
        struct contexts slabs;
        build(FOREST_HASHED, false, o.k, NULL, &slabs);
        count_chains(o.k);
        struct callers callers;
        callers_begin(&callers,
                      &(struct callers_source){.parents = &slabs.nodes->parent,
                                               .labels = &slabs.nodes->label,
                                               .values = slabs.values,
                                               .node_step = sizeof *slabs.nodes,
                                               .value_step = METRICS * sizeof *slabs.values,
                                               .count = slabs.count});
        for (size_t i = 0; i < callers.functions.count; i++) {
            struct explanation e;
            explain(&callers, callers.functions.items[i], &o, &e);
            check_explanation(&e, &o);
            one += e.one_chain;
            several += !e.one_chain && !e.spread;
            spread += e.spread;
            explanation_free(&e);
        }
        callers_end(&callers);
        contexts_free(&slabs);
    }
    assert_true(one > 50 && several > 50 && spread > 50);
}

/* A script of calls and returns of one thread. */
static void run_script(const uint32_t *script, size_t count, uint32_t return_label)
{
    memset(&trace, 0, sizeof trace);
    memset(stacks, 0, sizeof stacks);
    for (size_t i = 0; i < count; i++)
        if (script[i] == return_label)
            add_return(0);
        else
            add_call(0, script[i]);
}

/*
 * The paper's first example, from its words: c is called 4 times, once by r and three times by b;
 * no context of c is reached twice; but a, b, c follow each other three times, in different places.
 */
static void check_example(void **unused)
{
    (void)unused;
    enum { R, A, B, C, E, F, NOBODY };
    static const uint32_t script[] = {R,      C,      NOBODY, A, B, C, NOBODY,
                                      NOBODY, NOBODY, E,      A, B, C, NOBODY,
                                      NOBODY, NOBODY, NOBODY, F, A, B, C};
    run_script(script, sizeof script / sizeof *script, NOBODY);
    struct contexts cct, ccf;
    build(FOREST_HASHED, false, FOREST_UNBOUNDED, NULL, &cct);
    assert_int_equal(cct.count, 13); /* r c | a b c | e a b c | f a b c */
    contexts_invert(&cct, 2, &ccf);
    uint32_t c = find_node(&ccf, CONTEXTS_NONE, C), b = find_node(&ccf, c, B),
             a = find_node(&ccf, b, A), r = find_node(&ccf, c, R);
    assert_int_equal(ccf.values[(size_t)c * METRICS], 4);
    assert_int_equal(ccf.values[(size_t)r * METRICS], 1);
    assert_int_equal(ccf.values[(size_t)b * METRICS], 3);
    assert_int_equal(ccf.values[(size_t)a * METRICS], 3);
    /* c←{r, b←a}  b←a←{r, e, f}  a←{r, e←r, f←r}  e←r  f←r  r: 4 + 5 + 6 + 2 + 2 + 1 */
    assert_int_equal(ccf.count, 20);
    struct callers callers;
    struct explanation e;
    callers_begin(&callers, &(struct callers_source){.parents = &cct.nodes->parent,
                                                     .labels = &cct.nodes->label,
                                                     .values = cct.values,
                                                     .node_step = sizeof *cct.nodes,
                                                     .value_step = METRICS * sizeof *cct.values,
                                                     .count = cct.count});
    explain(&callers, callers.functions.items[C], &(struct explain_options){75, 10, 5}, &e);
    assert_true(e.one_chain);
    assert_int_equal(e.chains.items[0].value, 3);
    assert_int_equal(e.chains.items[0].callers, 1); /* b; a adds nothing that b does not say */
    assert_int_equal(e.chains.items[0].reach, 2);
    assert_int_equal(e.callers.items[0], B);
    assert_int_equal(e.callers.items[1], A);
    explanation_free(&e);
    callers_end(&callers);
    contexts_free(&cct);
    contexts_free(&ccf);
}

/*
 * A running example as the paper's figures 2 and 4, worked out by hand. (The figures' own trace is
 * not in the text that we have; like that, this one has contexts of at most 3 callers.)
 *
 *     r(a(b() c(b())) b(c()) a(b()))
 */
static void check_by_hand(void **unused)
{
    (void)unused;
    enum { R, A, B, C, BACK };
    static const uint32_t script[] = {R, A, B,    BACK, C, B, BACK, BACK, BACK,
                                      B, C, BACK, BACK, A, B, BACK, BACK, BACK};
    /* Every activated path, the function first, and how often; q callers each. */
    static const struct {
        uint32_t q, labels[4], calls;
    } paths[] = {
        {0, {R}, 1},       {0, {A}, 2},       {0, {B}, 4},          {0, {C}, 2},
        {1, {A, R}, 2},    {1, {B, A}, 2},    {1, {C, A}, 1},       {1, {B, C}, 1},
        {1, {B, R}, 1},    {1, {C, B}, 1},    {2, {B, A, R}, 2},    {2, {C, A, R}, 1},
        {2, {B, C, A}, 1}, {2, {C, B, R}, 1}, {3, {B, C, A, R}, 1},
    };
    static const uint32_t nodes[] = {4, 10, 14, 15, 15}; /* of the k-CCF */
    static const uint32_t pruned[] = {4, 9, 9, 9, 9}; /* r, a; b with a, c and r; c with a and b */
    /* Of the k-SF: 1: 4 functions and 6 pairs. 2: the CCT from r; from level 2 on b, and c with b.
     * 3: the CCT, and b from level 3. */
    static const uint32_t slab_nodes[] = {0, 10, 10, 8, 7};
    /* With one location there are no trees but the first where no stack is deeper than 2k. */
    static const uint32_t built_nodes[] = {0, 10, 7, 7, 7};
    struct contexts cct;
    run_script(script, sizeof script / sizeof *script, BACK);
    build(FOREST_HASHED, false, FOREST_UNBOUNDED, NULL, &cct);
    assert_int_equal(cct.count, 7); /* r, ra, rab, rac, racb, rb, rbc */
    for (uint32_t k = 0; k <= 4; k++) {
        struct contexts source, ccf, cut;
        build(FOREST_HASHED, false, k ? k : FOREST_UNBOUNDED, NULL, &source);
        contexts_invert(&source, k, &ccf);
        if (k) {
            struct contexts slabs;
            assert_int_equal(source.count, built_nodes[k]);
            build(FOREST_HASHED, true, k, NULL, &slabs);
            assert_int_equal(slabs.count, slab_nodes[k]);
            contexts_free(&slabs);
        }
        assert_int_equal(ccf.count, nodes[k]);
        for (size_t i = 0; i < sizeof paths / sizeof *paths && paths[i].q <= k; i++) {
            uint32_t node = CONTEXTS_NONE;
            for (uint32_t q = 0; q <= paths[i].q; q++)
                assert_true((node = find_node(&ccf, node, paths[i].labels[q])) != CONTEXTS_NONE);
            assert_int_equal(ccf.values[(size_t)node * METRICS], paths[i].calls);
        }
        contexts_prune(&ccf, &cut);
        assert_int_equal(cut.count, pruned[k]);
        contexts_free(&source);
        contexts_free(&ccf);
        contexts_free(&cut);
    }
    contexts_free(&cct);
}

/* Nothing is lost without being counted, and what is kept is right, when memory or stack end. */
static void check_limits(void **unused)
{
    (void)unused;
    for (uint64_t size = 2200; size < 60000; size += 400) {
        struct region region;
        struct forest f;
        struct ct_error err;
        uint32_t places[8];
        struct forest_stack s = {.places = places, .room = 8};
        make_trace(7 + size);
        assert_int_equal(region_begin(&region, size, &err), CT_OK);
        assert_true(forest_begin(&f, &region.memory,
                                 &(struct forest_options){.k = 1 + below(4), .metric_count = 1}));
        uint64_t calls = 0;
        for (int i = 0; i < 3000; i++) {
            if (s.depth && (s.depth > 20 || below(2))) {
                forest_return(&s);
                continue;
            }
            forest_charge(&f, forest_call(&f, FOREST_HASHED, &s, below(30), 0), 0, 1);
            calls++;
        }
        struct contexts c;
        contexts_from_forest(&f, &c);
        for (uint32_t i = 0; i < c.count; i++)
            calls -= c.values[i];
        assert_int_equal(calls, f.lost);
        assert_true(f.lost > 0);
        contexts_free(&c);
        region_end(&region);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_example),
        cmocka_unit_test(check_by_hand),
        cmocka_unit_test(check_traces),
        cmocka_unit_test(check_vertices_and_edges),
        cmocka_unit_test(check_slabs_by_definition),
        cmocka_unit_test(check_pruning),
        cmocka_unit_test(check_similar),
        cmocka_unit_test(check_inverse_sizes),
        cmocka_unit_test(check_sites),
        cmocka_unit_test(check_explaining),
        cmocka_unit_test(check_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
