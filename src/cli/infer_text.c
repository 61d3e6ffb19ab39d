#include "cli/infer_text.h"

#include "infer/path_complete.h"
#include "infer/path_core.h"
#include "infer/path_score.h"
#include "names/demangle.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 10, PATHS = 3 };

static const char *const quality_names[PATH_QUALITIES] = {"precise", "likely", "ambiguous",
                                                          "missing"};
static const char *const quality_words[PATH_QUALITIES] = {
    "one known path", "one known path, where training has not met all", "several known paths",
    "no known path"};

static double percent(uint64_t part, uint64_t whole)
{
    return whole ? 100.0 * (double)part / (double)whole : 0;
}

/* --- functions and paths -----------------------------------------------------------------------
 */

static void print_function(const struct profile *p, uint32_t index)
{
    const struct ctp_function *f = profile_function(p, index);
    const char *name = profile_string(p, f->name);
    const char *path = profile_string(p, profile_module(p, f->module)->path);
    const char *slash = strrchr(path, '/');
    char *readable = *name ? demangle(name) : NULL;
    if (*name)
        fputs(readable ? readable : name, stdout);
    else
        printf("%s+0x%" PRIx64, slash ? slash + 1 : path, f->offset);
    free(readable);
}

struct chain {
    VEC(uint32_t) nodes; /* places of calls, outermost first */
};

static void list_chain(const struct path_map *map, const struct path_context *context,
                       struct chain *chain)
{
    chain->nodes.count = 0;
    for (uint32_t node = path_map_caller(map, context->node); node != CTP_NONE;
         node = path_map_caller(map, node))
        vec_push(&chain->nodes, node);
    for (size_t i = 0, k = chain->nodes.count; i + 1 < k--; i++) {
        uint32_t swapped = chain->nodes.items[i];
        chain->nodes.items[i] = chain->nodes.items[k];
        chain->nodes.items[k] = swapped;
    }
}

/* How many callers all have in common, from the outermost on. */
static size_t common_callers(const struct path_map *map, const struct path_context *const *items,
                             uint32_t count)
{
    struct chain first = {0}, other = {0};
    size_t common = SIZE_MAX;
    for (uint32_t i = 0; i < count; i++) {
        list_chain(map, items[i], i ? &other : &first);
        const struct chain *c = i ? &other : &first;
        size_t same = 0;
        while (same < c->nodes.count && same < first.nodes.count &&
               c->nodes.items[same] == first.nodes.items[same])
            same++;
        common = same < common ? same : common;
    }
    vec_free(&first.nodes);
    vec_free(&other.nodes);
    return count > 1 ? common : 0;
}

/* The callers of a context but those that all have, and the function itself. Places are offsets in
 * the function that calls. */
static void print_path(const struct path_map *map, const struct path_context *context, size_t from)
{
    const struct profile *p = &map->profile;
    struct chain chain = {0};
    list_chain(map, context, &chain);
    if (from)
        printf("(%zu caller%s) > ", from, from == 1 ? "" : "s");
    for (size_t i = from; i < chain.nodes.count; i++) {
        const struct ctp_frame *f = profile_frame(p, profile_node_frame(p, chain.nodes.items[i]));
        print_function(p, f->function);
        printf(":0x%" PRIx64 " > ", f->offset - profile_function(p, f->function)->offset);
    }
    print_function(p, context->function);
    putchar('\n');
    vec_free(&chain.nodes);
}

static void print_candidates(const struct path_map *map, const struct path_context *const *items,
                             uint32_t count, uint32_t most)
{
    uint64_t sum = 0;
    size_t from = common_callers(map, items, count);
    for (uint32_t i = 0; i < count; i++)
        sum += items[i]->weight;
    for (uint32_t i = 0; i < count && i < most; i++) {
        printf("    %5.1f%%  ", sum ? percent(items[i]->weight, sum) : 100.0 / count);
        print_path(map, items[i], from);
    }
    if (count > most)
        printf("            and %" PRIu32 " more\n", count - most);
}

