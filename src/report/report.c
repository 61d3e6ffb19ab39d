#include "report/report.h"

#include "profile/time_range.h"
#include "query/choose.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { MATCHES_SHOWN = 10 };

const char *report_name(enum report_kind kind)
{
    static const char *const names[REPORT_KINDS] = {
        "summary", "contexts",  "topdown", "bottomup", "flat",  "callers", "callees",   "lines",
        "threads", "processes", "phases",  "kctx",     "ranks", "flame",   "structure", "paths",
    };
    return names[kind];
}

static enum view_grouping grouping_of(enum report_kind kind)
{
    switch (kind) {
    case REPORT_THREADS:
        return GROUP_THREAD;
    case REPORT_PROCESSES:
        return GROUP_PROCESS;
    case REPORT_PHASES:
        return GROUP_PHASE;
    case REPORT_RANKS:
        return GROUP_RANK;
    default:
        return GROUP_NOTHING;
    }
}

void report_prepare(const struct report_options *options, struct view_options *view)
{
    view->grouping = grouping_of(options->kind);
    view->with_counts = options->kind == REPORT_SUMMARY || options->kind == REPORT_TOPDOWN ||
                        options->kind == REPORT_CALLEES || options->kind == REPORT_FLAT;
    view->fold_idle = !options->with_idle && options->format == SHEET_TEXT;
    view->without_bounds = !options->with_bounds && options->format == SHEET_TEXT;
    if (options->kind == REPORT_STRUCTURE)
        view->labels.identity = LABEL_BY_LINE;
    if (options->kind == REPORT_PATHS) {
        view->labels.identity = LABEL_BY_ADDRESS;
        view->labels.fold_inlined = true;
        view->metric = view->metric ? view->metric : "paths";
    }
    if (options->kind != REPORT_LINES)
        return;
    view->labels.identity = options->assembly ? LABEL_BY_ADDRESS : LABEL_BY_LINE;
    /* Instructions belong to the function that they are in, whatever was inlined there. */
    view->labels.fold_inlined |= options->assembly;
}

uint64_t report_min_total(const struct view *view, const struct report_options *options)
{
    /* Of what is not waiting for work: that has a row of its own. */
    double least = ceil((double)(view->total - view->idle) * options->min_share / 100);
    return least < 1 ? 1 : least >= 0x1p64 ? UINT64_MAX : (uint64_t)least;
}

/*
 * Calls that were counted in bursts: how far shares may be off, 95 times of 100. A burst is one
 * sample, however many calls it has: they are much alike.
 */
static void note_bursts(struct sheet *sheet)
{
    const struct profile *p = sheet->view->profile;
    const struct ctp_fact *facts[3];
    static const char *const keys[] = {"bursts", "calls_in_bursts", "calls_made"};
    char number[AMOUNT_ROOM];
    for (int i = 0; i < 3; i++) {
        facts[i] = profile_find_fact(p, CTP_SCOPE_METRIC, sheet->view->metric, keys[i]);
        if (!facts[i] || facts[i]->type != CTP_U64 || !facts[i]->value)
            return;
    }
    sheet_note(sheet,
               "an estimate from %s bursts with %.1f%% of all calls (record --burst): "
               "a share of 10%% is known to ±%.1f points",
               count_text(facts[0]->value, number), share_percent(facts[1]->value, facts[2]->value),
               196 * sqrt(0.1 * 0.9 / (double)facts[0]->value));
}

/* Which part of the time it is, and how much of the whole has none. */
static void note_range(struct sheet *sheet)
{
    const struct view *view = sheet->view;
    const struct time_range *range = profile_range_of(view->profile);
    char from[32] = "the start", to[32] = "the end";
    uint64_t all, without;
    if (!range)
        return;
    if (range->has_from)
        snprintf(from, sizeof from, "%g s", (double)range->from_us / 1e6);
    if (range->has_to)
        snprintf(to, sizeof to, "%g s", (double)range->to_us / 1e6);
    without = profile_without_time(view->profile, view->metric, &all);
    if (without)
        sheet_note(
            sheet, "sampled from %s to %s; %.1f%% of the recording's %s has no time", from, to,
            share_percent(without, all),
            profile_string(view->profile, profile_metric(view->profile, view->metric)->name));
    else
        sheet_note(sheet, "sampled from %s to %s", from, to);
}

/* What the numbers below are: metric, total, samples behind it, and how much of it is shown. */
static void print_heading(struct sheet *sheet, bool is_apart)
{
    const struct view *view = sheet->view;
    const struct profile *p = view->profile;
    const struct ctp_metric *metric = profile_metric(p, view->metric);
    const char *about = profile_string(p, metric->description);
    char total[AMOUNT_ROOM], samples[AMOUNT_ROOM + 32] = "", number[AMOUNT_ROOM];
    if (metric->kind == CTP_METRIC_SAMPLED && metric->period)
        snprintf(samples, sizeof samples, ", about %s samples",
                 count_text(view->total / metric->period, number));
    sheet_note(sheet, "%s: %s%s%s%s, %s%s%s", p->name, profile_string(p, metric->name),
               *about ? " (" : "", about, *about ? ")" : "",
               metric->kind == CTP_METRIC_AT_LEAST ? "at least " : "",
               amount_text(&sheet->scale, view->total, total), samples);
    note_bursts(sheet);
    note_range(sheet);
    if (view->callers_kept)
        sheet_note(sheet,
                   "recorded with the last %" PRIu32 " caller%s of each call, not all "
                   "(record --k %" PRIu32 ")",
                   view->callers_kept, view->callers_kept == 1 ? "" : "s", view->callers_kept);
    uint64_t shown = view->tree.totals[0];
    if (shown != view->total)
        sheet_note(sheet, "after filtering: %s, %.1f%%", amount_text(&sheet->scale, shown, total),
                   share_percent(shown, view->total));
    if (is_apart)
        sheet_note(sheet, "%s", "");
}

