/*
 * Writing what is left of the newer snapshot: its contexts that are kept, the code and the threads
 * that they need, and its facts.
 */
#include "profile/slice_state.h"

#include <math.h>
#include <string.h>

struct slice_writer {
    const struct slice *slice;
    const struct profile *profile; /* the newer one */
    const struct slice_times *times;
    struct profile_writer *writer;
    uint32_t *functions, *frames, *processes, *threads, *nodes; /* places, or CTP_NONE */
};

static uint32_t *no_places(uint32_t count)
{
    uint32_t *places = must_realloc(NULL, (size_t)count + 1, sizeof *places);
    memset(places, 0xff, ((size_t)count + 1) * sizeof *places);
    return places;
}

static uint32_t place(const uint32_t *places, uint32_t index)
{
    return index == CTP_NONE ? CTP_NONE : places[index];
}

static uint32_t string(const struct slice_writer *w, uint64_t offset)
{
    return profile_add_string(w->writer, profile_string(w->profile, offset));
}

/* ---- Code ------------------------------------------------------------------------------------ */

static uint32_t write_function(struct slice_writer *w, uint32_t index)
{
    if (index == CTP_NONE || w->functions[index] != CTP_NONE)
        return place(w->functions, index);
    struct ctp_function function = *profile_function(w->profile, index);
    function.name = string(w, function.name);
    function.file = string(w, function.file);
    w->functions[index] = profile_add_function(w->writer, &function);
    return w->functions[index];
}

/* Modules stay all: their numbers are in facts, and they are few. */
static void write_code(struct slice_writer *w)
{
    const struct profile *p = w->profile;
    uint32_t lines = 0;
    for (uint32_t i = 0; i < profile_module_count(p); i++) {
        struct ctp_module module = *profile_module(p, i);
        module.path = string(w, module.path);
        profile_add_module(w->writer, &module);
    }
    for (uint32_t n = 0; n < p->node_count; n++) {
        uint32_t index = profile_node_frame(p, n);
        if (!w->slice->kept[n] || index == CTP_NONE || w->frames[index] != CTP_NONE)
            continue;
        struct ctp_frame frame = *profile_frame(p, index);
        for (uint32_t k = 0; k < frame.line_count; k++) {
            struct ctp_line line = *profile_frame_line(p, profile_frame(p, index), k);
            line.function = write_function(w, line.function);
            line.file = string(w, line.file);
            profile_add_line(w->writer, &line);
        }
        frame.function = write_function(w, frame.function);
        frame.first_line = frame.line_count ? lines : 0;
        lines += frame.line_count;
        w->frames[index] = profile_add_frame(w->writer, &frame);
    }
}

/* ---- What ran -------------------------------------------------------------------------------- */

static bool had_ended(const struct slice_writer *w, uint64_t end_ns)
{
    return end_ns && end_ns < w->times->start_ns;
}

/* Threads that have contexts in the slice or lived in it, and their processes, with parents. */
static void choose_threads(const struct slice_writer *w, bool *threads, bool *processes)
{
    const struct profile *p = w->profile;
    for (uint32_t i = 0; i < profile_root_count(p); i++) {
        const struct ctp_root *root = profile_root(p, i);
        if (root->thread != CTP_NONE && w->slice->kept[root->first_node])
            threads[root->thread] = true;
    }
    for (uint32_t i = 0; i < profile_thread_count(p); i++) {
        const struct ctp_thread *t = profile_thread(p, i);
        threads[i] |=
            !had_ended(w, t->end_ns) && !had_ended(w, profile_process(p, t->process)->end_ns);
        processes[t->process] |= threads[i];
    }
    for (uint32_t i = profile_process_count(p); i-- > 0;) {
        processes[i] |= !had_ended(w, profile_process(p, i)->end_ns);
        uint32_t parent = profile_process_parent(p, i);
        if (processes[i] && parent != CTP_NONE)
            processes[parent] = true;
    }
}

static void write_process(struct slice_writer *w, uint32_t i)
{
    const struct profile *p = w->profile;
    struct ctp_process process = *profile_process(p, i);
    VEC(const char *) arguments = {0};
    const char *argument;
    for (uint32_t k = 0; (argument = profile_argument(p, &process, k)) != NULL; k++)
        vec_push(&arguments, argument);
    process.command = string(w, process.command);
    process.parent = place(w->processes, profile_process_parent(p, i));
    w->processes[i] =
        profile_add_process(w->writer, &process, (uint32_t)arguments.count, arguments.items);
    vec_free(&arguments);
}

static void write_threads(struct slice_writer *w)
{
    const struct profile *p = w->profile;
    bool *threads = must_calloc((size_t)profile_thread_count(p) + 1, sizeof *threads);
    bool *processes = must_calloc((size_t)profile_process_count(p) + 1, sizeof *processes);
    choose_threads(w, threads, processes);
    for (uint32_t i = 0; i < profile_process_count(p); i++)
        if (processes[i])
            write_process(w, i);
    for (uint32_t i = 0; i < profile_thread_count(p); i++) {
        struct ctp_thread thread = *profile_thread(p, i);
        if (!threads[i])
            continue;
        thread.name = string(w, thread.name);
        thread.process = w->processes[thread.process];
        thread.creator = place(w->nodes, thread.creator);
        w->threads[i] = profile_add_thread(w->writer, &thread);
    }
    for (uint32_t i = 0; i < profile_epoch_count(p); i++)
        profile_add_epoch(w->writer, profile_string(p, profile_epoch(p, i)->name));
    free(threads);
    free(processes);
}

/* ---- Nodes ----------------------------------------------------------------------------------- */

