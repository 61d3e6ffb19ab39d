/*
 * Trace events, as a JSON array. Where threads are apart and samples have times, that is when they
 * are; else the tree is laid out on a time line of cost. Both are there twice: as slices
 * ("X" events), which chrome://tracing and Perfetto draw, and as the samples of a V8 CPU profile,
 * which DevTools' Performance panel draws. Each ignores the other's.
 */
#include "base/json.h"
#include "export/export.h"
#include "export/stack_samples.h"

#include <inttypes.h>
#include <string.h>

/* Trace times are microseconds. Values that are no times are shown as if they were. */
struct chrome {
    const struct stacks *stacks;
    const uint64_t *sums;
    struct json json;
    bool nanoseconds;
    bool has_times;
    struct stack_samples samples; /* if so */
};

static void write_time(struct chrome *c, const char *key, uint64_t value)
{
    char text[32];
    if (c->nanoseconds)
        snprintf(text, sizeof text, "%" PRIu64 ".%03u", value / 1000, (unsigned)(value % 1000));
    else
        snprintf(text, sizeof text, "%" PRIu64, value);
    json_literal(&c->json, key, text);
}

struct trace_thread {
    uint32_t node, pid, tid;
};

static struct trace_thread trace_thread(const struct stacks *stacks, uint32_t node)
{
    const struct ctp_thread *record = stack_thread_record(stacks, node);
    uint32_t pid = profile_process(stacks->profile, node ? record->process : 0)->pid;
    return (struct trace_thread){node, pid, node ? record->tid : pid};
}

static void begin_event(struct chrome *c, const struct trace_thread *thread, const char *phase,
                        const char *category, const char *name, uint64_t time)
{
    json_open(&c->json, NULL, '{');
    json_string(&c->json, "ph", phase);
    json_string(&c->json, "cat", category);
    json_string(&c->json, "name", name);
    json_unsigned(&c->json, "pid", thread->pid);
    json_unsigned(&c->json, "tid", thread->tid);
    write_time(c, "ts", time);
}

static void write_name(struct chrome *c, const struct trace_thread *thread, const char *what,
                       const char *name)
{
    begin_event(c, thread, "M", "__metadata", what, 0);
    json_open(&c->json, "args", '{');
    json_string(&c->json, "name", name);
    json_close(&c->json, '}');
    json_close(&c->json, '}');
}

static void write_names(struct chrome *c, const struct trace_thread *thread)
{
    char text[STACK_NAME_ROOM];
    const struct profile *p = c->stacks->profile;
    const struct ctp_thread *record = stack_thread_record(c->stacks, thread->node);
    const struct ctp_process *process = profile_process(p, thread->node ? record->process : 0);
    write_name(c, thread, "process_name", path_file(profile_string(p, process->command)));
    write_name(c, thread, "thread_name", stack_thread_name(c->stacks, thread->node, text));
}

static void write_slices(struct chrome *c, const struct trace_thread *thread)
{
    const struct stacks *s = c->stacks;
    char text[STACK_NAME_ROOM];
    uint64_t at = 0;
    uint32_t end = thread->node + s->tree.sizes[thread->node];
    for (uint32_t i = thread->node + 1; i < end; i++) {
        if (c->sums[i]) {
            begin_event(c, thread, "X", stack_metric_name(s, 0),
                        stack_name(s, stack_frame(s, i), text), at);
            write_time(c, "dur", c->sums[i]);
            json_close(&c->json, '}');
        }
        at += s->values[0][i];
    }
}

struct slice {
    uint64_t start_ns, end_ns;
    uint32_t node, depth;
};

typedef VEC(struct slice) slice_list;

/* The outer ones first, as readers expect them. */
static int by_start(const void *a, const void *b)
{
    const struct slice *x = a, *y = b;
    if (x->start_ns != y->start_ns)
        return x->start_ns < y->start_ns ? -1 : 1;
    return (x->depth > y->depth) - (x->depth < y->depth);
}

