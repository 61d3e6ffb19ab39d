/*
 * Writing a profile. Once the number of nodes is known, so is the place of every array of nodes and
 * values; each is a column with its own buffer, hash and position, and the caller may fill them
 * side by side. The small tables follow behind them at the commit, then the table of contents, and
 * the header last.
 *
 * The first error sticks: see profile.h. All writing goes through write_at, so the stream of
 * base/file.h stays empty and only lends its descriptor.
 */
#include "profile/profile_check.h"

#include "base/strings.h"
#include "profile/dictionaries.h"
#include "profile/time_blocks.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

/* Large enough that a write costs little beside the copy; there are few columns. */
enum { COLUMN_BUFFER_BYTES = 256 * 1024 };

struct column {
    uint32_t section;  /* its entry in the table of contents */
    uint64_t position; /* in the file, of what is in the buffer */
    uint64_t written;  /* elements, those in the buffer too */
    XXH3_state_t *hash;
    uint8_t *buffer;
    size_t used;
};

struct profile_writer {
    struct new_file file;
    char *path;
    struct ct_error error;
    bool failed, is_finished;

    struct string_pool strings;
    VEC(struct ctp_module) modules;
    VEC(struct ctp_function) functions;
    VEC(struct ctp_line) lines;
    VEC(struct ctp_frame) frames;
    VEC(uint32_t) arguments;
    VEC(struct ctp_process) processes;
    VEC(struct ctp_thread) threads;
    VEC(struct ctp_epoch) epochs;
    VEC(struct ctp_metric) metrics;
    VEC(struct ctp_root) roots;
    VEC(struct ctp_fact) facts;
    struct time_blocks times;
    struct dictionaries dictionaries;

    bool nodes_begun;
    uint32_t node_count;
    struct node_check check;
    struct column parents, node_frames;
    struct column *values; /* one for each metric */
    uint64_t *totals;

    VEC(struct ctp_section) sections;
    uint64_t end; /* of what has a place in the file, aligned */
};

static void fail(struct profile_writer *w, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void fail(struct profile_writer *w, const char *format, ...)
{
    if (w->failed)
        return;
    w->failed = true;
    int n = snprintf(w->error.text, sizeof w->error.text, "%s: ", w->path);
    if (n < 0 || (size_t)n >= sizeof w->error.text)
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(w->error.text + n, sizeof w->error.text - (size_t)n, format, args);
    va_end(args);
}

static void write_at(struct profile_writer *w, uint64_t position, const void *bytes, size_t size)
{
    const uint8_t *from = bytes;
    while (size && !w->failed) {
        ssize_t n = pwrite(fileno(w->file.stream), from, size, (off_t)position);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            w->failed = true;
            ct_fail_errno(&w->error, n < 0 ? errno : EIO, "%s: cannot be written", w->path);
            return;
        }
        from += n;
        position += (uint64_t)n;
        size -= (size_t)n;
    }
}

/* ---- Sections -------------------------------------------------------------------------------- */

/* Gives a section its place behind all others. Its hash is filled in when it is known. */
static uint32_t place_section(struct profile_writer *w, uint32_t kind, uint32_t aux, uint64_t count)
{
    uint32_t size = profile_element_size(kind);
    uint32_t flags = kind >= CTP_TIME_RUNS ? CTP_OPTIONAL : 0; /* as all that came later */
    vec_push(&w->sections, (struct ctp_section){kind, flags, size, aux, w->end, count, 0});
    w->end += (size * count + CTP_ALIGNMENT - 1) / CTP_ALIGNMENT * CTP_ALIGNMENT;
    return (uint32_t)(w->sections.count - 1);
}

static void write_table(struct profile_writer *w, uint32_t kind, const void *items, size_t count)
{
    if (!count)
        return;
    uint32_t section = place_section(w, kind, 0, count);
    struct ctp_section *s = &w->sections.items[section];
    size_t bytes = s->element_size * count;
    s->hash = XXH3_64bits(items, bytes);
    write_at(w, s->offset, items, bytes);
}

static void column_begin(struct profile_writer *w, struct column *c, uint32_t kind, uint32_t aux)
{
    c->section = place_section(w, kind, aux, w->node_count);
    c->position = w->sections.items[c->section].offset;
    c->buffer = must_realloc(NULL, COLUMN_BUFFER_BYTES, 1);
    c->hash = XXH3_createState();
    if (!c->hash)
        fail(w, "out of memory");
    else
        XXH3_64bits_reset(c->hash);
}

