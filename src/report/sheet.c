#include "report/sheet.h"

#include "profile/time_range.h"
#include "query/shorten.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

enum {
    LABEL_LEAST_COLUMNS = 24, /* names have room for these, or numbers go */
    NAME_LEAST_COLUMNS = 6,   /* a name gets at least these, however narrow the terminal is */
    PATH_HEAD_FRAMES = 8,     /* outermost frames of a long path that people see… */
    PATH_TAIL_FRAMES = 24,    /* …and innermost ones */
    TEXT_COLUMNS = 16,
    TEXT_LEAST_COLUMNS = 5,
    PER_CALL_COLUMNS = 11,
};

#define RED   "\033[1;31m"
#define GREEN "\033[32m"
#define DIM   "\033[2m"
#define BOLD  "\033[1m"
#define PLAIN "\033[0m"

static const char *color(const struct sheet *sheet, const char *code)
{
    return sheet->terminal->color ? code : "";
}

struct sheet sheet_open(const struct view *view, enum sheet_format format,
                        struct terminal *terminal)
{
    const struct ctp_metric *metric = profile_metric(view->profile, view->metric);
    struct sheet sheet = {.view = view, .format = format, .terminal = terminal};
    const char *unit = profile_string(view->profile, metric->unit);
    sheet.unit = unit;
    sheet.scale = amount_scale(unit, view->total);
    if (format != SHEET_JSON)
        return sheet;
    sheet.json = json_to(terminal->out);
    json_open(&sheet.json, NULL, '{');
    json_string(&sheet.json, "file", view->profile->name);
    json_string(&sheet.json, "metric", profile_string(view->profile, metric->name));
    json_string(&sheet.json, "unit", unit);
    json_unsigned(&sheet.json, "period", metric->period);
    json_unsigned(&sheet.json, "total", view->total);
    json_unsigned(&sheet.json, "shown", view->tree.totals[0]);
    const struct time_range *range = profile_range_of(view->profile);
    uint64_t all;
    if (range && range->has_from)
        json_double(&sheet.json, "from_s", (double)range->from_us / 1e6);
    if (range && range->has_to)
        json_double(&sheet.json, "to_s", (double)range->to_us / 1e6);
    if (range)
        json_unsigned(&sheet.json, "without_time",
                      profile_without_time(view->profile, view->metric, &all));
    return sheet;
}

void sheet_close(struct sheet *sheet)
{
    if (sheet->format == SHEET_JSON)
        json_close(&sheet->json, '}');
}

/* How much of a text goes on a line: to the last space that fits, or the first one at all. */
static size_t line_bytes(const char *text, size_t columns)
{
    size_t used = 0, space = 0;
    for (const char *at = text; *at; at++) {
        if (*at == ' ' && at > text && (used <= columns || !space))
            space = (size_t)(at - text);
        used += ((unsigned char)*at & 0xc0) != 0x80;
        if (used > columns && space)
            return space;
    }
    return used > columns && space ? space : strlen(text);
}

uint32_t print_wrapped(FILE *out, const char *text, size_t columns)
{
    uint32_t lines = 0;
    size_t indent = strspn(text, " ");
    text += indent;
    indent = indent + 2 < columns ? indent : 0;
    do {
        size_t bytes = line_bytes(text, columns - indent);
        if (out)
            fprintf(out, "%*s%.*s\n", (int)indent, "", (int)bytes, text);
        indent += lines ? 0 : 2;
        text += bytes;
        text += *text == ' ';
        lines++;
    } while (*text);
    return lines;
}

uint32_t sheet_note_lines(const struct sheet *sheet, const char *text)
{
    return print_wrapped(NULL, text, sheet->terminal->columns);
}

static void write_note(struct sheet *sheet, const char *code, const char *format, va_list args)
{
    if (sheet->format != SHEET_TEXT)
        return;
    FILE *out = sheet->terminal->out;
    char line[1024];
    vsnprintf(line, sizeof line, format, args);
    char *clean = text_clean(line);
    fputs(color(sheet, code), out);
    sheet->lines += print_wrapped(out, clean, sheet->terminal->columns);
    fputs(*code ? color(sheet, PLAIN) : "", out);
    free(clean);
}

void sheet_note(struct sheet *sheet, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    write_note(sheet, "", format, args);
    va_end(args);
}

void sheet_alert(struct sheet *sheet, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    write_note(sheet, RED, format, args);
    va_end(args);
}

