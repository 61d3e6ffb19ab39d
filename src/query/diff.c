#include "query/diff.h"

#include "query/amount.h"
#include "query/nearest.h"
#include "query/noise.h"

#include <math.h>
#include <string.h>

/* The chance that two runs of the same program differ in anything that is reported, at most. */
static const double FALSE_ALARMS = 0.05;

/* ---- What is the same in both ---------------------------------------------------------------- */

static bool has_module(const struct profile *p, const char *file)
{
    for (uint32_t i = 0; i < profile_module_count(p); i++)
        if (strcmp(path_file(profile_string(p, profile_module(p, i)->path)), file) == 0)
            return true;
    return false;
}

static const char *program_file(const struct profile *p)
{
    return path_file(profile_string(p, profile_process(p, 0)->command));
}

/* Whether the two programs are the same under another name: neither profile knows the other's. */
static bool is_renamed(const struct profile *a, const struct profile *b)
{
    const char *first = program_file(a), *second = program_file(b);
    return *first && *second && has_module(a, first) && has_module(b, second) &&
           !has_module(a, second) && !has_module(b, first);
}

/* Whether the other profile has the same build of a module, so that offsets can be compared. */
static bool is_same_build(const struct profile *p, uint32_t module, const struct profile *other)
{
    const struct ctp_module *m = profile_module(p, module);
    const char *file = path_file(profile_string(p, m->path));
    for (uint32_t i = 0; i < profile_module_count(other); i++) {
        const struct ctp_module *n = profile_module(other, i);
        if (strcmp(path_file(profile_string(other, n->path)), file) == 0 &&
            m->build_id_size == n->build_id_size &&
            memcmp(m->build_id, n->build_id, sizeof m->build_id) == 0)
            return true;
    }
    return false;
}

/* The text that stands for a label in both profiles: its module, a line break, its name. */
static char *key_text(const struct view *view, uint32_t label, const struct profile *other,
                      const char *renamed)
{
    const struct profile *p = view->profile;
    const struct label *l = &view->labels.items.items[label];
    char room[1024];
    const char *name = label_name(&view->labels, label, room, sizeof room);
    const char *module = label_module_file(&view->labels, label);
    if (l->kind == LABEL_PLACE && l->module != CTP_NONE && !is_same_build(p, l->module, other))
        name = "(code without a name)";
    if (renamed && strcmp(module, program_file(p)) == 0)
        module = renamed;
    return must_format("%s\n%s", module, name);
}

/* Keys by the place of their text in the pool. */
struct key_finder {
    struct diff *diff;
    struct string_pool whole;
    VEC(uint32_t) keys; /* by offset in the pool */
};

static uint32_t key_of(struct key_finder *f, const char *text)
{
    uint32_t offset = strings_add(&f->whole, text);
    while (f->keys.count <= offset)
        vec_push(&f->keys, CTP_NONE);
    if (f->keys.items[offset] == CTP_NONE) {
        const char *name = strchr(text, '\n') + 1;
        char *module = must_strdup(text);
        module[name - text - 1] = '\0';
        struct diff_key key = {strings_add(&f->diff->texts, name),
                               strings_add(&f->diff->texts, module)};
        free(module);
        f->keys.items[offset] = (uint32_t)f->diff->keys.count;
        vec_push(&f->diff->keys, key);
    }
    return f->keys.items[offset];
}

static void match(struct diff *diff)
{
    struct key_finder finder = {.diff = diff};
    strings_init(&finder.whole);
    const struct profile *sides[2] = {diff->views[0].profile, diff->views[1].profile};
    if (is_renamed(sides[0], sides[1]))
        for (int side = 0; side < 2; side++)
            diff->renamed[side] = program_file(sides[side]);
    for (int side = 0; side < 2; side++) {
        struct view *view = &diff->views[side];
        size_t count = view->labels.items.count;
        uint32_t *keys = must_realloc(NULL, count + 1, sizeof *keys);
        for (uint32_t i = 0; i < count; i++) {
            char *text = key_text(view, i, sides[!side], diff->renamed[1]);
            keys[i] = key_of(&finder, text);
            free(text);
        }
        for (uint32_t i = 1; i < view->tree.count; i++)
            view->tree.nodes[i].label = keys[view->tree.nodes[i].label];
        free(keys);
    }
    strings_free(&finder.whole);
    vec_free(&finder.keys);
}

/* ---- What there is --------------------------------------------------------------------------- */

static void add_row(struct diff *diff, uint32_t place, enum diff_measure measure, uint64_t before,
                    uint64_t after)
{
    if (before || after)
        vec_push(&diff->rows,
                 (struct diff_row){.place = place, .measure = measure, .value = {before, after}});
}

