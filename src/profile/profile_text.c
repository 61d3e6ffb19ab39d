/*
 * A profile's summary for people: `calltrail info`. It is meant to fit on a screen or two, so long
 * lists are cut and say so; the JSON has all of it.
 */
#include "base/utf8.h"
#include "base/vec.h"
#include "profile/time_range.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

enum {
    LIST_MAX = 40,        /* processes, metrics, things with facts */
    SHORT_LIST_MAX = 5,   /* processes, where not all is wanted */
    THREADS_MAX = 6,      /* names of threads in a process's line */
    FACTS_MAX = 100,      /* about one thing */
    TEXT_MAX_BYTES = 200, /* of one name or command line */
};

/* Names come from the program under test. */
static size_t print_clean(FILE *out, const char *text, size_t room)
{
    char shown[UTF8_SHOWN_ROOM];
    size_t printed = 0;
    for (const char *at = text; *at;) {
        if (printed >= room) {
            fputs("...", out);
            return printed;
        }
        at += utf8_shown(at, shown);
        fputs(shown, out);
        printed += strlen(shown);
    }
    return printed;
}

static void print_bytes(FILE *out, uint64_t bytes)
{
    static const char *const units[] = {"kB", "MB", "GB", "TB", "PB", "EB"};
    if (bytes < 1000) {
        fprintf(out, "%" PRIu64 " bytes", bytes);
        return;
    }
    double value = (double)bytes / 1000;
    int unit = 0;
    for (; value >= 999.95 && unit < 5; unit++)
        value /= 1000;
    fprintf(out, "%.1f %s", value, units[unit]);
}

static void print_ns(FILE *out, uint64_t ns)
{
    if (ns < 1000)
        fprintf(out, "%" PRIu64 " ns", ns);
    else if (ns < 1000000)
        fprintf(out, "%.4g us", (double)ns / 1e3);
    else if (ns < 1000000000)
        fprintf(out, "%.4g ms", (double)ns / 1e6);
    else
        fprintf(out, "%.3f s", (double)ns / 1e9);
}

static void print_amount(FILE *out, uint64_t value, const char *unit)
{
    if (strcmp(unit, "ns") == 0) {
        print_ns(out, value);
    } else if (strcmp(unit, "bytes") == 0) {
        print_bytes(out, value);
    } else {
        char *shown = must_strdup(unit);
        size_t length = strlen(unit);
        if (value == 1 && length >= 4 && unit[length - 1] == 's') /* "1 call" */
            shown[length - 1] = '\0';
        fprintf(out, "%" PRIu64 " ", value);
        print_clean(out, shown, TEXT_MAX_BYTES);
        free(shown);
    }
}

static void print_cut(FILE *out, const char *indent, uint32_t left)
{
    if (left)
        fprintf(out, "%sand %" PRIu32 " more (--json prints all)\n", indent, left);
}

static void print_facts(FILE *out, const struct profile *p, enum ctp_scope scope, uint32_t index,
                        const char *indent)
{
    enum { KEY_COLUMN = 26 };
    struct profile_range range = profile_facts_of(p, scope, index);
    for (uint32_t i = range.first; i < range.end; i++) {
        const struct ctp_fact *fact = profile_fact(p, i);
        if (i - range.first == FACTS_MAX) {
            print_cut(out, indent, range.end - i);
            return;
        }
        fputs(indent, out);
        size_t width = print_clean(out, profile_string(p, fact->key), TEXT_MAX_BYTES);
        fprintf(out, "%*s", width < KEY_COLUMN ? (int)(KEY_COLUMN - width) : 2, "");
        if (fact->type == CTP_I64)
            fprintf(out, "%" PRId64, (int64_t)fact->value);
        else if (fact->type == CTP_F64)
            fprintf(out, "%.10g", profile_fact_double(fact));
        else if (fact->type == CTP_STRING)
            print_clean(out, profile_string(p, fact->value), TEXT_MAX_BYTES);
        else
            fprintf(out, "%" PRIu64, fact->value);
        putc('\n', out);
    }
}