static size_t greatest(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* The greatest number that can stand in a column of counts. */
static uint64_t greatest_count(const struct view *view)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; view->counts && i < view->tree.count; i++)
        sum = view->count_kind->is_inclusive ? view->counts[0] : sum + view->counts[i];
    return sum;
}

static size_t column_width(const struct sheet *sheet, const struct column *column)
{
    char text[AMOUNT_ROOM];
    switch (column->kind) {
    case COLUMN_SHARE:
        return greatest(6, strlen(column->title));
    case COLUMN_VALUE:
        return greatest(strlen(amount_text(&sheet->scale, sheet->view->total, text)),
                        strlen(column->title));
    case COLUMN_COUNT:
        return greatest(greatest(7, strlen(count_text(greatest_count(sheet->view), text))),
                        strlen(column->title));
    case COLUMN_ID:
        return greatest(7, strlen(column->title));
    case COLUMN_TEXT:
        return TEXT_COLUMNS;
    case COLUMN_PER_CALL:
        return PER_CALL_COLUMNS;
    default:
        return 0;
    }
}

static bool for_machines(const struct column *column)
{
    return column->kind == COLUMN_HIDDEN || column->kind == COLUMN_MACHINE_TEXT;
}

/* Whether nothing that people see follows in the row. */
static bool is_last(const struct sheet *sheet, size_t column)
{
    for (size_t i = column + 1; i < sheet->column_count; i++)
        if (!for_machines(&sheet->columns[i]))
            return false;
    return true;
}

/* Columns that a table needs before the last one. */
static size_t numbers_width(const struct sheet *sheet)
{
    size_t width = 0;
    for (size_t i = 0; i < sheet->column_count; i++)
        if (!for_machines(&sheet->columns[i]) && !is_last(sheet, i) && sheet->widths[i])
            width += sheet->widths[i] + 2;
    return width;
}

/* On a narrow terminal names come first: amounts go, then counts, then what is charged itself. */
static void drop_columns(struct sheet *sheet)
{
    static const enum column_kind order[] = {COLUMN_VALUE, COLUMN_PER_CALL, COLUMN_COUNT,
                                             COLUMN_SHARE};
    for (size_t k = 0; k < sizeof order / sizeof *order; k++)
        for (size_t i = sheet->column_count; i-- > 1;) {
            if (numbers_width(sheet) + LABEL_LEAST_COLUMNS <= sheet->terminal->columns)
                return;
            if (sheet->columns[i].kind == order[k] && !is_last(sheet, i))
                sheet->columns[i].kind = COLUMN_HIDDEN;
        }
}

static void print_titles(struct sheet *sheet)
{
    FILE *out = sheet->terminal->out;
    fputs(color(sheet, BOLD), out);
    const char *space = "";
    size_t used = 0;
    for (size_t i = 0; i < sheet->column_count; i++) {
        const struct column *column = &sheet->columns[i];
        int columns = (int)sheet->widths[i];
        if (for_machines(column) || column->kind == COLUMN_PATH)
            continue;
        if (column->kind == COLUMN_LABEL || column->kind == COLUMN_CODE ||
            (column->kind == COLUMN_TEXT && is_last(sheet, i)))
            columns = 0;
        char *title = must_strdup(column->title);
        used += strlen(space);
        text_cut(title, sheet->terminal->columns > used ? sheet->terminal->columns - used : 1);
        fprintf(out, "%s%*s", space, column->kind == COLUMN_TEXT ? -columns : columns, title);
        used += columns ? (size_t)columns : text_columns(title);
        space = "  ";
        free(title);
    }
    fprintf(out, "%s\n", color(sheet, PLAIN));
}

static void print_csv_titles(const struct sheet *sheet)
{
    const char *comma = "";
    for (size_t i = 0; i < sheet->column_count; i++) {
        const struct column *column = &sheet->columns[i];
        if (column->kind == COLUMN_LABEL)
            fprintf(sheet->terminal->out, "%sfunction,module", comma);
        else
            fprintf(sheet->terminal->out, "%s%s", comma, column->key);
        comma = ",";
    }
    putc('\n', sheet->terminal->out);
}

