/*
 * The processed profile format of the Firefox Profiler, version 60: the first in which threads
 * share their tables. Its stack table is our tree; samples are at their times, or, where those are
 * not known, contexts with a weight, one behind the other on a time line of cost.
 */
#include "base/json.h"
#include "export/export.h"
#include "export/stack_samples.h"
#include "export/text_table.h"

#include <string.h>

enum { PROCESSED_VERSION = 60, GECKO_VERSION = 31 };

struct firefox {
    const struct stacks *stacks;
    struct json json;
    struct text_table texts;
    struct text_table files; /* the sources: numbers are one more than theirs */
    uint32_t *stack_of;      /* by node: its number in the stack table */
    double weight_divisor;
    const char *weight_type;
    bool is_cpu_time; /* not only time */
    bool has_times;
    struct stack_samples samples; /* if so */
};

static void column_begin(struct firefox *f, const char *name)
{
    json_open(&f->json, name, '[');
}

static void column_end(struct firefox *f)
{
    json_close(&f->json, ']');
}

static void same_column(struct firefox *f, const char *name, uint32_t count, const char *value)
{
    column_begin(f, name);
    for (uint32_t i = 0; i < count; i++)
        json_literal(&f->json, NULL, value);
    column_end(f);
}

static void number_or_null(struct firefox *f, uint64_t value, bool known)
{
    if (known)
        json_unsigned(&f->json, NULL, value);
    else
        json_literal(&f->json, NULL, "null");
}

static bool is_frame(const struct stacks *s, uint32_t node)
{
    return node > 0 && !(s->options.threads && s->tree.nodes[node].parent == 0);
}

static void write_stack_table(struct firefox *f)
{
    const struct stacks *s = f->stacks;
    uint32_t count = 0;
    for (uint32_t i = 0; i < s->tree.count; i++)
        f->stack_of[i] = is_frame(s, i) ? count++ : CTP_NONE;
    json_open(&f->json, "stackTable", '{');
    json_unsigned(&f->json, "length", count);
    column_begin(f, "prefix");
    for (uint32_t i = 1; i < s->tree.count; i++)
        if (is_frame(s, i)) {
            uint32_t parent = f->stack_of[s->tree.nodes[i].parent];
            number_or_null(f, parent, parent != CTP_NONE);
        }
    column_end(f);
    column_begin(f, "frame");
    for (uint32_t i = 1; i < s->tree.count; i++)
        if (is_frame(s, i))
            json_unsigned(&f->json, NULL, s->tree.nodes[i].label);
    column_end(f);
    json_close(&f->json, '}');
}

/* Addresses are for symbol servers, which know nothing above 4 GB. */
static void write_frame_table(struct firefox *f)
{
    const struct stacks *s = f->stacks;
    uint32_t count = (uint32_t)s->frames.count;
    json_open(&f->json, "frameTable", '{');
    json_unsigned(&f->json, "length", count);
    column_begin(f, "address");
    for (uint32_t i = 0; i < count; i++) {
        const struct stack_frame *frame = &s->frames.items[i];
        bool known = frame->module != CTP_NONE && frame->offset <= INT32_MAX;
        json_signed(&f->json, NULL, known ? (int64_t)frame->offset : -1);
    }
    column_end(f);
    column_begin(f, "inlineDepth");
    for (uint32_t i = 0; i < count; i++)
        json_unsigned(&f->json, NULL, s->frames.items[i].inlined);
    column_end(f);
    column_begin(f, "func");
    for (uint32_t i = 0; i < count; i++)
        json_unsigned(&f->json, NULL, s->frames.items[i].label);
    column_end(f);
    column_begin(f, "line");
    for (uint32_t i = 0; i < count; i++)
        number_or_null(f, s->frames.items[i].line, s->frames.items[i].line);
    column_end(f);
    column_begin(f, "column");
    for (uint32_t i = 0; i < count; i++)
        number_or_null(f, s->frames.items[i].column, s->frames.items[i].column);
    column_end(f);
    same_column(f, "category", count, "0");
    same_column(f, "subcategory", count, "0");
    same_column(f, "nativeSymbol", count, "null");
    same_column(f, "innerWindowID", count, "null");
    json_close(&f->json, '}');
}