/* --- a profile's identifiers -------------------------------------------------------------------
 */

struct ambiguous {
    uint32_t node;
    uint64_t cost, height_bytes;
    uint32_t function, count;
    const struct path_context **candidates; /* to be freed */
};

struct listing {
    const struct profile *profile;
    VEC(struct ambiguous) items;
};

static void take_found(void *context, const struct path_found *found)
{
    struct listing *l = context;
    const struct path_answer *a = found->answer;
    if (a->quality != PATH_AMBIGUOUS)
        return;
    struct ambiguous item = {.node = found->node,
                             .cost = found->cost,
                             .count = (uint32_t)a->candidates.count,
                             .function = a->candidates.items[0]->function,
                             .height_bytes = a->candidates.items[0]->height_bytes};
    for (size_t i = 0; i < l->items.count; i++) /* of one function and height, costs are one */
        if (l->items.items[i].function == item.function && l->items.items[i].count == item.count &&
            l->items.items[i].height_bytes == item.height_bytes &&
            memcmp(l->items.items[i].candidates, a->candidates.items,
                   item.count * sizeof *item.candidates) == 0) {
            l->items.items[i].cost += item.cost;
            return;
        }
    item.candidates = must_calloc(item.count, sizeof *item.candidates);
    memcpy(item.candidates, a->candidates.items, item.count * sizeof *item.candidates);
    vec_push(&l->items, item);
}

static int by_cost(const void *a, const void *b)
{
    const struct ambiguous *x = a, *y = b;
    if (x->cost != y->cost)
        return x->cost > y->cost ? -1 : 1;
    return x->node < y->node ? -1 : x->node > y->node;
}

static void print_summary(const struct profile *p, const struct path_summary *s)
{
    uint64_t total = s->walked;
    for (unsigned q = 0; q < PATH_QUALITIES; q++)
        total += s->cost[q];
    printf("%s: %s by how its callers are known\n\n", p->name,
           profile_string(p, profile_metric(p, 0)->name));
    printf("%6.1f%%  walked     the stack was seen\n", percent(s->walked, total));
    for (unsigned q = 0; q < PATH_QUALITIES; q++)
        printf("%6.1f%%  %-9s  %s\n", percent(s->cost[q], total), quality_names[q],
               quality_words[q]);
    if (s->count[PATH_AMBIGUOUS])
        printf(
            "         of what is ambiguous, %.1f%% is among %d paths at most; the most are %" PRIu32
            "\n",
            percent(s->few, s->cost[PATH_AMBIGUOUS]), PATH_FEW, s->most_paths);
}

int infer_print_answers(const struct path_map *map, const struct profile *p,
                        const struct infer_options *o, struct ct_error *err)
{
    struct listing l = {.profile = p};
    struct path_summary s;
    CT_TRY(path_each(map, p, take_found, &l, &s, err));
    print_summary(p, &s);
    if (l.items.count) {
        qsort(l.items.items, l.items.count, sizeof *l.items.items, by_cost);
        printf("\nambiguous, heaviest first, with the shares of training:\n");
    }
    uint64_t whole = s.walked;
    for (unsigned q = 0; q < PATH_QUALITIES; q++)
        whole += s.cost[q];
    for (size_t i = 0; i < l.items.count; i++) {
        struct ambiguous *item = &l.items.items[i];
        if (i < ROWS) {
            printf("\n%6.1f%%  ", percent(item->cost, whole));
            print_function(&map->profile, item->function);
            printf(" at %" PRIu64 " bytes: %" PRIu32 " paths\n", item->height_bytes, item->count);
            print_candidates(map, item->candidates, item->count,
                             o->top_paths ? o->top_paths : PATHS);
        }
        free(item->candidates);
    }
    if (l.items.count > ROWS)
        printf("\n%zu smaller rows hidden\n", l.items.count - ROWS);
    vec_free(&l.items);
    return CT_OK;
}

