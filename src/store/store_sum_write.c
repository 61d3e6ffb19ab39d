#include "store/store_sum.h"

struct sum_writer {
    const struct sum *sum;
    struct profile_writer *writer;
    struct key_set processes, threads, epochs; /* by what they are; numbers are indices */
    uint32_t *root_threads, *root_epochs;      /* by origin */
    VEC(uint32_t) order;                       /* contexts, as they are written */
    uint32_t *places;                          /* of contexts in it */
};

struct process_name {
    uint32_t command, rank;
};

struct thread_name {
    uint32_t process, name;
};

static uint32_t text(struct sum_writer *w, uint32_t string)
{
    const char *bytes = string < w->sum->texts.count ? w->sum->texts.items[string] : NULL;
    return profile_add_string(w->writer, bytes);
}

static void write_code(struct sum_writer *w)
{
    const struct sum *s = w->sum;
    uint32_t first_line = 0;
    for (size_t i = 0; i < s->module_rows.count; i++) {
        struct ctp_module module = s->module_rows.items[i];
        module.path = text(w, module.path);
        profile_add_module(w->writer, &module);
    }
    for (size_t i = 0; i < s->function_rows.count; i++) {
        struct ctp_function function = s->function_rows.items[i];
        function.name = text(w, function.name);
        function.file = text(w, function.file);
        profile_add_function(w->writer, &function);
    }
    for (size_t i = 0; i < s->frame_rows.count; i++) {
        const struct sum_frame *frame = &s->frame_rows.items[i];
        struct ctp_frame record = frame->record;
        record.line_count = (uint32_t)frame->lines.count;
        record.first_line = record.line_count ? first_line : 0;
        for (size_t k = 0; k < frame->lines.count; k++) {
            struct ctp_line line = frame->lines.items[k];
            line.file = text(w, line.file);
            profile_add_line(w->writer, &line);
        }
        profile_add_frame(w->writer, &record);
        first_line += record.line_count;
    }
}

static uint32_t process_of(struct sum_writer *w, const struct sum_origin *origin)
{
    struct process_name key = {origin->command, origin->rank};
    uint32_t before = w->processes.count, number = key_set_add(&w->processes, &key);
    if (number == before) {
        profile_add_process(
            w->writer,
            &(struct ctp_process){.parent = CTP_NONE, .command = text(w, origin->command)}, 0,
            NULL);
        if (origin->rank != CTP_NONE)
            profile_fact_i64(w->writer, CTP_SCOPE_PROCESS, number, "rank", origin->rank);
    }
    return number;
}

static void write_origins(struct sum_writer *w)
{
    const struct sum *s = w->sum;
    w->root_threads = must_calloc(s->origin_rows.count + 1, sizeof *w->root_threads);
    w->root_epochs = must_calloc(s->origin_rows.count + 1, sizeof *w->root_epochs);
    for (size_t i = 0; i < s->origin_rows.count; i++) {
        const struct sum_origin *origin = &s->origin_rows.items[i];
        w->root_threads[i] = w->root_epochs[i] = CTP_NONE;
        if (origin->thread != CTP_NONE) {
            struct thread_name key = {process_of(w, origin), origin->thread};
            uint32_t before = w->threads.count;
            w->root_threads[i] = key_set_add(&w->threads, &key);
            if (w->root_threads[i] == before)
                profile_add_thread(w->writer, &(struct ctp_thread){.process = key.process,
                                                                   .name = text(w, key.name),
                                                                   .creator = CTP_NONE});
        }
        if (origin->phase != CTP_NONE) {
            uint32_t before = w->epochs.count;
            w->root_epochs[i] = key_set_add(&w->epochs, &origin->phase);
            if (w->root_epochs[i] == before)
                profile_add_epoch(w->writer, s->texts.items[origin->phase]);
        }
    }
}

/* Root by root, parents before children. */
static void arrange(struct sum_writer *w)
{
    const struct sum *s = w->sum;
    uint32_t count = (uint32_t)s->context_rows.count;
    uint32_t *first = must_calloc((size_t)count + 1, sizeof *first);
    uint32_t *next = must_calloc((size_t)count + 1, sizeof *next);
    VEC(uint32_t) stack = {0};
    w->places = must_calloc((size_t)count + 1, sizeof *w->places);
    for (uint32_t i = count; i-- > 0;) { /* lists of children; numbers are one more */
        uint32_t parent = s->context_rows.items[i].parent;
        if (parent == CTP_NONE)
            continue;
        next[i] = first[parent];
        first[parent] = i + 1;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (s->context_rows.items[i].parent != CTP_NONE)
            continue;
        vec_push(&stack, i);
        while (stack.count) {
            uint32_t at = stack.items[--stack.count];
            w->places[at] = (uint32_t)w->order.count;
            vec_push(&w->order, at);
            for (uint32_t child = first[at]; child; child = next[child - 1])
                vec_push(&stack, child - 1);
        }
    }
    vec_free(&stack);
    free(first);
    free(next);
}

static void write_nodes(struct sum_writer *w)
{
    const struct sum *s = w->sum;
    for (size_t i = 0; i < w->order.count; i++) {
        const struct sum_context *c = &s->context_rows.items[w->order.items[i]];
        uint32_t parent = c->parent == CTP_NONE ? CTP_NONE : w->places[c->parent];
        uint32_t frame = c->parent == CTP_NONE ? CTP_NONE : c->frame;
        if (c->parent == CTP_NONE) {
            bool known = c->origin < s->origin_rows.count;
            profile_add_root(w->writer, known ? w->root_threads[c->origin] : CTP_NONE,
                             known ? w->root_epochs[c->origin] : CTP_NONE);
        }
        profile_write_nodes(w->writer, &parent, &frame, 1);
    }
}

/* Metric 0 is that of profiles without any. */
static bool is_metric(const struct sum *s, uint32_t metric)
{
    return *(const uint32_t *)key_set_get(&s->metrics.keys, metric) != 0;
}

static void write_values(struct sum_writer *w)
{
    const struct sum *s = w->sum;
    uint32_t index = 0;
    uint64_t *values = must_calloc(w->order.count + 1, sizeof *values);
    for (uint32_t m = 0; m < s->metrics.keys.count; m++) {
        if (!is_metric(s, m))
            continue;
        for (size_t i = 0; i < w->order.count; i++)
            values[i] = 0;
        for (size_t i = 0; i < s->costs.count; i++)
            if (s->costs.items[i].metric == m)
                values[w->places[s->costs.items[i].context]] += s->costs.items[i].amount;
        profile_write_values(w->writer, index++, values, w->order.count);
    }
    free(values);
}

void sum_write(const struct sum *s, struct profile_writer *writer)
{
    struct sum_writer w = {.sum = s, .writer = writer};
    key_set_init(&w.processes, sizeof(struct process_name));
    key_set_init(&w.threads, sizeof(struct thread_name));
    key_set_init(&w.epochs, sizeof(uint32_t));
    for (uint32_t m = 0; m < s->metrics.keys.count; m++)
        if (is_metric(s, m))
            profile_add_metric(writer, &(struct ctp_metric){.name = text(&w, s->metric_names[m])});
    write_code(&w);
    write_origins(&w);
    arrange(&w);
    profile_begin_nodes(writer, (uint32_t)w.order.count);
    write_nodes(&w);
    write_values(&w);
    key_set_free(&w.processes);
    key_set_free(&w.threads);
    key_set_free(&w.epochs);
    vec_free(&w.order);
    free(w.places);
    free(w.root_threads);
    free(w.root_epochs);
}
