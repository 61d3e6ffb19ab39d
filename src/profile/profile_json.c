/*
 * A profile's summary as JSON, for programs: `calltrail info --json`.
 *
 * Facts are plain keys of the thing they are about, beside the keys that are always there. Should a
 * fact have the name of one of those, it is printed with "fact." before it.
 */
#include "profile/time_range.h"

#include "base/json.h"

#include <inttypes.h>
#include <string.h>

/* Innermost frames that are printed of a path: recursion can make it millions long. */
enum { PATH_MAX_NODES = 64 };

static const char *const profile_keys[] = {
    "file",      "format",     "file_bytes", "nodes",   "roots", "leaves",  "max_depth",
    "deepest",   "mean_depth", "functions",  "frames",  "lines", "metrics", "times",
    "processes", "threads",    "epochs",     "modules", NULL};
static const char *const metric_keys[] = {"name",  "unit",     "description", "kind", "period",
                                          "total", "contexts", "heaviest",    NULL};
static const char *const process_keys[] = {"pid",         "parent",      "command",   "arguments",
                                           "after_exec",  "attached",    "start_ns",  "end_ns",
                                           "exit_status", "exit_signal", "exit_exec", NULL};
static const char *const thread_keys[] = {"process",  "tid",    "name", "creator",
                                          "start_ns", "end_ns", NULL};
static const char *const module_keys[] = {"path", "kind", "base", "size", "build_id", NULL};

static bool is_taken(const char *key, const char *const *taken)
{
    for (; *taken; taken++)
        if (strcmp(key, *taken) == 0)
            return true;
    return false;
}

static void write_facts(struct json *j, const struct profile *p, enum ctp_scope scope,
                        uint32_t index, const char *const *taken)
{
    struct profile_range range = profile_facts_of(p, scope, index);
    for (uint32_t i = range.first; i < range.end; i++) {
        const struct ctp_fact *fact = profile_fact(p, i);
        const char *key = profile_string(p, fact->key);
        char prefixed[CTP_KEY_MAX + sizeof "fact."];
        if (is_taken(key, taken)) {
            snprintf(prefixed, sizeof prefixed, "fact.%s", key);
            key = prefixed;
        }
        if (fact->type == CTP_I64)
            json_signed(j, key, (int64_t)fact->value);
        else if (fact->type == CTP_F64)
            json_double(j, key, profile_fact_double(fact));
        else if (fact->type == CTP_STRING)
            json_string(j, key, profile_string(p, fact->value));
        else
            json_unsigned(j, key, fact->value);
    }
}

/* A node and the names on its path, from the node outwards. */
static void write_path(struct json *j, const struct profile *p, const char *key, uint32_t node)
{
    if (node == CTP_NONE)
        return;
    json_open(j, key, '{');
    json_unsigned(j, "node", node);
    json_open(j, "path", '[');
    uint32_t at = node;
    for (int i = 0; i < PATH_MAX_NODES && at != CTP_NONE; i++, at = profile_parent(p, at)) {
        char name[1024];
        json_string(j, NULL, profile_node_name(p, at, name, sizeof name));
    }
    json_close(j, ']');
    json_bool(j, "cut", at != CTP_NONE);
    json_close(j, '}');
}

static void write_metrics(struct json *j, const struct profile *p,
                          const struct profile_stats *stats)
{
    json_open(j, "metrics", '[');
    for (uint32_t i = 0; i < p->metric_count; i++) {
        const struct ctp_metric *metric = profile_metric(p, i);
        json_open(j, NULL, '{');
        json_string(j, "name", profile_string(p, metric->name));
        json_string(j, "unit", profile_string(p, metric->unit));
        json_string(j, "description", profile_string(p, metric->description));
        json_string(j, "kind", profile_metric_kind_name(metric->kind));
        json_unsigned(j, "period", metric->period);
        json_unsigned(j, "total", stats->metrics[i].total);
        json_unsigned(j, "contexts", stats->metrics[i].contexts);
        write_path(j, p, "heaviest", stats->metrics[i].heaviest_node);
        write_facts(j, p, CTP_SCOPE_METRIC, i, metric_keys);
        json_close(j, '}');
    }
    json_close(j, ']');
}

static void write_exit(struct json *j, const struct ctp_process *process)
{
    if (process->exit_kind == CTP_EXIT_STATUS)
        json_unsigned(j, "exit_status", process->exit_value);
    else if (process->exit_kind == CTP_EXIT_SIGNAL)
        json_unsigned(j, "exit_signal", process->exit_value);
    else if (process->exit_kind == CTP_EXIT_EXEC)
        json_bool(j, "exit_exec", true);
}

static void write_times(struct json *j, const struct profile *p)
{
    json_open(j, "times", '[');
    for (uint32_t i = 0; i < profile_time_run_count(p); i++) {
        const struct ctp_time_run *run = profile_time_run(p, i);
        json_open(j, NULL, '{');
        json_unsigned(j, "metric", run->metric);
        json_unsigned(j, "value", run->value);
        json_unsigned(j, "count", run->count);
        json_unsigned(j, "first_us", profile_run_us(p, run, false));
        json_unsigned(j, "last_us", profile_run_us(p, run, true));
        json_close(j, '}');
    }
    json_close(j, ']');
}