static void add_functions(struct diff *diff)
{
    size_t count = diff->keys.count;
    uint64_t *sums[2][2];
    for (int side = 0; side < 2; side++) {
        const struct tree *tree = &diff->views[side].tree;
        uint64_t *self = must_calloc(count + 1, sizeof *self);
        uint64_t *total = must_calloc(count + 1, sizeof *total);
        uint32_t *ends = must_calloc(count + 1, sizeof *ends);
        for (uint32_t i = 1; i < tree->count; i++) {
            self[tree->nodes[i].label] += tree->nodes[i].self;
            if (!view_is_recursive(tree, ends, i))
                total[tree->nodes[i].label] += tree->totals[i];
        }
        free(ends);
        sums[side][DIFF_SELF] = self;
        sums[side][DIFF_TOTAL] = total;
    }
    for (uint32_t i = 0; i < count; i++) {
        uint64_t self[2] = {sums[0][DIFF_SELF][i], sums[1][DIFF_SELF][i]};
        uint64_t total[2] = {sums[0][DIFF_TOTAL][i], sums[1][DIFF_TOTAL][i]};
        add_row(diff, i, DIFF_SELF, self[0], self[1]);
        /* What calls nothing has but one number: that is one comparison, not two. */
        if (self[0] != total[0] || self[1] != total[1])
            add_row(diff, i, DIFF_TOTAL, total[0], total[1]);
    }
    for (int i = 0; i < 4; i++)
        free(sums[i / 2][i % 2]);
}

static void add_contexts(struct diff *diff)
{
    struct tree_index index;
    uint64_t room = UINT64_C(1) + diff->views[0].tree.count + diff->views[1].tree.count;
    tree_begin(&diff->contexts, &index, room < TREE_NONE ? (uint32_t)room : TREE_NONE);
    for (int side = 0; side < 2; side++)
        diff->context_self[side] = must_calloc(room, sizeof(uint64_t));
    for (int side = 0; side < 2; side++) {
        const struct tree *tree = &diff->views[side].tree;
        uint32_t *targets = must_calloc(tree->count, sizeof *targets);
        for (uint32_t i = 1; i < tree->count; i++) {
            const struct tree_node *node = &tree->nodes[i];
            targets[i] = tree_child(&diff->contexts, &index, targets[node->parent], node->label);
            diff->context_self[side][targets[i]] += node->self;
        }
        free(targets);
    }
    free(index.slots);
    for (uint32_t i = 1; i < diff->contexts.count; i++)
        add_row(diff, i, DIFF_SELF, diff->context_self[0][i], diff->context_self[1][i]);
}

/* ---- What changed ---------------------------------------------------------------------------- */

static double period_of(const struct view *view)
{
    const struct ctp_metric *metric = profile_metric(view->profile, view->metric);
    if (metric->kind != CTP_METRIC_SAMPLED)
        return 0;
    return metric->period ? (double)metric->period : 1;
}

static struct measured side_of(const struct diff *diff, const struct diff_row *row, int side)
{
    const struct view *view = &diff->views[side];
    return (struct measured){(double)row->value[side], (double)view->total, period_of(view)};
}

/* Ticks that came late all went to the sample that followed them, wherever it was: so much of a
 * value may belong elsewhere. The recorder counts them. */
static double late_value(const struct view *view)
{
    const struct ctp_fact *late =
        profile_find_fact(view->profile, CTP_SCOPE_METRIC, view->metric, "merged");
    return late && late->type == CTP_U64 ? (double)late->value * period_of(view) : 0;
}

/* The score that is left when late ticks are taken from what grew, and from the whole that the
 * other is a part of: whatever they did, they did not do more. */
static double score_of(struct measured a, struct measured b, const double late[2], bool shares)
{
    double (*score)(const struct measured *, const struct measured *) =
        shares ? noise_share_score : noise_amount_score;
    double plain = score(&a, &b);
    struct measured *more = plain > 0 ? &b : &a, *less = plain > 0 ? &a : &b;
    more->value = fmax(more->value - late[more == &b], 0);
    less->whole = fmax(less->whole - late[less == &b], less->value);
    double rest = score(&a, &b);
    return plain * rest > 0 ? rest : 0;
}

static double lesser(double a, double b)
{
    if ((a > 0) != (b > 0))
        return 0;
    return fabs(a) < fabs(b) ? a : b;
}

/*
 * A machine that is slower as a whole makes everything grow, and a function that is gone makes the
 * shares of all others grow. Neither is a change of a function, so it must have changed both as an
 * amount and as a part of the whole. If only parts are asked for, the amounts do not count.
 */
static void weigh(struct diff *diff, const struct diff_options *options)
{
    double *effects = must_calloc(diff->rows.count + 1, sizeof *effects);
    for (size_t i = 0; i < diff->rows.count; i++) {
        struct diff_row *row = &diff->rows.items[i];
        struct measured a = side_of(diff, row, 0), b = side_of(diff, row, 1);
        double amount = score_of(a, b, diff->late, false), share = score_of(a, b, diff->late, true);
        bool exact = a.period <= 0 && b.period <= 0;
        row->score = options->normalize ? share : exact ? amount : lesser(amount, share);
        row->error = noise_error(&a, &b, options->normalize);
        row->change = b.value - a.value;
        if (options->normalize) {
            row->change = share_percent(row->value[1], diff->views[1].total) -
                          share_percent(row->value[0], diff->views[0].total);
            row->error *= 100;
        }
        effects[i] = noise_effect(&a, &b);
    }
    struct noise_limits limits = noise_limits(effects, diff->rows.count, FALSE_ALARMS);
    for (size_t i = 0; i < diff->rows.count; i++) {
        struct diff_row *row = &diff->rows.items[i];
        row->changed = row->score != 0 && fabs(row->score) >= noise_threshold(&limits, effects[i]);
    }
    free(effects);
}