/* Closes the innermost ones that `keep` is not below; all, if it is TREE_NONE. */
static void close_slices(const struct stacks *s, slice_list *open, uint32_t keep, uint64_t end_ns,
                         slice_list *closed)
{
    while (open->count) {
        struct slice *last = &open->items[open->count - 1];
        if (keep != TREE_NONE && keep >= last->node &&
            keep < last->node + s->tree.sizes[last->node])
            break;
        last->end_ns = end_ns;
        vec_push(closed, *last);
        open->count--;
    }
}

/* The callers of samples that follow each other are one slice, as long as they stay. */
static slice_list timed_slices(const struct chrome *c, uint32_t thread)
{
    const struct stacks *s = c->stacks;
    struct profile_range range = stack_samples_of(&c->samples, thread);
    slice_list open = {0}, closed = {0};
    uint64_t end_ns = 0;
    for (uint32_t i = range.first; i < range.end; i++) {
        const struct stack_sample *sample = &c->samples.items.items[i];
        bool follows = sample->start_ns == end_ns;
        close_slices(s, &open, follows ? sample->node : TREE_NONE, end_ns, &closed);
        uint32_t innermost = open.count ? open.items[open.count - 1].node : thread;
        size_t first = open.count;
        for (uint32_t at = sample->node; at != innermost; at = s->tree.nodes[at].parent)
            vec_push(&open, (struct slice){.start_ns = sample->start_ns, .node = at});
        for (size_t a = first, b = open.count; a + 1 < b; a++, b--) { /* the outermost first */
            struct slice swapped = open.items[a];
            open.items[a] = open.items[b - 1];
            open.items[b - 1] = swapped;
        }
        for (size_t k = first; k < open.count; k++)
            open.items[k].depth = (uint32_t)k;
        end_ns = sample->start_ns + sample->value;
    }
    close_slices(s, &open, TREE_NONE, end_ns, &closed);
    vec_free(&open);
    return closed;
}

static void write_timed_slices(struct chrome *c, const struct trace_thread *thread)
{
    slice_list slices = timed_slices(c, thread->node);
    char text[STACK_NAME_ROOM];
    if (slices.count)
        qsort(slices.items, slices.count, sizeof *slices.items, by_start);
    for (size_t i = 0; i < slices.count; i++) {
        const struct slice *slice = &slices.items[i];
        begin_event(c, thread, "X", stack_metric_name(c->stacks, 0),
                    stack_name(c->stacks, stack_frame(c->stacks, slice->node), text),
                    slice->start_ns);
        write_time(c, "dur", slice->end_ns - slice->start_ns);
        json_close(&c->json, '}');
    }
    vec_free(&slices);
}

static void write_profile_node(struct chrome *c, const struct trace_thread *thread, uint32_t node)
{
    const struct stacks *s = c->stacks;
    struct json *j = &c->json;
    char text[STACK_NAME_ROOM];
    const struct stack_frame *frame = node == thread->node ? NULL : stack_frame(s, node);
    json_open(j, NULL, '{');
    json_unsigned(j, "id", node - thread->node + 1);
    if (frame)
        json_unsigned(j, "parent", s->tree.nodes[node].parent - thread->node + 1);
    json_open(j, "callFrame", '{');
    json_string(j, "functionName", frame ? stack_name(s, frame, text) : "(root)");
    json_string(j, "scriptId", "0");
    json_string(j, "url",
                !frame                      ? ""
                : *frame->file              ? frame->file
                : frame->module != CTP_NONE ? stack_module_path(s, frame->module)
                                            : "");
    json_signed(j, "lineNumber", frame ? (int64_t)frame->line - 1 : -1);
    json_signed(j, "columnNumber", -1);
    json_close(j, '}');
    json_close(j, '}');
}

