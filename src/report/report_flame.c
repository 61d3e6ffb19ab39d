/*
 * The flame graph as SVG, for documents: a frame is as wide as its cost, callees are below their
 * callers, the heaviest on the left. Who points at a frame sees its full name and numbers.
 */
#include "base/utf8.h"
#include "query/outline.h"
#include "query/shorten.h"
#include "report/report.h"

#include <math.h>
#include <string.h>

enum { WIDTH = 1200, MARGIN = 10, HEAD = 30, ROW_HEIGHT = 19, TEXT_COLUMNS_MIN = 3, HUES = 7 };
static const double LETTER_WIDTH = 7.23, LEAST_WIDTH = 0.4;

/* As XML: names are text, and bytes that are no UTF-8 or no characters of XML are shown as such. */
static void write_text(FILE *out, const char *text)
{
    char *clean = text_clean(text), *valid = utf8_copy(clean);
    for (const char *c = valid; *c; c++) {
        if (*c == '&')
            fputs("&amp;", out);
        else if (*c == '<')
            fputs("&lt;", out);
        else if (*c == '>')
            fputs("&gt;", out);
        else
            putc(*c, out);
    }
    free(valid);
    free(clean);
}

/* Hues that colour-blind people can tell apart, one for each module; lighter or darker by name. */
static void write_colour(FILE *out, const struct view *view, uint32_t label)
{
    static const struct {
        int hue, saturation;
    } hues[HUES] = {{33, 88}, {202, 70}, {164, 48}, {52, 80}, {326, 42}, {220, 46}, {14, 74}};
    char text[1024];
    const char *name = label_name(&view->labels, label, text, sizeof text);
    unsigned vary = (unsigned)(hash_bytes(name, strlen(name)) >> 20) % 10;
    const char *module = label_module_file(&view->labels, label);
    unsigned hue = (unsigned)(hash_bytes(module, strlen(module)) >> 20) % HUES;
    if (!label_is_code(&view->labels, label))
        fprintf(out, "hsl(0 0%% %u%%)", 78 + vary);
    else
        fprintf(out, "hsl(%d %d%% %u%%)", hues[hue].hue, hues[hue].saturation, 76 + vary);
}

struct box {
    double x, width;
    uint32_t depth;
};

static void write_box(FILE *out, const struct view *view, const struct box *box, const char *name,
                      uint32_t label, uint64_t total)
{
    const struct ctp_metric *metric = profile_metric(view->profile, view->metric);
    struct amount_scale scale = amount_scale(profile_string(view->profile, metric->unit), total);
    char amount[AMOUNT_ROOM];
    double y = HEAD + (double)box->depth * ROW_HEIGHT;
    fputs("<g><title>", out);
    write_text(out, name);
    fputs("\n", out);
    write_text(out, amount_text(&scale, total, amount));
    fprintf(out, ", %.1f%%</title><rect x=\"%.2f\" y=\"%.0f\" width=\"%.2f\" height=\"%d\" fill=\"",
            share_percent(total, view->total), MARGIN + box->x, y,
            fmax(box->width - (box->width > 3 ? 1 : 0), LEAST_WIDTH), ROW_HEIGHT - 1);
    if (label == TREE_NONE)
        fputs("#dfe3e8", out);
    else
        write_colour(out, view, label);
    fputs("\"/>", out);
    double columns = (box->width - 8) / LETTER_WIDTH;
    if (columns >= TEXT_COLUMNS_MIN) {
        char *shown = text_clean(name);
        name_shorten(shown, (size_t)columns, true);
        fprintf(out, "<text x=\"%.2f\" y=\"%.0f\">", MARGIN + box->x + 4, y + ROW_HEIGHT - 6);
        write_text(out, shown);
        fputs("</text>", out);
        free(shown);
    }
    fputs("</g>\n", out);
}

static void write_head(FILE *out, const struct view *view, uint32_t depth)
{
    const struct profile *p = view->profile;
    int height = HEAD + (int)(depth + 1) * ROW_HEIGHT + MARGIN;
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d "
            "%d\" font-family=\"ui-monospace, Menlo, Consolas, monospace\" font-size=\"12\" "
            "fill=\"#1b1d21\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n<text "
            "x=\"%d\" y=\"20\" font-weight=\"600\">",
            WIDTH, height, WIDTH, height, MARGIN);
    write_text(out, p->name);
    fputs(": ", out);
    write_text(out, profile_string(p, profile_metric(p, view->metric)->name));
    fputs("</text>\n", out);
}

void report_flame(const struct view *view, const struct report_options *options, FILE *out)
{
    uint64_t whole = view->tree.totals[0], least = report_min_total(view, options);
    double seen = ceil((double)whole * LEAST_WIDTH / (WIDTH - 2 * MARGIN));
    struct outline_options outline_options = {
        .min_total = (double)least < seen ? (uint64_t)seen : least,
        .limit_rows = options->limit,
        .depth_max = options->depth_max,
    };
    struct outline outline;
    outline_topdown(view, &outline_options, &outline);
    uint32_t depth = 0;
    for (size_t i = 0; i < outline.rows.count; i++)
        if (outline.rows.items[i].depth + 1 > depth)
            depth = outline.rows.items[i].depth + 1;
    write_head(out, view, depth);
    double scale = whole ? (double)(WIDTH - 2 * MARGIN) / (double)whole : 0;
    write_box(out, view, &(struct box){.width = WIDTH - 2 * MARGIN}, "all", TREE_NONE, whole);
    /* Where the next child of each row begins. */
    double *next = must_calloc(outline.rows.count + 1, sizeof *next), top = 0;
    for (size_t i = 0; i < outline.rows.count; i++) {
        const struct outline_row *row = &outline.rows.items[i];
        double *x = row->parent == TREE_NONE ? &top : &next[row->parent];
        struct box box = {*x, (double)row->total * scale, row->depth + 1};
        char text[1024];
        next[i] = *x;
        *x += box.width;
        write_box(out, view, &box, label_name(&view->labels, row->label, text, sizeof text),
                  row->label, row->total);
    }
    free(next);
    fputs("</svg>\n", out);
    outline_free(&outline);
}
