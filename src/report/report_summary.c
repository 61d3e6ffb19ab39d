/*
 * The summary: what ran, how good the data is, and where to look first. It fits a screen.
 */
#include "report/report.h"

#include <inttypes.h>
#include <string.h>

enum { PROCESSES_SHOWN = 3, HOTTEST_SHOWN = 5, HOT_PATH_ROWS = 40, COMMAND_BYTES = 160 };

static bool number_in(const struct ctp_fact *fact, double *out)
{
    if (!fact || fact->type == CTP_STRING)
        return false;
    *out = fact->type == CTP_F64   ? profile_fact_double(fact)
           : fact->type == CTP_I64 ? (double)(int64_t)fact->value
                                   : (double)fact->value;
    return true;
}

static bool profile_number(const struct view *view, const char *key, double *out)
{
    return number_in(profile_find_fact(view->profile, CTP_SCOPE_PROFILE, 0, key), out);
}

/* What is said of the metric, or else of the whole profile. */
static bool fact_number(const struct view *view, const char *key, double *out)
{
    return number_in(profile_find_fact(view->profile, CTP_SCOPE_METRIC, view->metric, key), out) ||
           profile_number(view, key, out);
}

static void note_processes(struct sheet *sheet)
{
    const struct profile *p = sheet->view->profile;
    uint32_t count = profile_process_count(p);
    for (uint32_t i = 0; i < count && i < PROCESSES_SHOWN; i++) {
        const struct ctp_process *process = profile_process(p, i);
        char command[COMMAND_BYTES + 8] = "", ran[48] = "";
        size_t used = 0;
        const char *argument;
        for (uint32_t k = 0; (argument = profile_argument(p, process, k)) != NULL; k++) {
            used += (size_t)snprintf(command + used, COMMAND_BYTES - used, "%s%s", k ? " " : "",
                                     argument);
            if (used >= COMMAND_BYTES) {
                strcpy(command + COMMAND_BYTES - 1, "...");
                break;
            }
        }
        if (process->start_ns && process->end_ns > process->start_ns)
            snprintf(ran, sizeof ran, ", ran %.3f s",
                     (double)(process->end_ns - process->start_ns) / 1e9);
        sheet_note(sheet, "ran       %s (pid %" PRIu32 "%s)",
                   *command ? command : profile_string(p, process->command), process->pid, ran);
    }
    if (count > PROCESSES_SHOWN)
        sheet_note(sheet, "          and %" PRIu32 " more processes (--view processes)",
                   count - PROCESSES_SHOWN);
    sheet_note(sheet, "tree      %" PRIu32 " threads, %" PRIu32 " contexts, %" PRIu32 " phases",
               profile_thread_count(p), p->node_count - profile_root_count(p),
               profile_epoch_count(p));
}

/* The cost of contexts whose outermost callers are missing. */
static uint64_t cut_short(const struct view *view)
{
    const struct tree *tree = &view->tree;
    uint64_t sum = 0;
    for (uint32_t i = 1, outside = 0; i < tree->count; i++) {
        if (i < outside || view->labels.items.items[tree->nodes[i].label].kind != LABEL_GAP)
            continue;
        outside = i + tree->sizes[i];
        sum += tree->totals[i];
    }
    return sum;
}

/* How much of the CPU time the samples stand for: the rest was in the kernel, or was not seen. */
static void note_coverage(struct sheet *sheet)
{
    const struct view *view = sheet->view;
    double user, system, samples, rate, measured, own = 0;
    if (!profile_number(view, "utime_s", &user) || !profile_number(view, "stime_s", &system))
        return;
    sheet_note(sheet, "cpu time  %.3f s user, %.3f s system", user, system);
    bool has_own = profile_number(view, "handler_s", &own);
    char took[64] = ""; /* from outside, it is not known */
    /* How much of the CPU time was in there, nobody has measured. */
    if (profile_number(view, "measured_s", &measured))
        sheet_note(sheet, "measured  %.3f s of the run (--delay, --duration)", measured);
    else if (profile_number(view, "samples", &samples) &&
             profile_number(view, "rate_asked_hz", &rate) && rate > 0 && user + system > 0) {
        double covered = samples / rate / (user + system);
        if (has_own)
            snprintf(took, sizeof took, "; sampling took %.2f%%", 100 * own / (user + system));
        sheet_note(sheet, "covered   %.1f%% of it; %.1f%% is not: system time, and what was lost%s",
                   100 * (covered < 1 ? covered : 1), 100 * (covered < 1 ? 1 - covered : 0), took);
    }
}

/* Threads and processes that were there, and are not in the profile. */
static void note_unmeasured(struct sheet *sheet)
{
    const struct view *view = sheet->view;
    const struct profile *p = view->profile;
    double threads = 0;
    unsigned processes = 0;
    fact_number(view, "threads_not_sampled", &threads);
    for (uint32_t i = 0; i < profile_process_count(p); i++)
        processes += (profile_process(p, i)->flags & CTP_PROCESS_UNATTACHED) != 0;
    if (threads > 0 || processes)
        sheet_note(sheet, "missing   %.0f threads and %u processes were seen, but not measured",
                   threads, processes);
}

static void note_quality(struct sheet *sheet)
{
    const struct view *view = sheet->view;
    char line[256] = "", number[AMOUNT_ROOM];
    size_t used = 0;
    double samples, lost, complete, walks, checked, differ;
    if (fact_number(view, "samples", &samples)) {
        used += (size_t)snprintf(line, sizeof line, "%s samples",
                                 count_text((uint64_t)samples, number));
        if (fact_number(view, "lost", &lost))
            used += (size_t)snprintf(line + used, sizeof line - used, ", %s lost (%.2f%%)",
                                     count_text((uint64_t)lost, number),
                                     lost > 0 ? 100 * lost / (samples + lost) : 0.0);
        sheet_note(sheet, "data      %s", line);
    }
    if (fact_number(view, "walks_total", &walks) &&
        fact_number(view, "walks_complete", &complete) && walks > 0)
        sheet_note(sheet, "walks     %.2f%% complete; callers are missing for %.1f%% of the cost",
                   100 * complete / walks, share_percent(cut_short(view), view->total));
    if (fact_number(view, "verify_checked", &checked) &&
        fact_number(view, "verify_differ", &differ) && checked > 0)
        sheet_note(sheet, "verified  %.0f samples, %.0f differ", checked, differ);
    note_coverage(sheet);
    note_unmeasured(sheet);
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
        if (fact_number(view, keys[i], &value))
            json_double(&sheet->json, keys[i], value);
    }
    json_unsigned(&sheet->json, "callers_missing", cut_short(view));
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

void report_summary(struct sheet *sheet, const struct report_options *options)
{
    struct report_options hottest = *options;
    if (options->limit > HOTTEST_SHOWN || options->limit == 0)
        hottest.limit = HOTTEST_SHOWN;
    note_processes(sheet);
    note_quality(sheet);
    if (sheet->format == SHEET_JSON)
        print_quality_json(sheet);
    print_metrics(sheet);
    report_flat(sheet, &hottest, "functions", "Hottest functions");
    report_contexts(sheet, &hottest, "contexts", "Hottest contexts");
    hottest.limit = HOT_PATH_ROWS;
    hottest.hot_path = true;
    report_tree(sheet, &hottest, NULL, "hot_path", "The hot path");
    sheet_note(sheet, "%s", "");
    sheet_note(sheet,
               "more: --view contexts|topdown|bottomup|flat|threads, --callers FN, --callees FN");
}
