/*
 * The callgrind format: functions, what was charged to their lines, and the calls between them.
 *
 * Readers take the sum of all calls to a function for its inclusive cost. In recursion that would
 * count costs twice. So a call within a call of the same function has no cost: the sum is then the
 * cost of the function with all that it called, each once, as `calltrail report --view flat` has
 * it. For the same reason outermost functions are called too, by one that stands for nothing else:
 * readers forget that a function was not called when it was called elsewhere.
 */
#include "export/export.h"
#include "export/text_table.h"

#include <inttypes.h>
#include <string.h>

/* The numbers of its name, file and object. Readers know a function by the first two. */
struct function {
    uint32_t name, file, object;
};

enum text_kind { TEXT_OBJECT, TEXT_FILE, TEXT_NAME };

struct call {
    uint32_t caller; /* a frame: function and line; one more than there are for the root */
    uint32_t callee; /* a function */
    uint64_t contexts;
    uint64_t cost;
};

struct callgrind {
    const struct stacks *stacks;
    FILE *out;
    struct text_table texts;    /* names, files and objects */
    struct text_table keys;     /* functions: their three numbers as a text */
    VEC(struct function) items; /* functions by number */
    uint32_t *function_of;      /* by frame */
    uint64_t *self;             /* by frame */
    VEC(struct call) calls;
    uint32_t *slots; /* calls by caller and callee; call + 1, 0 is free */
    size_t slot_count;
    uint8_t *written; /* by text: the kinds of which the file has it already */
};

/* ---- Functions ----------------------------------------------------------------------------------
 */

/* A name goes to the end of its line. */
static uint32_t line_text(struct callgrind *c, const char *text)
{
    char *copy = must_strdup(*text ? text : "???");
    for (char *at = copy; *at; at++)
        if ((unsigned char)*at < 0x20)
            *at = ' ';
    uint32_t number = text_number(&c->texts, copy);
    free(copy);
    return number;
}

static void add_function(struct callgrind *c, uint32_t frame, const struct function *function)
{
    char key[64];
    snprintf(key, sizeof key, "%u %u", function->name, function->file);
    c->function_of[frame] = text_number(&c->keys, key);
    if (c->function_of[frame] == c->items.count)
        vec_push(&c->items, *function);
}

/*
 * callgrind_annotate knows functions by file and name: where the source is not known the module
 * takes its place, so that functions of the same name in two modules stay two. It prints the files
 * that it can open, so the module must not look like one.
 */
static uint32_t file_text(struct callgrind *c, const char *source, const char *module)
{
    if (*source || !*module)
        return line_text(c, source);
    char *instead = must_format("[%s]", module);
    uint32_t number = line_text(c, instead);
    free(instead);
    return number;
}

static void name_functions(struct callgrind *c)
{
    const struct stacks *s = c->stacks;
    uint32_t count = (uint32_t)s->frames.count, nothing = line_text(c, "");
    c->function_of = must_calloc((size_t)count + 1, sizeof *c->function_of);
    vec_push(&c->items, (struct function){0}); /* number 0 is the empty text */
    for (uint32_t i = 0; i < count; i++) {
        const struct stack_frame *frame = &s->frames.items[i];
        char text[STACK_NAME_ROOM];
        const char *file = profile_string(s->profile, stack_function(s, frame->label)->file);
        uint32_t module = s->labels.items.items[frame->label].module;
        const char *path = stack_module_path(s, module);
        add_function(c, i,
                     &(struct function){line_text(c, stack_name(s, frame, text)),
                                        file_text(c, file, path), line_text(c, path)});
    }
    add_function(c, count, &(struct function){line_text(c, "(root)"), nothing, nothing});
}

/* ---- Calls --------------------------------------------------------------------------------------
 */

static uint64_t call_hash(uint32_t caller, uint32_t callee)
{
    uint32_t parts[2] = {caller, callee};
    return hash_bytes(parts, sizeof parts);
}

static void grow_slots(struct callgrind *c)
{
    free(c->slots);
    c->slot_count = c->slot_count ? c->slot_count * 2 : 1024;
    c->slots = must_calloc(c->slot_count, sizeof *c->slots);
    for (size_t i = 0; i < c->calls.count; i++) {
        size_t at = call_hash(c->calls.items[i].caller, c->calls.items[i].callee);
        while (c->slots[at &= c->slot_count - 1])
            at++;
        c->slots[at] = (uint32_t)i + 1;
    }
}

/* The call that leads to a node. */
static struct call *call_of(struct callgrind *c, uint32_t node)
{
    const struct tree_node *nodes = c->stacks->tree.nodes;
    uint32_t parent = nodes[node].parent, callee = c->function_of[nodes[node].label];
    uint32_t caller = parent ? nodes[parent].label : (uint32_t)c->stacks->frames.count;
    if ((c->calls.count + 1) * 2 > c->slot_count)
        grow_slots(c);
    size_t at = call_hash(caller, callee);
    for (; c->slots[at &= c->slot_count - 1]; at++) {
        struct call *call = &c->calls.items[c->slots[at] - 1];
        if (call->caller == caller && call->callee == callee)
            return call;
    }
    vec_push(&c->calls, (struct call){.caller = caller, .callee = callee});
    c->slots[at] = (uint32_t)c->calls.count;
    return &c->calls.items[c->calls.count - 1];
}

