/*
 * Trees for people: branches are drawn where paths part. A sole child stands below its parent
 * without a further step to the right, so that call paths of fifty frames fit a terminal.
 */
#include "report/drawing.h"
#include "report/report.h"

#include <string.h>

/* A row whose sole child needs no step. Below one of several tops it needs one, or it would look
 * like a top. */
static bool is_chained(const struct drawing *d, const struct outline_row *row)
{
    const struct outline_row *parent = &d->outline->rows.items[row->parent];
    return parent->children == 1 && (parent->depth > 0 || d->outline->tops == 1);
}

void drawing_begin(struct drawing *d, const struct outline *outline,
                   const struct terminal *terminal)
{
    *d = (struct drawing){.outline = outline, .unicode = terminal->unicode};
    size_t room = terminal->columns / 8; /* three columns each: less than half */
    d->steps_max = room > DRAWING_STEPS ? DRAWING_STEPS : (uint32_t)room;
    d->steps = must_calloc(outline->rows.count + 1, sizeof *d->steps);
}

void drawing_end(struct drawing *d)
{
    vec_free(&d->bars);
    free(d->steps);
}

void drawing_row(struct drawing *d, uint32_t index, char *text)
{
    const struct outline_row *row = &d->outline->rows.items[index];
    uint32_t steps = row->parent == TREE_NONE ? 0 : d->steps[row->parent];
    bool branch = row->parent != TREE_NONE && !is_chained(d, row);
    uint32_t skipped = steps > d->steps_max ? steps - d->steps_max : 0;
    char *at = text;
    if (skipped)
        at = stpcpy(at, ".. ");
    for (uint32_t i = skipped; i < steps; i++)
        at = stpcpy(at, !d->bars.items[i] ? "   " : d->unicode ? "│  " : "|  ");
    if (branch) {
        at = stpcpy(at, d->unicode ? (row->last ? "└─ " : "├─ ") : (row->last ? "`- " : "|- "));
        d->bars.count = steps;
        vec_push(&d->bars, !row->last);
        steps++;
    }
    *at = '\0';
    d->steps[index] = steps;
}

static void print_rows(struct sheet *sheet, const struct outline *outline, bool up)
{
    const struct labels *labels = &sheet->view->labels;
    struct drawing d;
    drawing_begin(&d, outline, sheet->terminal);
    char prefix[DRAWING_BYTES] = "";
    for (uint32_t i = 0; i < outline->rows.count; i++) {
        const struct outline_row *row = &outline->rows.items[i];
        if (sheet->format == SHEET_TEXT)
            drawing_row(&d, i, prefix);
        /* Calls within a module are the rule: it is named where it is another one. */
        bool same_module =
            row->parent != TREE_NONE &&
            strcmp(label_module(labels, row->label),
                   label_module(labels, outline->rows.items[row->parent].label)) == 0;
        struct cell function = {.number = row->label, .prefix = prefix, .same = same_module};
        struct cell down[] = {{.number = row->depth},
                              {.number = row->total},
                              {.number = row->self},
                              {.number = row->total},
                              function,
                              {.number = row->self}};
        const struct count_kind *kind = sheet->view->count_kind;
        uint64_t period = profile_metric(sheet->view->profile, sheet->view->metric)->period;
        uint64_t each = row->count ? row->total / row->count : 0;
        bool is_bound = kind && kind->is_at_least && each < 3 * period;
        struct cell with_counts[] = {down[0],
                                     down[1],
                                     down[2],
                                     down[3],
                                     {.number = row->count, .same = row->count == 0},
                                     {.number = each, .same = each == 0, .is_bound = is_bound},
                                     down[4],
                                     down[5]};
        /* All of a function's cost came through its only caller: the number would be the same. */
        bool same =
            row->parent != TREE_NONE && outline->rows.items[row->parent].total == row->total;
        struct cell upward[] = {{.number = row->depth},
                                {.number = row->total, .same = same},
                                {.number = row->total, .same = same},
                                function};
        sheet_row(sheet, up ? upward : kind ? with_counts : down);
    }
    drawing_end(&d);
}

static void begin_with_counts(struct sheet *sheet, const char *key, const char *heading,
                              const struct count_kind *kind)
{
    const struct column columns[] = {
        {COLUMN_HIDDEN, "", "depth"},
        {COLUMN_SHARE, "total", "total_share"},
        {COLUMN_SHARE, "self", "self_share"},
        {COLUMN_VALUE, "total", "total"},
        {COLUMN_COUNT, kind->heading, kind->metric},
        {COLUMN_PER_CALL, kind->per_heading, kind->per_key},
        {COLUMN_LABEL, "function", ""},
        {COLUMN_HIDDEN, "", "self"},
    };
    sheet_begin(sheet, key, heading, columns, sizeof columns / sizeof *columns);
}

void report_tree(struct sheet *sheet, const struct report_options *options, const bool *wanted,
                 const char *key, const char *heading)
{
    static const struct column down[] = {
        {COLUMN_HIDDEN, "", "depth"},         {COLUMN_SHARE, "total", "total_share"},
        {COLUMN_SHARE, "self", "self_share"}, {COLUMN_VALUE, "total", "total"},
        {COLUMN_LABEL, "function", ""},       {COLUMN_HIDDEN, "", "self"},
    };
    static const struct column up[] = {
        {COLUMN_HIDDEN, "", "depth"},
        {COLUMN_SHARE, "share", "share"},
        {COLUMN_VALUE, "value", "value"},
        {COLUMN_LABEL, "function, called by", ""},
    };
    const struct view *view = sheet->view;
    struct outline_options outline_options = {
        .min_total = report_min_total(view, options),
        .limit_rows = options->limit,
        .depth_max = options->depth_max,
        .hot_path = options->hot_path,
        .order = options->sort == SORT_NAME ? ORDER_NAME : ORDER_TOTAL,
    };
    struct outline outline;
    bool upwards = options->kind == REPORT_BOTTOMUP || options->kind == REPORT_CALLERS;
    if (options->kind == REPORT_BOTTOMUP)
        outline_bottomup(view, &outline_options, &outline);
    else if (options->kind == REPORT_CALLERS)
        outline_callers(view, wanted, &outline_options, &outline);
    else if (options->kind == REPORT_CALLEES)
        outline_callees(view, wanted, &outline_options, &outline);
    else
        outline_topdown(view, &outline_options, &outline);
    if (upwards)
        sheet_begin(sheet, key, heading, up, 4);
    else if (view->count_kind)
        begin_with_counts(sheet, key, heading, view->count_kind);
    else
        sheet_begin(sheet, key, heading, down, 6);
    print_rows(sheet, &outline, upwards);
    sheet_end(sheet, options->hot_path ? 0 : outline.left_out);
    outline_free(&outline);
}
