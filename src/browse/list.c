#include "browse/list.h"

#include "query/shorten.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    SHARE_COLUMNS = 8,   /* "100.0%" and the space between columns */
    AMOUNT_COLUMNS = 13, /* "1,234.567 ms" and that space */
    COUNT_COLUMNS = 14,
    NAME_COLUMNS = 40, /* names have room for these, or numbers go */
    NAME_LEAST = 10,
    STEP_COLUMNS = 2,
    STEPS_PART = 3, /* branches take at most so much of the room for names: a third */
    NAME_BYTES = 1024,
};

/* What there is room for. */
struct layout {
    bool with_amount, with_count, with_each, upwards;
};

static struct layout lay_out(const struct screen *screen, const struct rows *rows)
{
    uint32_t left = screen->columns > 2 * SHARE_COLUMNS + NAME_COLUMNS
                        ? screen->columns - 2 * SHARE_COLUMNS - NAME_COLUMNS
                        : 0;
    bool counts = rows->tree.view->counts && rows->tree.kind != UNFOLD_CALLERS;
    struct layout l = {.upwards = rows->tree.kind == UNFOLD_CALLERS};
    l.with_count = counts && left >= COUNT_COLUMNS;
    left -= l.with_count ? COUNT_COLUMNS : 0;
    l.with_amount = left >= AMOUNT_COLUMNS;
    left -= l.with_amount ? AMOUNT_COLUMNS : 0;
    l.with_each = l.with_count && left >= AMOUNT_COLUMNS;
    return l;
}

char *list_plain_name(const struct view *view, uint32_t label)
{
    char text[NAME_BYTES];
    const struct label *it = &view->labels.items.items[label];
    if (it->kind == LABEL_GROUP)
        return must_strdup(view_group_name(view->profile, view->grouping, (uint32_t)it->number,
                                           text, sizeof text));
    const char *name = label_name(&view->labels, label, text, sizeof text);
    const char *neighbour = label_neighbour(&view->labels, label);
    return *neighbour ? must_format("%s (after %s)", name, neighbour) : must_strdup(name);
}

char *list_name(const struct view *view, uint32_t label, bool with_module, size_t columns,
                const struct list_style *style)
{
    char own[NAME_BYTES], *plain = list_plain_name(view, label), *name = text_clean(plain);
    /* Where there is no room for the function that is nearest, the place is enough. */
    if (*label_neighbour(&view->labels, label) && !style->full_names &&
        text_columns(name) > columns) {
        free(name);
        name = text_clean(label_name(&view->labels, label, own, sizeof own));
    }
    char *module = text_clean(with_module ? label_module(&view->labels, label) : "");
    size_t module_columns = *module ? text_columns(module) + 3 : 0;
    free(plain);
    if (!style->full_names && module_columns > columns / 3 &&
        text_columns(name) + module_columns > columns) {
        module_shorten(module, columns / 3 > 6 ? columns / 3 - 3 : 3, style->unicode);
        module_columns = text_columns(module) + 3;
    }
    if (!style->full_names)
        name_shorten(name, columns > module_columns ? columns - module_columns : 1, style->unicode);
    /* Some names of modules, such as [vdso], bring their own brackets. */
    char *all = *module ? must_format(*module == '[' ? "%s %s" : "%s [%s]", name, module)
                        : must_strdup(name);
    free(name);
    free(module);
    return all;
}

static uint32_t put_right(const struct screen *screen, uint32_t line, uint32_t column,
                          uint32_t columns, const char *text, enum screen_style style)
{
    char padded[AMOUNT_ROOM * 2];
    snprintf(padded, sizeof padded, "%*s  ", (int)columns - 2, text);
    return screen_put(screen, line, column, padded, style);
}

static uint32_t put_share(const struct screen *screen, uint32_t line, uint32_t column,
                          uint64_t part, uint64_t whole, bool selected)
{
    char text[32] = "";
    double share = share_percent(part, whole);
    if (part)
        snprintf(text, sizeof text, "%.1f%%", share);
    return put_right(screen, line, column, SHARE_COLUMNS, text,
                     selected       ? STYLE_SELECTED
                     : share >= 5   ? STYLE_HOT
                     : share >= 0.5 ? STYLE_WARM
                                    : STYLE_PLAIN);
}

