#include "report/sheet.h"

#include <inttypes.h>
#include <string.h>

void sheet_csv_text(FILE *out, const char *text)
{
    bool plain = strpbrk(text, ",\"\r\n") == NULL;
    if (!plain)
        putc('"', out);
    for (; *text; text++) {
        if (*text == '"')
            putc('"', out);
        putc(*text, out);
    }
    if (!plain)
        putc('"', out);
}

static void write_csv_path(const struct sheet *sheet, const struct cell *cell)
{
    const struct labels *labels = &sheet->view->labels;
    VEC(char) path = {0};
    for (uint32_t k = sheet_first_frame(sheet, cell); k < cell->label_count; k++) {
        char text[1024];
        if (path.count)
            vec_push(&path, ';');
        for (const char *c = label_name(labels, cell->labels[k], text, sizeof text); *c; c++)
            vec_push(&path, *c == ';' ? ':' : *c);
    }
    vec_push(&path, '\0');
    sheet_csv_text(sheet->terminal->out, path.items);
    vec_free(&path);
}

void sheet_csv_row(struct sheet *sheet, const struct cell *cells)
{
    FILE *out = sheet->terminal->out;
    const struct labels *labels = &sheet->view->labels;
    char text[1024];
    for (size_t i = 0; i < sheet->column_count; i++) {
        uint32_t label = (uint32_t)cells[i].number;
        if (i)
            putc(',', out);
        switch (sheet->columns[i].kind) {
        case COLUMN_SHARE:
            fprintf(out, "%.6g", share_percent(cells[i].number, sheet->view->total));
            break;
        case COLUMN_TEXT:
        case COLUMN_CODE:
        case COLUMN_MACHINE_TEXT:
            sheet_csv_text(out, cells[i].text);
            break;
        case COLUMN_LABEL:
            sheet_csv_text(out, label_name(labels, label, text, sizeof text));
            putc(',', out);
            sheet_csv_text(out, label_module_file(labels, label));
            break;
        case COLUMN_PATH:
            write_csv_path(sheet, &cells[i]);
            break;
        default:
            fprintf(out, "%" PRIu64, cells[i].number);
            break;
        }
    }
    putc('\n', out);
}
