/*
 * Writing what was merged, in an order that depends on nothing but what it is: every table is
 * sorted, and nodes are in preorder with siblings sorted by frame. A rank is the place of something
 * in its sorted table.
 */
#include "profile/merge_state.h"

#include <string.h>

struct order {
    const struct merge *merge;
    uint32_t *modules, *functions, *frames, *epochs, *processes, *threads, *roots,
        *metrics;             /* ranks, by number; CTP_NONE for what is not written */
    uint32_t *process_levels; /* how many ancestors a process has */
};

#define COMPARE(x, y)                                                                              \
    do {                                                                                           \
        if ((x) != (y))                                                                            \
            return (x) < (y) ? -1 : 1;                                                             \
    } while (0)

#define COMPARE_TEXTS(m, x, y)                                                                     \
    do {                                                                                           \
        int order_ = (x) == (y) ? 0 : strcmp(merge_text((m), (x)), merge_text((m), (y)));          \
        if (order_)                                                                                \
            return order_;                                                                         \
    } while (0)

typedef int compare_fn(const void *a, const void *b, void *order);

/* Numbers 0 to count - 1 that have `wanted` (all if NULL), sorted; `ranks` gets their places. The
 * caller frees both. */
static uint32_t *sorted(struct order *o, uint32_t count, const bool *wanted, compare_fn *compare,
                        uint32_t *kept, uint32_t **ranks)
{
    uint32_t *numbers = must_calloc((size_t)count + 1, sizeof *numbers);
    *kept = 0;
    for (uint32_t i = 0; i < count; i++)
        if (!wanted || wanted[i])
            numbers[(*kept)++] = i;
    qsort_r(numbers, *kept, sizeof *numbers, compare, o);
    *ranks = must_realloc(NULL, (size_t)count + 1, sizeof **ranks);
    memset(*ranks, 0xff, ((size_t)count + 1) * sizeof **ranks);
    for (uint32_t i = 0; i < *kept; i++)
        (*ranks)[numbers[i]] = i;
    return numbers;
}

static uint32_t rank_of(const uint32_t *ranks, uint32_t number)
{
    return number == CTP_NONE ? CTP_NONE : ranks[number];
}

static uint32_t write_text(const struct merge *m, struct profile_writer *w, uint32_t text)
{
    return profile_add_string(w, merge_text(m, text));
}

/* ---- Metrics --------------------------------------------------------------------------------- */

/* What was sampled comes first: it is what views show when nothing else is asked for. */
static int compare_metrics(const void *a, const void *b, void *order)
{
    const struct merge *m = ((struct order *)order)->merge;
    uint32_t first = *(const uint32_t *)a, second = *(const uint32_t *)b;
    const struct merged_metric *x = &m->metrics.items[first], *y = &m->metrics.items[second];
    if (m->parts) /* the first one has all, in its order */
        return first < second ? -1 : first > second;
    COMPARE(x->kind != CTP_METRIC_SAMPLED, y->kind != CTP_METRIC_SAMPLED);
    COMPARE_TEXTS(m, x->name, y->name);
    return 0;
}

static uint64_t merged_period(const struct merged_metric *metric)
{
    if (metric->period_min == metric->period_max || metric->samples == 0)
        return metric->period_min;
    uint64_t period = metric->total / metric->samples;
    return period + (metric->total % metric->samples >= (metric->samples + 1) / 2);
}

static void write_metrics(struct order *o, struct profile_writer *w)
{
    const struct merge *m = o->merge;
    uint32_t count;
    uint32_t *numbers =
        sorted(o, (uint32_t)m->metrics.count, NULL, compare_metrics, &count, &o->metrics);
    for (uint32_t i = 0; i < count; i++) {
        const struct merged_metric *metric = &m->metrics.items[numbers[i]];
        profile_add_metric(w, &(struct ctp_metric){write_text(m, w, metric->name),
                                                   write_text(m, w, metric->unit),
                                                   write_text(m, w, metric->description),
                                                   metric->kind, merged_period(metric)});
        if (metric->kind != CTP_METRIC_SAMPLED || m->parts)
            continue;
        profile_fact_u64(w, CTP_SCOPE_METRIC, i, FACT_PERIOD_MIN, metric->period_min);
        profile_fact_u64(w, CTP_SCOPE_METRIC, i, FACT_PERIOD_MAX, metric->period_max);
        profile_fact_u64(w, CTP_SCOPE_METRIC, i, FACT_SAMPLES, metric->samples);
    }
    free(numbers);
}