/* Functions are labels; one that has no file of its own in the profile has none here. */
static void write_func_table(struct firefox *f)
{
    const struct stacks *s = f->stacks;
    char text[STACK_NAME_ROOM];
    uint32_t count = (uint32_t)s->labels.items.count;
    json_open(&f->json, "funcTable", '{');
    json_unsigned(&f->json, "length", count);
    column_begin(f, "name");
    for (uint32_t i = 0; i < count; i++)
        json_unsigned(&f->json, NULL, text_number(&f->texts, stack_label_name(s, i, text)));
    column_end(f);
    column_begin(f, "resource");
    for (uint32_t i = 0; i < count; i++) {
        uint32_t module = s->labels.items.items[i].module;
        json_signed(&f->json, NULL, module == CTP_NONE ? -1 : (int64_t)module);
    }
    column_end(f);
    column_begin(f, "source");
    for (uint32_t i = 0; i < count; i++) {
        uint32_t file =
            text_number(&f->files, profile_string(s->profile, stack_function(s, i)->file));
        number_or_null(f, (uint64_t)file - 1, file);
    }
    column_end(f);
    column_begin(f, "lineNumber");
    for (uint32_t i = 0; i < count; i++)
        number_or_null(f, stack_function(s, i)->line, stack_function(s, i)->line);
    column_end(f);
    same_column(f, "columnNumber", count, "null");
    same_column(f, "isJS", count, "false");
    same_column(f, "relevantForJS", count, "false");
    json_close(&f->json, '}');
}

/* Every module is a library and a resource of the same number. */
static void write_resources(struct firefox *f)
{
    const struct profile *p = f->stacks->profile;
    uint32_t count = profile_module_count(p);
    json_open(&f->json, "resourceTable", '{');
    json_unsigned(&f->json, "length", count);
    column_begin(f, "lib");
    for (uint32_t i = 0; i < count; i++)
        json_unsigned(&f->json, NULL, i);
    column_end(f);
    column_begin(f, "name");
    for (uint32_t i = 0; i < count; i++)
        json_unsigned(&f->json, NULL,
                      text_number(&f->texts, path_file(stack_module_path(f->stacks, i))));
    column_end(f);
    same_column(f, "host", count, "null");
    same_column(f, "type", count, "1");
    json_close(&f->json, '}');
}

static void write_sources(struct firefox *f)
{
    uint32_t count = (uint32_t)f->files.offsets.count - 1;
    json_open(&f->json, "sources", '{');
    json_unsigned(&f->json, "length", count);
    same_column(f, "id", count, "null");
    column_begin(f, "filename");
    for (uint32_t i = 1; i <= count; i++)
        json_unsigned(&f->json, NULL, text_number(&f->texts, text_of(&f->files, i)));
    column_end(f);
    json_close(&f->json, '}');
}

static void write_shared(struct firefox *f)
{
    json_open(&f->json, "shared", '{');
    write_stack_table(f);
    write_frame_table(f);
    write_func_table(f);
    write_resources(f);
    json_open(&f->json, "nativeSymbols", '{');
    json_unsigned(&f->json, "length", 0);
    static const char *const columns[] = {"libIndex", "address", "name", "functionSize"};
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
        same_column(f, columns[i], 0, "");
    json_close(&f->json, '}');
    write_sources(f);
    column_begin(f, "stringArray");
    for (uint32_t i = 0; i < f->texts.offsets.count; i++)
        json_string(&f->json, NULL, text_of(&f->texts, i));
    column_end(f);
    json_close(&f->json, '}');
}

/*
 * A sample is at the end of what it stands for: the CPU time of a sample is the time since the one
 * before. So there is a first one, at 0, that stands for nothing.
 */
