/*
 * A profile into a writer, record by record: indices stay, strings get new offsets.
 */
#include "base/vec.h"
#include "profile/merge.h"

#include <string.h>

static uint32_t string(const struct profile *p, struct profile_writer *w, uint64_t offset)
{
    return profile_add_string(w, profile_string(p, offset));
}

static void copy_modules(const struct profile *p, struct profile_writer *w)
{
    for (uint32_t i = 0; i < profile_module_count(p); i++) {
        struct ctp_module module = *profile_module(p, i);
        module.path = string(p, w, module.path);
        profile_add_module(w, &module);
    }
}

static void copy_code(const struct profile *p, struct profile_writer *w)
{
    copy_modules(p, w);
    for (uint32_t i = 0; i < profile_function_count(p); i++) {
        struct ctp_function function = *profile_function(p, i);
        function.name = string(p, w, function.name);
        function.file = string(p, w, function.file);
        profile_add_function(w, &function);
    }
    for (uint32_t i = 0; i < profile_line_count(p); i++) {
        struct ctp_line line = *profile_line(p, i);
        line.file = string(p, w, line.file);
        profile_add_line(w, &line);
    }
    for (uint32_t i = 0; i < profile_frame_count(p); i++)
        profile_add_frame(w, profile_frame(p, i));
}

/* `nodes`: their numbers in the writer, for the creators of threads; NULL: they are not known. */
static void copy_processes(const struct profile *p, struct profile_writer *w, const uint32_t *nodes,
                           bool same_nodes)
{
    VEC(const char *) arguments = {0};
    for (uint32_t i = 0; i < profile_process_count(p); i++) {
        struct ctp_process process = *profile_process(p, i);
        const char *argument;
        arguments.count = 0;
        for (uint32_t k = 0; (argument = profile_argument(p, &process, k)) != NULL; k++)
            vec_push(&arguments, argument);
        process.command = string(p, w, process.command);
        profile_add_process(w, &process, (uint32_t)arguments.count, arguments.items);
    }
    vec_free(&arguments);
    for (uint32_t i = 0; i < profile_thread_count(p); i++) {
        struct ctp_thread thread = *profile_thread(p, i);
        thread.name = string(p, w, thread.name);
        if (!same_nodes)
            thread.creator =
                nodes && thread.creator < p->node_count ? nodes[thread.creator] : CTP_NONE;
        profile_add_thread(w, &thread);
    }
    for (uint32_t i = 0; i < profile_epoch_count(p); i++)
        profile_add_epoch(w, profile_string(p, profile_epoch(p, i)->name));
}

static void copy_facts(const struct profile *p, struct profile_writer *w)
{
    for (uint32_t i = 0; i < profile_fact_count(p); i++) {
        const struct ctp_fact *fact = profile_fact(p, i);
        const char *key = profile_string(p, fact->key);
        enum ctp_scope scope = (enum ctp_scope)fact->scope;
        switch (fact->type) {
        case CTP_U64:
            profile_fact_u64(w, scope, fact->index, key, fact->value);
            break;
        case CTP_I64:
            profile_fact_i64(w, scope, fact->index, key, (int64_t)fact->value);
            break;
        case CTP_F64:
            profile_fact_f64(w, scope, fact->index, key, profile_fact_double(fact));
            break;
        default:
            profile_fact_string(w, scope, fact->index, key, profile_string(p, fact->value));
            break;
        }
    }
}

static void copy_dictionaries(const struct profile *p, struct profile_writer *w)
{
    const struct ctp_dictionary *d;
    for (uint64_t at = 0; (d = profile_next_dictionary(p, &at)) != NULL;)
        profile_add_dictionary(w, d, d + 1);
}

static void copy_metrics(const struct profile *p, struct profile_writer *w)
{
    for (uint32_t i = 0; i < p->metric_count; i++) {
        struct ctp_metric metric = *profile_metric(p, i);
        metric.name = string(p, w, metric.name);
        metric.unit = string(p, w, metric.unit);
        metric.description = string(p, w, metric.description);
        profile_add_metric(w, &metric);
    }
}

static void copy_nodes(const struct profile *p, struct profile_writer *w)
{
    copy_metrics(p, w);
    profile_begin_nodes(w, p->node_count);
    for (uint32_t i = 0; i < profile_root_count(p); i++)
        profile_add_root(w, profile_root(p, i)->thread, profile_root(p, i)->epoch);
    profile_write_nodes(w, p->parents, p->node_frames, p->node_count);
    for (uint32_t i = 0; i < p->metric_count; i++)
        profile_write_values(w, i, p->values[i], p->node_count);
    for (uint32_t i = 0; i < profile_time_run_count(p); i++) {
        const struct ctp_time_run *run = profile_time_run(p, i);
        profile_add_times(w, run, profile_times(p) + run->first, run->count);
    }
}

/* In their order, so that a copy of a profile that this writer wrote is the same to the byte. */
static void copy_strings(const struct profile *p, struct profile_writer *w)
{
    for (uint32_t at = 1; at < p->strings_size; at += (uint32_t)strlen(p->strings + at) + 1)
        profile_add_string(w, p->strings + at);
}

void profile_copy(const struct profile *from, struct profile_writer *writer)
{
    copy_strings(from, writer);
    copy_code(from, writer);
    copy_processes(from, writer, NULL, true);
    copy_facts(from, writer);
    copy_dictionaries(from, writer);
    copy_nodes(from, writer);
}

void profile_copy_tables(const struct profile *from, struct profile_writer *writer,
                         const uint32_t *nodes)
{
    copy_strings(from, writer);
    copy_code(from, writer);
    copy_processes(from, writer, nodes, false);
    copy_facts(from, writer);
    copy_dictionaries(from, writer);
    copy_metrics(from, writer);
}

void profile_copy_skeleton(const struct profile *from, struct profile_writer *writer)
{
    copy_modules(from, writer);
    copy_processes(from, writer, NULL, false);
    copy_facts(from, writer);
    copy_metrics(from, writer);
    for (uint32_t i = 0; i < from->metric_count; i++)
        if (!profile_find_fact(from, CTP_SCOPE_METRIC, i, FACT_SAMPLES))
            profile_fact_u64(writer, CTP_SCOPE_METRIC, i, FACT_SAMPLES, merge_samples_of(from, i));
}
