#include "browse/pages.h"
#include "query/amount.h"
#include "query/lines.h"
#include "query/shorten.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Lines without cost that are shown before the first one that has some, and behind the last. */
enum { MARGIN_LINES = 5, FIRST_LINE = 2 };

struct page_line {
    char *text;
    uint32_t number; /* 0: no line of a source */
    uint64_t self, total;
};

struct page {
    VEC(struct page_line) lines;
    size_t top, selected;
    uint64_t whole;
};

static void add_file(struct page *page, const struct line_row *rows, size_t count, const char *file,
                     const struct source_folders *folders)
{
    struct source_text text;
    source_text_open(file, folders, &text);
    char *clean = text_clean(text.path ? text.path : file);
    vec_push(&page->lines,
             (struct page_line){
                 .text = !*file      ? must_strdup("(no line is known: no debug information; see "
                                                        "calltrail symbolize)")
                         : text.path ? must_strdup(clean)
                                     : must_format("%s (is not here: --source-dir DIR says where "
                                                   "it is)",
                                                   clean)});
    free(clean);
    uint32_t line = rows[0].line > MARGIN_LINES ? rows[0].line - MARGIN_LINES : 1;
    uint32_t end = rows[count - 1].line + MARGIN_LINES + 1;
    for (size_t i = 0; text.path && line < end; line++) {
        char *source = source_text_line(&text, line);
        if (!source)
            break;
        while (i < count && rows[i].line < line)
            i++;
        bool has_cost = i < count && rows[i].line == line;
        vec_push(&page->lines, (struct page_line){.text = text_clean(source),
                                                  .number = line,
                                                  .self = has_cost ? rows[i].self : 0,
                                                  .total = has_cost ? rows[i].total : 0});
        free(source);
    }
    /* Lines that the file does not have, or all where it is not there. */
    for (size_t i = 0; i < count; i++)
        if (rows[i].line == 0 || rows[i].line >= line || !text.path)
            vec_push(&page->lines, (struct page_line){.text = must_strdup(""),
                                                      .number = rows[i].line,
                                                      .self = rows[i].self,
                                                      .total = rows[i].total});
    source_text_close(&text);
}

static void select_hottest(struct page *page)
{
    for (size_t i = 0; i < page->lines.count; i++) {
        const struct page_line *line = &page->lines.items[i];
        const struct page_line *best = &page->lines.items[page->selected];
        if (line->total > best->total || (line->total == best->total && line->self > best->self))
            page->selected = i;
    }
}

static uint32_t put_share(const struct screen *screen, uint32_t line, uint32_t column,
                          const struct page *page, uint64_t value, bool selected)
{
    char text[32] = "";
    double share = share_percent(value, page->whole);
    if (value)
        snprintf(text, sizeof text, "%.1f%%", share);
    char padded[48];
    snprintf(padded, sizeof padded, "%6s  ", text);
    return screen_put(screen, line, column, padded,
                      selected       ? STYLE_SELECTED
                      : share >= 5   ? STYLE_HOT
                      : share >= 0.5 ? STYLE_WARM
                                     : STYLE_PLAIN);
}

static void draw(struct page *page, struct screen *screen, const char *name)
{
    screen_begin(screen);
    uint32_t end = screen->lines - 1, lines = end > FIRST_LINE ? end - FIRST_LINE : 0;
    screen_fill(screen, 0, 0, STYLE_SELECTED);
    screen_put(screen, 0, 0, name, STYLE_SELECTED);
    screen_put(screen, 1, 0, "  self   total    line  source", STYLE_TITLE);
    if (page->selected < page->top)
        page->top = page->selected;
    if (lines && page->selected >= page->top + lines)
        page->top = page->selected - lines + 1;
    for (uint32_t i = 0; i < lines && page->top + i < page->lines.count; i++) {
        const struct page_line *line = &page->lines.items[page->top + i];
        bool selected = page->top + i == page->selected;
        enum screen_style style = selected ? STYLE_SELECTED : STYLE_PLAIN;
        uint32_t at = put_share(screen, FIRST_LINE + i, 0, page, line->self, selected);
        at = put_share(screen, FIRST_LINE + i, at, page, line->total, selected);
        char number[24] = "";
        if (line->number)
            snprintf(number, sizeof number, "%" PRIu32, line->number);
        char padded[48];
        snprintf(padded, sizeof padded, "%6s  ", number);
        at = screen_put(screen, FIRST_LINE + i, at, padded, style);
        at = screen_put(screen, FIRST_LINE + i, at, line->text, style);
        if (selected)
            screen_fill(screen, FIRST_LINE + i, at, style);
    }
    screen_put(screen, end, 0, "q back  H hottest line  / search  n next", STYLE_TITLE);
    screen_point(FIRST_LINE + (uint32_t)(page->selected - page->top), 0);
    screen_end();
}