/* --- the score ---------------------------------------------------------------------------------
 */

static void score_row(const char *name, const struct path_scores *s, uint64_t paths,
                      uint64_t weight)
{
    printf("  %-38s %9.2f%% %9.2f%%\n", name, percent(paths, s->by[SHARE_PATHS].total),
           percent(weight, s->by[SHARE_WEIGHT].total));
}

static uint64_t sum_of(const uint64_t values[PATH_QUALITIES])
{
    return values[PATH_PRECISE] + values[PATH_LIKELY] + values[PATH_AMBIGUOUS];
}

static void print_score(const struct path_scores *s)
{
    const struct path_score *p = &s->by[SHARE_PATHS], *w = &s->by[SHARE_WEIGHT];
    printf("  %-38s %10s %10s\n", "", "paths", s->unit);
    printf("  %-38s %10" PRIu64 " %10" PRIu64 "\n", "in all", p->total, w->total);
    if (p->walked)
        score_row("walked: all of the stack is seen", s, p->walked, w->walked);
    score_row("precise", s, p->right[PATH_PRECISE], w->right[PATH_PRECISE]);
    score_row("likely, and right", s, p->right[PATH_LIKELY], w->right[PATH_LIKELY]);
    score_row("ambiguous, the true path among them", s, p->right[PATH_AMBIGUOUS],
              w->right[PATH_AMBIGUOUS]);
    score_row("missing", s, p->right[PATH_MISSING], w->right[PATH_MISSING]);
    score_row("incorrect", s, sum_of(p->incorrect), sum_of(w->incorrect));
    score_row("  said to be precise", s, p->incorrect[PATH_PRECISE], w->incorrect[PATH_PRECISE]);
    for (unsigned i = 0; i < PATH_DEGREES; i++) {
        char name[64];
        snprintf(name, sizeof name, "right among at most %" PRIu32 " paths", path_degrees[i]);
        score_row(name, s, p->within[i], w->within[i]);
    }
    score_row("precise, by functions without places", s, p->functions, w->functions);
    printf("  %-38s %10.2f %10.2f\n", "degree of ambiguity, mean",
           p->answered ? (double)p->degrees / (double)p->answered : 0,
           w->answered ? (double)w->degrees / (double)w->answered : 0);
    printf("  %-38s %10" PRIu32 "\n", "  and at most", s->most_paths);
    if (s->highest_grown_bytes > s->highest_bytes)
        printf("  %-38s %9.3fx\n  %-38s %9.3fx\n", "highest stack, with frames that grow",
               (double)s->highest_grown_bytes / (double)s->highest_bytes, "  and on average",
               s->bytes > 0 ? s->grown_bytes / s->bytes : 1);
}

int infer_print_score(const struct path_map *map, const struct profile *truth,
                      const struct infer_options *o, struct ct_error *err)
{
    struct path_scores s;
    CT_TRY(path_score(map, truth, o->weight, o->window_bytes, &s, err));
    if (o->window_bytes)
        printf("with a window of %" PRIu64 " bytes:\n", o->window_bytes);
    else
        printf("with two registers:\n");
    print_score(&s);
    double lookups = s.lookups ? (double)s.lookups : 1;
    fprintf(stderr, "calltrail: training met %" PRIu64 " paths\n", s.trained);
    fprintf(stderr, "calltrail: %" PRIu64 " lookups of %.0f ns, %.0f cycles\n", s.lookups,
            (double)s.lookup_ns / lookups, (double)s.lookup_cycles / lookups);
    return CT_OK;
}

/* --- what training never saw -------------------------------------------------------------------
 */

struct unseen_row {
    uint32_t function;
    uint64_t height_bytes, weight;
};

struct unseen_listing {
    const struct profile *profile;
    VEC(struct unseen_row) items;
};