/* ---- Code ------------------------------------------------------------------------------------ */

static int compare_modules(const void *a, const void *b, void *order)
{
    const struct merge *m = ((struct order *)order)->merge;
    uint32_t first = *(const uint32_t *)a, second = *(const uint32_t *)b;
    COMPARE_TEXTS(m, m->module_records.items[first].path, m->module_records.items[second].path);
    const struct module_key *x = key_set_get(&m->modules, first),
                            *y = key_set_get(&m->modules, second);
    COMPARE(x->kind, y->kind);
    COMPARE(x->build_id_size, y->build_id_size);
    COMPARE(x->base, y->base);
    return memcmp(x->build_id, y->build_id, sizeof x->build_id);
}

static int compare_functions(const void *a, const void *b, void *order)
{
    const struct order *o = order;
    const struct merge *m = o->merge;
    const struct function_key *x = key_set_get(&m->functions, *(const uint32_t *)a),
                              *y = key_set_get(&m->functions, *(const uint32_t *)b);
    COMPARE(rank_of(o->modules, x->module), rank_of(o->modules, y->module));
    COMPARE(x->offset, y->offset);
    COMPARE(x->size, y->size);
    COMPARE_TEXTS(m, x->name, y->name);
    COMPARE_TEXTS(m, x->file, y->file);
    COMPARE(x->line, y->line);
    return 0;
}

static int compare_frames(const void *a, const void *b, void *order)
{
    const struct order *o = order;
    const struct merge *m = o->merge;
    uint32_t first = *(const uint32_t *)a, second = *(const uint32_t *)b;
    const struct frame_key *x = key_set_get(&m->frames, first),
                           *y = key_set_get(&m->frames, second);
    COMPARE(rank_of(o->modules, x->module), rank_of(o->modules, y->module));
    COMPARE(x->offset, y->offset);
    COMPARE(x->flags, y->flags);
    COMPARE(x->gap, y->gap);
    COMPARE(rank_of(o->functions, m->frame_records.items[first].function),
            rank_of(o->functions, m->frame_records.items[second].function));
    return 0;
}

static void write_modules(struct order *o, struct profile_writer *w)
{
    const struct merge *m = o->merge;
    uint32_t count;
    uint32_t *numbers = sorted(o, m->modules.count, NULL, compare_modules, &count, &o->modules);
    for (uint32_t i = 0; i < count; i++) {
        const struct module_key *key = key_set_get(&m->modules, numbers[i]);
        const struct merged_module *record = &m->module_records.items[numbers[i]];
        struct ctp_module module = {.path = write_text(m, w, record->path),
                                    .kind = key->kind,
                                    .base = key->base,
                                    .size = record->size,
                                    .build_id_size = key->build_id_size};
        memcpy(module.build_id, key->build_id, sizeof module.build_id);
        profile_add_module(w, &module);
    }
    free(numbers);
}

/* Functions that no frame has any more are left out. */
static void write_functions(struct order *o, struct profile_writer *w, const bool *frames_used)
{
    const struct merge *m = o->merge;
    bool *used = must_calloc((size_t)m->functions.count + 1, sizeof *used);
    for (uint32_t i = 0; i < m->frames.count; i++) {
        const struct merged_frame *frame = &m->frame_records.items[i];
        if (frames_used[i] && frame->function != CTP_NONE)
            used[frame->function] = true;
        for (uint32_t k = 0; k < frame->line_count && frames_used[i]; k++) {
            uint32_t function = m->lines.items[frame->first_line + k].function;
            if (function != CTP_NONE)
                used[function] = true;
        }
    }
    uint32_t count;
    uint32_t *numbers =
        sorted(o, m->functions.count, used, compare_functions, &count, &o->functions);
    for (uint32_t i = 0; i < count; i++) {
        const struct function_key *f = key_set_get(&m->functions, numbers[i]);
        profile_add_function(w,
                             &(struct ctp_function){f->offset, f->size, write_text(m, w, f->name),
                                                    rank_of(o->modules, f->module),
                                                    write_text(m, w, f->file), f->line});
    }
    free(numbers);
    free(used);
}