void sheet_begin(struct sheet *sheet, const char *key, const char *heading,
                 const struct column *columns, size_t count)
{
    bool later = sheet->column_count != 0;
    memcpy(sheet->columns, columns, count * sizeof *columns);
    sheet->column_count = count;
    sheet->rows = 0;
    for (size_t i = 0; i < count; i++)
        sheet->widths[i] = column_width(sheet, &columns[i]);
    if (sheet->format == SHEET_JSON) {
        json_open(&sheet->json, key, '[');
    } else if (sheet->format == SHEET_CSV) {
        fputs(later ? "\n" : "", sheet->terminal->out); /* tables are a blank line apart */
        print_csv_titles(sheet);
    } else {
        if (heading)
            fprintf(sheet->terminal->out, "\n%s%s%s\n", color(sheet, BOLD), heading,
                    color(sheet, PLAIN));
        drop_columns(sheet);
        print_titles(sheet);
    }
}

void sheet_end(struct sheet *sheet, uint64_t left_out)
{
    if (sheet->format == SHEET_JSON) {
        json_close(&sheet->json, ']');
        if (left_out)
            json_unsigned(&sheet->json, "rows_left_out", left_out);
        return;
    }
    char text[AMOUNT_ROOM];
    if (sheet->rows == 0)
        sheet_note(sheet, "nothing to show");
    else if (left_out)
        sheet_note(sheet, "%s smaller row%s hidden (--limit, --min-share)",
                   count_text(left_out, text), left_out == 1 ? "" : "s");
}

char *sheet_name(const struct terminal *terminal, const char *own_name, const char *own_module,
                 size_t columns)
{
    char *name = text_clean(own_name);
    char *module = text_clean(own_module);
    size_t module_columns = *module ? text_columns(module) + 3 : 0;
    /* The module may take a third at most; the name is what people look for. */
    if (!terminal->full_names && module_columns > columns / 3 &&
        text_columns(name) + module_columns > columns) {
        module_shorten(module, columns / 3 > 6 ? columns / 3 - 3 : 3, terminal->unicode);
        module_columns = text_columns(module) + 3;
    }
    if (!terminal->full_names)
        name_shorten(name, columns > module_columns ? columns - module_columns : 1,
                     terminal->unicode);
    /* Some names of modules, such as [vdso], bring their own brackets. */
    char *all = *module ? must_format(*module == '[' ? "%s %s" : "%s [%s]", name, module)
                        : must_strdup(name);
    free(name);
    free(module);
    return all;
}

char *sheet_label(const struct sheet *sheet, uint32_t label, bool with_module, size_t columns)
{
    const struct labels *labels = &sheet->view->labels;
    char text[1024];
    const char *own = label_name(labels, label, text, sizeof text);
    const char *neighbour = label_neighbour(labels, label);
    char *both = *neighbour ? must_format("%s (after %s)", own, neighbour) : must_strdup(own);
    bool fits = text_columns(both) <= columns;
    char *name = sheet_name(sheet->terminal, fits ? both : own,
                            with_module ? label_module(labels, label) : "", columns);
    free(both);
    return name;
}

/* Where a path begins of which only the innermost frames are wanted. */
uint32_t sheet_first_frame(const struct sheet *sheet, const struct cell *cell)
{
    uint32_t most = sheet->path_frames_max;
    return most && cell->label_count > most ? cell->label_count - most : 0;
}

/* ---- Text ------------------------------------------------------------------------------------ */

/* Frames that follow each other and have the same label are written once, with their number. */
static uint32_t run_length(const uint32_t *labels, uint32_t count)
{
    uint32_t length = 1;
    while (length < count && labels[length] == labels[0])
        length++;
    return length;
}

struct path_line {
    FILE *out;
    size_t indent, columns, used; /* used: of this line; 0 when nothing is on it */
    size_t taken;                 /* used by what stands before the first word */
    const char *arrow;
};

static void path_word(struct path_line *line, const char *word)
{
    size_t length = text_columns(word), arrow = text_columns(line->arrow);
    if (line->used && line->taken + line->used + arrow + length > line->columns) {
        fprintf(line->out, "%.*s\n%*s", (int)strlen(line->arrow) - 1, line->arrow,
                (int)line->indent, "");
        line->used = line->taken = 0;
    } else if (line->used) {
        fputs(line->arrow, line->out);
        line->used += arrow;
    }
    fputs(word, line->out);
    line->used += length;
}

/* Labels from the outermost on, without those in [skip_from, skip_to). A module is named where it
 * differs from that of the frame before. `taken` columns of the first line are not free. */