static void print_command_line(FILE *out, const struct profile *p,
                               const struct ctp_process *process)
{
    size_t used = 0;
    const char *argument;
    for (uint32_t i = 0; (argument = profile_argument(p, process, i)) != NULL; i++) {
        if (used >= TEXT_MAX_BYTES) {
            fputs(" ...", out);
            return;
        }
        bool plain = *argument && !strpbrk(argument, " \t\n'\"\\$`*?;&|<>()");
        fputs(i ? " " : "", out);
        fputs(plain ? "" : "'", out);
        used += print_clean(out, argument, TEXT_MAX_BYTES - used) + 3;
        fputs(plain ? "" : "'", out);
    }
}

static void print_times_and_exit(FILE *out, const struct profile *p, uint32_t index)
{
    const struct ctp_process *process = profile_process(p, index);
    const struct ctp_fact *why = profile_find_fact(p, CTP_SCOPE_PROCESS, index, "restricted");
    const char *separator = "";
    time_t start = (time_t)(process->start_ns / 1000000000);
    struct tm local;
    char date[64];
    if (process->start_ns && localtime_r(&start, &local) &&
        strftime(date, sizeof date, "%Y-%m-%d %H:%M:%S", &local)) {
        fprintf(out, "started %s", date);
        separator = ", ";
    }
    if (process->start_ns && process->end_ns >= process->start_ns) {
        fprintf(out, "%sran ", separator);
        print_ns(out, process->end_ns - process->start_ns);
        separator = ", ";
    }
    if (process->exit_kind == CTP_EXIT_STATUS)
        fprintf(out, "%sexited with status %" PRIu32, separator, process->exit_value);
    else if (process->exit_kind == CTP_EXIT_SIGNAL)
        fprintf(out, "%skilled by signal %" PRIu32, separator, process->exit_value);
    else if (process->exit_kind == CTP_EXIT_EXEC)
        fprintf(out, "%sbecame another program (exec)", separator);
    else if (profile_process_lives(p, index) == 1)
        fprintf(out, "%sits end was not seen", separator);
    if ((process->flags & CTP_PROCESS_UNATTACHED) && !why)
        fputs(", not measured", out);
    if (why) {
        fputs(", ", out);
        print_clean(out, profile_string(p, (uint32_t)why->value), TEXT_MAX_BYTES);
    }
    putc('\n', out);
}

/* The threads of a process, by looking through all of them: only LIST_MAX processes do so. */
static void print_threads(FILE *out, const struct profile *p, uint32_t process)
{
    uint64_t count = 0, shown = 0;
    for (uint32_t i = 0; i < profile_thread_count(p); i++)
        count += profile_thread(p, i)->process == process ? profile_thread_lives(p, i) : 0;
    fprintf(out, "      %" PRIu64 " thread%s", count, count == 1 ? "" : "s");
    for (uint32_t i = 0, listed = 0; i < profile_thread_count(p) && listed < THREADS_MAX; i++) {
        const struct ctp_thread *thread = profile_thread(p, i);
        if (thread->process != process)
            continue;
        listed++;
        uint64_t lives = profile_thread_lives(p, i);
        fputs(shown ? ", " : ": ", out);
        shown += lives;
        print_clean(out, profile_string(p, thread->name), 32);
        if (lives > 1 && thread->tid)
            fprintf(out, " (the last of %" PRIu64 ": %" PRIu32 ")", lives, thread->tid);
        else if (lives > 1)
            fprintf(out, " (%" PRIu64 ")", lives);
        else
            fprintf(out, " (%" PRIu32 ")", thread->tid);
    }
    if (count > shown)
        fprintf(out, " and %" PRIu64 " more", count - shown);
    putc('\n', out);
}