static int by_change(const void *a, const void *b, void *context)
{
    const struct diff *diff = context;
    const struct diff_row *x = a, *y = b;
    if (fabs(x->change) != fabs(y->change))
        return fabs(x->change) > fabs(y->change) ? -1 : 1;
    if (diff->contexts.count == 0) {
        const struct diff_key *k = &diff->keys.items[x->place], *l = &diff->keys.items[y->place];
        int names = strcmp(strings_get(&diff->texts, k->name), strings_get(&diff->texts, l->name));
        if (names)
            return names;
    }
    if (x->place != y->place)
        return x->place < y->place ? -1 : 1;
    return (int)x->measure - (int)y->measure;
}

static void choose(struct diff *diff, const struct diff_options *options)
{
    size_t kept = 0;
    diff->compared = (uint32_t)diff->rows.count;
    for (size_t i = 0; i < diff->rows.count; i++) {
        const struct diff_row *row = &diff->rows.items[i];
        double share = fmax(share_percent(row->value[0], diff->views[0].total),
                            share_percent(row->value[1], diff->views[1].total));
        if ((row->changed || options->all) && share >= options->min_share)
            diff->rows.items[kept++] = *row;
    }
    diff->rows.count = kept;
    qsort_r(diff->rows.items, kept, sizeof *diff->rows.items, by_change, diff);
}

/* ---- Opening --------------------------------------------------------------------------------- */

static int check_metrics(const struct diff *diff, struct ct_error *err)
{
    const struct profile *a = diff->views[0].profile, *b = diff->views[1].profile;
    const struct ctp_metric *m = profile_metric(a, diff->views[0].metric),
                            *n = profile_metric(b, diff->views[1].metric);
    const char *first = profile_string(a, m->unit), *second = profile_string(b, n->unit);
    if (strcmp(first, second) != 0)
        return ct_fail(err, "%s is in %s in %s, and in %s in %s: they cannot be compared",
                       profile_string(a, m->name), first, a->name, second, b->name);
    return CT_OK;
}

static int open_views(const struct profile *older, const struct profile *newer,
                      const struct diff_options *options, struct diff *out, struct ct_error *err)
{
    struct view_options wanted = {.metric = options->metric};
    struct ct_error why;
    if (view_open(older, &wanted, &out->views[0], &why) != CT_OK)
        return ct_fail(err, "%s%s%s", options->metric ? older->name : "",
                       options->metric ? ": " : "", why.text);
    wanted.metric = profile_string(older, profile_metric(older, out->views[0].metric)->name);
    if (view_open(newer, &wanted, &out->views[1], &why) != CT_OK) {
        view_close(&out->views[0]);
        return ct_fail(err, "%s: %s", newer->name, why.text);
    }
    return CT_OK;
}

int diff_open(const struct profile *older, const struct profile *newer,
              const struct diff_options *options, struct diff *out, struct ct_error *err)
{
    *out = (struct diff){0};
    CT_TRY(open_views(older, newer, options, out, err));
    strings_init(&out->texts);
    int status = check_metrics(out, err);
    if (status != CT_OK) {
        diff_close(out);
        return status;
    }
    match(out);
    if (options->by == DIFF_FUNCTIONS)
        add_functions(out);
    else
        add_contexts(out);
    struct diff_row total = {.value = {out->views[0].total, out->views[1].total}};
    for (int side = 0; side < 2; side++) {
        double period = period_of(&out->views[side]);
        out->total_error += period * (double)total.value[side];
    }
    out->total_error = sqrt(out->total_error);
    for (int side = 0; side < 2; side++)
        out->late[side] = late_value(&out->views[side]);
    weigh(out, options);
    choose(out, options);
    return CT_OK;
}

void diff_close(struct diff *diff)
{
    for (int side = 0; side < 2; side++) {
        view_close(&diff->views[side]);
        free(diff->context_self[side]);
    }
    strings_free(&diff->texts);
    vec_free(&diff->keys);
    vec_free(&diff->rows);
    tree_free(&diff->contexts);
}

bool diff_grew_over(const struct diff *diff, const struct diff_options *options, double percent)
{
    double before = (double)diff->views[0].total, after = (double)diff->views[1].total;
    if (!options->normalize && after - before > 2 * diff->total_error &&
        after > before * (1 + percent / 100))
        return true;
    for (size_t i = 0; i < diff->rows.count; i++) {
        const struct diff_row *row = &diff->rows.items[i];
        before = (double)row->value[0];
        if (options->normalize && after > 0) /* as if both wholes were the same */
            before *= (double)diff->views[1].total / (double)diff->views[0].total;
        if (row->changed && row->change > 0 && (double)row->value[1] > before * (1 + percent / 100))
            return true;
    }
    return false;
}
