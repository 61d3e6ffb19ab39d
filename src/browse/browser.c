#include "browse/browser.h"

#include "browse/list.h"
#include "browse/pages.h"
#include "query/shorten.h"

#include <inttypes.h>
#include <math.h>
#include <regex.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { TEXT_BYTES = 512, HEADER_LINES = 1 };
static const double OPEN_MIN_SHARE = 0.5; /* of rows that `e` and `E` open */

struct browser {
    const struct profile *profile;
    const struct browser_options *options;
    struct screen screen;
    uint32_t metric;
    enum browser_list list;
    bool by_total; /* functions */
    VEC(struct function_key) zooms;
    struct view view;
    struct rows rows;
    struct list_style style;
    char wanted[TEXT_BYTES]; /* what was searched for last */
    char message[TEXT_BYTES];
};

const char *browser_list_name(enum browser_list list)
{
    static const char *const names[LIST_KINDS] = {"functions", "callees", "callers", "threads"};
    return names[list];
}

static void say(struct browser *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(struct browser *b, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(b->message, sizeof b->message, format, args);
    va_end(args);
}

/* ---- The view, and what is chosen of it ------------------------------------------------------ */

static struct view_options view_options(const struct browser *b)
{
    struct view_options view = b->options->view;
    view.metric = profile_string(b->profile, profile_metric(b->profile, b->metric)->name);
    view.with_counts = true;
    view.without_bounds = true;
    view.grouping = b->list == LIST_THREADS ? GROUP_THREAD : GROUP_NOTHING;
    for (size_t i = 0; i < b->zooms.count; i++)
        if (b->zooms.items[i].kind == LABEL_GROUP)
            view.grouping = GROUP_THREAD;
    return view;
}

static void drop_zoom(struct browser *b)
{
    function_key_free(&b->zooms.items[--b->zooms.count]);
}

/* Where all zooms, one within the other, begin. A function that this metric has nothing of is no
 * place to be: that zoom and those within it end. */
static struct unfold_starts find_starts(struct browser *b)
{
    struct unfold_starts starts = {0};
    for (size_t i = 0; i < b->zooms.count; i++) {
        uint32_t label = function_key_find(&b->view.labels, &b->zooms.items[i]);
        struct unfold_starts inner = {0};
        if (label != TREE_NONE)
            inner = unfold_find(&b->view, label, i ? &starts : NULL);
        if (inner.nodes.count == 0) {
            say(b, "zoomed out: the function has nothing of this metric");
            while (b->zooms.count > i)
                drop_zoom(b);
            return starts;
        }
        vec_free(&starts.nodes);
        starts = inner;
    }
    return starts;
}

static void make_rows(struct browser *b)
{
    static const enum unfold_kind kinds[LIST_KINDS] = {UNFOLD_FUNCTIONS, UNFOLD_CALLEES,
                                                       UNFOLD_CALLERS, UNFOLD_CALLEES};
    struct unfold_starts starts = find_starts(b);
    rows_begin(&b->view, kinds[b->list], starts.nodes.count ? &starts : NULL,
               b->list == LIST_FUNCTIONS && !b->by_total ? ROWS_BY_SELF : ROWS_BY_TOTAL, &b->rows);
    vec_free(&starts.nodes);
}

/* Leaves out rows that cannot be opened later: the list begins anew. */
static void remake_rows(struct browser *b)
{
    rows_end(&b->rows);
    make_rows(b);
}

static int open_view(struct browser *b, struct ct_error *err)
{
    struct view_options view = view_options(b);
    CT_TRY(view_open(b->profile, &view, &b->view, err));
    b->style = (struct list_style){
        .scale = amount_scale(
            profile_string(b->profile, profile_metric(b->profile, b->metric)->unit), b->view.total),
        .full_names = b->style.full_names,
        .unicode = b->screen.unicode,
    };
    make_rows(b);
    return CT_OK;
}

static int reopen(struct browser *b, struct ct_error *err)
{
    rows_end(&b->rows);
    view_close(&b->view);
    return open_view(b, err);
}

static int choose_list(struct browser *b, enum browser_list list, struct ct_error *err)
{
    b->list = list;
    return reopen(b, err);
}

static int choose_metric(struct browser *b, uint32_t metric, struct ct_error *err)
{
    if (b->profile->metric_count < 2)
        say(b, "the profile has only this metric");
    b->metric = metric % b->profile->metric_count;
    return reopen(b, err);
}

static int zoom_in(struct browser *b, struct ct_error *err)
{
    if (b->rows.shown.count == 0)
        return CT_OK;
    uint32_t label = rows_at(&b->rows, b->rows.selected)->label;
    vec_push(&b->zooms, function_key_of(&b->view.labels, label));
    if (b->list == LIST_FUNCTIONS || b->list == LIST_THREADS)
        b->list = LIST_CALLEES;
    return reopen(b, err);
}

static int zoom_out(struct browser *b, struct ct_error *err)
{
    if (b->zooms.count == 0) {
        say(b, "this is everything; q leaves");
        return CT_OK;
    }
    drop_zoom(b);
    return reopen(b, err);
}

static int show_source(struct browser *b, uint32_t *press, struct ct_error *err)
{
    if (b->rows.shown.count == 0)
        return CT_OK;
    uint32_t label = rows_at(&b->rows, b->rows.selected)->label;
    if (!label_is_code(&b->view.labels, label)) {
        say(b, "this row is not a function");
        return CT_OK;
    }
    struct view_options view = view_options(b);
    struct function_key key = function_key_of(&b->view.labels, label);
    char *title = list_plain_name(&b->view, label);
    int status =
        source_page(b->profile, &view, &key, title, &b->options->sources, &b->screen, press, err);
    free(title);
    function_key_free(&key);
    return status;
}

/* ---- Searching ------------------------------------------------------------------------------- */

/* What was typed, as a part of a name or, if it is one, an expression. */
struct search {
    const char *text;
    regex_t regex;
    bool has_regex;
};

static bool matches(const struct browser *b, const struct search *search, uint32_t label)
{
    char *name = list_plain_name(&b->view, label);
    bool found = strstr(name, search->text) != NULL ||
                 (search->has_regex && regexec(&search->regex, name, 0, NULL, 0) == 0);
    free(name);
    return found;
}

static bool find_shown(struct browser *b, const struct search *search, bool backwards)
{
    size_t count = b->rows.shown.count;
    for (size_t i = 1; i <= count; i++) {
        size_t at = (b->rows.selected + (backwards ? count - i : i)) % count;
        if (matches(b, search, rows_at(&b->rows, at)->label)) {
            b->rows.selected = at;
            return true;
        }
    }
    return false;
}

/* Of the contexts that are folded, the heaviest. */
static bool find_folded(struct browser *b, const struct search *search)
{
    const struct tree *tree = &b->view.tree;
    bool *wanted = must_calloc(b->view.labels.items.count + 1, sizeof *wanted);
    struct unfold_starts starts = find_starts(b);
    uint32_t best = 0;
    for (uint32_t i = 0; i < b->view.labels.items.count; i++)
        wanted[i] = matches(b, search, i);
    for (size_t k = 0; k < (b->zooms.count ? starts.nodes.count : 1); k++) {
        uint32_t first = b->zooms.count ? starts.nodes.items[k] : 0;
        for (uint32_t i = first ? first : 1; i < first + tree->sizes[first]; i++)
            if (wanted[tree->nodes[i].label] && tree->totals[i] &&
                (!best || tree->totals[i] > tree->totals[best]))
                best = i;
    }
    vec_free(&starts.nodes);
    free(wanted);
    return best && rows_reveal(&b->rows, best);
}

static void find_next(struct browser *b, bool backwards)
{
    struct search search = {.text = b->wanted};
    if (!*b->wanted) {
        say(b, "no search yet: / starts one");
        return;
    }
    search.has_regex = regcomp(&search.regex, b->wanted, REG_EXTENDED | REG_NOSUB) == 0;
    bool is_tree = b->list == LIST_CALLEES || b->list == LIST_THREADS;
    if (!find_shown(b, &search, backwards) && !(is_tree && find_folded(b, &search)))
        say(b, "not found%s: %s", b->list == LIST_CALLERS ? " with a cost of its own" : "",
            b->wanted);
    if (search.has_regex)
        regfree(&search.regex);
}

/* ---- Keys ------------------------------------------------------------------------------------ */

static void draw(struct browser *b)
{
    struct screen *screen = &b->screen;
    char total[AMOUNT_ROOM];
    screen_begin(screen);
    const struct ctp_metric *metric = profile_metric(b->profile, b->metric);
    const char *about = profile_string(b->profile, metric->description);
    char *head = must_format("%s  %s%s%s%s, %s  ", browser_list_name(b->list),
                             profile_string(b->profile, metric->name), *about ? " (" : "", about,
                             *about ? ")" : "", amount_text(&b->style.scale, b->view.total, total));
    char *clean = text_clean(head);
    screen_fill(screen, 0, 0, STYLE_SELECTED);
    uint32_t at = screen_put(screen, 0, 0, clean, STYLE_SELECTED);
    free(clean);
    free(head);
    const char *before = "in ";
    for (size_t i = 0; i < b->zooms.count; i++, before = " > ") {
        uint32_t label = function_key_find(&b->view.labels, &b->zooms.items[i]);
        char *name = label == TREE_NONE
                         ? must_strdup("?")
                         : list_name(&b->view, label, false, screen->columns, &b->style);
        at = screen_put(screen, 0, at, before, STYLE_SELECTED);
        at = screen_put(screen, 0, at, name, STYLE_SELECTED);
        free(name);
    }
    if (b->zooms.count == 0) {
        char *name = text_clean(b->profile->name);
        screen_put(screen, 0, at, name, STYLE_SELECTED);
        free(name);
    }
    uint32_t last = screen->lines - 1;
    char *message = text_clean(*b->message ? b->message
                                           : "h help  q quit  Enter open  z zoom  a source  "
                                             "v view  Tab metric  / search");
    screen_put(screen, last, 0, message, STYLE_TITLE);
    free(message);
    list_draw(screen, HEADER_LINES, last, &b->style, &b->rows);
    screen_end();
}

static void open_or_fold(struct browser *b)
{
    struct rows *rows = &b->rows;
    if (rows->shown.count == 0)
        return;
    if (rows->shown.items[rows->selected].is_open)
        rows_fold(rows, rows->selected);
    else
        rows_open(rows, rows->selected);
}

static void go_left(struct rows *rows)
{
    if (rows->shown.count == 0)
        return;
    if (rows->shown.items[rows->selected].is_open)
        rows_fold(rows, rows->selected);
    else
        rows->selected = rows_parent(rows, rows->selected);
}

/* Keys that open and fold, and go on within the list. False: it is none of these. */
static bool press_in_list(struct browser *b, uint32_t press)
{
    struct rows *rows = &b->rows;
    bool any = rows->shown.count != 0;
    long lines = b->screen.lines > HEADER_LINES + 2 ? (long)b->screen.lines - HEADER_LINES - 2 : 1;
    uint64_t least = (uint64_t)ceil((double)b->view.total * OPEN_MIN_SHARE / 100);
    switch (press) {
    case PRESS_UP:
        rows_move(rows, -1);
        return true;
    case PRESS_DOWN:
        rows_move(rows, 1);
        return true;
    case PRESS_PAGE_UP:
        rows_move(rows, -lines);
        return true;
    case PRESS_PAGE_DOWN:
    case ' ':
        rows_move(rows, lines);
        return true;
    case PRESS_HOME:
        rows->selected = 0;
        return true;
    case PRESS_END:
        rows_move(rows, (long)rows->shown.count);
        return true;
    case PRESS_ENTER:
    case '+':
        open_or_fold(b);
        return true;
    case PRESS_RIGHT:
        if (any)
            rows_open(rows, rows->selected);
        return true;
    case PRESS_LEFT:
        go_left(rows);
        return true;
    case 'e':
        if (any && !rows_open_below(rows, rows->selected, least))
            say(b, "there are too many rows: some stay folded");
        return true;
    case 'E':
        if (!rows_open_all(rows, least))
            say(b, "there are too many rows: some stay folded");
        return true;
    case 'C':
        rows_fold_all(rows);
        return true;
    default:
        return false;
    }
}

/* What changes the list. */
static int press_for_view(struct browser *b, uint32_t press, struct ct_error *err)
{
    switch (press) {
    case '1':
    case '2':
    case '3':
    case '4':
        return choose_list(b, (enum browser_list)(press - '1'), err);
    case 'v':
        return choose_list(b, (b->list + 1) % LIST_KINDS, err);
    case PRESS_TAB:
        return choose_metric(b, b->metric + 1, err);
    case PRESS_BACK_TAB:
        return choose_metric(b, b->metric + b->profile->metric_count - 1, err);
    case 'z':
        return zoom_in(b, err);
    case PRESS_ESCAPE:
        return zoom_out(b, err);
    case 's':
        b->by_total = !b->by_total;
        say(b, b->list == LIST_FUNCTIONS ? "functions by %s" : "functions (1) will be by %s",
            b->by_total ? "total" : "self");
        remake_rows(b);
        return CT_OK;
    default:
        return CT_OK;
    }
}

/* One key. *press is PRESS_GONE when it was the last. */
static int take_press(struct browser *b, uint32_t *press, struct ct_error *err)
{
    if (press_in_list(b, *press))
        return CT_OK;
    switch (*press) {
    case 'h':
    case '?':
    case PRESS_HELP:
        *press = help_page(&b->screen);
        return CT_OK;
    case 'a':
        return show_source(b, press, err);
    case 'F':
        b->style.full_names = !b->style.full_names;
        return CT_OK;
    case '/':
        if (prompt_line(&b->screen, "search: ", b->wanted, sizeof b->wanted))
            find_next(b, false);
        return CT_OK;
    case 'n':
    case 'N':
        find_next(b, *press == 'N');
        return CT_OK;
    default:
        return press_for_view(b, *press, err);
    }
}

static int run(struct browser *b, struct ct_error *err)
{
    int status = CT_OK;
    while (status == CT_OK) {
        draw(b);
        uint32_t press = screen_key();
        b->message[0] = '\0';
        if (press == 'q' || press == PRESS_GONE)
            break;
        status = take_press(b, &press, err);
        if (press == PRESS_GONE)
            break;
    }
    return status;
}

int browser_run(const struct profile *profile, const struct browser_options *options,
                struct ct_error *err)
{
    struct browser b = {.profile = profile, .options = options, .list = options->first};
    b.style.full_names = options->full_names;
    CT_TRY(view_choose_metric(profile, options->view.metric, &b.metric, err));
    CT_TRY(open_view(&b, err));
    int status = screen_open(options->with_colors, &b.screen, err);
    if (status == CT_OK) {
        b.style.unicode = b.screen.unicode;
        status = run(&b, err);
        screen_close();
    }
    /* A view that could not be opened again is closed already. */
    if (b.view.tree.count) {
        rows_end(&b.rows);
        view_close(&b.view);
    }
    while (b.zooms.count)
        drop_zoom(&b);
    vec_free(&b.zooms);
    return status;
}