static void write_timed_samples(struct firefox *f, uint32_t thread)
{
    struct profile_range range = stack_samples_of(&f->samples, thread);
    const struct stack_sample *items = f->samples.items.items;
    json_open(&f->json, "samples", '{');
    json_string(&f->json, "weightType", f->weight_type);
    column_begin(f, "stack");
    json_literal(&f->json, NULL, "null");
    for (uint32_t i = range.first; i < range.end; i++)
        json_unsigned(&f->json, NULL, f->stack_of[items[i].node]);
    column_end(f);
    column_begin(f, "weight");
    json_unsigned(&f->json, NULL, 0);
    for (uint32_t i = range.first; i < range.end; i++)
        json_double(&f->json, NULL, (double)items[i].value / f->weight_divisor);
    column_end(f);
    column_begin(f, "time");
    json_unsigned(&f->json, NULL, 0);
    for (uint32_t i = range.first; i < range.end; i++)
        json_double(&f->json, NULL, (double)(items[i].start_ns + items[i].value) / 1e6);
    column_end(f);
    if (f->is_cpu_time) {
        column_begin(f, "threadCPUDelta");
        json_unsigned(&f->json, NULL, 0);
        for (uint32_t i = range.first; i < range.end; i++)
            json_unsigned(&f->json, NULL, items[i].value);
        column_end(f);
    }
    json_unsigned(&f->json, "length", range.end - range.first + 1);
    json_close(&f->json, '}');
}

static void write_samples(struct firefox *f, uint32_t thread)
{
    if (f->has_times) {
        write_timed_samples(f, thread);
        return;
    }
    const struct stacks *s = f->stacks;
    uint32_t end = thread + s->tree.sizes[thread], count = 1;
    json_open(&f->json, "samples", '{');
    json_string(&f->json, "weightType", f->weight_type);
    column_begin(f, "stack");
    json_literal(&f->json, NULL, "null");
    for (uint32_t i = thread + 1; i < end; i++)
        if (s->values[0][i]) {
            json_unsigned(&f->json, NULL, f->stack_of[i]);
            count++;
        }
    column_end(f);
    column_begin(f, "weight");
    json_unsigned(&f->json, NULL, 0);
    for (uint32_t i = thread + 1; i < end; i++)
        if (s->values[0][i])
            json_double(&f->json, NULL, (double)s->values[0][i] / f->weight_divisor);
    column_end(f);
    column_begin(f, "time");
    uint64_t at = 0;
    json_unsigned(&f->json, NULL, 0);
    for (uint32_t i = thread + 1; i < end; i++)
        if (s->values[0][i]) {
            at += s->values[0][i];
            json_double(&f->json, NULL, (double)at / f->weight_divisor);
        }
    column_end(f);
    if (f->is_cpu_time) {
        column_begin(f, "threadCPUDelta");
        json_unsigned(&f->json, NULL, 0);
        for (uint32_t i = thread + 1; i < end; i++)
            if (s->values[0][i])
                json_unsigned(&f->json, NULL, s->values[0][i]);
        column_end(f);
    }
    json_unsigned(&f->json, "length", count);
    json_close(&f->json, '}');
}

static void write_thread(struct firefox *f, uint32_t thread)
{
    static const char *const marker_columns[] = {"data",    "name",  "startTime",
                                                 "endTime", "phase", "category"};
    const struct ctp_thread *record = stack_thread_record(f->stacks, thread);
    const struct ctp_process *process =
        profile_process(f->stacks->profile, thread ? record->process : 0);
    char text[STACK_NAME_ROOM];
    struct json *j = &f->json;
    json_open(j, NULL, '{');
    json_string(j, "name", stack_thread_name(f->stacks, thread, text));
    json_string(j, "processName", path_file(profile_string(f->stacks->profile, process->command)));
    json_string(j, "processType", "default");
    snprintf(text, sizeof text, "%u", process->pid);
    json_string(j, "pid", text);
    json_unsigned(j, "tid", thread ? record->tid : process->pid);
    json_bool(j, "isMainThread", !thread || record->tid == process->pid);
    json_unsigned(j, "processStartupTime", 0);
    json_literal(j, "processShutdownTime", "null");
    json_unsigned(j, "registerTime", 0);
    json_literal(j, "unregisterTime", "null");
    same_column(f, "pausedRanges", 0, "");
    write_samples(f, thread);
    json_open(j, "markers", '{');
    json_unsigned(j, "length", 0);
    for (size_t i = 0; i < sizeof marker_columns / sizeof *marker_columns; i++)
        same_column(f, marker_columns[i], 0, "");
    json_close(j, '}');
    json_close(j, '}');
}