static void draw_titles(const struct screen *screen, uint32_t line, const struct layout *l,
                        const struct rows *rows)
{
    const struct count_kind *kind = rows->tree.view->count_kind;
    uint32_t at = 0;
    if (!l->upwards)
        at = put_right(screen, line, at, SHARE_COLUMNS, "self", STYLE_TITLE);
    at = put_right(screen, line, at, SHARE_COLUMNS, l->upwards ? "share" : "total", STYLE_TITLE);
    if (l->with_amount)
        at = put_right(screen, line, at, AMOUNT_COLUMNS, l->upwards ? "value" : "total",
                       STYLE_TITLE);
    if (l->with_count)
        at = put_right(screen, line, at, COUNT_COLUMNS, kind->heading, STYLE_TITLE);
    if (l->with_each)
        at = put_right(screen, line, at, AMOUNT_COLUMNS, kind->per_heading, STYLE_TITLE);
    screen_put(screen, line, at,
               rows->tree.kind == UNFOLD_CALLEES ? "  function" : "  function, called by",
               STYLE_TITLE);
}

/* The numbers of a row. Returns the column behind them. */
static uint32_t draw_numbers(const struct screen *screen, uint32_t line, const struct layout *l,
                             const struct list_style *style, const struct rows *rows, size_t index)
{
    const struct view *view = rows->tree.view;
    const struct unfold_row *row = rows_at(rows, index);
    bool selected = index == rows->selected,
         is_caller = rows->tree.kind != UNFOLD_CALLEES && row->depth > 0;
    enum screen_style plain = selected ? STYLE_SELECTED : STYLE_PLAIN;
    char text[AMOUNT_ROOM];
    uint32_t at = 0;
    if (!l->upwards)
        at = put_share(screen, line, at, is_caller ? 0 : row->self, view->total, selected);
    at = put_share(screen, line, at, row->total, view->total, selected);
    if (l->with_amount) {
        char *clean = text_clean(amount_text(&style->scale, row->total, text));
        at = put_right(screen, line, at, AMOUNT_COLUMNS, clean, plain);
        free(clean);
    }
    if (l->with_count)
        at = put_right(screen, line, at, COUNT_COLUMNS,
                       row->count ? count_text(row->count, text) : "", plain);
    if (l->with_each) {
        uint64_t each = row->count ? row->total / row->count : 0;
        const char *unit =
            profile_string(view->profile, profile_metric(view->profile, view->metric)->unit);
        struct amount_scale scale = amount_scale(unit, each);
        char *clean = text_clean(each ? amount_text(&scale, each, text) : "");
        at = put_right(screen, line, at, AMOUNT_COLUMNS, clean, plain);
        free(clean);
    }
    return at;
}

static void draw_row(const struct screen *screen, uint32_t line, const struct layout *l,
                     const struct list_style *style, struct rows *rows, size_t index)
{
    const struct view *view = rows->tree.view;
    bool has_more = rows_has_more(rows, index), selected = index == rows->selected;
    const struct shown_row *shown = &rows->shown.items[index];
    const struct unfold_row *row = rows_at(rows, index);
    enum screen_style plain = selected ? STYLE_SELECTED : STYLE_PLAIN;
    uint32_t at = draw_numbers(screen, line, l, style, rows, index);
    uint32_t left = screen->columns > at ? screen->columns - at : 0;
    uint32_t most = left / STEPS_PART / STEP_COLUMNS;
    bool is_cut = shown->steps > most;
    if (is_cut)
        at = screen_put(screen, line, at, "..", plain);
    for (uint32_t i = is_cut; i < (is_cut ? most : shown->steps); i++)
        at = screen_put(screen, line, at, "  ", plain);
    at = screen_put(screen, line, at, !has_more ? "  " : shown->is_open ? "- " : "+ ", plain);
    bool same_module =
        row->parent != TREE_NONE &&
        strcmp(label_module(&view->labels, row->label),
               label_module(&view->labels, rows->tree.rows.items[row->parent].label)) == 0;
    size_t room = screen->columns > at + NAME_LEAST ? screen->columns - at : NAME_LEAST;
    char *name = list_name(view, row->label, !same_module, room, style);
    at = screen_put(screen, line, at, name, plain);
    free(name);
    if (selected)
        screen_fill(screen, line, at, plain);
}

void list_draw(const struct screen *screen, uint32_t first, uint32_t end,
               const struct list_style *style, struct rows *rows)
{
    struct layout l = lay_out(screen, rows);
    draw_titles(screen, first, &l, rows);
    first++;
    size_t lines = end > first ? end - first : 0;
    rows_scroll(rows, lines);
    for (size_t i = 0; i < lines && rows->top + i < rows->shown.count; i++)
        draw_row(screen, first + (uint32_t)i, &l, style, rows, rows->top + i);
    if (rows->shown.count == 0)
        screen_put(screen, first, 0, "nothing was measured here", STYLE_PLAIN);
    screen_point(first + (uint32_t)(rows->selected - rows->top), 0);
}