static void print_labels(struct sheet *sheet, const uint32_t *labels, uint32_t count,
                         uint32_t skip_from, uint32_t skip_to, size_t indent, size_t taken)
{
    struct path_line line = {.out = sheet->terminal->out,
                             .indent = indent,
                             .columns = sheet->terminal->columns - indent - 2,
                             .taken = taken,
                             .arrow = sheet->terminal->unicode ? " → " : " > "};
    const char *module = NULL;
    for (uint32_t i = 0; i < count;) {
        char word[AMOUNT_ROOM], number[AMOUNT_ROOM];
        if (i >= skip_from && i < skip_to) {
            snprintf(word, sizeof word, "(%s more)", count_text(skip_to - i, number));
            path_word(&line, word);
            i = skip_to;
            continue;
        }
        uint32_t end = i < skip_from ? skip_from : count;
        uint32_t run = run_length(labels + i, end - i);
        const char *own = label_module(&sheet->view->labels, labels[i]);
        char times[AMOUNT_ROOM + 16] = "";
        if (run > 1)
            snprintf(times, sizeof times, " (%s times)", count_text(run, number));
        size_t beside = strlen(times) + (line.used ? 0 : line.taken);
        size_t room = line.columns > beside + 4 ? line.columns - beside : 4;
        char *name = sheet_label(sheet, labels[i], !module || strcmp(module, own) != 0, room);
        char *word_text = must_format("%s%s", name, times);
        path_word(&line, word_text);
        free(word_text);
        free(name);
        module = own;
        i += run;
    }
}

/* The callers of a row whose leaf has been named. */
static void print_path(struct sheet *sheet, const struct cell *cell, size_t indent)
{
    uint32_t count = cell->label_count ? cell->label_count - 1 : 0;
    if (count == 0)
        return;
    uint32_t skip_from = count, skip_to = count;
    if (sheet_first_frame(sheet, cell)) {
        skip_from = 0;
        skip_to = sheet_first_frame(sheet, cell);
    } else if (!sheet->path_frames_max && count > PATH_HEAD_FRAMES + PATH_TAIL_FRAMES) {
        skip_from = PATH_HEAD_FRAMES;
        skip_to = count - PATH_TAIL_FRAMES;
    }
    fprintf(sheet->terminal->out, "%*s%s", (int)indent, "", color(sheet, DIM));
    print_labels(sheet, cell->labels, count, skip_from, skip_to, indent, 0);
    fprintf(sheet->terminal->out, "%s\n", color(sheet, PLAIN));
}

void sheet_path(struct sheet *sheet, const uint32_t *labels, uint32_t count, uint32_t most,
                const char *lead, size_t indent)
{
    /* One frame less is not worth a word about it. */
    uint32_t skip_to = count > most + 1 ? count - most : 0;
    fputs(lead, sheet->terminal->out);
    print_labels(sheet, labels, count, 0, skip_to, indent, text_columns(lead) - indent);
    putc('\n', sheet->terminal->out);
}

/* The cells of a row that are as wide as the terminal has room: behind `used` columns and `space`.
 */
static size_t columns_left(const struct sheet *sheet, size_t used, size_t least)
{
    size_t all = sheet->terminal->columns;
    return all > used + least ? all - used : least;
}

static void print_code(const struct sheet *sheet, const struct cell *cell, size_t used,
                       const char *space)
{
    char *clean = text_clean(cell->text);
    text_cut(clean, columns_left(sheet, used + strlen(space), NAME_LEAST_COLUMNS));
    fprintf(sheet->terminal->out, "%s%s", *clean ? space : "", clean);
    free(clean);
}

static void print_words(const struct sheet *sheet, const struct cell *cell, size_t column,
                        size_t used, const char *space)
{
    bool last = is_last(sheet, column);
    char *clean = text_clean(cell->text);
    size_t width = sheet->widths[column], left = columns_left(sheet, used + 2, TEXT_LEAST_COLUMNS);
    name_shorten(clean, last ? left : width, sheet->terminal->unicode);
    size_t length = text_columns(clean);
    fprintf(sheet->terminal->out, "%s%s%*s", space, clean,
            last || length >= width ? 0 : (int)(width - length), "");
    free(clean);
}

static void print_label(struct sheet *sheet, const struct cell *cell, size_t used,
                        const char *space)
{
    const char *prefix = cell->prefix ? cell->prefix : "";
    size_t taken = used + strlen(space) + text_columns(prefix);
    char *name = sheet_label(sheet, (uint32_t)cell->number, !cell->same,
                             columns_left(sheet, taken, NAME_LEAST_COLUMNS));
    fprintf(sheet->terminal->out, "%s%s%s", space, prefix, name);
    free(name);
}

