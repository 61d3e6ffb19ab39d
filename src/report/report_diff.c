/*
 * The report of a difference: the totals, then what changed, greatest first.
 */
#include "report/report_diff.h"

#include "query/shorten.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

enum {
    NAME_LEAST_COLUMNS = 6, /* however narrow the terminal is */
    NAME_COLUMNS = 24,      /* for which the table has fewer columns */
    PATH_ENDS = 16,         /* frames at both ends of a path that people see */
    INDENT = 10,            /* of paths */
};

/* An interval of so many standard errors holds the truth in 95 of 100 cases. */
static const double INTERVAL = 1.96;

static const char *text_of(const struct diff *diff, uint32_t offset)
{
    return strings_get(&diff->texts, offset);
}

static uint32_t row_key(const struct diff *diff, const struct diff_options *options,
                        const struct diff_row *row)
{
    return options->by == DIFF_FUNCTIONS ? row->place : diff->contexts.nodes[row->place].label;
}

static const char *what_happened(const struct diff_row *row)
{
    if (!row->changed)
        return "same";
    if (row->value[0] == 0)
        return "new";
    if (row->value[1] == 0)
        return "gone";
    return row->change > 0 ? "grew" : "shrank";
}

static const struct ctp_metric *metric_of(const struct diff *diff, int side)
{
    return profile_metric(diff->views[side].profile, diff->views[side].metric);
}

static bool is_sampled(const struct diff *diff)
{
    return metric_of(diff, 0)->kind == CTP_METRIC_SAMPLED ||
           metric_of(diff, 1)->kind == CTP_METRIC_SAMPLED;
}

/* Both programs have the newer one's name in keys; what is gone was never in that one. */
static const char *module_of(const struct diff *diff, const struct diff_row *row,
                             const struct diff_key *key)
{
    const char *module = text_of(diff, key->module);
    bool is_gone = row->value[0] && !row->value[1];
    return is_gone && diff->renamed[1] && strcmp(module, diff->renamed[1]) == 0 ? diff->renamed[0]
                                                                                : module;
}

/* For people, where it is not a part of the name already: module+0x1234. */
static const char *module_beside(const char *name, const char *module)
{
    size_t length = strlen(module);
    return strncmp(name, module, length) == 0 && strncmp(name + length, "+0x", 3) == 0 ? ""
                                                                                       : module;
}

/* The keys from the outermost frame to a context's own; the caller frees them. */
static uint32_t *path_of(const struct diff *diff, uint32_t node, uint32_t *count)
{
    *count = 0;
    for (uint32_t at = node; at; at = diff->contexts.nodes[at].parent)
        ++*count;
    uint32_t *keys = must_calloc(*count + 1, sizeof *keys), place = *count;
    for (uint32_t at = node; at; at = diff->contexts.nodes[at].parent)
        keys[--place] = diff->contexts.nodes[at].label;
    return keys;
}

/* ---- Text ------------------------------------------------------------------------------------ */

/* Of the table, before the name. A width of 0 is a column that is left out. */
enum { CHANGE, ERROR, BEFORE, AFTER, OF, WHAT, COLUMNS };

struct page {
    const struct diff *diff;
    const struct diff_options *options;
    struct terminal *terminal;
    struct amount_scale scale;
};

static const char *signed_amount(const struct page *page, double change, char *text)
{
    char amount[AMOUNT_ROOM];
    amount_text(&page->scale, (uint64_t)fabs(change), amount);
    snprintf(text, AMOUNT_ROOM, "%c%.60s", change < 0 ? '-' : '+', amount);
    return text;
}

