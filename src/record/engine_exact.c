/*
 * Engine `exact`: every call in its context. Its options, and what it says; the calls themselves
 * are in engine_exact_tree.c, traces of them in trace_file.c.
 */
#include "record/engine.h"
#include "record/engine_exact_tree.h"
#include "record/record.h"
#include "record/trace_file.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

struct exact_options {
    const char *modules; /* a glob for the modules whose calls are counted; NULL: all */
    bool fold_recursion;
    bool height;
    bool times;
    uint64_t max_nodes; /* 0: as many as there is room for */
    uint32_t k;         /* callers of each call that are kept, at least; 0: all */
    const char *trace;  /* where every call goes, too; NULL: nowhere */
    uint64_t burst_ns,
        burst_period_ns; /* calls are counted for so long in each period; 0: always */
};

/* --- options -----------------------------------------------------------------------------------
 */

static int take_modules(void *options, const char *argument, struct ct_error *err)
{
    (void)err;
    ((struct exact_options *)options)->modules = argument;
    return CT_OK;
}

static int take_fold_recursion(void *options, const char *argument, struct ct_error *err)
{
    (void)argument;
    (void)err;
    ((struct exact_options *)options)->fold_recursion = true;
    return CT_OK;
}

static int take_k(void *options, const char *argument, struct ct_error *err)
{
    enum { MOST_CALLERS = 100 };
    char *end;
    unsigned long k = strtoul(argument, &end, 10);
    if (*end || *argument < '0' || *argument > '9' || strlen(argument) > 3 || k < 1 ||
        k > MOST_CALLERS)
        return ct_fail(err, "--k: '%s' is not from 1 to %d callers", argument, MOST_CALLERS);
    ((struct exact_options *)options)->k = (uint32_t)k;
    return CT_OK;
}

static int take_height(void *options, const char *argument, struct ct_error *err)
{
    (void)argument;
    (void)err;
    ((struct exact_options *)options)->height = true;
    return CT_OK;
}

/* ON/PERIOD in milliseconds; the unit may be there. */
static bool read_burst(const char *text, struct exact_options *out)
{
    char *end;
    double on_ms = strtod(text, &end);
    end += strncmp(end, "ms", 2) == 0 ? 2 : 0;
    if (end == text || *end != '/')
        return false;
    const char *second = end + 1;
    double period_ms = strtod(second, &end);
    bool is_number = end != second && *second >= '0' && *second <= '9';
    end += strncmp(end, "ms", 2) == 0 ? 2 : 0;
    if (!is_number || *end || !(on_ms >= 0.02) || !(period_ms <= 1000) || !(on_ms < period_ms))
        return false;
    out->burst_ns = (uint64_t)(on_ms * 1e6);
    out->burst_period_ns = (uint64_t)(period_ms * 1e6);
    return true;
}

static int take_burst(void *options, const char *argument, struct ct_error *err)
{
    if (!read_burst(argument, options))
        return ct_fail(err,
                       "--burst: '%s' is not ON/PERIOD in ms, like 0.2/2: ON from 0.02, PERIOD up "
                       "to 1000 and longer than ON",
                       argument);
    return CT_OK;
}

static int take_trace(void *options, const char *argument, struct ct_error *err)
{
    (void)err;
    ((struct exact_options *)options)->trace = argument;
    return CT_OK;
}

static int take_max_nodes(void *options, const char *argument, struct ct_error *err)
{
    char *end;
    struct exact_options *o = options;
    o->max_nodes = strtoul(argument, &end, 10);
    if (*end || !*argument || o->max_nodes < 1)
        return ct_fail(err, "'%s' is not a number of contexts", argument);
    return CT_OK;
}

static int take_metric(void *options, const char *argument, struct ct_error *err)
{
    if (strcmp(argument, "time") != 0)
        return ct_fail(err, "--metric: there is no '%s'; there is: time", argument);
    ((struct exact_options *)options)->times = true;
    return CT_OK;
}

