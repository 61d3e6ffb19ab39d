/*
 * The summary: where the cost is, which functions have it, and how good the data is. It fits a
 * screen of 24 lines; where that is the terminal, above the prompt.
 */
#include "query/digest.h"
#include "query/facts.h"
#include "query/name_parts.h"
#include "query/shorten.h"
#include "query/wrappers.h"
#include "report/advice.h"
#include "report/drawing.h"
#include "report/report.h"

#include <inttypes.h>
#include <string.h>

enum {
    SCREEN_LINES = 24,
    HOTTEST_SHOWN = 5,
    DIGEST_LEAST_ROWS = 3,
    DIGEST_MACHINE_ROWS = 20,
    HOT_PATH_ROWS = 40,
    COMMAND_BYTES = 160,
    SHARE_COLUMNS = 16, /* before what is written of a row of the digest */
};

/* Rows of the digest have at least so much, in per cent. */
static const double DIGEST_MIN_SHARE = 1;

/* ---- What ran -------------------------------------------------------------------------------- */

/* Whether it is the program that a process of the profile became, by exec: no other process. */
static bool became(const struct profile *p, uint32_t index)
{
    const struct ctp_process *process = profile_process(p, index);
    uint32_t before = profile_process_parent(p, index);
    return (process->flags & CTP_PROCESS_EXEC) && before != CTP_NONE &&
           profile_process(p, before)->pid == process->pid;
}

static void note_processes(struct sheet *sheet)
{
    const struct profile *p = sheet->view->profile;
    uint32_t count = profile_process_count(p);
    uint64_t threads = 0, processes = 0;
    for (uint32_t i = 0; i < count; i++)
        processes += became(p, i) ? 0 : profile_process_lives(p, i);
    for (uint32_t i = 0; i < profile_thread_count(p); i++) {
        const struct ctp_thread *thread = profile_thread(p, i);
        bool went_on =
            became(p, thread->process) && profile_process(p, thread->process)->pid == thread->tid;
        threads += went_on ? 0 : profile_thread_lives(p, i);
    }
    char command[COMMAND_BYTES + 8] = "", ran[48] = "", more[96] = "";
    const struct ctp_process *process = count ? profile_process(p, 0) : NULL;
    const char *argument;
    size_t used = 0;
    for (uint32_t k = 0; process && (argument = profile_argument(p, process, k)) != NULL; k++) {
        used +=
            (size_t)snprintf(command + used, COMMAND_BYTES - used, "%s%s", k ? " " : "", argument);
        if (used >= COMMAND_BYTES)
            break;
    }
    if (!process)
        return;
    if (first_process_life(p) > 0)
        snprintf(ran, sizeof ran, " ran %.3f s", first_process_life(p));
    used = (size_t)snprintf(more, sizeof more, "%s (", ran);
    if (process->pid) /* other tools do not always say */
        used +=
            (size_t)snprintf(more + used, sizeof more - used, "pid %" PRIu32 ", ", process->pid);
    if (processes > 1)
        used +=
            (size_t)snprintf(more + used, sizeof more - used, "%" PRIu64 " processes, ", processes);
    snprintf(more + used, sizeof more - used, "%" PRIu64 " thread%s)", threads,
             threads == 1 ? "" : "s");
    char *clean = text_clean(*command ? command : profile_string(p, process->command));
    size_t columns = sheet->terminal->columns, least = columns / 3;
    size_t room = columns > strlen(more) + least ? columns - strlen(more) : least;
    bool cut = text_columns(clean) > room;
    text_cut(clean, cut && room > 3 ? room - 3 : room);
    sheet_note(sheet, "%s%s%s", clean, cut ? "..." : "", more);
    free(clean);
}

static void note_other_metrics(struct sheet *sheet)
{
    const struct profile *p = sheet->view->profile;
    struct profile_stats stats;
    char line[512] = "";
    size_t used = 0;
    profile_stats(p, &stats);
    for (uint32_t i = 0; i < p->metric_count && used < sizeof line - 80; i++) {
        const struct ctp_metric *metric = profile_metric(p, i);
        char amount[AMOUNT_ROOM];
        /* Returns are of use beside times only. */
        if (i == sheet->view->metric || strcmp(profile_string(p, metric->name), "returns") == 0)
            continue;
        struct amount_scale scale =
            amount_scale(profile_string(p, metric->unit), stats.metrics[i].total);
        used += (size_t)snprintf(line + used, sizeof line - used, "%s%.40s %s", used ? ", " : "",
                                 profile_string(p, metric->name),
                                 amount_text(&scale, stats.metrics[i].total, amount));
    }
    if (used)
        sheet_note(sheet, "also measured: %s (--metric NAME)", line);
    profile_stats_free(&stats);
}

