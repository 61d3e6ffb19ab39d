/*
 * What was gathered, as a .ctp file. Threads come in the order in which they were met; the contexts
 * of each lie together, in the order in which they were met, so that parents come first.
 */
#include "import/gather.h"

#include <inttypes.h>
#include <string.h>

static uint32_t text_offset(const struct gather *g, struct profile_writer *w, uint32_t text)
{
    return profile_add_string(w, strings_get(&g->texts, text));
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* A build-id that is not hexadecimal is another tool's idea of one, and no help. */
static void set_build_id(struct ctp_module *module, const char *text)
{
    size_t length = strlen(text);
    if (length % 2 != 0 || strspn(text, "0123456789abcdefABCDEF") != length)
        return;
    for (size_t i = 0; i < length / 2 && i < CTP_BUILD_ID_ROOM; i++) {
        module->build_id[i] = (uint8_t)(hex_digit(text[2 * i]) << 4 | hex_digit(text[2 * i + 1]));
        module->build_id_size = (uint32_t)i + 1;
    }
}

static uint32_t module_kind(const char *path)
{
    return strcmp(path, "[vdso]") == 0                                            ? CTP_MODULE_VDSO
           : strncmp(path, "/tmp/perf-", 10) == 0 && strstr(path, ".map") != NULL ? CTP_MODULE_JIT
           : *path == '/'                                                         ? CTP_MODULE_FILE
                          : CTP_MODULE_UNKNOWN;
}

static void write_code(const struct gather *g, struct profile_writer *w)
{
    for (uint32_t i = 0; i < g->modules.count; i++) {
        const struct gather_module *m = GATHER_RECORD(g->modules, gather_module, i);
        struct ctp_module module = {.path = text_offset(g, w, m->path),
                                    .kind = module_kind(strings_get(&g->texts, m->path)),
                                    .base = m->base,
                                    .size = m->size};
        set_build_id(&module, strings_get(&g->texts, m->build_id));
        profile_add_module(w, &module);
    }
    for (uint32_t i = 0; i < g->functions.count; i++) {
        const struct gather_function *f = GATHER_RECORD(g->functions, gather_function, i);
        profile_add_function(w, &(struct ctp_function){.offset = f->offset,
                                                       .size = f->size,
                                                       .name = text_offset(g, w, f->name),
                                                       .module = f->module,
                                                       .file = text_offset(g, w, f->file),
                                                       .line = f->line});
    }
    uint32_t line_count = 0;
    for (uint32_t i = 0; i < g->frames.count; i++) {
        const struct gather_frame *f = GATHER_RECORD(g->frames, gather_frame, i);
        struct ctp_frame frame = {.offset = f->offset,
                                  .module = f->module,
                                  .function = f->function,
                                  .first_line = line_count,
                                  .flags = f->flags,
                                  .gap = f->gap};
        for (uint32_t at = f->lines; at != CTP_NONE; frame.line_count++) {
            const struct gather_line *line = GATHER_RECORD(g->lines, gather_line, at);
            profile_add_line(w, &(struct ctp_line){.function = line->function,
                                                   .file = text_offset(g, w, line->file),
                                                   .line = line->line});
            at = line->next;
        }
        line_count += frame.line_count;
        profile_add_frame(w, &frame);
    }
}

/* A process whose pid is not known has the command that the caller knows. */
static void write_threads(const struct gather *g, struct profile_writer *w)
{
    const uint32_t *pids = (const uint32_t *)(const void *)g->pids.bytes.items;
    for (uint32_t i = 0; i < g->pids.count; i++) {
        uint32_t command = pids[i] ? g->commands.items[i] : g->command;
        struct ctp_process process = {.pid = pids[i],
                                      .parent = CTP_NONE,
                                      .command = text_offset(g, w, command),
                                      .start_ns = g->start_ns,
                                      .end_ns = g->start_ns ? g->start_ns + g->duration_ns : 0};
        profile_add_process(w, &process, 0, NULL);
    }
    for (uint32_t i = 0; i < g->threads.count; i++) {
        const struct gather_thread *thread = GATHER_RECORD(g->threads, gather_thread, i);
        profile_add_thread(w, &(struct ctp_thread){.process = thread->process,
                                                   .tid = thread->tid,
                                                   .name = text_offset(g, w, thread->name),
                                                   .creator = CTP_NONE});
        profile_add_root(w, i, CTP_NONE);
    }
}

static void write_metrics(const struct gather *g, struct profile_writer *w)
{
    for (uint32_t i = 0; i < g->metric_count; i++) {
        const struct gather_metric *m = &g->metrics[i];
        uint64_t average = m->samples ? m->total / m->samples : 0;
        bool sampled = m->kind == CTP_METRIC_SAMPLED;
        profile_add_metric(w, &(struct ctp_metric){.name = text_offset(g, w, m->name),
                                                   .unit = text_offset(g, w, m->unit),
                                                   .kind = m->kind,
                                                   .period = !sampled    ? 0
                                                             : m->period ? m->period
                                                             : average   ? average
                                                                         : 1});
    }
}

/* The numbers that nodes have in the file: those of one thread behind each other. */
static uint32_t *number_nodes(const struct gather *g)
{
    uint32_t *next = must_calloc((size_t)g->threads.count + 1, sizeof *next);
    uint32_t *numbers = must_realloc(NULL, (size_t)g->nodes.count + 1, sizeof *numbers);
    for (uint32_t i = 0; i < g->nodes.count; i++)
        next[g->roots.items[i] + 1]++;
    for (uint32_t i = 1; i <= g->threads.count; i++)
        next[i] += next[i - 1];
    for (uint32_t i = 0; i < g->nodes.count; i++)
        numbers[i] = next[g->roots.items[i]]++;
    free(next);
    return numbers;
}

static void write_nodes(const struct gather *g, struct profile_writer *w)
{
    uint32_t count = g->nodes.count, *numbers = number_nodes(g);
    uint32_t *parents = must_realloc(NULL, (size_t)count + 1, sizeof *parents);
    uint32_t *frames = must_realloc(NULL, (size_t)count + 1, sizeof *frames);
    uint64_t *values = must_realloc(NULL, (size_t)count + 1, sizeof *values);
    for (uint32_t i = 0; i < count; i++) {
        const struct gather_node *node = GATHER_RECORD(g->nodes, gather_node, i);
        bool root = node->parent == CTP_NONE;
        parents[numbers[i]] = root ? CTP_NONE : numbers[node->parent];
        frames[numbers[i]] = root ? CTP_NONE : node->frame;
    }
    profile_begin_nodes(w, count);
    profile_write_nodes(w, parents, frames, count);
    for (uint32_t k = 0; k < g->metric_count; k++) {
        memset(values, 0, count * sizeof *values);
        for (size_t i = 0; i < g->metrics[k].values.count; i++)
            values[numbers[i]] = g->metrics[k].values.items[i];
        profile_write_values(w, k, values, count);
    }
    free(numbers);
    free(parents);
    free(frames);
    free(values);
}

int gather_write(const struct gather *g, const char *path, struct ct_error *err)
{
    struct profile_writer *w;
    if (g->overflow)
        return ct_fail(err, "the values add up to more than 2^64");
    CT_TRY(profile_writer_open(path, &w, err));
    write_metrics(g, w);
    write_nodes(g, w);
    write_code(g, w);
    write_threads(g, w);
    profile_fact_string(w, CTP_SCOPE_PROFILE, 0, "imported_from", g->origin);
    if (g->skipped)
        profile_fact_u64(w, CTP_SCOPE_PROFILE, 0, "import_lines_skipped", g->skipped);
    for (uint32_t i = 0; i < g->metric_count; i++)
        if (g->metrics[i].kind == CTP_METRIC_SAMPLED)
            profile_fact_u64(w, CTP_SCOPE_METRIC, i, "samples", g->metrics[i].samples);
    return profile_writer_commit(w, err);
}