static void write_frames(struct order *o, struct profile_writer *w, const bool *frames_used)
{
    const struct merge *m = o->merge;
    uint32_t count, first_line = 0;
    uint32_t *numbers = sorted(o, m->frames.count, frames_used, compare_frames, &count, &o->frames);
    for (uint32_t i = 0; i < count; i++) {
        const struct frame_key *key = key_set_get(&m->frames, numbers[i]);
        const struct merged_frame *record = &m->frame_records.items[numbers[i]];
        for (uint32_t k = 0; k < record->line_count; k++) {
            struct ctp_line line = m->lines.items[record->first_line + k];
            line.function = rank_of(o->functions, line.function);
            line.file = write_text(m, w, line.file);
            profile_add_line(w, &line);
        }
        profile_add_frame(w, &(struct ctp_frame){key->offset, rank_of(o->modules, key->module),
                                                 rank_of(o->functions, record->function),
                                                 record->line_count ? first_line : 0,
                                                 record->line_count, key->flags, key->gap});
        first_line += record->line_count;
    }
    free(numbers);
}

static void write_code(struct order *o, struct profile_writer *w)
{
    const struct merge *m = o->merge;
    bool *used = must_calloc((size_t)m->frames.count + 1, sizeof *used);
    for (uint32_t i = 0; i < m->parents.count; i++)
        if (m->parents.items[i] != CTP_NONE)
            used[m->frames_of_nodes.items[i]] = true;
    write_modules(o, w);
    write_functions(o, w, used);
    write_frames(o, w, used);
    free(used);
}

/* ---- What ran -------------------------------------------------------------------------------- */

/* Parents before children: by generation first. Ranks of the generation before are known then. */
static int compare_processes(const void *a, const void *b, void *order)
{
    const struct order *o = order;
    const struct merge *m = o->merge;
    uint32_t first = *(const uint32_t *)a, second = *(const uint32_t *)b;
    const struct ctp_process *x = &m->process_records.items[first],
                             *y = &m->process_records.items[second];
    const struct process_key *k = key_set_get(&m->processes, first),
                             *l = key_set_get(&m->processes, second);
    COMPARE(o->process_levels[first], o->process_levels[second]);
    COMPARE(k->rank, l->rank);
    COMPARE(x->start_ns, y->start_ns);
    COMPARE_TEXTS(m, x->command, y->command);
    COMPARE(x->pid, y->pid);
    COMPARE(x->end_ns, y->end_ns);
    COMPARE_TEXTS(m, x->first_argument, y->first_argument);
    COMPARE(x->flags, y->flags);
    COMPARE(x->exit_kind, y->exit_kind);
    COMPARE(x->exit_value, y->exit_value);
    if (x->parent == y->parent)
        return 0;
    return compare_processes(&x->parent, &y->parent, order);
}

static void write_process(const struct order *o, struct profile_writer *w, uint32_t number)
{
    const struct merge *m = o->merge;
    struct ctp_process process = m->process_records.items[number];
    VEC(char *) arguments = {0};
    for (const char *c = merge_text(m, process.first_argument); *c;) {
        char *rest;
        size_t length = strtoul(c, &rest, 10);
        vec_push(&arguments, strndup(rest + 1, length));
        c = rest + 1 + length;
    }
    process.parent = rank_of(o->processes, process.parent);
    process.command = write_text(m, w, process.command);
    profile_add_process(w, &process, (uint32_t)arguments.count,
                        (const char *const *)arguments.items);
    for (size_t i = 0; i < arguments.count; i++)
        free(arguments.items[i]);
    vec_free(&arguments);
}

static void write_processes(struct order *o, struct profile_writer *w)
{
    const struct merge *m = o->merge;
    uint32_t count;
    o->process_levels = must_calloc((size_t)m->processes.count + 1, sizeof(uint32_t));
    for (uint32_t i = 0; i < m->processes.count; i++) { /* a parent came before its children */
        uint32_t parent = m->process_records.items[i].parent;
        o->process_levels[i] = parent == CTP_NONE ? 0 : o->process_levels[parent] + 1;
    }
    uint32_t *numbers =
        sorted(o, m->processes.count, NULL, compare_processes, &count, &o->processes);
    for (uint32_t i = 0; i < count; i++)
        write_process(o, w, numbers[i]);
    free(numbers);
}