/* ---- Where the cost is ----------------------------------------------------------------------- */

/* What every thread begins with says nothing. */
static bool is_beginning(const struct view *view, uint32_t node)
{
    static const char *const names[] = {"_start",
                                        "__libc_start_main",
                                        "__libc_start_call_main",
                                        "start_thread",
                                        "clone",
                                        "__clone",
                                        "clone3",
                                        "__clone3",
                                        "execute_native_thread_routine"};
    char text[1024];
    const char *name = label_name(&view->labels, view->tree.nodes[node].label, text, sizeof text);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    if (strncmp(name, "__libc_start_main@", 18) == 0)
        return true;
    /* Without debug information, what libc calls before main has no name, nor has what libstdc++
     * calls before a thread's function. */
    const struct label *label = &view->labels.items.items[view->tree.nodes[node].label];
    uint32_t caller = view->tree.nodes[node].parent;
    if (label->kind != LABEL_PLACE || caller == 0 || caller == TREE_NONE)
        return false;
    bool is_same = view->labels.items.items[view->tree.nodes[caller].label].module == label->module;
    return (is_same || strncmp(name, "libstdc++.so", 12) == 0) && is_beginning(view, caller);
}

/* The nodes from `first` down to `last`, without what threads begin with. */
static uint32_t *nodes_of(const struct view *view, uint32_t first, uint32_t last, uint32_t *count)
{
    VEC(uint32_t) nodes = {0};
    for (uint32_t at = last; at; at = view->tree.nodes[at].parent) {
        vec_push(&nodes, at);
        if (at == first)
            break;
    }
    while (nodes.count > 1 && is_beginning(view, nodes.items[nodes.count - 1]))
        nodes.count--;
    for (size_t a = 0, b = nodes.count; a + 1 < b; a++) {
        uint32_t node = nodes.items[a];
        nodes.items[a] = nodes.items[--b];
        nodes.items[b] = node;
    }
    *count = (uint32_t)nodes.count;
    return nodes.items;
}

/* Code of the C++ library has been compiled into the program, and is not what people wrote. */
static bool is_of_library(const struct view *view, uint32_t node)
{
    char text[1024];
    const char *name = label_name(&view->labels, view->tree.nodes[node].label, text, sizeof text);
    name += name_parts(name).start;
    return strncmp(name, "std::", 5) == 0 || strncmp(name, "__gnu_cxx::", 11) == 0;
}

/* Where a chain ends in a library, the last function between its ends that is people's own: of the
 * module that it begins in. 0: there is none. */
static uint32_t last_own(const struct view *view, const uint32_t *nodes, uint32_t count)
{
    const struct label *labels = view->labels.items.items;
    const struct tree_node *tree = view->tree.nodes;
    uint32_t own = labels[tree[nodes[0]].label].module, last = nodes[count - 1];
    if (labels[tree[last].label].module == own && !is_of_library(view, last))
        return 0;
    for (uint32_t i = count - 1; i-- > 1;)
        if (labels[tree[nodes[i]].label].module == own && !is_of_library(view, nodes[i]))
            return i;
    return 0;
}

/* The ends of a chain, and what people wrote between them: "main → f → … → std::g". Where it begins
 * in the C++ library, as threads do, that is left out. NULL: there is no such, or no room for it.
 */
static char *chain_through_own(const struct sheet *sheet, const uint32_t *nodes, uint32_t count,
                               const char *arrow, const char *dots, size_t columns)
{
    const struct tree_node *tree = sheet->view->tree.nodes;
    uint32_t own = last_own(sheet->view, nodes, count);
    bool by_library = is_of_library(sheet->view, nodes[0]);
    bool dots_before = own > 1 || by_library, dots_behind = own + 2 < count;
    size_t between = (by_library ? 1 : 2) * text_columns(arrow) +
                     (dots_before + dots_behind) * text_columns(dots);
    if (own == 0 || columns < between + 36)
        return NULL;
    size_t left = columns - between;
    char *first =
        by_library ? must_strdup("") : sheet_label(sheet, tree[nodes[0]].label, false, left / 4);
    left -= text_columns(first);
    char *middle = sheet_label(sheet, tree[nodes[own]].label, false, left / 2);
    left -= text_columns(middle);
    char *last = sheet_label(sheet, tree[nodes[count - 1]].label, false, left);
    char *text = must_format("%s%s%s%s%s%s%s", first, by_library ? "" : arrow,
                             dots_before ? dots : "", middle, arrow, dots_behind ? dots : "", last);
    free(first);
    free(middle);
    free(last);
    return text;
}