/* Functions that were found by what was typed, when they are several. */
static void list_matches(struct sheet *sheet, const struct function_choice *choice,
                         const char *typed)
{
    static const struct column columns[] = {
        {COLUMN_SHARE, "self", "self_share"},
        {COLUMN_SHARE, "total", "total_share"},
        {COLUMN_LABEL, "function", ""},
    };
    char number[AMOUNT_ROOM];
    uint32_t count = (uint32_t)choice->found.count, shown = 0;
    sheet_note(sheet, "%s functions match '%s':", count_text(count, number), typed);
    sheet_begin(sheet, "matches", NULL, columns, 3);
    for (; shown < count && shown < MATCHES_SHOWN; shown++) {
        const struct function_match *match = &choice->found.items[shown];
        sheet_row(sheet, (struct cell[]){{.number = match->self},
                                         {.number = match->total},
                                         {.number = match->label}});
    }
    if (shown < count)
        sheet_note(sheet, "%s smaller functions hidden", count_text(count - shown, number));
}

/* People see which functions those are before they are told to name one, or what all have. */
static int settle_choice(const struct view *view, const struct report_options *options,
                         const struct function_choice *choice, struct terminal *terminal,
                         struct ct_error *err)
{
    char number[AMOUNT_ROOM];
    if (choice->ambiguous && options->format == SHEET_TEXT) {
        struct sheet sheet = sheet_open(view, options->format, terminal);
        list_matches(&sheet, choice, options->function);
        sheet_close(&sheet);
    }
    if (choice->ambiguous)
        return ct_fail(err, "'%s' is a part of %s names: one of them is needed, or an expression",
                       options->function, count_text(choice->found.count, number));
    return CT_OK;
}

void report_note_function(struct sheet *sheet, const char *name, uint64_t self, uint64_t total)
{
    char own[AMOUNT_ROOM], all[AMOUNT_ROOM];
    uint64_t whole = sheet->view->total;
    sheet_note(sheet, "%s: self %.1f%%, %s; total %.1f%%, %s", name, share_percent(self, whole),
               amount_text(&sheet->scale, self, own), share_percent(total, whole),
               amount_text(&sheet->scale, total, all));
}

int report_print(const struct view *view, const struct report_options *options,
                 struct terminal *terminal, struct ct_error *err)
{
    struct function_choice choice = {0};
    struct asm_listing listing;
    int status = CT_OK;
    if (options->kind == REPORT_RANKS && !report_has_ranks(view->profile))
        return ct_fail(err,
                       "%s: no process has a rank: it was not recorded in an MPI job (mpirun … "
                       "calltrail record), or merged with --join-ranks",
                       view->profile->name);
    terminal->full_names = options->full_names;
    if (options->kind == REPORT_FLAME) {
        report_flame(view, options, terminal->out);
        return CT_OK;
    }
    if (options->function)
        CT_TRY(choose_functions(view, options->function, &choice, err));
    if (options->function)
        status = settle_choice(view, options, &choice, terminal, err);
    const bool *wanted = choice.wanted;
    if (status == CT_OK && options->assembly)
        status = report_asm_open(view, options, wanted, &listing, err);
    if (status != CT_OK) {
        function_choice_free(&choice);
        return status;
    }
    struct sheet sheet = sheet_open(view, options->format, terminal);
    struct report_options resolved = *options;
    char *name = NULL;
    if (choice.found.count == 1)
        resolved.function = name =
            sheet_label(&sheet, choice.found.items[0].label, true, terminal->columns);
    options = &resolved;
    sheet.path_frames_max = options->depth_max;
    print_heading(&sheet, options->kind != REPORT_SUMMARY);
    if (choice.found.count > 1 && options->format == SHEET_TEXT) {
        list_matches(&sheet, &choice, options->function);
        sheet_note(&sheet, "%s", "");
    }
    if (options->format == SHEET_JSON)
        json_string(&sheet.json, "view", report_name(options->kind));
    switch (options->kind) {
    case REPORT_SUMMARY:
        report_summary(&sheet, options);
        break;
    case REPORT_CONTEXTS:
        report_contexts(&sheet, options, "rows", NULL);
        break;
    case REPORT_FLAT:
        report_flat(&sheet, options, "rows", NULL);
        break;
    case REPORT_KCTX:
        report_kctx(&sheet, options, wanted);
        break;
    case REPORT_LINES:
        if (options->assembly)
            report_asm(&sheet, options, wanted, &listing);
        else
            report_lines(&sheet, options, wanted);
        break;
    case REPORT_THREADS:
    case REPORT_PROCESSES:
    case REPORT_PHASES:
        report_groups(&sheet, options);
        break;
    case REPORT_RANKS:
        report_ranks(&sheet, options);
        break;
    case REPORT_STRUCTURE:
        report_structure(&sheet, options);
        break;
    case REPORT_PATHS:
        report_paths(&sheet, options);
        break;
    default:
        report_tree(&sheet, options, wanted, "rows", NULL);
        break;
    }
    sheet_close(&sheet);
    free(name);
    function_choice_free(&choice);
    return CT_OK;
}
