/*
 * Why hot functions are hot: for each, the shortest chains of callers that explain its cost.
 * cct/explain.h says what that means.
 */
#include "report/report.h"

#include "cct/explain.h"
#include "query/wrappers.h"

#include <inttypes.h>
#include <string.h>

enum { CHAINS_MAX = 5, SPREAD_SHOWN = 3, ALWAYS_SHOWN = 4 };

static int heavier(const void *a, const void *b)
{
    const struct caller_group *x = a, *y = b;
    if (x->value != y->value)
        return x->value < y->value ? 1 : -1;
    return (x->label > y->label) - (x->label < y->label);
}

/* How a function's cost comes to it. */
static const char *verdict(const struct explanation *e)
{
    return e->one_chain           ? "one chain"
           : e->caller_count == 0 ? "no callers"
           : e->spread            ? "spread"
           : e->chains.count == 0 ? "not asked"
                                  : "several callers";
}

/* ---- For people ------------------------------------------------------------------------------ */

/* The callers of a chain from number `from` on to `to`, outermost first. */
static void chain_line(struct sheet *sheet, const struct explanation *e,
                       const struct explained_chain *chain, uint32_t from, uint32_t to,
                       const char *lead, size_t indent)
{
    uint32_t count = to - from;
    uint32_t *path = must_calloc((size_t)count + 1, sizeof *path);
    for (uint32_t i = 0; i < count; i++)
        path[i] = e->callers.items[chain->first + to - 1 - i];
    sheet_path(sheet, path, count, from ? ALWAYS_SHOWN : count, lead, indent);
    free(path);
}

static void explain_to_people(struct sheet *sheet, const struct explanation *e)
{
    char lead[AMOUNT_ROOM], number[AMOUNT_ROOM];
    size_t indent = 2 + sheet->widths[0] + sheet->widths[1] + 2;
    int margin = (int)(indent - 2);
    if (e->caller_count == 0) {
        sheet_note(sheet, "%*s  no callers are known", margin, "");
        return;
    }
    if (e->spread)
        sheet_note(sheet, "%*s  spread over %s callers; the heaviest:", margin, "",
                   count_text(e->caller_count, number));
    uint64_t shown = 0;
    size_t limit = e->spread && e->chains.count > SPREAD_SHOWN ? SPREAD_SHOWN : e->chains.count;
    for (size_t i = 0; i < limit; i++) {
        const struct explained_chain *chain = &e->chains.items[i];
        snprintf(lead, sizeof lead, "%*.1f%%  ", margin - 1, share_percent(chain->value, e->value));
        chain_line(sheet, e, chain, 0, chain->callers, lead, indent);
        if (chain->reach > chain->callers) {
            snprintf(lead, sizeof lead, "%*s  always from ", margin, "");
            chain_line(sheet, e, chain, chain->callers, chain->reach, lead, indent);
        }
        shown += chain->value;
    }
    if (e->value == shown)
        return;
    uint32_t others = e->caller_count - (uint32_t)limit;
    double rest = share_percent(e->value - shown, e->value);
    char more[AMOUNT_ROOM + 32] = "";
    if (others)
        snprintf(more, sizeof more, " (%s other caller%s)", count_text(others, number),
                 others == 1 ? "" : "s");
    snprintf(lead, sizeof lead, rest < 0.05 ? "<0.1%%" : "%.1f%%", rest);
    sheet_note(sheet, "%*s  by other ways%s", margin, lead, more);
}

/* ---- For programs ---------------------------------------------------------------------------- */

static void explain_to_programs(struct sheet *sheet, const struct explanation *e)
{
    static const struct explained_chain nothing = {0};
    for (size_t i = 0; i == 0 || i < e->chains.count; i++) {
        const struct explained_chain *chain = e->chains.count ? &e->chains.items[i] : &nothing;
        uint32_t *path = must_calloc((size_t)chain->reach + 1, sizeof *path);
        uint32_t beyond = chain->reach - chain->callers;
        for (uint32_t k = 0; k < chain->reach; k++)
            path[k] = e->callers.items[chain->first + chain->reach - 1 - k];
        path[chain->reach] = e->label;
        sheet_row(sheet, (struct cell[]){
                             {.number = e->value},
                             {.number = e->value},
                             {.number = e->label},
                             {.text = verdict(e)},
                             {.number = e->caller_count},
                             {.number = e->chains.count ? chain->value : e->value},
                             {.labels = path + beyond, .label_count = chain->callers + 1},
                             {.labels = path, .label_count = beyond},
                         });
        free(path);
    }
}

static void print_function(struct sheet *sheet, const struct explanation *e)
{
    if (sheet->format != SHEET_TEXT) {
        explain_to_programs(sheet, e);
        return;
    }
    sheet_row(sheet,
              (struct cell[]){{.number = e->value}, {.number = e->value}, {.number = e->label}});
    explain_to_people(sheet, e);
}

void report_kctx(struct sheet *sheet, const struct report_options *options, const bool *wanted)
{
    static const struct column columns[] = {
        {COLUMN_SHARE, "self", "self_share"},
        {COLUMN_VALUE, "value", "self"},
        {COLUMN_LABEL, "function, and where its cost comes from", ""},
        {COLUMN_TEXT, "", "verdict"},
        {COLUMN_HIDDEN, "", "callers"},
        {COLUMN_HIDDEN, "", "chain_value"},
        {COLUMN_PATH, "", "chain"},
        {COLUMN_PATH, "", "always_from"},
    };
    const struct view *view = sheet->view;
    const struct tree *tree = &view->tree;
    struct callers callers;
    callers_begin(&callers, &(struct callers_source){.parents = &tree->nodes->parent,
                                                     .labels = &tree->nodes->label,
                                                     .values = &tree->nodes->self,
                                                     .node_step = sizeof *tree->nodes,
                                                     .value_step = sizeof *tree->nodes,
                                                     .count = tree->count,
                                                     .fold_recursion = !options->keep_recursion});
    if (callers.functions.count)
        qsort(callers.functions.items, callers.functions.count, sizeof *callers.functions.items,
              heavier);
    uint32_t kept = view->callers_kept;
    uint32_t k = kept && kept < options->k ? kept : options->k;
    bool *wraps = labels_that_wrap(&view->labels);
    struct explain_options explain_options = {options->explain_percent, k, CHAINS_MAX, wraps};
    uint64_t min = report_min_total(view, options), left_out = 0;
    uint32_t shown = 0;
    sheet_begin(sheet, "rows", NULL, columns, sheet->format == SHEET_TEXT ? 3 : 8);
    for (size_t i = 0; i < callers.functions.count; i++) {
        struct caller_group function = callers.functions.items[i];
        if (wanted ? !wanted[function.label] : !label_is_code(&view->labels, function.label))
            continue;
        if (!wanted && (function.value < min || (options->limit && shown == options->limit))) {
            left_out++;
            continue;
        }
        struct explanation e;
        explain(&callers, function, &explain_options, &e);
        print_function(sheet, &e);
        explanation_free(&e);
        shown++;
    }
    sheet_end(sheet, left_out);
    if (wanted && shown == 0)
        sheet_note(sheet,
                   "%s has no cost of its own (calltrail report --callers says who calls it)",
                   options->function);
    free(wraps);
    callers_end(&callers);
}