static void print_text_row(struct sheet *sheet, const struct cell *cells)
{
    FILE *out = sheet->terminal->out;
    size_t used = 0;
    const char *space = "";
    for (size_t i = 0; i < sheet->column_count; i++) {
        const struct cell *cell = &cells[i];
        int columns = (int)sheet->widths[i];
        char text[AMOUNT_ROOM];
        double share;
        switch (sheet->columns[i].kind) {
        case COLUMN_HIDDEN:
        case COLUMN_MACHINE_TEXT:
            continue;
        case COLUMN_CODE:
            print_code(sheet, cell, used, space);
            continue;
        case COLUMN_PATH:
            fputs("\n", out);
            print_path(sheet, cell, used + 2);
            sheet->rows++;
            return;
        case COLUMN_SHARE:
            share = share_percent(cell->number, sheet->view->total);
            /* Nothing at all is not "0.0%", which is a little. */
            snprintf(text, sizeof text, cell->number && !cell->same ? "%.1f%%" : "", share);
            fprintf(out, "%s%s%*s%s", space,
                    color(sheet, share >= 5     ? RED
                                 : share >= 0.5 ? GREEN
                                                : ""),
                    columns, text, color(sheet, PLAIN));
            break;
        case COLUMN_VALUE: {
            amount_text(&sheet->scale, cell->number, text);
            char *clean = text_clean(cell->number && !cell->same ? text : "");
            fprintf(out, "%s%*s", space, columns, clean);
            free(clean);
            break;
        }
        case COLUMN_COUNT:
            fprintf(out, "%s%*s", space, columns, cell->same ? "" : count_text(cell->number, text));
            break;
        case COLUMN_PER_CALL: {
            struct amount_scale scale = amount_scale(sheet->unit, cell->number);
            text[0] = '<';
            amount_text(&scale, cell->number, text + 1);
            char *clean = text_clean(cell->same ? "" : cell->is_bound ? text : text + 1);
            fprintf(out, "%s%*s", space, columns, clean);
            free(clean);
            break;
        }
        case COLUMN_ID:
            snprintf(text, sizeof text, "%" PRIu64, cell->number);
            fprintf(out, "%s%*s", space, columns, cell->same ? "" : text);
            break;
        case COLUMN_TEXT:
            print_words(sheet, cell, i, used, space);
            break;
        case COLUMN_LABEL:
            print_label(sheet, cell, used, space);
            continue;
        }
        used += strlen(space) + (size_t)columns;
        space = "  ";
    }
    putc('\n', out);
    sheet->rows++;
}

/* ---- JSON and CSV ---------------------------------------------------------------------------- */

static void write_json_row(struct sheet *sheet, const struct cell *cells)
{
    struct json *j = &sheet->json;
    const struct labels *labels = &sheet->view->labels;
    char text[1024];
    json_open(j, NULL, '{');
    for (size_t i = 0; i < sheet->column_count; i++) {
        const struct column *column = &sheet->columns[i];
        uint32_t label = (uint32_t)cells[i].number;
        switch (column->kind) {
        case COLUMN_SHARE:
            json_double(j, column->key, share_percent(cells[i].number, sheet->view->total));
            break;
        case COLUMN_TEXT:
        case COLUMN_CODE:
        case COLUMN_MACHINE_TEXT:
            json_string(j, column->key, cells[i].text);
            break;
        case COLUMN_LABEL:
            json_string(j, "function", label_name(labels, label, text, sizeof text));
            json_string(j, "module", label_module_file(labels, label));
            break;
        case COLUMN_PATH:
            json_open(j, column->key, '[');
            for (uint32_t k = sheet_first_frame(sheet, &cells[i]); k < cells[i].label_count; k++)
                json_string(j, NULL, label_name(labels, cells[i].labels[k], text, sizeof text));
            json_close(j, ']');
            break;
        default:
            json_unsigned(j, column->key, cells[i].number);
            break;
        }
    }
    json_close(j, '}');
}

void sheet_row(struct sheet *sheet, const struct cell *cells)
{
    if (sheet->format == SHEET_JSON)
        write_json_row(sheet, cells);
    else if (sheet->format == SHEET_CSV)
        sheet_csv_row(sheet, cells);
    else
        print_text_row(sheet, cells);
}
