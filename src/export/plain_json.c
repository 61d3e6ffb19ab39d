/*
 * The tree as plain JSON: metrics, modules, frames, and nodes with their parents' numbers. Nodes
 * are not nested, since calls can be deeper than what JSON parsers allow.
 */
#include "base/json.h"
#include "export/export.h"

static const char *const kinds[] = {
    [LABEL_FUNCTION] = "function", [LABEL_PLACE] = "place",  [LABEL_GAP] = "gap",
    [LABEL_NOTHING] = "unknown",   [LABEL_GROUP] = "thread",
};

static void write_metrics(const struct stacks *stacks, struct json *j)
{
    json_open(j, "metrics", '[');
    for (uint32_t i = 0; i < stacks->metric_count; i++) {
        const struct ctp_metric *metric = profile_metric(stacks->profile, stacks->metrics[i]);
        json_open(j, NULL, '{');
        json_string(j, "name", stack_metric_name(stacks, i));
        json_string(j, "unit", stack_metric_unit(stacks, i));
        json_string(j, "kind", profile_metric_kind_name(metric->kind));
        json_unsigned(j, "period", metric->period);
        json_unsigned(j, "total", stacks->totals[i]);
        json_close(j, '}');
    }
    json_close(j, ']');
}

static void write_modules(const struct stacks *stacks, struct json *j)
{
    json_open(j, "modules", '[');
    for (uint32_t i = 0; i < profile_module_count(stacks->profile); i++) {
        const struct ctp_module *module = profile_module(stacks->profile, i);
        char id[CTP_BUILD_ID_ROOM * 2 + 1];
        json_open(j, NULL, '{');
        json_string(j, "path", stack_module_path(stacks, i));
        json_string(j, "build_id", stack_build_id(module, id));
        json_close(j, '}');
    }
    json_close(j, ']');
}

static void write_frames(const struct stacks *stacks, struct json *j)
{
    char text[STACK_NAME_ROOM];
    json_open(j, "frames", '[');
    for (uint32_t i = 0; i < stacks->frames.count; i++) {
        const struct stack_frame *frame = &stacks->frames.items[i];
        json_open(j, NULL, '{');
        json_string(j, "kind", kinds[stack_kind(stacks, frame)]);
        json_string(j, "name", stack_name(stacks, frame, text));
        if (frame->module != CTP_NONE) {
            json_unsigned(j, "module", frame->module);
            json_unsigned(j, "offset", frame->offset);
        }
        if (*frame->file)
            json_string(j, "file", frame->file);
        if (frame->line)
            json_unsigned(j, "line", frame->line);
        if (frame->inlined)
            json_bool(j, "inlined", true);
        json_close(j, '}');
    }
    json_close(j, ']');
}

static void write_values(const struct stacks *stacks, struct json *j, const char *key,
                         uint64_t *const *values, uint32_t node)
{
    json_open(j, key, '[');
    for (uint32_t i = 0; i < stacks->metric_count; i++)
        json_unsigned(j, NULL, values[i][node]);
    json_close(j, ']');
}

static void write_nodes(const struct stacks *stacks, struct json *j)
{
    uint64_t **sums = must_calloc(stacks->metric_count, sizeof *sums);
    for (uint32_t i = 0; i < stacks->metric_count; i++)
        sums[i] = stack_sums(stacks, i);
    json_open(j, "nodes", '[');
    for (uint32_t i = 0; i < stacks->tree.count; i++) {
        json_open(j, NULL, '{');
        if (i) {
            json_unsigned(j, "parent", stacks->tree.nodes[i].parent);
            json_unsigned(j, "frame", stacks->tree.nodes[i].label);
        }
        write_values(stacks, j, "self", stacks->values, i);
        write_values(stacks, j, "total", sums, i);
        json_close(j, '}');
    }
    json_close(j, ']');
    for (uint32_t i = 0; i < stacks->metric_count; i++)
        free(sums[i]);
    free(sums);
}

int export_json(const struct stacks *stacks, FILE *out, struct ct_error *err)
{
    (void)err;
    struct json j = json_to(out);
    json_open(&j, NULL, '{');
    json_string(&j, "format", "calltrail tree");
    json_unsigned(&j, "version", 1);
    write_metrics(stacks, &j);
    write_modules(stacks, &j);
    write_frames(stacks, &j);
    write_nodes(stacks, &j);
    json_close(&j, '}');
    return CT_OK;
}