static int compare_threads(const void *a, const void *b, void *order)
{
    const struct order *o = order;
    const struct merge *m = o->merge;
    const struct ctp_thread *x = &m->thread_records.items[*(const uint32_t *)a],
                            *y = &m->thread_records.items[*(const uint32_t *)b];
    COMPARE(o->processes[x->process], o->processes[y->process]);
    COMPARE(x->start_ns, y->start_ns);
    COMPARE(x->tid, y->tid);
    COMPARE_TEXTS(m, x->name, y->name);
    COMPARE(x->end_ns, y->end_ns);
    return 0;
}

/* The creators are nodes, so the threads are written behind the nodes. */
static void write_threads(const struct order *o, struct profile_writer *w, const uint32_t *numbers,
                          const uint32_t *node_ranks)
{
    const struct merge *m = o->merge;
    for (uint32_t i = 0; i < m->threads.count; i++) {
        struct ctp_thread thread = m->thread_records.items[numbers[i]];
        thread.process = o->processes[thread.process];
        thread.name = write_text(m, w, thread.name);
        thread.creator = rank_of(node_ranks, thread.creator);
        profile_add_thread(w, &thread);
    }
}

static int compare_epochs(const void *a, const void *b, void *order)
{
    const struct merge *m = ((struct order *)order)->merge;
    const uint32_t *x = key_set_get(&m->epochs, *(const uint32_t *)a),
                   *y = key_set_get(&m->epochs, *(const uint32_t *)b);
    COMPARE_TEXTS(m, *x, *y);
    return 0;
}

static void write_epochs(struct order *o, struct profile_writer *w)
{
    const struct merge *m = o->merge;
    uint32_t count;
    uint32_t *numbers = sorted(o, m->epochs.count, NULL, compare_epochs, &count, &o->epochs);
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t *name = key_set_get(&m->epochs, numbers[i]);
        profile_add_epoch(w, merge_text(m, *name));
    }
    free(numbers);
}

/* ---- The tree -------------------------------------------------------------------------------- */

static int compare_roots(const void *a, const void *b, void *order)
{
    const struct order *o = order;
    const struct root_key *x = key_set_get(&o->merge->roots, *(const uint32_t *)a),
                          *y = key_set_get(&o->merge->roots, *(const uint32_t *)b);
    COMPARE(rank_of(o->threads, x->thread), rank_of(o->threads, y->thread));
    COMPARE(rank_of(o->epochs, x->epoch), rank_of(o->epochs, y->epoch));
    return 0;
}

static int compare_siblings(const void *a, const void *b, void *order)
{
    const struct order *o = order;
    const uint32_t *frames = o->merge->frames_of_nodes.items;
    uint32_t x = frames[*(const uint32_t *)a], y = frames[*(const uint32_t *)b];
    COMPARE(o->frames[x], o->frames[y]);
    return 0;
}

/* The children of every node, siblings one behind the other: those of i are from firsts[i] to
 * firsts[i + 1]. */
struct children {
    uint32_t *firsts, *nodes;
};

static struct children list_children(struct order *o)
{
    const struct merge *m = o->merge;
    uint32_t count = (uint32_t)m->parents.count;
    struct children c = {must_calloc((size_t)count + 2, sizeof *c.firsts),
                         must_calloc((size_t)count + 1, sizeof *c.nodes)};
    for (uint32_t i = 0; i < count; i++)
        if (m->parents.items[i] != CTP_NONE)
            c.firsts[m->parents.items[i] + 2]++;
    for (uint32_t i = 2; i <= count; i++)
        c.firsts[i] += c.firsts[i - 1];
    /* firsts[i + 1] is where the next child of i goes; at the end it is where those of i end. */
    for (uint32_t i = 0; i < count; i++)
        if (m->parents.items[i] != CTP_NONE)
            c.nodes[c.firsts[m->parents.items[i] + 1]++] = i;
    for (uint32_t i = 0; i < count; i++)
        if (c.firsts[i + 1] - c.firsts[i] > 1)
            qsort_r(c.nodes + c.firsts[i], c.firsts[i + 1] - c.firsts[i], sizeof *c.nodes,
                    compare_siblings, o);
    return c;
}