static void write_meta(struct firefox *f)
{
    struct json *j = &f->json;
    char text[STACK_NAME_ROOM];
    json_open(j, "meta", '{');
    json_unsigned(j, "version", GECKO_VERSION);
    json_unsigned(j, "preprocessedProfileVersion", PROCESSED_VERSION);
    json_string(j, "product", stack_thread_name(f->stacks, 0, text));
    json_string(j, "importedFrom", "calltrail " CALLTRAIL_VERSION);
    json_double(j, "startTime", (double)profile_process(f->stacks->profile, 0)->start_ns / 1e6);
    json_unsigned(j, "interval", 1);
    json_unsigned(j, "stackwalk", 1);
    json_unsigned(j, "processType", 0);
    json_bool(j, "symbolicated", true);
    if (f->is_cpu_time) {
        json_open(j, "sampleUnits", '{');
        json_string(j, "time", "ms");
        json_string(j, "eventDelay", "ms");
        json_string(j, "threadCPUDelta", "ns");
        json_close(j, '}');
    }
    json_open(j, "categories", '[');
    json_open(j, NULL, '{');
    json_string(j, "name", "Other");
    json_string(j, "color", "grey");
    json_open(j, "subcategories", '[');
    json_string(j, NULL, "Other");
    json_close(j, ']');
    json_close(j, '}');
    json_close(j, ']');
    same_column(f, "markerSchema", 0, "");
    json_close(j, '}');
}

static void write_libraries(struct firefox *f)
{
    const struct profile *p = f->stacks->profile;
    struct json *j = &f->json;
    json_open(j, "libs", '[');
    for (uint32_t i = 0; i < profile_module_count(p); i++) {
        const char *path = stack_module_path(f->stacks, i);
        char id[CTP_BUILD_ID_ROOM * 2 + 1];
        json_open(j, NULL, '{');
        json_string(j, "arch", "x86_64");
        json_string(j, "name", path_file(path));
        json_string(j, "path", path);
        json_string(j, "debugName", path_file(path));
        json_string(j, "debugPath", path);
        json_string(j, "breakpadId", "");
        json_string(j, "codeId", stack_build_id(profile_module(p, i), id));
        json_close(j, '}');
    }
    json_close(j, ']');
}

int export_firefox(const struct stacks *stacks, FILE *out, struct ct_error *err)
{
    (void)err;
    const char *unit = stack_metric_unit(stacks, 0);
    const char *metric = stack_metric_name(stacks, 0);
    bool time = strcmp(unit, "ns") == 0;
    struct firefox f = {.stacks = stacks,
                        .json = json_to(out),
                        .stack_of = must_calloc(stacks->tree.count, sizeof *f.stack_of),
                        .weight_divisor = time ? 1e6 : 1,
                        .weight_type = time                         ? "tracing-ms"
                                       : strcmp(unit, "bytes") == 0 ? "bytes"
                                                                    : "samples",
                        .is_cpu_time = time && (strcmp(metric, "cpu") == 0 ||
                                                strcmp(metric, "task-clock") == 0 ||
                                                strcmp(metric, "cpu-clock") == 0)};
    f.has_times = stack_samples_find(stacks, &f.samples);
    text_table_init(&f.texts);
    text_table_init(&f.files);
    json_open(&f.json, NULL, '{');
    write_meta(&f);
    write_libraries(&f);
    same_column(&f, "pages", 0, "");
    write_shared(&f);
    json_open(&f.json, "threads", '[');
    for (uint32_t thread = TREE_NONE; (thread = stack_thread(stacks, thread)) != TREE_NONE;)
        write_thread(&f, thread);
    json_close(&f.json, ']');
    json_close(&f.json, '}');
    free(f.stack_of);
    stack_samples_free(&f.samples);
    text_table_free(&f.texts);
    text_table_free(&f.files);
    return CT_OK;
}
