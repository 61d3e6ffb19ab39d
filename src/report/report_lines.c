/*
 * One function's source with what each line cost: its own, and with all that was called from it.
 *
 * The view has a label for every line of the function, so that filters apply here as everywhere. A
 * line that is on a path twice, by recursion, is counted once.
 */
#include "query/source_text.h"
#include "report/report.h"

#include <inttypes.h>
#include <string.h>

/* Lines without cost that are shown around those that have some. */
enum { CONTEXT_LINES = 3 };

struct line_row {
    uint32_t file; /* in the texts of the labels */
    uint32_t line; /* 0: not known */
    uint64_t self, total;
    uint32_t end; /* of the subtree that was counted last */
};

struct line_rows {
    VEC(struct line_row) items;
    uint32_t *of_label; /* row + 1 */
    uint64_t self, total;
};

static uint32_t row_for(struct line_rows *rows, uint64_t place)
{
    uint32_t file = (uint32_t)(place >> 32), line = (uint32_t)place;
    for (uint32_t i = 0; i < rows->items.count; i++)
        if (rows->items.items[i].file == file && rows->items.items[i].line == line)
            return i;
    vec_push(&rows->items, (struct line_row){.file = file, .line = line});
    return (uint32_t)rows->items.count - 1;
}

static struct line_rows sum_up(const struct view *view, const bool *wanted)
{
    const struct tree *tree = &view->tree;
    const struct labels *labels = &view->labels;
    struct line_rows rows = {0};
    rows.of_label = must_calloc(labels->items.count + 1, sizeof *rows.of_label);
    for (uint32_t i = 0; i < labels->items.count; i++)
        if (wanted[i])
            rows.of_label[i] = row_for(&rows, labels->items.items[i].place) + 1;
    for (uint32_t i = 1, outside = 0; i < tree->count; i++) {
        uint32_t index = rows.of_label[tree->nodes[i].label];
        if (!index)
            continue;
        struct line_row *row = &rows.items.items[index - 1];
        row->self += tree->nodes[i].self;
        rows.self += tree->nodes[i].self;
        if (i >= row->end) {
            row->total += tree->totals[i];
            row->end = i + tree->sizes[i];
        }
        if (i >= outside) {
            rows.total += tree->totals[i];
            outside = i + tree->sizes[i];
        }
    }
    return rows;
}

struct ordering {
    const struct line_rows *rows;
    const struct labels *labels;
};

static uint64_t file_self(const struct line_rows *rows, uint32_t file)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < rows->items.count; i++)
        sum += rows->items.items[i].file == file ? rows->items.items[i].total : 0;
    return sum;
}

/* The file with the greatest cost first, then by line. */
static int compare(const void *a, const void *b, void *context)
{
    const struct ordering *o = context;
    const struct line_row *x = a, *y = b;
    if (x->file != y->file) {
        uint64_t first = file_self(o->rows, x->file), second = file_self(o->rows, y->file);
        if (first != second)
            return first > second ? -1 : 1;
        return strcmp(strings_get(&o->labels->texts, x->file),
                      strings_get(&o->labels->texts, y->file));
    }
    return (x->line > y->line) - (x->line < y->line);
}

static void print_row(struct sheet *sheet, const struct line_row *row, const char *file,
                      const struct source_text *text)
{
    char *source = source_text_line(text, row->line);
    sheet_row(sheet, (struct cell[]){{.number = row->self},
                                     {.number = row->total},
                                     {.number = row->self},
                                     {.number = row->line, .same = !row->line},
                                     {.text = source ? source : ""},
                                     {.text = file},
                                     {.number = row->total}});
    free(source);
}

/* Lines of one file: those with cost, and for people what is around them. */
static void print_file(struct sheet *sheet, const struct line_row *rows, size_t count,
                       const char *file, const struct source_folders *folders)
{
    struct source_text text;
    bool for_people = sheet->format == SHEET_TEXT;
    source_text_open(file, folders, &text);
    if (!*file)
        sheet_note(sheet, "(no line is known: no debug information; see calltrail symbolize)");
    else if (!text.path)
        sheet_note(sheet, "%s (is not here; --source-dir DIR says where it is)", file);
    else
        sheet_note(sheet, "%s", text.path);
    uint32_t shown = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t from = rows[i].line > CONTEXT_LINES ? rows[i].line - CONTEXT_LINES : 1;
        uint32_t to = rows[i].line + CONTEXT_LINES;
        if (i + 1 < count && to >= rows[i + 1].line)
            to = rows[i + 1].line - 1;
        if (for_people && text.path && shown && from > shown + 1)
            sheet_note(sheet, "...");
        for (uint32_t line = from > shown ? from : shown + 1;
             for_people && text.path && line < rows[i].line; line++)
            print_row(sheet, &(struct line_row){.line = line}, file, &text);
        print_row(sheet, &rows[i], file, &text);
        for (uint32_t line = rows[i].line + 1; for_people && line <= to && line < text.lines.count;
             line++)
            print_row(sheet, &(struct line_row){.line = line}, file, &text);
        shown = to;
    }
    source_text_close(&text);
}

void report_lines(struct sheet *sheet, const struct report_options *options, const bool *wanted)
{
    static const struct column columns[] = {
        {COLUMN_SHARE, "self", "self_share"}, {COLUMN_SHARE, "total", "total_share"},
        {COLUMN_VALUE, "self", "self"},       {COLUMN_ID, "line", "line"},
        {COLUMN_CODE, "source", "source"},    {COLUMN_MACHINE_TEXT, "", "file"},
        {COLUMN_HIDDEN, "", "total"},
    };
    const struct labels *labels = &sheet->view->labels;
    struct line_rows rows = sum_up(sheet->view, wanted);
    struct ordering ordering = {&rows, labels};
    uint64_t min = report_min_total(sheet->view, options), left_out = 0;
    report_note_function(sheet, options->function, rows.self, rows.total);
    struct line_rows kept = {0};
    for (size_t i = 0; i < rows.items.count; i++)
        if (rows.items.items[i].total >= min)
            vec_push(&kept.items, rows.items.items[i]);
        else
            left_out += rows.items.items[i].total != 0;
    struct line_row *items = kept.items.items;
    if (kept.items.count)
        qsort_r(items, kept.items.count, sizeof *items, compare, &ordering);
    sheet_begin(sheet, "rows", NULL, columns, 7);
    for (size_t i = 0, end; i < kept.items.count; i = end) {
        for (end = i + 1; end < kept.items.count && items[end].file == items[i].file;)
            end++;
        print_file(sheet, items + i, end - i, strings_get(&labels->texts, items[i].file),
                   &options->sources);
    }
    sheet_end(sheet, left_out);
    free(rows.of_label);
    vec_free(&rows.items);
    vec_free(&kept.items);
}
