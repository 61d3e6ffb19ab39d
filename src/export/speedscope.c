/*
 * speedscope's own JSON. Each thread is an "evented" profile: frames open and close at positions on
 * an axis of cost, which is the tree in preorder. (Its "sampled" form would repeat the whole stack
 * for every context.)
 */
#include "base/json.h"
#include "export/export.h"

#include <string.h>

static const char *speedscope_unit(const char *unit)
{
    return strcmp(unit, "ns") == 0 ? "nanoseconds" : strcmp(unit, "bytes") == 0 ? "bytes" : "none";
}

static void write_frames(const struct stacks *stacks, struct json *j)
{
    char text[STACK_NAME_ROOM];
    json_open(j, "shared", '{');
    json_open(j, "frames", '[');
    for (uint32_t i = 0; i < stacks->frames.count; i++) {
        const struct stack_frame *frame = &stacks->frames.items[i];
        json_open(j, NULL, '{');
        json_string(j, "name", stack_name(stacks, frame, text));
        /* Frames of the same name in other modules are other frames: speedscope tells them apart by
         * the file. */
        if (*frame->file) {
            json_string(j, "file", frame->file);
            if (frame->line)
                json_unsigned(j, "line", frame->line);
        } else if (frame->module != CTP_NONE) {
            json_string(j, "file", stack_module_path(stacks, frame->module));
        }
        json_close(j, '}');
    }
    json_close(j, ']');
    json_close(j, '}');
}

static void write_event(struct json *j, const char *type, uint32_t frame, uint64_t at)
{
    json_open(j, NULL, '{');
    json_string(j, "type", type);
    json_unsigned(j, "frame", frame);
    json_unsigned(j, "at", at);
    json_close(j, '}');
}

/* Everything below a node, which itself is not shown. */
static uint64_t write_events(const struct stacks *stacks, struct json *j, uint32_t top)
{
    const struct tree *tree = &stacks->tree;
    VEC(uint32_t) open = {0};
    uint64_t at = 0;
    for (uint32_t i = top + 1, end = top + tree->sizes[top]; i <= end; i++) {
        uint32_t parent = i < end ? tree->nodes[i].parent : top;
        while (open.count && open.items[open.count - 1] != parent)
            write_event(j, "C", tree->nodes[open.items[--open.count]].label, at);
        if (i == end)
            break;
        write_event(j, "O", tree->nodes[i].label, at);
        vec_push(&open, i);
        at += stacks->values[0][i];
    }
    vec_free(&open);
    return at;
}

int export_speedscope(const struct stacks *stacks, FILE *out, struct ct_error *err)
{
    (void)err;
    char text[STACK_NAME_ROOM];
    struct json j = json_to(out);
    json_open(&j, NULL, '{');
    json_string(&j, "$schema", "https://www.speedscope.app/file-format-schema.json");
    json_string(&j, "exporter", "calltrail " CALLTRAIL_VERSION);
    json_string(&j, "name", stack_thread_name(stacks, 0, text));
    write_frames(stacks, &j);
    json_open(&j, "profiles", '[');
    for (uint32_t thread = TREE_NONE; (thread = stack_thread(stacks, thread)) != TREE_NONE;) {
        json_open(&j, NULL, '{');
        json_string(&j, "type", "evented");
        json_string(&j, "name", stack_thread_name(stacks, thread, text));
        json_string(&j, "unit", speedscope_unit(stack_metric_unit(stacks, 0)));
        json_unsigned(&j, "startValue", 0);
        json_open(&j, "events", '[');
        uint64_t total = write_events(stacks, &j, thread);
        json_close(&j, ']');
        json_unsigned(&j, "endValue", total);
        json_close(&j, '}');
    }
    json_close(&j, ']');
    json_close(&j, '}');
    return CT_OK;
}