/* Nodes in their final order; `ranks` gets the places. The caller frees it. */
static uint32_t *preorder(struct order *o, const uint32_t *roots, uint32_t *ranks)
{
    const struct merge *m = o->merge;
    struct children children = list_children(o);
    uint32_t *nodes = must_calloc(m->parents.count + 1, sizeof *nodes), count = 0;
    uint32_t *root_nodes = must_calloc((size_t)m->roots.count + 1, sizeof *root_nodes);
    for (uint32_t i = 0; i < m->parents.count; i++)
        if (m->parents.items[i] == CTP_NONE)
            root_nodes[m->frames_of_nodes.items[i]] = i;
    VEC(uint32_t) stack = {0};
    for (uint32_t r = m->roots.count; r-- > 0;)
        vec_push(&stack, root_nodes[roots[r]]);
    while (stack.count) {
        uint32_t node = stack.items[--stack.count];
        ranks[node] = count;
        nodes[count++] = node;
        for (uint32_t i = children.firsts[node + 1]; i-- > children.firsts[node];)
            vec_push(&stack, children.nodes[i]);
    }
    vec_free(&stack);
    free(root_nodes);
    free(children.firsts);
    free(children.nodes);
    return nodes;
}

static void write_nodes(struct order *o, struct profile_writer *w, const uint32_t *nodes,
                        const uint32_t *ranks)
{
    const struct merge *m = o->merge;
    for (size_t i = 0; i < m->parents.count; i++) {
        uint32_t parent = rank_of(ranks, m->parents.items[nodes[i]]);
        uint32_t frame = m->frames_of_nodes.items[nodes[i]];
        frame = parent == CTP_NONE ? CTP_NONE : o->frames[frame];
        profile_write_nodes(w, &parent, &frame, 1);
    }
    for (size_t k = 0; k < m->metrics.count; k++) {
        const struct merged_metric *metric = &m->metrics.items[k];
        for (size_t i = 0; i < m->parents.count; i++) {
            uint64_t value = nodes[i] < metric->values.count ? metric->values.items[nodes[i]] : 0;
            profile_write_values(w, o->metrics[k], &value, 1);
        }
    }
}

static void write_tree(struct order *o, struct profile_writer *w)
{
    const struct merge *m = o->merge;
    uint32_t count;
    uint32_t *threads = sorted(o, m->threads.count, NULL, compare_threads, &count, &o->threads);
    uint32_t *roots = sorted(o, m->roots.count, NULL, compare_roots, &count, &o->roots);
    uint32_t *ranks = must_calloc(m->parents.count + 1, sizeof *ranks);
    uint32_t *nodes = preorder(o, roots, ranks);
    profile_begin_nodes(w, (uint32_t)m->parents.count);
    for (uint32_t i = 0; i < count; i++) {
        const struct root_key *key = key_set_get(&m->roots, roots[i]);
        profile_add_root(w, rank_of(o->threads, key->thread), rank_of(o->epochs, key->epoch));
    }
    write_nodes(o, w, nodes, ranks);
    write_threads(o, w, threads, ranks);
    merge_write_times(m, w, o->metrics, ranks);
    free(nodes);
    free(ranks);
    free(roots);
    free(threads);
}

void merge_fill(struct merge *m, struct profile_writer *w)
{
    free(m->slots); /* nothing is added any more, and writing needs the room */
    m->slots = NULL;
    m->slot_count = 0;
    struct order o = {.merge = m};
    write_metrics(&o, w);
    write_code(&o, w);
    write_processes(&o, w);
    write_epochs(&o, w);
    write_tree(&o, w);
    merge_write_facts(m, w,
                      (uint32_t *[CTP_SCOPE_END]){[CTP_SCOPE_PROCESS] = o.processes,
                                                  [CTP_SCOPE_METRIC] = o.metrics,
                                                  [CTP_SCOPE_THREAD] = o.threads,
                                                  [CTP_SCOPE_MODULE] = o.modules});
    if (!m->parts)
        profile_fact_u64(w, CTP_SCOPE_PROFILE, 0, FACT_PROFILES, m->profiles);
    uint32_t *ranks[] = {o.modules, o.functions, o.frames,  o.epochs,        o.processes,
                         o.threads, o.roots,     o.metrics, o.process_levels};
    for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++)
        free(ranks[i]);
}

int merge_write(struct merge *m, const char *path, struct ct_error *err)
{
    struct profile_writer *w;
    CT_TRY(profile_writer_open(path, &w, err));
    merge_fill(m, w);
    return profile_writer_commit(w, err);
}
