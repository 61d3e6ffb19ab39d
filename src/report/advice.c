#include "report/advice.h"

#include "names/package.h"
#include "query/amount.h"
#include "query/facts.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

/* Below so many samples a share of 10% is off by four points, five times of a hundred. */
enum { SAMPLES_ENOUGH = 200, SAMPLES_WISHED = 1000 };

/* In per cent: what is not worth a word, and when most of a run is spent elsewhere. */
static const double LOST_MOST = 1, CALLERS_MOST = 5, NAMELESS_MOST = 5, COVERED_LEAST = 80,
                    WAITING_MOST = 50, KERNEL_MOST = 40, SAMPLED_LEAST = 5;

/* A run that is over at once says nothing about waiting. */
static const double SECONDS_LEAST = 0.1;

static void say(struct advice *a, bool bad, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void say(struct advice *a, bool bad, const char *format, ...)
{
    struct advice_line line = {.bad = bad};
    va_list args;
    va_start(args, format);
    vsnprintf(line.text, sizeof line.text, format, args);
    va_end(args);
    vec_push(&a->lines, line);
}

static const struct ctp_metric *metric_of(const struct view *view)
{
    return profile_metric(view->profile, view->metric);
}

static bool is_user_time(const struct view *view)
{
    return strcmp(profile_string(view->profile, metric_of(view)->name), "cpu") == 0;
}

/* ---- What is bad ----------------------------------------------------------------------------- */

static bool is_memory(const struct view *view)
{
    const char *name = profile_string(view->profile, metric_of(view)->name);
    return strncmp(name, "heap_", 5) == 0 || strcmp(name, "malloc") == 0;
}

/* Memory is sampled by bytes, and a smaller step costs little where there is little of it. */
static void about_bytes(const struct view *view, struct advice *a)
{
    const struct ctp_metric *metric = metric_of(view);
    const char *name = profile_string(view->profile, metric->name);
    bool is_heap = strncmp(name, "heap_", 5) == 0;
    uint64_t samples = metric->period ? view->total / metric->period : 0, step = metric->period;
    char number[AMOUNT_ROOM];
    if (metric->period <= 1 || samples >= SAMPLES_ENOUGH || !is_memory(view))
        return;
    while (step > 1 && view->total / step < SAMPLES_WISHED)
        step /= 2;
    say(a, true, "only about %s sample%s: shares are rough (record -e %s/%" PRIu64 ")",
        count_text(samples, number), samples == 1 ? "" : "s", is_heap ? "heap" : name, step);
}

/* Each sample stands for so much; 0 where that is not known. */
static double sample_worth(const struct view *view)
{
    const struct ctp_metric *metric = metric_of(view);
    double rate = 0;
    metric_number(view, "rate_asked_hz", &rate);
    return metric->period ? (double)metric->period : rate > 0 ? 1e9 / rate : 0;
}

static bool are_samples_few(const struct view *view)
{
    double samples, each = sample_worth(view);
    if (metric_of(view)->kind != CTP_METRIC_SAMPLED || is_memory(view) ||
        !metric_number(view, "samples", &samples))
        return false;
    /* Of wall time, waiting is measured: how rough the rest is matters where it is much. */
    return samples < SAMPLES_ENOUGH &&
           !(each > 0 && samples * each * 100 < SAMPLED_LEAST * (double)view->total);
}

static void about_samples(const struct view *view, struct advice *a)
{
    double samples, lost, measured, ring = 0, rate = 0;
    char number[AMOUNT_ROOM], higher[64] = "";
    /* The samples of CPU time beside it say nothing about memory. */
    if (metric_of(view)->kind != CTP_METRIC_SAMPLED || is_memory(view) ||
        !metric_number(view, "samples", &samples))
        return;
    metric_number(view, "lost_in_ring", &ring);
    if (metric_number(view, "lost", &lost) && lost * 100 > LOST_MOST * (samples + lost))
        say(a, true, "%s sample%s lost (%.1f%%): %s", count_text((uint64_t)lost, number),
            lost == 1 ? " is" : "s are", 100 * lost / (samples + lost),
            ring > 0 ? "they came faster than they were read (a lower -F helps)"
                     : "the program blocked signals, or ran on stacks too small for a handler");
    if (!are_samples_few(view))
        return;
    metric_number(view, "rate_asked_hz", &rate);
    if (is_user_time(view) && rate > 0 && rate < 4999)
        snprintf(higher, sizeof higher, ", or record -F 4999");
    bool is_part = profile_number(view->profile, "measured_s", &measured);
    if (samples < 1 && is_part && measured == 0)
        say(a, true, "no samples: the program ended before --delay was over");
    else if (samples < 1)
        say(a, true, "no samples: it took hardly any CPU time %s(run it longer%s)",
            is_part ? "while it was measured " : "", higher);
    else
        say(a, true, "only %s sample%s: shares are rough (run it longer%s)",
            count_text((uint64_t)samples, number), samples == 1 ? "" : "s", higher);
}

/* Why callers are missing, mostly. */
static void about_callers(const struct view *view, struct advice *a)
{
    const struct tree *tree = &view->tree;
    uint64_t missing = cost_without_callers(view), most = 0;
    uint32_t label = TREE_NONE;
    char text[256];
    if (share_percent(missing, view->total) <= CALLERS_MOST)
        return;
    for (uint32_t i = 1; i < tree->count; i++)
        if (view->labels.items.items[tree->nodes[i].label].kind == LABEL_GAP &&
            tree->totals[i] > most) {
            most = tree->totals[i];
            label = tree->nodes[i].label;
        }
    bool by_height = label != TREE_NONE && view->labels.items.items[label].number == CTP_GAP_HEIGHT;
    say(a, true, "callers are missing for %.1f%% of the cost, mostly: %s%s",
        share_percent(missing, view->total),
        label == TREE_NONE ? "?" : label_name(&view->labels, label, text, sizeof text),
        by_height ? " (calltrail infer finds them)" : "");
}

static uint64_t sum_of(const struct profile *p, uint32_t index)
{
    uint64_t sum = 0;
    struct ct_error err;
    if (index == CTP_NONE || profile_verify_values(p, index, &err) != CT_OK)
        return 0;
    for (uint32_t i = 0; i < p->node_count; i++)
        sum += profile_value(p, index, i);
    return sum;
}

/* Callers that calltrail infer has found: what is not certain is said. */
static void about_inferred(const struct view *view, struct advice *a)
{
    const struct profile *p = view->profile;
    if (!profile_find_fact(p, CTP_SCOPE_PROFILE, 0, "completed_by"))
        return;
    uint64_t whole = sum_of(p, 0), ambiguous = sum_of(p, profile_find_metric(p, "ambiguous"));
    uint64_t likely = sum_of(p, profile_find_metric(p, "likely"));
    say(a, ambiguous != 0 || likely != 0,
        "callers were inferred by a map of paths: for %.1f%% of the cost one path, for %.1f%% "
        "likely, "
        "and %.1f%% is split among several paths (--metric ambiguous shows where)",
        share_percent(sum_of(p, profile_find_metric(p, "precise")), whole),
        share_percent(likely, whole), share_percent(ambiguous, whole));
}

static void about_verified(const struct view *view, struct advice *a)
{
    double checked, differ;
    if (metric_number(view, "verify_checked", &checked) &&
        metric_number(view, "verify_differ", &differ) && differ > 0)
        say(a, true, "%.0f of %.0f stacks that were walked twice differ", differ, checked);
}

/* Threads and processes that were there, and are not in the profile. */
static void about_unmeasured(const struct view *view, struct advice *a)
{
    const struct profile *p = view->profile;
    double threads = 0;
    uint32_t processes = 0, first = 0;
    metric_number(view, "threads_not_sampled", &threads);
    for (uint32_t i = profile_process_count(p); i-- > 0;) {
        if (profile_process(p, i)->flags & CTP_PROCESS_UNATTACHED) {
            processes++;
            first = i;
        }
    }
    if (threads > 0)
        say(a, true, "%.0f thread%s seen, but not measured", threads,
            threads == 1 ? " was" : "s were");
    if (!processes)
        return;
    const char *path = profile_string(p, profile_process(p, first)->command);
    const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    char others[48] = "";
    if (processes > 1)
        snprintf(others, sizeof others, " and %" PRIu32 " more", processes - 1);
    say(a, true, "%" PRIu32 " process%s seen, but not measured: %.60s%s (info says why)", processes,
        processes == 1 ? " was" : "es were", name, others);
}

static void about_coverage(const struct view *view, struct advice *a)
{
    double user, samples, rate, measured;
    if (!is_user_time(view) || profile_number(view->profile, "measured_s", &measured) ||
        !profile_number(view->profile, "utime_s", &user) ||
        !profile_number(view->profile, "samples", &samples) ||
        !profile_number(view->profile, "rate_asked_hz", &rate) || rate <= 0 || user < SECONDS_LEAST)
        return;
    double covered = 100 * samples / rate / user;
    if (covered < COVERED_LEAST && samples >= 1)
        say(a, true, "the samples stand for %.0f%% of the user CPU time only", covered);
}

/* ---- What else there is to see --------------------------------------------------------------- */

/* How long the first process was on a CPU in the kernel and outside of it, where the profile is of
 * all its life. */
static bool cpu_times(const struct view *view, double *user, double *system)
{
    const struct profile *p = view->profile;
    double measured;
    return is_user_time(view) && !profile_number(p, "measured_s", &measured) &&
           profile_number(p, "utime_s", user) && profile_number(p, "stime_s", system) &&
           profile_process_count(p) > 0;
}

static void about_waiting(const struct view *view, struct advice *a)
{
    const struct profile *p = view->profile;
    double user, system;
    if (!cpu_times(view, &user, &system))
        return;
    double ran = first_process_life(p);
    double waiting = ran > SECONDS_LEAST ? 100 * (1 - (user + system) / ran) : 0;
    if (waiting > WAITING_MOST && profile_find_metric(p, "wall") == CTP_NONE)
        say(a, false,
            "it was on a CPU for %.0f%% of %.3f s: it waited (record -e wall shows where), or "
            "the machine was busy",
            100 - waiting, ran);
}

static void about_kernel(const struct view *view, struct advice *a)
{
    double user, system;
    if (cpu_times(view, &user, &system) && system * 100 > KERNEL_MOST * (user + system) &&
        user + system > SECONDS_LEAST)
        say(a, false,
            "%.0f%% of the CPU time is in the kernel: record --outside -e cpu:uk shows where",
            100 * system / (user + system));
}

/* The module with the greatest cost in code without names. */
static uint32_t nameless_module(const struct view *view, uint64_t *cost)
{
    const struct labels *labels = &view->labels;
    uint32_t modules = profile_module_count(view->profile), best = CTP_NONE;
    uint64_t *costs = must_calloc((size_t)modules + 1, sizeof *costs);
    *cost = 0;
    for (uint32_t i = 1; i < view->tree.count; i++) {
        const struct label *label = &labels->items.items[view->tree.nodes[i].label];
        if (label->kind == LABEL_PLACE && label->module < modules)
            costs[label->module] += view->tree.nodes[i].self;
    }
    for (uint32_t i = 0; i < modules; i++)
        if (costs[i] > *cost) {
            *cost = costs[i];
            best = i;
        }
    free(costs);
    return best;
}

static void about_names(const struct view *view, struct advice *a)
{
    const struct profile *p = view->profile;
    uint64_t cost;
    uint32_t index = nameless_module(view, &cost);
    if (share_percent(cost, view->total) <= NAMELESS_MOST)
        return;
    const struct ctp_module *module = profile_module(p, index);
    const char *path = profile_string(p, module->path);
    double share = share_percent(cost, view->total);
    if (module->kind != CTP_MODULE_FILE) {
        say(a, false, "%.1f%% of the cost is in %s, which has no names", share, path_file(path));
        return;
    }
    char id[2 * CTP_BUILD_ID_ROOM + 1] = "";
    for (uint32_t i = 0; i < module->build_id_size && i < CTP_BUILD_ID_ROOM; i++)
        snprintf(id + 2 * (size_t)i, 3, "%02x", module->build_id[i]);
    char *package = package_of("/var/lib/dpkg/info", path);
    if (package)
        say(a, false,
            "%.1f%% of the cost is in %s without names: install %s-dbgsym, then calltrail "
            "symbolize (build-id %s)",
            share, path_file(path), package, id);
    else if (*id)
        say(a, false,
            "%.1f%% of the cost is in %s without names: calltrail symbolize --debug-dir DIR, or "
            "DEBUGINFOD_URLS (build-id %s)",
            share, path_file(path), id);
    else
        say(a, false,
            "%.1f%% of the cost is in %s without names or a build-id: record a build that is not "
            "stripped",
            share, path_file(path));
    free(package);
}

struct advice advice_about(const struct view *view)
{
    struct advice a = {0};
    bool few = are_samples_few(view);
    /* What waits has few samples, and gets hardly more of them by running longer. */
    if (few)
        about_waiting(view, &a);
    about_samples(view, &a);
    about_bytes(view, &a);
    about_callers(view, &a);
    about_inferred(view, &a);
    about_verified(view, &a);
    about_unmeasured(view, &a);
    about_coverage(view, &a);
    if (!few)
        about_waiting(view, &a);
    about_kernel(view, &a);
    about_names(view, &a);
    return a;
}
