/*
 * One function's source with what each line cost: its own, and with all that was called from it.
 *
 * The view has a label for every line of the function, so that filters apply here as everywhere. A
 * line that is on a path twice, by recursion, is counted once.
 */
#include "query/lines.h"
#include "query/source_text.h"
#include "report/report.h"

#include <inttypes.h>
#include <string.h>

/* Lines without cost that are shown around those that have some. */
enum { CONTEXT_LINES = 3 };

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
    struct line_rows rows = line_rows(sheet->view, wanted);
    uint64_t min = report_min_total(sheet->view, options), left_out = 0;
    report_note_function(sheet, options->function, rows.self, rows.total);
    struct line_rows kept = {0};
    for (size_t i = 0; i < rows.items.count; i++)
        if (rows.items.items[i].total >= min)
            vec_push(&kept.items, rows.items.items[i]);
        else
            left_out += rows.items.items[i].total != 0;
    struct line_row *items = kept.items.items;
    sheet_begin(sheet, "rows", NULL, columns, 7);
    for (size_t i = 0, end; i < kept.items.count; i = end) {
        for (end = i + 1; end < kept.items.count && items[end].file == items[i].file;)
            end++;
        print_file(sheet, items + i, end - i, strings_get(&labels->texts, items[i].file),
                   &options->sources);
    }
    sheet_end(sheet, left_out);
    line_rows_free(&rows);
    vec_free(&kept.items);
}
