#include "query/choose.h"

#include "query/nearest.h"

#include <regex.h>
#include <string.h>

/* ---- The labels that are meant --------------------------------------------------------------- */

/* Those that match best, if any is what was typed. */
static bool find_by_name(const struct labels *labels, const char *typed, bool *wanted)
{
    enum name_match best = NAME_OTHER;
    uint32_t count = (uint32_t)labels->items.count;
    enum name_match *matches = must_calloc((size_t)count + 1, sizeof *matches);
    for (uint32_t i = 0; i < count; i++) {
        matches[i] = label_match(labels, i, typed);
        best = matches[i] < best ? matches[i] : best;
    }
    for (uint32_t i = 0; i < count && best != NAME_OTHER; i++)
        wanted[i] = matches[i] == best;
    free(matches);
    return best != NAME_OTHER;
}

static bool find_by_part(const struct labels *labels, const char *typed, bool *wanted)
{
    bool any = false;
    for (uint32_t i = 0; i < labels->items.count; i++) {
        char text[1024];
        wanted[i] = label_is_code(labels, i) &&
                    strstr(label_name(labels, i, text, sizeof text), typed) != NULL;
        any |= wanted[i];
    }
    return any;
}

static bool find_by_expression(const struct labels *labels, const char *typed, bool *wanted)
{
    regex_t regex;
    bool any = false;
    if (regcomp(&regex, typed, REG_EXTENDED | REG_NOSUB) != 0)
        return false;
    for (uint32_t i = 0; i < labels->items.count; i++) {
        char text[1024];
        wanted[i] = label_is_code(labels, i) &&
                    regexec(&regex, label_name(labels, i, text, sizeof text), 0, NULL, 0) == 0;
        any |= wanted[i];
    }
    regfree(&regex);
    return any;
}

static int fail_to_find(const struct labels *labels, const char *typed, struct ct_error *err)
{
    struct nearest nearest = nearest_to(typed);
    for (uint32_t i = 0; i < labels->items.count; i++) {
        char text[1024];
        if (label_is_code(labels, i))
            nearest_offer(&nearest, label_name(labels, i, text, sizeof text));
    }
    return nearest_fail(&nearest, "function", err);
}

/* ---- The functions that they are ------------------------------------------------------------- */

/* Labels of one name in one module are shown as one function; a view of lines has many of them. */
static int by_name(const void *a, const void *b, void *context)
{
    const struct labels *labels = context;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    const struct label *left = &labels->items.items[x], *right = &labels->items.items[y];
    if (left->kind != right->kind || left->kind != LABEL_FUNCTION) {
        if (left->kind != right->kind)
            return left->kind < right->kind ? -1 : 1;
        if (left->number != right->number)
            return left->number < right->number ? -1 : 1;
    }
    if (left->name != right->name)
        return left->name < right->name ? -1 : 1;
    return (left->module > right->module) - (left->module < right->module);
}

static int heaviest_first(const void *a, const void *b)
{
    const struct function_match *x = a, *y = b;
    if (x->total != y->total)
        return x->total > y->total ? -1 : 1;
    if (x->self != y->self)
        return x->self > y->self ? -1 : 1;
    return (x->label > y->label) - (x->label < y->label);
}

/* A call of a function within itself is not counted again. */
static void sum_up(const struct view *view, const uint32_t *function_of, struct function_choice *c)
{
    const struct tree *tree = &view->tree;
    uint32_t *ends = must_calloc(c->found.count + 1, sizeof *ends);
    for (uint32_t i = 1; i < tree->count; i++) {
        uint32_t function = function_of[tree->nodes[i].label];
        if (function == TREE_NONE)
            continue;
        struct function_match *match = &c->found.items[function];
        match->self += tree->nodes[i].self;
        if (i < ends[function])
            continue;
        match->total += tree->totals[i];
        ends[function] = i + tree->sizes[i];
    }
    free(ends);
}

static void list_functions(const struct view *view, struct function_choice *c)
{
    const struct labels *labels = &view->labels;
    VEC(uint32_t) order = {0};
    for (uint32_t i = 0; i < labels->items.count; i++)
        if (c->wanted[i])
            vec_push(&order, i);
    if (order.count == 0)
        return;
    qsort_r(order.items, order.count, sizeof *order.items, by_name, (void *)labels);
    uint32_t *function_of = must_realloc(NULL, labels->items.count + 1, sizeof *function_of);
    memset(function_of, 0xff, (labels->items.count + 1) * sizeof *function_of);
    for (size_t i = 0; i < order.count; i++) {
        if (i == 0 || by_name(&order.items[i - 1], &order.items[i], (void *)labels) != 0)
            vec_push(&c->found, (struct function_match){.label = order.items[i]});
        function_of[order.items[i]] = (uint32_t)c->found.count - 1;
    }
    sum_up(view, function_of, c);
    qsort(c->found.items, c->found.count, sizeof *c->found.items, heaviest_first);
    free(function_of);
    vec_free(&order);
}

/* Of names that have a part, only one may have any cost: that one is meant. */
static void settle_part(const struct view *view, struct function_choice *c)
{
    const struct function_match *found = c->found.items;
    c->ambiguous = c->found.count > 1 && (found[1].total || !found[0].total);
    if (c->ambiguous)
        return;
    for (uint32_t i = 0; i < view->labels.items.count; i++)
        c->wanted[i] &= by_name(&found[0].label, &i, (void *)&view->labels) == 0;
    c->found.count = 1;
}

int choose_functions(const struct view *view, const char *typed, struct function_choice *out,
                     struct ct_error *err)
{
    const struct labels *labels = &view->labels;
    *out = (struct function_choice){.wanted =
                                        must_calloc(labels->items.count + 1, sizeof *out->wanted)};
    bool named = find_by_name(labels, typed, out->wanted);
    bool part = !named && find_by_part(labels, typed, out->wanted);
    if (!named && !part && !find_by_expression(labels, typed, out->wanted)) {
        function_choice_free(out);
        return fail_to_find(labels, typed, err);
    }
    list_functions(view, out);
    if (part)
        settle_part(view, out);
    return CT_OK;
}

void function_choice_free(struct function_choice *choice)
{
    free(choice->wanted);
    choice->wanted = NULL;
    vec_free(&choice->found);
}