/* The same; where nothing was sampled, the root has a sample. */
static void write_timed_samples(struct chrome *c, const struct trace_thread *thread)
{
    struct profile_range range = stack_samples_of(&c->samples, thread->node);
    const struct stack_sample *items = c->samples.items.items;
    struct json *j = &c->json;
    uint64_t end_ns = 0;
    json_open(j, "samples", '[');
    for (uint32_t i = range.first; i < range.end; i++) {
        if (items[i].start_ns != end_ns)
            json_unsigned(j, NULL, 1);
        json_unsigned(j, NULL, items[i].node - thread->node + 1);
        end_ns = items[i].start_ns + items[i].value;
    }
    json_unsigned(j, NULL, 1);
    json_close(j, ']');
    json_close(j, '}'); /* of cpuProfile */
    json_open(j, "timeDeltas", '[');
    uint64_t before_ns = end_ns = 0;
    for (uint32_t i = range.first; i < range.end; i++) {
        if (items[i].start_ns != end_ns) {
            write_time(c, NULL, end_ns - before_ns);
            before_ns = end_ns;
        }
        write_time(c, NULL, items[i].start_ns - before_ns);
        before_ns = items[i].start_ns;
        end_ns = before_ns + items[i].value;
    }
    write_time(c, NULL, end_ns - before_ns);
    json_close(j, ']');
}

/* A sample lasts until the next one: deltas are the values of the samples before them, and a sample
 * of the root ends the last. */
static void write_profile_samples(struct chrome *c, const struct trace_thread *thread)
{
    const struct stacks *s = c->stacks;
    struct json *j = &c->json;
    uint32_t end = thread->node + s->tree.sizes[thread->node];
    json_open(j, "samples", '[');
    for (uint32_t i = thread->node + 1; i < end; i++)
        if (s->values[0][i])
            json_unsigned(j, NULL, i - thread->node + 1);
    json_unsigned(j, NULL, 1);
    json_close(j, ']');
    json_close(j, '}'); /* of cpuProfile */
    json_open(j, "timeDeltas", '[');
    uint64_t before = 0;
    for (uint32_t i = thread->node + 1; i < end; i++)
        if (s->values[0][i]) {
            write_time(c, NULL, before);
            before = s->values[0][i];
        }
    write_time(c, NULL, before);
    json_close(j, ']');
}

static void write_profile(struct chrome *c, const struct trace_thread *thread)
{
    static const char category[] = "disabled-by-default-v8.cpu_profiler";
    const struct stacks *s = c->stacks;
    struct json *j = &c->json;
    char id[32];
    snprintf(id, sizeof id, "0x%" PRIx32, thread->node + 1);
    begin_event(c, thread, "P", category, "Profile", 0);
    json_string(j, "id", id);
    json_open(j, "args", '{');
    json_open(j, "data", '{');
    json_unsigned(j, "startTime", 0);
    json_close(j, '}');
    json_close(j, '}');
    json_close(j, '}');

    begin_event(c, thread, "P", category, "ProfileChunk", 0);
    json_string(j, "id", id);
    json_open(j, "args", '{');
    json_open(j, "data", '{');
    json_open(j, "cpuProfile", '{');
    json_open(j, "nodes", '[');
    for (uint32_t i = thread->node; i < thread->node + s->tree.sizes[thread->node]; i++)
        write_profile_node(c, thread, i);
    json_close(j, ']');
    if (c->has_times)
        write_timed_samples(c, thread);
    else
        write_profile_samples(c, thread);
    json_close(j, '}');
    json_close(j, '}');
    json_close(j, '}');
}

int export_chrome(const struct stacks *stacks, FILE *out, struct ct_error *err)
{
    (void)err;
    uint64_t *sums = stack_sums(stacks, 0);
    struct chrome c = {.stacks = stacks,
                       .sums = sums,
                       .json = json_to(out),
                       .nanoseconds = strcmp(stack_metric_unit(stacks, 0), "ns") == 0};
    c.json.lines_down_to = 1;
    c.has_times = stacks->options.threads && stack_samples_find(stacks, &c.samples);
    json_open(&c.json, NULL, '[');
    for (uint32_t node = TREE_NONE; (node = stack_thread(stacks, node)) != TREE_NONE;) {
        struct trace_thread thread = trace_thread(stacks, node);
        write_names(&c, &thread);
        if (c.has_times)
            write_timed_slices(&c, &thread);
        else
            write_slices(&c, &thread);
        write_profile(&c, &thread);
    }
    json_close(&c.json, ']');
    free(sums);
    stack_samples_free(&c.samples);
    return CT_OK;
}