/* "a → b → c" in so many columns: all of it, or its ends (and, `by_own`, what people wrote between
 * them), or where it ends. To be freed. */
static char *chain_text(const struct sheet *sheet, const uint32_t *nodes, uint32_t count,
                        bool with_module, bool by_own, size_t columns)
{
    const struct tree *tree = &sheet->view->tree;
    bool unicode = sheet->terminal->unicode;
    const char *module =
        count ? label_module(&sheet->view->labels, tree->nodes[nodes[count - 1]].label) : "";
    with_module &= strlen(module) + 3 <= columns / 4;
    const char *arrow = unicode ? " → " : " > ", *dots = unicode ? "… → " : "... > ";
    if (count == 0)
        return must_strdup("");
    char *text = must_strdup("");
    for (uint32_t i = 0; i < count; i++) {
        char *name = sheet_label(sheet, tree->nodes[nodes[i]].label, with_module && i + 1 == count,
                                 SIZE_MAX / 2);
        char *longer = must_format("%s%s%s", text, i ? arrow : "", name);
        free(name);
        free(text);
        text = longer;
    }
    if (text_columns(text) <= columns || sheet->terminal->full_names)
        return text;
    free(text);
    text = by_own ? chain_through_own(sheet, nodes, count, arrow, dots, columns) : NULL;
    if (text)
        return text;
    uint32_t first_label = tree->nodes[nodes[0]].label;
    uint32_t last_label = tree->nodes[nodes[count - 1]].label;
    size_t between = text_columns(arrow) + (count > 2 ? text_columns(dots) : 0);
    if (count > 1 && columns > between + 24) {
        with_module &= strlen(module) + 3 <= (columns - between) * 2 / 9;
        /* A name gets what the other one leaves. */
        char *last = sheet_label(sheet, last_label, with_module, (columns - between) * 2 / 3);
        char *first =
            sheet_label(sheet, first_label, false, columns - between - text_columns(last));
        text = must_format("%s%s%s%s", first, arrow, count > 2 ? dots : "", last);
        free(first);
        free(last);
        return text;
    }
    return sheet_label(sheet, last_label, with_module, columns);
}

static void print_digest(struct sheet *sheet, const struct digest *digest)
{
    const struct view *view = sheet->view;
    const struct outline *outline = &digest->outline;
    char prefix[DRAWING_BYTES];
    uint32_t count;
    uint32_t *path = nodes_of(view, 0, digest->above, &count);
    if (count == 1 && is_beginning(view, path[0]))
        count = 0;
    char *above =
        chain_text(sheet, path, count, false, true, sheet->terminal->columns - SHARE_COLUMNS - 12);
    char *title = must_format(*above ? "function, below %s" : "function", above);
    const struct column columns[] = {{COLUMN_SHARE, "total", "total_share"},
                                     {COLUMN_SHARE, "self", "self_share"},
                                     {COLUMN_CODE, title, ""}};
    struct drawing drawing;
    drawing_begin(&drawing, outline, sheet->terminal);
    sheet_begin(sheet, "tree", NULL, columns, 3);
    for (uint32_t i = 0; i < outline->rows.count; i++) {
        const struct outline_row *row = &outline->rows.items[i];
        const char *outer =
            row->parent == TREE_NONE
                ? ""
                : label_module(&view->labels, outline->rows.items[row->parent].label);
        drawing_row(&drawing, i, prefix);
        uint32_t *nodes =
            nodes_of(view, digest->chains.items[i].first, digest->chains.items[i].last, &count);
        bool other = strcmp(outer, label_module(&view->labels, row->label)) != 0;
        bool by_own = count && is_of_library(view, nodes[0]); /* else the row has one's own */
        char *chain = chain_text(sheet, nodes, count, other, by_own,
                                 sheet->terminal->columns - SHARE_COLUMNS - text_columns(prefix));
        char *text = must_format("%s%s", prefix, chain);
        sheet_row(sheet, (struct cell[]){{.number = view->tree.totals[nodes[0]]},
                                         {.number = row->self},
                                         {.text = text}});
        free(chain);
        free(text);
        free(nodes);
    }
    sheet_end(sheet, 0);
    drawing_end(&drawing);
    free(title);
    free(above);
    free(path);
}