static const struct engine_option option_rows[] = {
    {.name = "metric",
     .letter = 'm',
     .argument = "METRIC",
     .take = take_metric,
     .help = "measure the time in each context as well: METRIC is time",
     .man =
         ".Cm time :\nthe time that was spent in each context as well, by the time stamp counter:\n"
         "from each counted call or return of a thread to the next.\n"},
    {.name = "modules",
     .argument = "GLOB",
     .take = take_modules,
     .help = "only calls from modules whose path or name matches",
     .man = "count only calls from modules whose path or name matches.\n"},
    {.name = "fold-recursion",
     .take = take_fold_recursion,
     .help = "a recursive call goes back to the context of the first",
     .man = "a function that calls itself, or is called by what it called, goes back to the\n"
            "context of its first call.\n"},
    {.name = "k",
     .argument = "K",
     .take = take_k,
     .help = "keep the last K callers of each call, 1 to 100, not all:\n"
             "contexts are then bounded by the program's structure",
     .man = "keep the last\n.Ar k\ncallers of each call, 1 to 100, not all.\n"
            "Numbers stay exact, and the number of contexts is bounded by the structure of the\n"
            "program.\n"},
    {.name = "height",
     .take = take_height,
     .help = "the stack's height in each context, and whether it varies",
     .man = "two metrics more:\n.Cm height ,\n"
            "the bytes of stack from the outermost return address to that of the context when it\n"
            "was entered first, and\n.Cm height_varies ,\n"
            "1 for contexts that were entered with another height, too.\n"},
    {.name = "burst",
     .argument = "ON/PERIOD",
     .otherwise = "0.2/2",
     .take = take_burst,
     .help = "count the calls of ON ms in each PERIOD ms of CPU time\n"
             "(0.2/2): an estimate, for less time",
     .man = "count the calls of\n.Ar on\nmilliseconds of CPU time in each\n.Ar period\n"
            "(0.2/2): an estimate of all, with its error in\n.Xr calltrail-report 1 ,\n"
            "for less time.\n"},
    {.name = "trace",
     .argument = "FILE",
     .take = take_trace,
     .help = "write every call and return to FILE, too; see calltrail kctx",
     .man = "write every call and return to\n.Ar file\nas well, for\n.Xr calltrail-kctx 1 .\n"},
    {.name = "max-nodes",
     .argument = "N",
     .take = take_max_nodes,
     .help = "at most N contexts; calls in further ones are counted in one",
     .man = "at most\n.Ar n\ncontexts in each process.\n"
            "Calls in contexts beyond are counted in one, and a message says so.\n"},
    {0}};

static int check(const void *options, const struct record_options *all, struct ct_error *err)
{
    const struct exact_options *o = options;
    bool is_part = all->delay_s > 0 || all->duration_s > 0;
    if (o->k && (o->fold_recursion || o->height))
        return ct_fail(err, "--k cannot be combined with %s",
                       o->height ? "--height" : "--fold-recursion, and bounds recursion, too");
    if (o->burst_ns && (all->events.mask || o->height || is_part))
        return ct_fail(err,
                       "--burst cannot be combined with --event, --height, --delay or --duration");
    if (o->times && (o->k || o->burst_ns || o->trace || is_part))
        return ct_fail(err, "--metric time needs whole contexts and all calls: it cannot be "
                            "combined with --k, --burst, --trace, --delay or --duration");
    if (o->trace && (o->k || o->burst_ns || o->fold_recursion || all->events.mask || is_part))
        return ct_fail(err, "--trace has whole contexts and all calls: it cannot be combined with "
                            "--k, --burst, --fold-recursion, --event, --delay or --duration");
    if (all->perf.count)
        return ct_fail(err, "perf events cannot be combined with --engine exact");
    return CT_OK;
}

static void make_settings(const void *options, const struct record_options *all,
                          uint64_t settings[ENGINE_SETTINGS])
{
    (void)all;
    const struct exact_options *o = options;
    struct exact_settings s = {
        .flags = (o->fold_recursion ? EXACT_FOLDS : 0u) | (o->height ? EXACT_HEIGHTS : 0u) |
                 (o->trace ? EXACT_TRACES : 0u) | (o->times ? EXACT_TIMES : 0u),
        .most_records = o->max_nodes,
        .burst_ns = o->burst_ns,
        .k = o->k};
    memcpy(settings, &s, sizeof s);
}

static bool edits(const void *options, const char *path)
{
    const char *glob = ((const struct exact_options *)options)->modules;
    const char *name = strrchr(path, '/');
    return !glob || fnmatch(glob, path, 0) == 0 || (name && fnmatch(glob, name + 1, 0) == 0);
}