static void take_unseen(void *context, uint32_t node, uint64_t height_bytes, uint64_t weight)
{
    struct unseen_listing *l = context;
    const struct profile *p = l->profile;
    uint32_t height = path_height_node(p, node), function_node = node;
    for (uint32_t n = node; height != CTP_NONE && n != height; n = profile_parent(p, n))
        function_node = n; /* the outermost one that is known */
    vec_push(&l->items,
             (struct unseen_row){profile_frame(p, profile_node_frame(p, function_node))->function,
                                 height_bytes, weight});
}

static int by_identifier(const void *a, const void *b)
{
    const struct unseen_row *x = a, *y = b;
    if (x->function != y->function)
        return x->function < y->function ? -1 : 1;
    return x->height_bytes < y->height_bytes ? -1 : x->height_bytes > y->height_bytes;
}

static int by_weight(const void *a, const void *b)
{
    const struct unseen_row *x = a, *y = b;
    if (x->weight != y->weight)
        return x->weight > y->weight ? -1 : 1;
    return by_identifier(a, b);
}

static size_t join_rows(struct unseen_row *rows, size_t count)
{
    size_t kept = 0;
    qsort(rows, count, sizeof *rows, by_identifier);
    for (size_t i = 0; i < count; i++) {
        if (kept && by_identifier(&rows[kept - 1], &rows[i]) == 0)
            rows[kept - 1].weight += rows[i].weight;
        else
            rows[kept++] = rows[i];
    }
    qsort(rows, kept, sizeof *rows, by_weight);
    return kept;
}

int infer_print_unseen(const struct path_map *map, const struct profile *p,
                       const struct infer_options *o, struct ct_error *err)
{
    struct unseen_listing l = {.profile = p};
    struct path_unseen u = {0};
    CT_TRY(path_unseen(map, p, o->weight, take_unseen, &l, &u, err));
    size_t rows = l.items.count ? join_rows(l.items.items, l.items.count) : 0;
    printf("%s: %zu identifier%s that training never saw, in %" PRIu64 " of %" PRIu64
           " contexts, %.4f%% of the %s\n",
           p->name, rows, rows == 1 ? "" : "s", u.unseen, u.contexts,
           percent(u.unseen_weight, u.weight), u.unit);
    for (size_t i = 0; i < rows && i < ROWS; i++) {
        const struct unseen_row *r = &l.items.items[i];
        printf("%8.4f%%  ", percent(r->weight, u.weight));
        if (r->function == CTP_NONE)
            fputs("(code without a function)", stdout);
        else
            print_function(p, r->function);
        printf(" at %" PRIu64 " bytes\n", r->height_bytes);
    }
    if (rows > ROWS)
        printf("%zu smaller rows hidden\n", rows - ROWS);
    vec_free(&l.items);
    return CT_OK;
}

/* --- one place ---------------------------------------------------------------------------------
 */

static bool has_name(const struct profile *p, uint32_t module, const char *name, size_t length)
{
    const char *path = profile_string(p, profile_module(p, module)->path);
    const char *slash = strrchr(path, '/');
    const char *base = slash ? slash + 1 : path;
    return (strlen(base) == length && memcmp(base, name, length) == 0) ||
           (strlen(path) == length && memcmp(path, name, length) == 0);
}

static uint32_t function_at(const struct profile *p, const char *name, size_t length,
                            uint64_t offset)
{
    for (uint32_t i = 0; i < profile_function_count(p); i++) {
        const struct ctp_function *f = profile_function(p, i);
        if (offset >= f->offset && offset - f->offset < f->size &&
            has_name(p, f->module, name, length))
            return i;
    }
    return CTP_NONE;
}