static void write_digest(struct sheet *sheet, const struct digest *digest)
{
    static const struct column columns[] = {
        {COLUMN_HIDDEN, "", "depth"},         {COLUMN_SHARE, "total", "total_share"},
        {COLUMN_SHARE, "self", "self_share"}, {COLUMN_VALUE, "total", "total"},
        {COLUMN_LABEL, "function", ""},       {COLUMN_HIDDEN, "", "self"},
        {COLUMN_PATH, "", "chain"},
    };
    const struct view *view = sheet->view;
    sheet_begin(sheet, "tree", NULL, columns, 7);
    for (uint32_t i = 0; i < digest->outline.rows.count; i++) {
        const struct outline_row *row = &digest->outline.rows.items[i];
        uint32_t count;
        uint32_t *nodes =
            nodes_of(view, digest->chains.items[i].first, digest->chains.items[i].last, &count);
        uint64_t total = view->tree.totals[nodes[0]];
        for (uint32_t k = 0; k < count; k++)
            nodes[k] = view->tree.nodes[nodes[k]].label;
        sheet_row(sheet, (struct cell[]){{.number = row->depth},
                                         {.number = total},
                                         {.number = row->self},
                                         {.number = total},
                                         {.number = row->label},
                                         {.number = row->self},
                                         {.labels = nodes, .label_count = count}});
        free(nodes);
    }
    sheet_end(sheet, 0);
}

/* ---- How good the data is -------------------------------------------------------------------- */

static char *quality_text(const struct sheet *sheet, bool good)
{
    const struct view *view = sheet->view;
    char line[512], number[AMOUNT_ROOM];
    size_t used = (size_t)snprintf(line, sizeof line, "data%s: ", good ? " (good)" : "");
    const char *comma = "";
    double samples, lost, complete, walks, user, system, own, measured, checked, differ;
#define ADD(...)                                                                                   \
    do {                                                                                           \
        used += (size_t)snprintf(line + used, sizeof line - used, "%s", comma);                    \
        used += (size_t)snprintf(line + used, sizeof line - used, __VA_ARGS__);                    \
        comma = ", ";                                                                              \
    } while (0)
    if (metric_number(view, "samples", &samples))
        ADD("%s samples", count_text((uint64_t)samples, number));
    if (metric_number(view, "lost", &lost) && lost > 0)
        ADD("%s lost", count_text((uint64_t)lost, number));
    if (metric_number(view, "walks_total", &walks) &&
        metric_number(view, "walks_complete", &complete) && walks > 0)
        ADD(complete < walks ? "%.1f%% of stacks complete" : "all stacks complete",
            complete < walks && 100 * complete / walks > 99.9 ? 99.9 : 100 * complete / walks);
    if (metric_number(view, "verify_checked", &checked) &&
        metric_number(view, "verify_differ", &differ) && checked > 0)
        ADD("%.0f verified", checked);
    if (profile_number(view->profile, "utime_s", &user) &&
        profile_number(view->profile, "stime_s", &system)) {
        ADD("cpu time %.3f s", user + system);
        if (system * 20 > user + system)
            ADD("%.0f%% of it system", 100 * system / (user + system));
        if (profile_number(view->profile, "handler_s", &own) && own * 100 > user + system)
            ADD("%.1f%% calltrail's", 100 * own / (user + system));
    }
    if (profile_number(view->profile, "measured_s", &measured))
        ADD("measured %.3f s of the run", measured);
#undef ADD
    return must_strdup(*comma ? line : "");
}

static void print_quality_json(struct sheet *sheet)
{
    static const char *const keys[] = {"samples",        "lost",          "walks_total",
                                       "walks_complete", "utime_s",       "stime_s",
                                       "verify_checked", "verify_differ", "rate_got_hz"};
    const struct view *view = sheet->view;
    json_open(&sheet->json, "quality", '{');
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        double value;
        if (metric_number(view, keys[i], &value))
            json_double(&sheet->json, keys[i], value);
    }
    json_unsigned(&sheet->json, "callers_missing", cost_without_callers(view));
    json_close(&sheet->json, '}');
}

static void print_metrics(struct sheet *sheet)
{
    static const struct column columns[] = {
        {COLUMN_TEXT, "metric", "metric"},
        {COLUMN_TEXT, "total", "total_text"},
        {COLUMN_TEXT, "what it is", "description"},
        {COLUMN_HIDDEN, "", "total"},
    };
    const struct profile *p = sheet->view->profile;
    struct profile_stats stats;
    profile_stats(p, &stats);
    sheet_begin(sheet, "metrics", "What was measured", columns, 4);
    for (uint32_t i = 0; i < p->metric_count; i++) {
        const struct ctp_metric *metric = profile_metric(p, i);
        const char *unit = profile_string(p, metric->unit);
        struct amount_scale scale = amount_scale(unit, stats.metrics[i].total);
        char amount[AMOUNT_ROOM], period[AMOUNT_ROOM];
        struct amount_scale period_scale = amount_scale(unit, metric->period);
        const char *description = profile_string(p, metric->description);
        char *about = must_format(
            metric->kind == CTP_METRIC_SAMPLED && metric->period ? "%s%s%s every %s" : "%s%s%s",
            description, *description ? ", " : "", profile_metric_kind_name(metric->kind),
            amount_text(&period_scale, metric->period, period));
        sheet_row(sheet,
                  (struct cell[]){{.text = profile_string(p, metric->name)},
                                  {.text = amount_text(&scale, stats.metrics[i].total, amount)},
                                  {.text = about},
                                  {.number = stats.metrics[i].total}});
        free(about);
    }
    sheet_end(sheet, 0);
    profile_stats_free(&stats);
}

