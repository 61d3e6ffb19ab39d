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

void report_flat(struct sheet *sheet, const struct report_options *options, const char *key,
                 const char *heading)
{
    static const struct column columns[] = {
        {COLUMN_SHARE, "self", "self_share"}, {COLUMN_SHARE, "total", "total_share"},
        {COLUMN_VALUE, "self", "self"},       {COLUMN_VALUE, "total", "total"},
        {COLUMN_LABEL, "function", ""},
    };
    uint32_t count;
    struct flat_row *rows = flat_rows(sheet->view, &count);
    struct ordering ordering = {&sheet->view->labels, options->sort};
    qsort_r(rows, count, sizeof *rows, compare, &ordering);
    uint64_t min = report_min_total(sheet->view, options), left_out = 0;
    uint32_t shown = 0;
    sheet_begin(sheet, key, heading, columns, 5);
    for (uint32_t i = 0; i < count; i++) {
        if (rows[i].total == 0)
            continue;
        if (rows[i].total < min || (options->limit && shown == options->limit)) {
            left_out++;
            continue;
        }
        shown++;
        sheet_row(sheet, (struct cell[]){{.number = rows[i].self},
                                         {.number = rows[i].total},
                                         {.number = rows[i].self},
                                         {.number = rows[i].total},
                                         {.number = rows[i].label}});
    }
    sheet_end(sheet, options->kind == REPORT_FLAT ? left_out : 0);
    free(rows);
}