static void add_up(struct callgrind *c)
{
    const struct stacks *s = c->stacks;
    uint64_t *sums = stack_sums(s, 0);
    uint32_t *ends = must_calloc(c->items.count, sizeof *ends); /* of outermost calls */
    c->self = must_calloc(s->frames.count + 1, sizeof *c->self);
    for (uint32_t i = 1; i < s->tree.count; i++) {
        uint32_t frame = s->tree.nodes[i].label, *end = &ends[c->function_of[frame]];
        c->self[frame] += s->values[0][i];
        if (!sums[i])
            continue;
        struct call *call = call_of(c, i);
        call->contexts++;
        if (i >= *end) {
            call->cost += sums[i];
            *end = i + s->tree.sizes[i];
        }
    }
    free(sums);
    free(ends);
}

/* ---- The file -----------------------------------------------------------------------------------
 */

/* Names, files and objects have numbers of their own kind; a text is written the first time. */
static void write_text(struct callgrind *c, enum text_kind kind, const char *what, uint32_t text)
{
    fprintf(c->out, "%s=(%u)", what, text);
    if (!(c->written[text] & 1 << kind))
        fprintf(c->out, " %s", text_of(&c->texts, text));
    c->written[text] |= (uint8_t)(1 << kind);
    putc('\n', c->out);
}

static int compare_calls(const void *a, const void *b)
{
    const struct call *x = a, *y = b;
    return x->caller != y->caller ? (x->caller < y->caller ? -1 : 1)
                                  : (x->callee > y->callee) - (x->callee < y->callee);
}

/* Frames by function, so that each function is written once. */
static uint32_t *frames_by_function(const struct callgrind *c)
{
    uint32_t count = (uint32_t)c->stacks->frames.count + 1;
    uint32_t *starts = must_calloc(c->items.count + 1, sizeof *starts);
    uint32_t *frames = must_realloc(NULL, count, sizeof *frames);
    for (uint32_t i = 0; i < count; i++)
        starts[c->function_of[i] + 1]++;
    for (size_t i = 1; i <= c->items.count; i++)
        starts[i] += starts[i - 1];
    for (uint32_t i = 0; i < count; i++)
        frames[starts[c->function_of[i]]++] = i;
    free(starts);
    return frames;
}

static uint32_t line_of(const struct callgrind *c, uint32_t frame)
{
    return frame < c->stacks->frames.count ? c->stacks->frames.items[frame].line : 0;
}

static void write_call(struct callgrind *c, const struct call *call)
{
    const struct function *callee = &c->items.items[call->callee];
    write_text(c, TEXT_OBJECT, "cob", callee->object);
    write_text(c, TEXT_FILE, "cfi", callee->file);
    write_text(c, TEXT_NAME, "cfn", callee->name);
    fprintf(c->out, "calls=%" PRIu64 " 0\n%u %" PRIu64 "\n", call->contexts,
            line_of(c, call->caller), call->cost);
}

static void write_functions(struct callgrind *c)
{
    uint32_t count = (uint32_t)c->stacks->frames.count + 1, current = 0;
    uint32_t *frames = frames_by_function(c);
    uint32_t *first_calls = must_calloc((size_t)count + 1, sizeof *first_calls);
    qsort(c->calls.items, c->calls.count, sizeof *c->calls.items, compare_calls);
    for (size_t i = 0; i < c->calls.count; i++)
        first_calls[c->calls.items[i].caller + 1]++;
    for (uint32_t i = 1; i <= count; i++)
        first_calls[i] += first_calls[i - 1];
    for (uint32_t i = 0; i < count; i++) {
        uint32_t frame = frames[i], function = c->function_of[frame];
        if (!c->self[frame] && first_calls[frame] == first_calls[frame + 1])
            continue;
        if (function != current) {
            putc('\n', c->out);
            write_text(c, TEXT_OBJECT, "ob", c->items.items[function].object);
            write_text(c, TEXT_FILE, "fl", c->items.items[function].file);
            write_text(c, TEXT_NAME, "fn", c->items.items[function].name);
            current = function;
        }
        if (c->self[frame])
            fprintf(c->out, "%u %" PRIu64 "\n", line_of(c, frame), c->self[frame]);
        for (uint32_t k = first_calls[frame]; k < first_calls[frame + 1]; k++)
            write_call(c, &c->calls.items[k]);
    }
    free(frames);
    free(first_calls);
}

/* The event's name is one word; the whole name is in its description. */
static void write_header(const struct callgrind *c)
{
    const struct stacks *s = c->stacks;
    char *event = must_strdup(stack_metric_name(s, 0)), text[STACK_NAME_ROOM];
    for (char *at = event; *at; at++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_", *at))
            *at = '_';
    fprintf(
        c->out,
        "# callgrind format\nversion: 1\ncreator: calltrail " CALLTRAIL_VERSION
        "\npid: %u\ncmd: %s\npositions: line\nevent: %s : %s\nevents: %s\nsummary: %" PRIu64 "\n",
        profile_process(s->profile, 0)->pid, stack_thread_name(s, 0, text), *event ? event : "cost",
        stack_metric_unit(s, 0), *event ? event : "cost", s->totals[0]);
    free(event);
}

int export_callgrind(const struct stacks *stacks, FILE *out, struct ct_error *err)
{
    (void)err;
    struct callgrind c = {.stacks = stacks, .out = out};
    text_table_init(&c.texts);
    text_table_init(&c.keys);
    name_functions(&c);
    add_up(&c);
    c.written = must_calloc(c.texts.offsets.count, sizeof *c.written);
    write_header(&c);
    write_functions(&c);
    fprintf(out, "\ntotals: %" PRIu64 "\n", stacks->totals[0]);
    text_table_free(&c.texts);
    text_table_free(&c.keys);
    vec_free(&c.items);
    vec_free(&c.calls);
    free(c.function_of);
    free(c.self);
    free(c.slots);
    free(c.written);
    return CT_OK;
}