int infer_print_at(const struct path_map *map, const char *at, const struct infer_options *o,
                   struct ct_error *err)
{
    const char *comma = strrchr(at, ','), *plus = NULL;
    char *end = NULL, *height_end = NULL;
    for (const char *c = at; comma && c < comma; c++)
        plus = *c == '+' ? c : plus;
    uint64_t offset = plus ? strtoull(plus + 1, &end, 0) : 0;
    uint64_t height = comma ? strtoull(comma + 1, &height_end, 0) : 0;
    if (!plus || end != comma || end == plus + 1 || !comma[1] || *height_end)
        return ct_fail(err, "'%s' is not MODULE+OFFSET,HEIGHT", at);
    const struct path_context *first;
    uint32_t function = function_at(&map->profile, at, (size_t)(plus - at), offset);
    uint32_t count = path_map_find(map, function, height, &first);
    const struct path_context **items = must_calloc((size_t)count + 1, sizeof *items);
    for (uint32_t i = 0; i < count; i++)
        items[i] = &first[i];
    if (function == CTP_NONE)
        printf("training saw no function there\n");
    else if (!count)
        printf("training did not see this function at that height\n");
    else
        printf("%" PRIu32 " known path%s, with the shares of training:\n", count,
               count == 1 ? "" : "s");
    print_candidates(map, items, count, o->top_paths ? o->top_paths : ROWS);
    free(items);
    return CT_OK;
}

/* --- a core file -------------------------------------------------------------------------------
 */

static void print_crash(const struct path_map *map, const struct path_crash *c,
                        const struct infer_options *o)
{
    const struct path_context *first = NULL;
    VEC(const struct path_context *) items = {0};
    uint32_t count = c->problem || c->function == CTP_NONE
                         ? 0
                         : path_map_find(map, c->function, c->height_bytes, &first);
    for (uint32_t i = 0; i < count; i++)
        if (map->outermost[first[i].node] == c->outermost)
            vec_push(&items, &first[i]);
    printf("thread %" PRIu32 " at 0x%" PRIx64, c->tid, c->pc);
    if (c->function != CTP_NONE) {
        fputs(", in ", stdout);
        print_function(&map->profile, c->function);
    }
    if (c->problem)
        printf(": %s\n", c->problem);
    else if (c->function == CTP_NONE)
        printf(": training saw no function there\n");
    else
        printf(", %" PRIu64 " bytes below its outermost call: %zu known path%s\n", c->height_bytes,
               items.count, items.count == 1 ? "" : "s");
    if (items.count)
        print_candidates(map, items.items, (uint32_t)items.count,
                         o->top_paths ? o->top_paths : ROWS);
    vec_free(&items);
}

int infer_print_core(const struct path_map *map, const char *path, const struct infer_options *o,
                     struct ct_error *err)
{
    struct core_file core;
    struct map_cache cache;
    CT_TRY(core_open(path, &core, err));
    map_cache_open(&cache);
    for (uint32_t i = 0; i < core.threads.count; i++) {
        struct path_crash crash;
        path_crash_find(map, &core, i, &cache, &crash);
        print_crash(map, &crash, o);
    }
    map_cache_close(&cache);
    core_close(&core);
    return CT_OK;
}

/* --- the search --------------------------------------------------------------------------------
 */

void infer_print_search(const char *name, const struct path_search_result *r)
{
    printf("%s: %" PRIu64 " identifier%s that training never saw\n", name, r->identifiers,
           r->identifiers == 1 ? "" : "s");
    printf("%10" PRIu64 "  found: all calls are direct, or training met them\n",
           r->found[PATH_BY_CALL]);
    printf("%10" PRIu64 "    of these, there are no other paths by pointers\n",
           r->whole[PATH_BY_CALL]);
    printf("%10" PRIu64 "  found: with calls through pointers\n", r->found[PATH_BY_POINTER]);
    printf("%10" PRIu64 "  cut: more than %d paths, or higher than %d KB\n", r->cut,
           PATH_SEARCH_MOST, PATH_SEARCH_MOST_BYTES >> 10);
    printf("%10" PRIu64 "  none: no path of the call graph has this height\n", r->none);
    if (r->unread)
        fprintf(stderr,
                "calltrail: %" PRIu32 " module%s not searched: the file is missing, or of another "
                "build\n",
                r->unread, r->unread == 1 ? "" : "s");
}