static void column_flush(struct profile_writer *w, struct column *c, const void *bytes, size_t size)
{
    if (w->failed)
        return;
    XXH3_64bits_update(c->hash, bytes, size);
    write_at(w, c->position, bytes, size);
    c->position += size;
}

static void column_append(struct profile_writer *w, struct column *c, const void *items,
                          size_t count)
{
    const uint8_t *from = items;
    size_t size = count * w->sections.items[c->section].element_size;
    c->written += count;
    while (size && !w->failed) {
        if (c->used == 0 && size >= COLUMN_BUFFER_BYTES) {
            column_flush(w, c, from, size);
            return;
        }
        size_t room = COLUMN_BUFFER_BYTES - c->used;
        size_t part = size < room ? size : room;
        memcpy(c->buffer + c->used, from, part);
        c->used += part;
        from += part;
        size -= part;
        if (c->used == COLUMN_BUFFER_BYTES) {
            column_flush(w, c, c->buffer, c->used);
            c->used = 0;
        }
    }
}

static void column_end(struct profile_writer *w, struct column *c)
{
    column_flush(w, c, c->buffer, c->used);
    c->used = 0;
    if (!w->failed)
        w->sections.items[c->section].hash = XXH3_64bits_digest(c->hash);
}

static void column_free(struct column *c)
{
    free(c->buffer);
    XXH3_freeState(c->hash);
}

/* ---- Opening and closing --------------------------------------------------------------------- */

int profile_writer_open(const char *path, struct profile_writer **out, struct ct_error *err)
{
    struct new_file file;
    CT_TRY(file_begin(path, &file, err));
    struct profile_writer *w = must_calloc(1, sizeof *w);
    w->file = file;
    w->path = must_strdup(path);
    w->end = sizeof(struct ctp_header);
    strings_init(&w->strings);
    *out = w;
    return CT_OK;
}

void profile_writer_keep_old(struct profile_writer *w)
{
    if (!w->failed)
        w->failed = file_keep_old(&w->file, &w->error) != CT_OK;
}

static void writer_free(struct profile_writer *w)
{
    if (w->nodes_begun) {
        column_free(&w->parents);
        column_free(&w->node_frames);
        for (size_t m = 0; m < w->metrics.count; m++)
            column_free(&w->values[m]);
    }
    strings_free(&w->strings);
    vec_free(&w->modules);
    vec_free(&w->functions);
    vec_free(&w->lines);
    vec_free(&w->frames);
    vec_free(&w->arguments);
    vec_free(&w->processes);
    vec_free(&w->threads);
    vec_free(&w->epochs);
    vec_free(&w->metrics);
    vec_free(&w->roots);
    vec_free(&w->facts);
    vec_free(&w->dictionaries.bytes);
    vec_free(&w->sections);
    vec_free(&w->check.roots);
    time_blocks_free(&w->times);
    free(w->values);
    free(w->totals);
    free(w->path);
    free(w);
}

void profile_writer_abandon(struct profile_writer *w)
{
    file_abandon(&w->file);
    writer_free(w);
}

/* ---- Records --------------------------------------------------------------------------------- */

uint32_t profile_add_string(struct profile_writer *w, const char *text)
{
    return text ? strings_add(&w->strings, text) : 0;
}