static void move(struct page *page, long by)
{
    long last = (long)page->lines.count - 1, to = (long)page->selected + by;
    page->selected = last < 0 || to < 0 ? 0 : to > last ? (size_t)last : (size_t)to;
}

static void find_next(struct page *page, const char *wanted)
{
    for (size_t i = 1; *wanted && i <= page->lines.count; i++) {
        size_t at = (page->selected + i) % page->lines.count;
        if (strstr(page->lines.items[at].text, wanted)) {
            page->selected = at;
            return;
        }
    }
}

/* Until a key leaves the page. */
static uint32_t show(struct page *page, struct screen *screen, const char *name)
{
    char wanted[256] = "";
    for (;;) {
        draw(page, screen, name);
        long lines = screen->lines > FIRST_LINE + 1 ? (long)screen->lines - FIRST_LINE - 1 : 1;
        uint32_t press = screen_key();
        switch (press) {
        case PRESS_UP:
            move(page, -1);
            break;
        case PRESS_DOWN:
            move(page, 1);
            break;
        case PRESS_PAGE_UP:
            move(page, -lines);
            break;
        case PRESS_PAGE_DOWN:
        case ' ':
            move(page, lines);
            break;
        case PRESS_HOME:
            page->selected = 0;
            break;
        case PRESS_END:
            move(page, (long)page->lines.count);
            break;
        case 'H':
            select_hottest(page);
            break;
        case '/':
            if (prompt_line(screen, "search: ", wanted, sizeof wanted))
                find_next(page, wanted);
            break;
        case 'n':
            find_next(page, wanted);
            break;
        case 'h':
        case '?':
        case PRESS_HELP:
            help_page(screen);
            break;
        case 'q':
        case 'a':
        case PRESS_ESCAPE:
        case PRESS_LEFT:
            return 0;
        case PRESS_GONE:
            return press;
        default:
            break;
        }
    }
}

int source_page(const struct profile *profile, const struct view_options *options,
                const struct function_key *function, const char *title,
                const struct source_folders *folders, struct screen *screen, uint32_t *press,
                struct ct_error *err)
{
    struct view_options by_line = *options;
    struct view view;
    by_line.labels.identity = LABEL_BY_LINE;
    by_line.with_counts = false;
    CT_TRY(view_open(profile, &by_line, &view, err));
    bool *wanted = function_key_labels(&view.labels, function);
    struct line_rows rows = line_rows(&view, wanted);
    struct page page = {.whole = view.total};
    for (size_t i = 0, end; i < rows.items.count; i = end) {
        const struct line_row *items = rows.items.items;
        for (end = i + 1; end < rows.items.count && items[end].file == items[i].file;)
            end++;
        add_file(&page, items + i, end - i, strings_get(&view.labels.texts, items[i].file),
                 folders);
    }
    select_hottest(&page);
    char *name = text_clean(title);
    *press = show(&page, screen, name);
    free(name);
    for (size_t i = 0; i < page.lines.count; i++)
        free(page.lines.items[i].text);
    vec_free(&page.lines);
    line_rows_free(&rows);
    free(wanted);
    view_close(&view);
    return CT_OK;
}