/* ---- All of it ------------------------------------------------------------------------------- */

/* Where memory was asked for, all of the cost is malloc's own: who asked is the answer. NULL where
 * most of the cost is not of that kind. */
static bool *wrappers_with_the_cost(const struct view *view)
{
    bool *wraps = labels_that_wrap(&view->labels);
    uint64_t cost = 0;
    for (uint32_t i = 1; i < view->tree.count; i++)
        cost += wraps[view->tree.nodes[i].label] ? view->tree.nodes[i].self : 0;
    if (share_percent(cost, view->total) > 50)
        return wraps;
    free(wraps);
    return NULL;
}

static void print_for_people(struct sheet *sheet, const struct report_options *options,
                             uint64_t min_total)
{
    bool *wraps = wrappers_with_the_cost(sheet->view);
    struct report_options with_wrappers = *options, *hottest = &with_wrappers;
    hottest->wraps = wraps;
    static const char more[] =
        "more: calltrail top; --view topdown|flat|kctx|threads, --callers FN, --lines FN";
    struct advice advice = advice_about(sheet->view);
    bool good = true;
    uint32_t below = 2 + 1 + hottest->limit + 1 + 1; /* blank lines, titles, functions, more */
    for (size_t i = 0; i < advice.lines.count; i++) {
        good &= !advice.lines.items[i].bad;
        below += sheet_note_lines(sheet, advice.lines.items[i].text);
    }
    char *quality = quality_text(sheet, good);
    below += *quality ? sheet_note_lines(sheet, quality) : 0;
    note_processes(sheet);
    note_other_metrics(sheet);
    sheet_note(sheet, "%s", "");
    uint32_t taken = sheet->lines + 1 + below;
    uint32_t lines = sheet->terminal->rows == SCREEN_LINES ? SCREEN_LINES - 1 : SCREEN_LINES;
    uint32_t rows = taken + DIGEST_LEAST_ROWS < lines ? lines - taken : DIGEST_LEAST_ROWS;
    struct digest digest;
    digest_make(sheet->view, rows, min_total, &digest);
    print_digest(sheet, &digest);
    digest_free(&digest);
    sheet_note(sheet, "%s", "");
    report_flat(sheet, hottest, "functions", NULL);
    sheet_note(sheet, "%s", "");
    if (*quality)
        sheet_note(sheet, "%s", quality);
    for (size_t i = 0; i < advice.lines.count; i++)
        if (advice.lines.items[i].bad)
            sheet_alert(sheet, "%s", advice.lines.items[i].text);
        else
            sheet_note(sheet, "%s", advice.lines.items[i].text);
    sheet_note(sheet, "%s", more);
    vec_free(&advice.lines);
    free(wraps);
    free(quality);
}

void report_summary(struct sheet *sheet, const struct report_options *options)
{
    struct report_options hottest = *options, digest_options = *options;
    if (options->limit > HOTTEST_SHOWN || options->limit == 0)
        hottest.limit = HOTTEST_SHOWN;
    if (digest_options.min_share < DIGEST_MIN_SHARE)
        digest_options.min_share = DIGEST_MIN_SHARE;
    uint64_t min_total = report_min_total(sheet->view, &digest_options);
    if (sheet->format == SHEET_TEXT) {
        print_for_people(sheet, &hottest, min_total);
        return;
    }
    if (sheet->format == SHEET_JSON)
        print_quality_json(sheet);
    print_metrics(sheet);
    report_flat(sheet, &hottest, "functions", NULL);
    report_contexts(sheet, &hottest, "contexts", NULL);
    hottest.limit = HOT_PATH_ROWS;
    hottest.hot_path = true;
    report_tree(sheet, &hottest, NULL, "hot_path", NULL);
    struct digest digest;
    digest_make(sheet->view, DIGEST_MACHINE_ROWS, min_total, &digest);
    write_digest(sheet, &digest);
    digest_free(&digest);
}