static uint32_t number_nodes(struct slice_writer *w)
{
    uint32_t count = 0;
    for (uint32_t n = 0; n < w->profile->node_count; n++)
        if (w->slice->kept[n])
            w->nodes[n] = count++;
    return count;
}

static void write_nodes(struct slice_writer *w)
{
    const struct profile *p = w->profile;
    for (uint32_t i = 0; i < profile_root_count(p); i++) {
        const struct ctp_root *root = profile_root(p, i);
        if (w->slice->kept[root->first_node])
            profile_add_root(w->writer, place(w->threads, root->thread), root->epoch);
    }
    for (uint32_t n = 0; n < p->node_count; n++) {
        uint32_t parent = place(w->nodes, p->parents[n]);
        uint32_t frame = place(w->frames, p->node_frames[n]);
        if (w->slice->kept[n])
            profile_write_nodes(w->writer, &parent, &frame, 1);
    }
    for (uint32_t m = 0; m < p->metric_count; m++)
        for (uint32_t n = 0; n < p->node_count; n++)
            if (w->slice->kept[n])
                profile_write_values(w->writer, m, &w->slice->values[m][n], 1);
}

static void write_metrics(struct slice_writer *w)
{
    for (uint32_t i = 0; i < w->profile->metric_count; i++) {
        struct ctp_metric metric = *profile_metric(w->profile, i);
        metric.name = string(w, metric.name);
        metric.unit = string(w, metric.unit);
        metric.description = string(w, metric.description);
        profile_add_metric(w->writer, &metric);
    }
}

/* ---- Facts ----------------------------------------------------------------------------------- */

static bool is_seconds(const char *key)
{
    size_t length = strlen(key);
    return length > 2 && strcmp(key + length - 2, "_s") == 0;
}

static uint32_t place_of_fact(const struct slice_writer *w, const struct ctp_fact *fact)
{
    switch (fact->scope) {
    case CTP_SCOPE_PROCESS:
        return w->processes[fact->index];
    case CTP_SCOPE_THREAD:
        return w->threads[fact->index];
    default:
        return fact->index;
    }
}

/* As in merging, whole numbers are counts, and so are seconds, in whole microseconds; others are as
 * the newer snapshot has them, but for the rate, whose value since the start is of no use. */
static void write_fact(struct slice_writer *w, const struct ctp_fact *fact)
{
    const char *key = profile_string(w->profile, fact->key);
    enum ctp_scope scope = (enum ctp_scope)fact->scope;
    uint32_t index = place_of_fact(w, fact);
    const struct ctp_fact *older = slice_older_fact(w->slice, fact);
    if (index == CTP_NONE || (fact->type == CTP_F64 && strcmp(key, "rate_got_hz") == 0))
        return;
    if (fact->type == CTP_U64) {
        uint64_t before = older ? older->value : 0;
        profile_fact_u64(w->writer, scope, index, key,
                         fact->value > before ? fact->value - before : 0);
    } else if (fact->type == CTP_F64) {
        double before = older && is_seconds(key) ? profile_fact_double(older) : 0;
        double value = profile_fact_double(fact);
        if (is_seconds(key))
            value = fmax(round(value * 1e6) - round(before * 1e6), 0) / 1e6;
        profile_fact_f64(w->writer, scope, index, key, value);
    } else if (fact->type == CTP_I64) {
        profile_fact_i64(w->writer, scope, index, key, (int64_t)fact->value);
    } else {
        profile_fact_string(w->writer, scope, index, key, profile_string(w->profile, fact->value));
    }
}

static void write_own_facts(struct slice_writer *w, const struct slice_facts *facts)
{
    const struct slice_times *times = &facts->times;
    profile_fact_i64(w->writer, CTP_SCOPE_PROFILE, 0, FACT_SLICE_START, (int64_t)times->start_ns);
    profile_fact_i64(w->writer, CTP_SCOPE_PROFILE, 0, FACT_SLICE_END, (int64_t)times->end_ns);
    for (char *const *label = facts->labels; label && *label; label++) {
        int length = (int)strcspn(*label, "=");
        char *key = must_format(FACT_LABEL "%.*s", length, *label);
        profile_fact_string(w->writer, CTP_SCOPE_PROFILE, 0, key,
                            (*label)[length] ? *label + length + 1 : "");
        free(key);
    }
}

int slice_write(const struct profile *older, const struct profile *newer,
                const struct slice_facts *facts, const char *path, struct ct_error *err)
{
    struct slice slice;
    struct slice_writer w = {.slice = &slice, .profile = newer, .times = &facts->times};
    int status = slice_compare(&slice, older, newer, err);
    if (status == CT_OK)
        status = profile_writer_open(path, &w.writer, err);
    if (status == CT_OK) {
        w.functions = no_places(profile_function_count(newer));
        w.frames = no_places(profile_frame_count(newer));
        w.processes = no_places(profile_process_count(newer));
        w.threads = no_places(profile_thread_count(newer));
        w.nodes = no_places(newer->node_count);
        uint32_t count = number_nodes(&w);
        write_metrics(&w);
        write_code(&w);
        write_threads(&w);
        profile_begin_nodes(w.writer, count);
        write_nodes(&w);
        for (uint32_t i = 0; i < profile_fact_count(newer); i++)
            write_fact(&w, profile_fact(newer, i));
        write_own_facts(&w, facts);
        status = profile_writer_commit(w.writer, err);
        uint32_t *places[] = {w.functions, w.frames, w.processes, w.threads, w.nodes};
        for (size_t i = 0; i < sizeof places / sizeof *places; i++)
            free(places[i]);
    }
    slice_free(&slice);
    return status;
}