#define ADD_RECORD(w, table, record)                                                               \
    do {                                                                                           \
        if ((w)->table.count >= CTP_NONE - 1) {                                                    \
            fail((w), "there are too many " #table);                                               \
            return CTP_NONE;                                                                       \
        }                                                                                          \
        vec_push(&(w)->table, record);                                                             \
        return (uint32_t)((w)->table.count - 1);                                                   \
    } while (0)

uint32_t profile_add_module(struct profile_writer *w, const struct ctp_module *module)
{
    ADD_RECORD(w, modules, *module);
}

uint32_t profile_add_function(struct profile_writer *w, const struct ctp_function *function)
{
    ADD_RECORD(w, functions, *function);
}

uint32_t profile_add_line(struct profile_writer *w, const struct ctp_line *line)
{
    ADD_RECORD(w, lines, *line);
}

uint32_t profile_add_frame(struct profile_writer *w, const struct ctp_frame *frame)
{
    ADD_RECORD(w, frames, *frame);
}

uint32_t profile_add_thread(struct profile_writer *w, const struct ctp_thread *thread)
{
    ADD_RECORD(w, threads, *thread);
}

uint32_t profile_add_epoch(struct profile_writer *w, const char *name)
{
    ADD_RECORD(w, epochs, (struct ctp_epoch){.name = profile_add_string(w, name)});
}

uint32_t profile_add_metric(struct profile_writer *w, const struct ctp_metric *metric)
{
    if (w->nodes_begun) {
        fail(w, "a metric was added after the nodes were begun");
        return CTP_NONE;
    }
    /* Every metric is a section, and there must be room for all the others. */
    if (w->metrics.count >= CTP_SECTIONS_MAX - CTP_KIND_END) {
        fail(w, "there are too many metrics");
        return CTP_NONE;
    }
    ADD_RECORD(w, metrics, *metric);
}

uint32_t profile_add_process(struct profile_writer *w, const struct ctp_process *process,
                             uint32_t argument_count, const char *const *arguments)
{
    struct ctp_process record = *process;
    record.first_argument = (uint32_t)w->arguments.count;
    record.argument_count = argument_count;
    if (w->arguments.count + argument_count >= CTP_NONE) {
        fail(w, "there are too many arguments");
        return CTP_NONE;
    }
    for (uint32_t i = 0; i < argument_count; i++) {
        uint32_t text = profile_add_string(w, arguments[i]);
        vec_push(&w->arguments, text);
    }
    ADD_RECORD(w, processes, record);
}

struct ctp_module *profile_added_modules(struct profile_writer *w, uint32_t *count)
{
    *count = (uint32_t)w->modules.count;
    return w->modules.items;
}

struct ctp_function *profile_added_functions(struct profile_writer *w, uint32_t *count)
{
    *count = (uint32_t)w->functions.count;
    return w->functions.items;
}

struct ctp_frame *profile_added_frames(struct profile_writer *w, uint32_t *count)
{
    *count = (uint32_t)w->frames.count;
    return w->frames.items;
}

const char *profile_added_string(const struct profile_writer *w, uint32_t offset)
{
    return strings_get(&w->strings, offset);
}

static void add_fact(struct profile_writer *w, enum ctp_scope scope, uint32_t index,
                     const char *key, enum ctp_fact_type type, uint64_t value)
{
    if (w->facts.count >= CTP_NONE - 1) {
        fail(w, "there are too many facts");
        return;
    }
    uint32_t name = profile_add_string(w, key);
    vec_push(&w->facts, (struct ctp_fact){scope, index, name, type, value});
}

void profile_fact_u64(struct profile_writer *w, enum ctp_scope scope, uint32_t index,
                      const char *key, uint64_t value)
{
    add_fact(w, scope, index, key, CTP_U64, value);
}

void profile_fact_i64(struct profile_writer *w, enum ctp_scope scope, uint32_t index,
                      const char *key, int64_t value)
{
    add_fact(w, scope, index, key, CTP_I64, (uint64_t)value);
}

void profile_fact_f64(struct profile_writer *w, enum ctp_scope scope, uint32_t index,
                      const char *key, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    add_fact(w, scope, index, key, CTP_F64, bits);
}

void profile_fact_string(struct profile_writer *w, enum ctp_scope scope, uint32_t index,
                         const char *key, const char *value)
{
    add_fact(w, scope, index, key, CTP_STRING, profile_add_string(w, value));
}

void profile_add_times(struct profile_writer *w, const struct ctp_time_run *run,
                       const struct ctp_time *items, size_t count)
{
    time_blocks_add(&w->times, run, items, count);
}

void profile_add_dictionary(struct profile_writer *w, const struct ctp_dictionary *dictionary,
                            const void *bytes)
{
    if (!dictionaries_add(&w->dictionaries, dictionary, bytes))
        fail(w, "there are more than 4 GB of dictionaries");
}

/* ---- Nodes ----------------------------------------------------------------------------------- */

void profile_begin_nodes(struct profile_writer *w, uint32_t node_count)
{
    if (w->nodes_begun) {
        fail(w, "the nodes were begun twice");
        return;
    }
    if (node_count == CTP_NONE) {
        fail(w, "there are too many nodes");
        return;
    }
    w->nodes_begun = true;
    w->node_count = node_count;
    column_begin(w, &w->parents, CTP_PARENTS, 0);
    column_begin(w, &w->node_frames, CTP_NODE_FRAMES, 0);
    w->values = must_calloc(w->metrics.count, sizeof *w->values);
    w->totals = must_calloc(w->metrics.count, sizeof *w->totals);
    for (uint32_t m = 0; m < w->metrics.count; m++)
        column_begin(w, &w->values[m], CTP_VALUES, m);
}

void profile_add_root(struct profile_writer *w, uint32_t thread, uint32_t epoch)
{
    vec_push(&w->roots, (struct ctp_root){.thread = thread, .epoch = epoch});
}

void profile_write_nodes(struct profile_writer *w, const uint32_t *parents, const uint32_t *frames,
                         size_t count)
{
    if (w->failed)
        return;
    if (count > w->node_count - w->parents.written) {
        fail(w, "more than the %" PRIu32 " nodes that were announced", w->node_count);
        return;
    }
    if (node_check_chunk(&w->check, w->path, parents, frames, count, &w->error) != CT_OK) {
        w->failed = true;
        return;
    }
    column_append(w, &w->parents, parents, count);
    column_append(w, &w->node_frames, frames, count);
}

void profile_write_values(struct profile_writer *w, uint32_t metric, const uint64_t *values,
                          size_t count)
{
    if (w->failed)
        return;
    if (!w->nodes_begun) {
        fail(w, "values were written before the nodes were begun");
        return;
    }
    if (metric >= w->metrics.count) {
        fail(w, "values of metric %" PRIu32 ", which does not exist", metric);
        return;
    }
    struct column *column = &w->values[metric];
    if (count > w->node_count - column->written) {
        fail(w, "metric %" PRIu32 " has more values than there are nodes", metric);
        return;
    }
    if (!add_values(&w->totals[metric], values, count)) {
        fail(w, "the total of metric %" PRIu32 " does not fit in 64 bits", metric);
        return;
    }
    column_append(w, column, values, count);
}

/* ---- Committing ------------------------------------------------------------------------------ */

static void end_nodes(struct profile_writer *w)
{
    static const uint64_t zeros[4096];
    if (!w->nodes_begun)
        profile_begin_nodes(w, 0);
    if (w->parents.written != w->node_count)
        fail(w, "%" PRIu64 " nodes were written, but %" PRIu32 " were announced",
             w->parents.written, w->node_count);
    column_end(w, &w->parents);
    column_end(w, &w->node_frames);
    for (size_t m = 0; m < w->metrics.count; m++) {
        struct column *column = &w->values[m];
        while (column->written < w->node_count && !w->failed) {
            uint64_t left = w->node_count - column->written, most = sizeof zeros / sizeof *zeros;
            column_append(w, column, zeros, left < most ? left : most);
        }
        column_end(w, column);
    }
}

static void end_roots(struct profile_writer *w)
{
    size_t count = w->check.roots.count;
    if (w->roots.count != count) {
        fail(w, "%zu roots were added, but %zu nodes have no parent", w->roots.count, count);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        uint32_t first = w->check.roots.items[i];
        uint32_t end = i + 1 < count ? w->check.roots.items[i + 1] : w->node_count;
        w->roots.items[i].first_node = first;
        w->roots.items[i].node_count = end - first;
    }
}

/* The tables as a reader will see them, to be checked by the reader's rules. */
static void check_tables(struct profile_writer *w)
{
    struct profile view = {
        .name = w->path,
        .strings = w->strings.bytes.items,
        .strings_size = (uint32_t)w->strings.bytes.count,
        .node_count = w->node_count,
        .metric_count = (uint32_t)w->metrics.count,
    };
#define VIEW(kind, table)                                                                          \
    view.tables[kind] = (struct profile_table){(const uint8_t *)w->table.items,                    \
                                               (uint32_t)w->table.count, sizeof *w->table.items}
    VIEW(CTP_MODULES, modules);
    VIEW(CTP_FUNCTIONS, functions);
    VIEW(CTP_LINES, lines);
    VIEW(CTP_FRAMES, frames);
    VIEW(CTP_ARGUMENTS, arguments);
    VIEW(CTP_PROCESSES, processes);
    VIEW(CTP_THREADS, threads);
    VIEW(CTP_EPOCHS, epochs);
    VIEW(CTP_METRICS, metrics);
    VIEW(CTP_ROOTS, roots);
    VIEW(CTP_FACTS, facts);
    VIEW(CTP_TIME_RUNS, times.runs);
    VIEW(CTP_TIMES, times.items);
    VIEW(CTP_DICTIONARIES, dictionaries.bytes);
#undef VIEW
    if (w->failed)
        return;
    if (profile_check_tables(&view, &w->error) != CT_OK ||
        profile_check_times(&view, &w->error) != CT_OK ||
        node_check_frames(&w->check, w->path, (uint32_t)w->frames.count, &w->error) != CT_OK)
        w->failed = true;
}

static void write_tables(struct profile_writer *w)
{
    if (w->strings.bytes.count >= CTP_NONE)
        fail(w, "there are more than 4 GB of names");
    write_table(w, CTP_MODULES, w->modules.items, w->modules.count);
    write_table(w, CTP_FUNCTIONS, w->functions.items, w->functions.count);
    write_table(w, CTP_LINES, w->lines.items, w->lines.count);
    write_table(w, CTP_FRAMES, w->frames.items, w->frames.count);
    write_table(w, CTP_ARGUMENTS, w->arguments.items, w->arguments.count);
    write_table(w, CTP_PROCESSES, w->processes.items, w->processes.count);
    write_table(w, CTP_THREADS, w->threads.items, w->threads.count);
    write_table(w, CTP_EPOCHS, w->epochs.items, w->epochs.count);
    write_table(w, CTP_METRICS, w->metrics.items, w->metrics.count);
    write_table(w, CTP_ROOTS, w->roots.items, w->roots.count);
    write_table(w, CTP_FACTS, w->facts.items, w->facts.count);
    write_table(w, CTP_TIME_RUNS, w->times.runs.items, w->times.runs.count);
    write_table(w, CTP_TIMES, w->times.items.items, w->times.items.count);
    write_table(w, CTP_DICTIONARIES, w->dictionaries.bytes.items, w->dictionaries.bytes.count);
    /* Last, beside the table of contents: opening looks at both, and a disk is slow to seek. */
    write_table(w, CTP_STRINGS, w->strings.bytes.items, w->strings.bytes.count);
}

static void write_frame_of_file(struct profile_writer *w)
{
    size_t toc_bytes = w->sections.count * sizeof *w->sections.items;
    struct ctp_header header = {.major = CTP_MAJOR,
                                .minor = CTP_MINOR,
                                .header_size = sizeof header,
                                .file_size = w->end + toc_bytes,
                                .toc_offset = w->end,
                                .toc_count = (uint32_t)w->sections.count,
                                .toc_entry_size = sizeof(struct ctp_section),
                                .toc_hash = XXH3_64bits(w->sections.items, toc_bytes)};
    memcpy(header.magic, CTP_MAGIC, sizeof header.magic);
    header.hash = XXH3_64bits(&header, offsetof(struct ctp_header, hash));
    write_at(w, w->end, w->sections.items, toc_bytes);
    write_at(w, 0, &header, sizeof header);
}

int profile_writer_finish(struct profile_writer *w, struct ct_error *err)
{
    end_nodes(w);
    end_roots(w);
    profile_sort_facts(w->facts.items, w->facts.count, &w->strings);
    if (!time_blocks_settle(&w->times))
        fail(w, "there are too many times of samples");
    check_tables(w);
    if (!w->failed)
        write_tables(w);
    write_frame_of_file(w); /* nothing, if something failed */
    w->is_finished = !w->failed;
    if (w->is_finished)
        return CT_OK;
    if (err)
        *err = w->error;
    profile_writer_abandon(w);
    return CT_ERROR;
}

int profile_writer_commit(struct profile_writer *w, struct ct_error *err)
{
    if (!w->is_finished)
        CT_TRY(profile_writer_finish(w, err));
    int status = file_commit(&w->file, err);
    writer_free(w);
    return status;
}