static void write_processes(struct json *j, const struct profile *p)
{
    json_open(j, "processes", '[');
    for (uint32_t i = 0; i < profile_process_count(p); i++) {
        const struct ctp_process *process = profile_process(p, i);
        json_open(j, NULL, '{');
        json_unsigned(j, "pid", process->pid);
        if (profile_process_parent(p, i) != CTP_NONE)
            json_unsigned(j, "parent", profile_process_parent(p, i));
        json_string(j, "command", profile_string(p, process->command));
        json_open(j, "arguments", '[');
        const char *argument;
        for (uint32_t k = 0; (argument = profile_argument(p, process, k)) != NULL; k++)
            json_string(j, NULL, argument);
        json_close(j, ']');
        json_bool(j, "after_exec", process->flags & CTP_PROCESS_EXEC);
        json_bool(j, "attached", !(process->flags & CTP_PROCESS_UNATTACHED));
        json_unsigned(j, "start_ns", process->start_ns);
        json_unsigned(j, "end_ns", process->end_ns);
        write_exit(j, process);
        write_facts(j, p, CTP_SCOPE_PROCESS, i, process_keys);
        json_close(j, '}');
    }
    json_close(j, ']');
}

static void write_threads(struct json *j, const struct profile *p)
{
    json_open(j, "threads", '[');
    for (uint32_t i = 0; i < profile_thread_count(p); i++) {
        const struct ctp_thread *thread = profile_thread(p, i);
        json_open(j, NULL, '{');
        json_unsigned(j, "process", thread->process);
        json_unsigned(j, "tid", thread->tid);
        json_string(j, "name", profile_string(p, thread->name));
        if (thread->creator != CTP_NONE)
            json_unsigned(j, "creator", thread->creator);
        json_unsigned(j, "start_ns", thread->start_ns);
        json_unsigned(j, "end_ns", thread->end_ns);
        write_facts(j, p, CTP_SCOPE_THREAD, i, thread_keys);
        json_close(j, '}');
    }
    json_close(j, ']');
}

static void write_build_id(struct json *j, const struct ctp_module *module)
{
    char hex[2 * CTP_BUILD_ID_ROOM + 1] = "";
    for (uint32_t i = 0; i < module->build_id_size && i < CTP_BUILD_ID_ROOM; i++)
        snprintf(hex + (size_t)2 * i, 3, "%02x", module->build_id[i]);
    json_string(j, "build_id", hex);
}

static void write_modules(struct json *j, const struct profile *p)
{
    json_open(j, "modules", '[');
    for (uint32_t i = 0; i < profile_module_count(p); i++) {
        const struct ctp_module *module = profile_module(p, i);
        json_open(j, NULL, '{');
        json_string(j, "path", profile_string(p, module->path));
        json_string(j, "kind", profile_module_kind_name(module->kind));
        json_unsigned(j, "base", module->base);
        json_unsigned(j, "size", module->size);
        write_build_id(j, module);
        write_facts(j, p, CTP_SCOPE_MODULE, i, module_keys);
        json_close(j, '}');
    }
    json_close(j, ']');
}

static void write_tree(struct json *j, const struct profile *p, const struct profile_stats *stats)
{
    json_unsigned(j, "nodes", p->node_count);
    json_unsigned(j, "roots", profile_root_count(p));
    json_unsigned(j, "leaves", stats->leaves);
    json_unsigned(j, "max_depth", stats->max_depth);
    json_double(j, "mean_depth", stats->mean_depth);
    write_path(j, p, "deepest", stats->deepest_node);
    json_unsigned(j, "functions", profile_function_count(p));
    json_unsigned(j, "frames", profile_frame_count(p));
    json_unsigned(j, "lines", profile_line_count(p));
}

void profile_print_json(const struct profile *p, FILE *out)
{
    struct profile_stats stats;
    profile_stats(p, &stats);
    char format[32];
    snprintf(format, sizeof format, "%u.%u", p->header->major, p->header->minor);

    struct json writer = json_to(out), *j = &writer;
    json_open(j, NULL, '{');
    json_string(j, "file", p->name);
    json_string(j, "format", format);
    json_unsigned(j, "file_bytes", p->size);
    write_facts(j, p, CTP_SCOPE_PROFILE, 0, profile_keys);
    write_tree(j, p, &stats);
    write_metrics(j, p, &stats);
    write_times(j, p);
    write_processes(j, p);
    write_threads(j, p);
    json_open(j, "epochs", '[');
    for (uint32_t i = 0; i < profile_epoch_count(p); i++)
        json_string(j, NULL, profile_string(p, profile_epoch(p, i)->name));
    json_close(j, ']');
    write_modules(j, p);
    json_close(j, '}');
    profile_stats_free(&stats);
}