static void print_processes(FILE *out, const struct profile *p, bool all)
{
    uint32_t count = profile_process_count(p), most = all ? LIST_MAX : SHORT_LIST_MAX;
    fputs("\nWhat ran\n", out);
    for (uint32_t i = 0; i < count && i < most; i++) {
        const struct ctp_process *process = profile_process(p, i);
        uint32_t parent = profile_process_parent(p, i);
        uint64_t lives = profile_process_lives(p, i);
        if (lives > 1)
            fprintf(out, "  %" PRIu64 " processes", lives);
        else
            fprintf(out, "  pid %" PRIu32, process->pid);
        if (parent != CTP_NONE)
            fprintf(out,
                    process->flags & CTP_PROCESS_EXEC ? " (exec by pid %" PRIu32 ")"
                                                      : " (child of %" PRIu32 ")",
                    profile_process(p, parent)->pid);
        fputs(": ", out);
        print_clean(out, profile_string(p, process->command), TEXT_MAX_BYTES);
        putc('\n', out);
        if (process->argument_count) {
            fputs("      ", out);
            print_command_line(out, p, process);
            putc('\n', out);
        }
        fputs("      ", out);
        print_times_and_exit(out, p, i);
        print_threads(out, p, i);
        if (all)
            print_facts(out, p, CTP_SCOPE_PROCESS, i, "      ");
    }
    print_cut(out, "  ", count > most ? count - most : 0);
}

/* How many samples of a metric have a time, and from when to when they came. */
static void print_times(FILE *out, const struct profile *p, uint32_t metric)
{
    uint64_t count = 0, first = UINT64_MAX, last = 0;
    for (uint32_t i = 0; i < profile_time_run_count(p); i++) {
        const struct ctp_time_run *run = profile_time_run(p, i);
        if (run->metric != metric)
            continue;
        uint64_t from = profile_run_us(p, run, false);
        uint64_t to = profile_run_us(p, run, true);
        first = from < first ? from : first;
        last = to > last ? to : last;
        count += run->count;
    }
    if (count)
        fprintf(out, "      times of %" PRIu64 " samples, from %.3f s to %.3f s\n", count,
                (double)first / 1e6, (double)last / 1e6);
}

static void print_metrics(FILE *out, const struct profile *p, const struct profile_stats *stats,
                          bool all)
{
    fputs("\nWhat was measured\n", out);
    for (uint32_t i = 0; i < p->metric_count && i < LIST_MAX; i++) {
        const struct ctp_metric *metric = profile_metric(p, i);
        const char *unit = profile_string(p, metric->unit);
        fputs("  ", out);
        print_clean(out, profile_string(p, metric->name), TEXT_MAX_BYTES);
        fputs(metric->kind == CTP_METRIC_AT_LEAST ? ": at least " : ": ", out);
        print_amount(out, stats->metrics[i].total, unit);
        uint32_t contexts = stats->metrics[i].contexts;
        fprintf(out, " in %" PRIu32 " context%s", contexts, contexts == 1 ? "" : "s");
        if (metric->kind == CTP_METRIC_EXACT)
            fputs(", exact", out);
        if (metric->kind == CTP_METRIC_SAMPLED && !metric->period)
            fputs(", sampled", out);
        else if (metric->kind == CTP_METRIC_SAMPLED) {
            fputs(", one sample every ", out);
            print_amount(out, metric->period, unit);
        }
        putc('\n', out);
        if (*profile_string(p, metric->description)) {
            fputs("      ", out);
            print_clean(out, profile_string(p, metric->description), TEXT_MAX_BYTES);
            putc('\n', out);
        }
        print_times(out, p, i);
        if (all)
            print_facts(out, p, CTP_SCOPE_METRIC, i, "      ");
    }
    print_cut(out, "  ", p->metric_count > LIST_MAX ? p->metric_count - LIST_MAX : 0);
}

static void print_tree(FILE *out, const struct profile *p, const struct profile_stats *stats)
{
    uint32_t roots = profile_root_count(p);
    fprintf(out,
            "\nThe tree\n"
            "  %" PRIu32 " nodes in %" PRIu32 " root%s, %" PRIu32 " of them leaves\n"
            "  at most %" PRIu32 " frames deep, %.1f on average\n"
            "  %" PRIu32 " frames, %" PRIu32 " functions, %" PRIu32 " modules\n",
            p->node_count, roots, roots == 1 ? "" : "s", stats->leaves, stats->max_depth,
            stats->mean_depth, profile_frame_count(p), profile_function_count(p),
            profile_module_count(p));
    uint32_t epochs = profile_epoch_count(p);
    for (uint32_t i = 0; i < epochs && i < LIST_MAX; i++) {
        fputs(i ? ", " : "  phases: ", out);
        print_clean(out, profile_string(p, profile_epoch(p, i)->name), 60);
    }
    if (epochs)
        fputs(epochs > LIST_MAX ? "...\n" : "\n", out);
}