static uint64_t tick_ns(const void *options)
{
    return ((const struct exact_options *)options)->burst_period_ns;
}

static const char *trace_path(const void *options)
{
    return ((const struct exact_options *)options)->trace;
}

/* --- what was counted --------------------------------------------------------------------------
 */

static void write_facts(const struct server *s, const uint64_t sums[ENGINE_SUMS],
                        struct profile_writer *w, enum ctp_scope scope, uint32_t index)
{
    static const char *const slow_names[SLOW_REASONS] = {[SLOW_NEW] = "slow_new_contexts",
                                                         [SLOW_RESYNC] = "slow_resyncs",
                                                         [SLOW_UNCOUNTED] = "slow_uncounted",
                                                         [SLOW_OTHER] = "slow_others"};
    profile_fact_u64(w, scope, index, "calls", sums[SUM_CALLS]);
    if (exact_settings_in(s->settings)->flags & EXACT_TIMES)
        profile_fact_u64(w, scope, index, "calls_not_timed", sums[SUM_CALLS_NOT_TIMED]);
    profile_fact_u64(w, scope, index, "call_records", sums[SUM_RECORDS]);
    for (unsigned i = 0; i < SLOW_REASONS; i++)
        profile_fact_u64(w, scope, index, slow_names[i], sums[SUM_FIRST_SLOW + i]);
}

static void write_metric_facts(const struct server *s, const uint64_t sums[ENGINE_SUMS],
                               struct profile_writer *w, uint32_t calls)
{
    const struct exact_settings *settings = exact_settings_in(s->settings);
    if (settings->burst_ns) {
        profile_fact_i64(w, CTP_SCOPE_METRIC, calls, "burst_on_ns", (int64_t)settings->burst_ns);
        profile_fact_i64(w, CTP_SCOPE_METRIC, calls, "burst_period_ns", (int64_t)s->period_ns);
        profile_fact_u64(w, CTP_SCOPE_METRIC, calls, "bursts", sums[SUM_BURSTS]);
        profile_fact_u64(w, CTP_SCOPE_METRIC, calls, "calls_in_bursts", sums[SUM_CALLS_IN_BURSTS]);
        profile_fact_u64(w, CTP_SCOPE_METRIC, calls, "calls_made",
                         sums[SUM_CALLS_IN_BURSTS] + sums[SUM_CALLS_BETWEEN]);
    }
    if (settings->k)
        profile_fact_i64(w, CTP_SCOPE_METRIC, calls, "callers_kept", settings->k);
}

static void say_what_is_missing(const struct server *s, const struct server_arena *a)
{
    const struct exact_settings *settings = exact_settings_in(s->settings);
    uint64_t records = exact_process_in(a->header)->records;
    if (!a->is_full && !(settings->most_records && records >= settings->most_records))
        return;
    fprintf(stderr,
            "calltrail: pid %u had more than %llu contexts: what came later is counted in one; "
            "%s\n",
            (unsigned)a->pid, (unsigned long long)records,
            settings->most_records ? "see --max-nodes"
                                   : "--k, --fold-recursion or --modules need fewer");
}

const struct record_engine record_exact = {
    ENGINE_IS(exact),
    .help = "count every call in its context, in unchanged programs; add -e cpu for\n"
            "samples on the same tree",
    .man = "Every call is counted in its full context, by call sites that are edited in the\n"
           "program's memory.\nThe metric is\n.Cm calls ;\nwith\n.Fl e Cm cpu\n"
           "there are samples on the same tree, and\n.Cm cpu\ncomes first.\nWith\n"
           ".Fl -delay\nand\n.Fl -duration\n"
           "the calls of that time alone are counted; then the program has its own code again.\n",
    .options = option_rows,
    .options_bytes = sizeof(struct exact_options),
    .check = check,
    .settings = make_settings,
    .most_arena_bytes = UINT64_C(1536) << 20, /* a context takes ten times what a sample's does */
    .counts_always = true,
    .edits = edits,
    .tick_ns = tick_ns,
    .metrics = exact_tree_metrics,
    .arena_begins = exact_tree_begin,
    .grow = exact_tree_grow,
    .arena_ends = exact_tree_end,
    .write_facts = write_facts,
    .write_metric_facts = write_metric_facts,
    .say_what_is_missing = say_what_is_missing,
    .output = trace_path,
    .write_output = trace_file_write,
};
