#include "report/report.h"

#include "query/nearest.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

const char *report_name(enum report_kind kind)
{
    static const char *const names[REPORT_KINDS] = {
        "summary", "contexts", "topdown",   "bottomup", "flat", "callers", "callees",
        "lines",   "threads",  "processes", "phases",   "kctx", "flame",   "structure",
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
    default:
        return GROUP_NOTHING;
    }
}

void report_prepare(const struct report_options *options, struct view_options *view)
{
    view->grouping = grouping_of(options->kind);
    view->with_counts = options->kind == REPORT_SUMMARY || options->kind == REPORT_TOPDOWN ||
                        options->kind == REPORT_CALLEES;
    if (options->kind == REPORT_STRUCTURE)
        view->labels.identity = LABEL_BY_LINE;
    if (options->kind != REPORT_LINES)
        return;
    view->labels.identity = options->assembly ? LABEL_BY_ADDRESS : LABEL_BY_LINE;
    /* Instructions belong to the function that they are in, whatever was inlined there. */
    view->labels.fold_inlined |= options->assembly;
}

uint64_t report_min_total(const struct view *view, const struct report_options *options)
{
    double least = ceil((double)view->total * options->min_share / 100);
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

/* What the numbers below are: metric, total, samples behind it, and how much of it is shown. */
static void print_heading(struct sheet *sheet)
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
    if (view->callers_kept)
        sheet_note(sheet,
                   "recorded with the last %" PRIu32 " caller%s of each call, not all "
                   "(record --k %" PRIu32 ")",
                   view->callers_kept, view->callers_kept == 1 ? "" : "s", view->callers_kept);
    uint64_t shown = view->tree.totals[0];
    if (shown != view->total)
        sheet_note(sheet, "after filtering: %s, %.1f%%", amount_text(&sheet->scale, shown, total),
                   share_percent(shown, view->total));
}

/* For every label whether it is the function of this name, with or without " [module]" behind it.
 * Several modules can have one. The caller frees it. */
static int find_function(const struct view *view, const char *name, bool **out,
                         struct ct_error *err)
{
    const struct labels *labels = &view->labels;
    struct nearest nearest = nearest_to(name);
    bool *wanted = must_calloc(labels->items.count + 1, sizeof *wanted), any = false;
    for (uint32_t i = 0; i < labels->items.count; i++) {
        char text[1024];
        if (!label_is_code(labels, i))
            continue;
        const char *own = label_name(labels, i, text, sizeof text);
        size_t length = strlen(own);
        wanted[i] = strcmp(name, own) == 0;
        if (!wanted[i] && strncmp(name, own, length) == 0 && strncmp(name + length, " [", 2) == 0) {
            char *full = must_format("%s [%s]", own, label_module(labels, i));
            wanted[i] = strcmp(name, full) == 0;
            free(full);
        }
        any |= wanted[i];
        if (!any)
            nearest_offer(&nearest, own);
    }
    if (any) {
        *out = wanted;
        return CT_OK;
    }
    free(wanted);
    return nearest_fail(&nearest, "function", err);
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
    bool *wanted = NULL;
    struct asm_listing listing;
    if (options->kind == REPORT_FLAME) {
        report_flame(view, options, terminal->out);
        return CT_OK;
    }
    if (options->function)
        CT_TRY(find_function(view, options->function, &wanted, err));
    if (options->assembly && report_asm_open(view, options, wanted, &listing, err) != CT_OK) {
        free(wanted);
        return CT_ERROR;
    }
    struct sheet sheet = sheet_open(view, options->format, terminal);
    sheet.path_frames_max = options->depth_max;
    print_heading(&sheet);
    if (options->kind != REPORT_SUMMARY)
        sheet_note(&sheet, "%s", "");
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
    case REPORT_STRUCTURE:
        report_structure(&sheet, options);
        break;
    default:
        report_tree(&sheet, options, wanted, "rows", NULL);
        break;
    }
    sheet_close(&sheet);
    free(wanted);
    return CT_OK;
}