static void print_note(const struct page *page, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void print_note(const struct page *page, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    char *clean = text_clean(text);
    print_wrapped(page->terminal->out, clean, page->terminal->columns);
    free(clean);
}

static void print_side(const struct page *page, int side)
{
    const struct view *view = &page->diff->views[side];
    const struct ctp_metric *metric = metric_of(page->diff, side);
    char total[AMOUNT_ROOM], number[AMOUNT_ROOM], samples[AMOUNT_ROOM + 32] = "";
    if (metric->kind == CTP_METRIC_SAMPLED && metric->period)
        snprintf(samples, sizeof samples, ", about %s samples",
                 count_text(view->total / metric->period, number));
    print_note(page, "%s: %s: %s %s%s", side ? "newer" : "older", view->profile->name,
               profile_string(view->profile, metric->name),
               amount_text(&page->scale, view->total, total), samples);
}

static void print_total(const struct page *page)
{
    const struct diff *diff = page->diff;
    double before = (double)diff->views[0].total, change = (double)diff->views[1].total - before;
    char text[AMOUNT_ROOM], part[64] = "", error[64] = "";
    if (before > 0)
        snprintf(part, sizeof part, ", %+.1f%%", 100 * change / before);
    if (before > 0 && diff->total_error > 0)
        snprintf(error, sizeof error, " ±%.1f%%", 100 * INTERVAL * diff->total_error / before);
    print_note(page, "total: %s%s%s", signed_amount(page, change, text), part, error);
}

static void print_path(const struct page *page, uint32_t node)
{
    FILE *out = page->terminal->out;
    const char *arrow = page->terminal->unicode ? " → " : " > ";
    size_t columns = page->terminal->columns > INDENT + NAME_COLUMNS
                         ? page->terminal->columns - INDENT
                         : NAME_COLUMNS;
    uint32_t count, *keys = path_of(page->diff, node, &count);
    size_t used = 0;
    fprintf(out, "%*s", INDENT, "");
    for (uint32_t i = 0; i + 1 < count; i++) {
        bool skip = count > 2 * PATH_ENDS + 1 && i == PATH_ENDS;
        char more[AMOUNT_ROOM];
        const char *name = text_of(page->diff, page->diff->keys.items[keys[i]].name);
        if (skip) {
            snprintf(more, sizeof more, "(%" PRIu32 " more)", count - 1 - 2 * PATH_ENDS);
            name = more;
            i = count - 2 - PATH_ENDS;
        }
        char *clean = text_clean(name);
        if (!page->terminal->full_names)
            name_shorten(clean, columns - 4, page->terminal->unicode);
        size_t length = text_columns(clean) + 3;
        if (used && used + length > columns) {
            fprintf(out, "%.*s\n%*s", (int)strlen(arrow) - 1, arrow, INDENT, "");
            used = 0;
        }
        fprintf(out, "%s%s", used ? arrow : "", clean);
        used += length;
        free(clean);
    }
    putc('\n', out);
    free(keys);
}

static void print_row(const struct page *page, const struct diff_row *row,
                      const int widths[COLUMNS])
{
    FILE *out = page->terminal->out;
    const struct diff *diff = page->diff;
    const struct diff_key *key = &diff->keys.items[row_key(diff, page->options, row)];
    char cells[COLUMNS][AMOUNT_ROOM + 4];
    if (page->options->normalize) {
        snprintf(cells[0], sizeof cells[0], "%+.2f%%", row->change);
        snprintf(cells[1], sizeof cells[1], "%.2f%%", INTERVAL * row->error);
        for (int side = 0; side < 2; side++)
            snprintf(cells[2 + side], sizeof cells[0], "%.2f%%",
                     share_percent(row->value[side], diff->views[side].total));
    } else {
        signed_amount(page, row->change, cells[0]);
        amount_text(&page->scale, (uint64_t)(INTERVAL * row->error), cells[1]);
        for (int side = 0; side < 2; side++)
            amount_text(&page->scale, row->value[side], cells[2 + side]);
    }
    size_t used = 0;
    strcpy(cells[OF], row->measure == DIFF_SELF ? "self" : "total");
    snprintf(cells[WHAT], sizeof cells[WHAT], "%s", what_happened(row));
    for (int i = 0; i < COLUMNS; i++) {
        if (!widths[i])
            continue;
        char *clean = text_clean(cells[i]);
        fprintf(out, i < OF ? "%*s  " : "%-*s  ", widths[i], clean);
        used += (size_t)widths[i] + 2;
        free(clean);
    }
    size_t left = page->terminal->columns > used + NAME_LEAST_COLUMNS
                      ? page->terminal->columns - used
                      : NAME_LEAST_COLUMNS;
    const char *own = text_of(diff, key->name);
    char *name =
        sheet_name(page->terminal, own, module_beside(own, module_of(diff, row, key)), left);
    fprintf(out, "%s\n", name);
    free(name);
    if (page->options->by == DIFF_CONTEXTS && diff->contexts.nodes[row->place].parent)
        print_path(page, row->place);
}

static size_t shown_rows(const struct diff *diff, const struct diff_options *options)
{
    size_t count = diff->rows.count;
    return options->limit && count > options->limit ? options->limit : count;
}

/* On narrow screens the table has fewer columns. */
static void leave_out(const struct page *page, int widths[COLUMNS])
{
    static const int dispensable[] = {BEFORE, AFTER, WHAT, ERROR};
    size_t used = NAME_COLUMNS;
    for (int i = 0; i < COLUMNS; i++)
        used += widths[i] ? (size_t)widths[i] + 2 : 0;
    for (int i = 0; i < 4 && used > page->terminal->columns; i++) {
        int *width = &widths[dispensable[i]];
        used -= *width ? (size_t)*width + 2 : 0;
        *width = 0;
    }
}

static void print_rows(const struct page *page)
{
    static const char *const titles[COLUMNS] = {"change", "±", "before", "after", "of", "what"};
    const struct diff *diff = page->diff;
    FILE *out = page->terminal->out;
    int widths[COLUMNS] = {[OF] = 5, [WHAT] = 6};
    char text[AMOUNT_ROOM];
    uint64_t greatest =
        diff->views[0].total > diff->views[1].total ? diff->views[0].total : diff->views[1].total;
    int amount =
        page->options->normalize ? 7 : (int)strlen(amount_text(&page->scale, greatest, text));
    for (int i = 0; i < OF; i++)
        widths[i] = i == ERROR && !is_sampled(diff) ? 0 : amount < 6 ? 6 : amount + (i == 0);
    leave_out(page, widths);
    putc('\n', out);
    for (int i = 0; i < COLUMNS; i++)
        if (widths[i] && i == ERROR)
            fprintf(out, "%*s%s  ", widths[i] - 1, "", page->terminal->unicode ? titles[i] : "+");
        else if (widths[i])
            fprintf(out, i < OF ? "%*s  " : "%-*s  ", widths[i], titles[i]);
    fprintf(out, "%s\n", page->options->by == DIFF_FUNCTIONS ? "function" : "context");
    size_t count = shown_rows(diff, page->options);
    for (size_t i = 0; i < count; i++)
        print_row(page, &diff->rows.items[i], widths);
    if (count < diff->rows.count)
        print_note(page, "%zu smaller change%s hidden (--limit)", diff->rows.count - count,
                   diff->rows.count - count == 1 ? "" : "s");
}

/* What the numbers are worth. */
static void print_meaning(const struct page *page)
{
    const struct diff *diff = page->diff;
    char number[AMOUNT_ROOM];
    if (!is_sampled(diff))
        return;
    print_note(page,
               "%s values were compared: two runs of the same program show a change in at most "
               "1 of 20 such comparisons. ± is the 95%% interval of the change.",
               count_text(diff->compared, number));
    double late = diff->late[0] > diff->late[1] ? diff->late[0] : diff->late[1];
    if (late > 0.005 * (double)diff->views[1].total) {
        print_note(
            page,
            "The machine was busy: samples came late, and %s may be charged to the wrong "
            "place. So much more must have changed; a quieter machine shows smaller changes.",
            amount_text(&page->scale, (uint64_t)late, number));
    }
    if (!page->options->normalize)
        print_note(page, "A change counts if the amount and its part of the total both changed. "
                         "The total has the ± of sampling alone: machines vary more. "
                         "--normalize: parts only.");
}

static void print_text(const struct page *page)
{
    const struct diff *diff = page->diff;
    FILE *out = page->terminal->out;
    const char *noun = page->options->by == DIFF_FUNCTIONS ? "functions" : "contexts";
    size_t changed = 0;
    for (size_t i = 0; i < diff->rows.count; i++)
        changed += diff->rows.items[i].changed;
    print_side(page, 0);
    print_side(page, 1);
    print_total(page);
    if (diff->rows.count)
        print_rows(page);
    putc('\n', out);
    if (changed == 0)
        print_note(page, "None of the %s changed%s.", noun,
                   is_sampled(diff) ? " by more than noise explains" : "");
    print_meaning(page);
}

/* ---- JSON and CSV ---------------------------------------------------------------------------- */

static void write_json_row(struct json *j, const struct diff *diff,
                           const struct diff_options *options, const struct diff_row *row)
{
    const struct diff_key *key = &diff->keys.items[row_key(diff, options, row)];
    json_open(j, NULL, '{');
    json_string(j, "function", text_of(diff, key->name));
    json_string(j, "module", module_of(diff, row, key));
    json_string(j, "of", row->measure == DIFF_SELF ? "self" : "total");
    json_string(j, "what", what_happened(row));
    json_unsigned(j, "before", row->value[0]);
    json_unsigned(j, "after", row->value[1]);
    json_double(j, "before_share", share_percent(row->value[0], diff->views[0].total));
    json_double(j, "after_share", share_percent(row->value[1], diff->views[1].total));
    json_double(j, "change", row->change);
    json_double(j, "standard_error", row->error);
    json_double(j, "score", row->score);
    if (options->by == DIFF_CONTEXTS) {
        uint32_t count, *keys = path_of(diff, row->place, &count);
        json_open(j, "path", '[');
        for (uint32_t i = 0; i < count; i++)
            json_string(j, NULL, text_of(diff, diff->keys.items[keys[i]].name));
        json_close(j, ']');
        free(keys);
    }
    json_close(j, '}');
}

static void write_json(const struct diff *diff, const struct diff_options *options, FILE *out)
{
    struct json j = json_to(out);
    json_open(&j, NULL, '{');
    json_string(&j, "metric", profile_string(diff->views[0].profile, metric_of(diff, 0)->name));
    json_string(&j, "unit", profile_string(diff->views[0].profile, metric_of(diff, 0)->unit));
    json_string(&j, "compared", options->normalize ? "shares" : "values");
    for (int side = 0; side < 2; side++) {
        json_open(&j, side ? "after" : "before", '{');
        json_string(&j, "file", diff->views[side].profile->name);
        json_string(&j, "kind", profile_metric_kind_name(metric_of(diff, side)->kind));
        json_unsigned(&j, "period", metric_of(diff, side)->period);
        json_unsigned(&j, "total", diff->views[side].total);
        json_close(&j, '}');
    }
    json_double(&j, "total_change", (double)diff->views[1].total - (double)diff->views[0].total);
    json_double(&j, "total_standard_error", diff->total_error);
    json_unsigned(&j, "values_compared", diff->compared);
    json_open(&j, "rows", '[');
    size_t count = shown_rows(diff, options);
    for (size_t i = 0; i < count; i++)
        write_json_row(&j, diff, options, &diff->rows.items[i]);
    json_close(&j, ']');
    if (count < diff->rows.count)
        json_unsigned(&j, "rows_left_out", diff->rows.count - count);
    json_close(&j, '}');
}

static void write_csv_path(const struct diff *diff, uint32_t node, FILE *out)
{
    uint32_t count, *keys = path_of(diff, node, &count);
    VEC(char) path = {0};
    for (uint32_t i = 0; i < count; i++) {
        if (i)
            vec_push(&path, ';');
        for (const char *c = text_of(diff, diff->keys.items[keys[i]].name); *c; c++)
            vec_push(&path, *c == ';' ? ':' : *c);
    }
    vec_push(&path, '\0');
    putc(',', out);
    sheet_csv_text(out, path.items);
    vec_free(&path);
    free(keys);
}

static void write_csv(const struct diff *diff, const struct diff_options *options, FILE *out)
{
    fprintf(out, "function,module,of,what,before,after,change,standard_error,score%s\n",
            options->by == DIFF_CONTEXTS ? ",path" : "");
    size_t count = shown_rows(diff, options);
    for (size_t i = 0; i < count; i++) {
        const struct diff_row *row = &diff->rows.items[i];
        const struct diff_key *key = &diff->keys.items[row_key(diff, options, row)];
        sheet_csv_text(out, text_of(diff, key->name));
        putc(',', out);
        sheet_csv_text(out, module_of(diff, row, key));
        fprintf(out, ",%s,%s,%" PRIu64 ",%" PRIu64 ",%.15g,%.6g,%.6g",
                row->measure == DIFF_SELF ? "self" : "total", what_happened(row), row->value[0],
                row->value[1], row->change, row->error, row->score);
        if (options->by == DIFF_CONTEXTS)
            write_csv_path(diff, row->place, out);
        putc('\n', out);
    }
}

void report_diff(const struct diff *diff, const struct diff_options *options,
                 enum sheet_format format, struct terminal *terminal)
{
    uint64_t totals[2] = {diff->views[0].total, diff->views[1].total};
    const struct profile *p = diff->views[0].profile;
    struct page page = {diff, options, terminal,
                        amount_scale(profile_string(p, metric_of(diff, 0)->unit),
                                     totals[0] > totals[1] ? totals[0] : totals[1])};
    if (format == SHEET_JSON)
        write_json(diff, options, terminal->out);
    else if (format == SHEET_CSV)
        write_csv(diff, options, terminal->out);
    else
        print_text(&page);
}
