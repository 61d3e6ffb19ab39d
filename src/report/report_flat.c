/*
 * The flat report: functions, hottest first.
 */
#include "query/flat.h"
#include "report/report.h"

#include <string.h>

struct ordering {
    const struct labels *labels;
    enum report_sort sort;
};

static int compare(const void *a, const void *b, void *context)
{
    const struct ordering *o = context;
    const struct flat_row *x = a, *y = b;
    uint64_t first[2] = {x->self, x->total}, second[2] = {y->self, y->total};
    for (int i = 0; i < 2 && o->sort != SORT_NAME; i++) {
        int key = o->sort == SORT_TOTAL ? !i : i;
        if (first[key] != second[key])
            return first[key] > second[key] ? -1 : 1;
    }
    char text[1024], other[1024];
    int names = strcmp(label_name(o->labels, x->label, text, sizeof text),
                       label_name(o->labels, y->label, other, sizeof other));
    return names ? names : (x->label > y->label) - (x->label < y->label);
}

static void print_row(struct sheet *sheet, const struct flat_row *row)
{
    const struct count_kind *kind = sheet->view->count_kind;
    uint64_t each = row->count ? row->total / row->count : 0;
    uint64_t period = profile_metric(sheet->view->profile, sheet->view->metric)->period;
    struct cell cells[7] = {{.number = row->self},
                            {.number = row->total},
                            {.number = row->self},
                            {.number = row->total}};
    size_t used = 4;
    if (kind) {
        cells[used++] = (struct cell){.number = row->count, .same = row->count == 0};
        cells[used++] = (struct cell){
            .number = each, .same = each == 0, .is_bound = kind->is_at_least && each < 3 * period};
    }
    cells[used] = (struct cell){.number = row->label};
    sheet_row(sheet, cells);
}

static void begin(struct sheet *sheet, const struct report_options *options, const char *key,
                  const char *heading)
{
    const struct count_kind *kind = sheet->view->count_kind;
    struct column columns[7] = {
        {COLUMN_SHARE, "self", "self_share"},
        {COLUMN_SHARE, "total", "total_share"},
        {COLUMN_VALUE, "self", "self"},
        {COLUMN_VALUE, "total", "total"},
    };
    size_t used = 4;
    if (kind) {
        columns[used++] = (struct column){COLUMN_COUNT, kind->heading, kind->metric};
        columns[used++] = (struct column){COLUMN_PER_CALL, kind->per_heading, kind->per_key};
    }
    columns[used++] = (struct column){
        COLUMN_LABEL, options->wraps ? "function, with what it allocates" : "function", ""};
    sheet_begin(sheet, key, heading, columns, used);
}

void report_flat(struct sheet *sheet, const struct report_options *options, const char *key,
                 const char *heading)
{
    uint32_t count;
    struct flat_row *rows = flat_rows_through(sheet->view, options->wraps, &count);
    struct ordering ordering = {&sheet->view->labels, options->sort};
    qsort_r(rows, count, sizeof *rows, compare, &ordering);
    uint64_t min = report_min_total(sheet->view, options), left_out = 0;
    uint32_t shown = 0;
    begin(sheet, options, key, heading);
    for (uint32_t i = 0; i < count; i++) {
        if (rows[i].total == 0)
            continue;
        if (rows[i].total < min || (options->limit && shown == options->limit)) {
            left_out++;
            continue;
        }
        shown++;
        print_row(sheet, &rows[i]);
    }
    sheet_end(sheet, options->kind == REPORT_FLAT ? left_out : 0);
    free(rows);
}