/* Facts about threads or modules, under the name of each that has some. */
static void print_facts_of_all(FILE *out, const struct profile *p, enum ctp_scope scope,
                               const char *heading, uint32_t count)
{
    uint32_t shown = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct profile_range range = profile_facts_of(p, scope, i);
        if (range.first == range.end)
            continue;
        if (shown == LIST_MAX) {
            fputs("  and more (--json prints all)\n", out);
            return;
        }
        fputs(shown++ ? "  " : heading, out);
        uint32_t name =
            scope == CTP_SCOPE_THREAD ? profile_thread(p, i)->name : profile_module(p, i)->path;
        print_clean(out, profile_string(p, name), TEXT_MAX_BYTES);
        putc('\n', out);
        print_facts(out, p, scope, i, "      ");
    }
}

/* A fact of the whole profile as a number; false when it does not say. */
static bool number(const struct profile *p, const char *key, double *out)
{
    const struct ctp_fact *fact = profile_find_fact(p, CTP_SCOPE_PROFILE, 0, key);
    if (!fact || fact->type == CTP_STRING)
        return false;
    *out = fact->type == CTP_F64   ? profile_fact_double(fact)
           : fact->type == CTP_I64 ? (double)(int64_t)fact->value
                                   : (double)fact->value;
    return true;
}

/* How well it was measured, in words. */
static void print_quality(FILE *out, const struct profile *p)
{
    double samples, asked, got, lost, walks, complete, user, system, own, checked, differ;
    double untimed, measured;
    fputs("\nHow well\n", out);
    if (number(p, "samples", &samples)) {
        fprintf(out, "  %.0f samples", samples);
        if (number(p, "lost", &lost))
            fprintf(out, lost > 0 ? ", %.0f lost" : ", none lost", lost);
        if (number(p, "rate_asked_hz", &asked))
            fprintf(out, "; %.0f Hz requested", asked);
        if (number(p, "rate_got_hz", &got))
            fprintf(out, ", %.0f Hz achieved", got);
        putc('\n', out);
    }
    if (number(p, "times_lost", &untimed))
        fprintf(out, "  the times of %.0f samples are not known\n", untimed);
    if (number(p, "times_dropped", &untimed))
        fprintf(out, "  %.0f times of samples are too many for a merged profile: it has none\n",
                untimed);
    if (number(p, "walks_total", &walks) && number(p, "walks_complete", &complete) && walks > 0)
        fprintf(out, "  %.0f of %.0f stacks are complete\n", complete, walks);
    if (number(p, "verify_checked", &checked) && number(p, "verify_differ", &differ) && checked > 0)
        fprintf(out, "  %.0f stacks walked twice, %.0f differ\n", checked, differ);
    if (number(p, "utime_s", &user) && number(p, "stime_s", &system)) {
        fprintf(out, "  CPU time: %.3f s user, %.3f s system", user, system);
        if (number(p, "handler_s", &own) && user + system > 0)
            fprintf(out, "; sampling took %.2f%% of it", 100 * own / (user + system));
        putc('\n', out);
    }
    if (number(p, "measured_s", &measured))
        fprintf(out, "  measured for %.3f s of the run\n", measured);
    fputs("  (--all prints every fact)\n", out);
}

void profile_print_text(const struct profile *p, bool all, FILE *out)
{
    struct profile_stats stats;
    profile_stats(p, &stats);
    print_clean(out, p->name, TEXT_MAX_BYTES);
    fprintf(out, ": calltrail profile, format %u.%u, ", p->header->major, p->header->minor);
    print_bytes(out, p->size);
    putc('\n', out);
    if (all)
        print_facts(out, p, CTP_SCOPE_PROFILE, 0, "  ");
    print_processes(out, p, all);
    print_metrics(out, p, &stats, all);
    if (!all)
        print_quality(out, p);
    print_tree(out, p, &stats);
    if (all)
        print_facts_of_all(out, p, CTP_SCOPE_THREAD, "\nThreads\n  ", profile_thread_count(p));
    if (all)
        print_facts_of_all(out, p, CTP_SCOPE_MODULE, "\nModules\n  ", profile_module_count(p));
    profile_stats_free(&stats);
}
