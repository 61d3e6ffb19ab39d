/*
 * Folded stacks: `f1;f2;f3 value`, outermost first.
 */
#include "import/import.h"

#include <inttypes.h>
#include <string.h>

static const char *find(const char *from, const char *end, char c)
{
    const char *found = memchr(from, c, (size_t)(end - from));
    return found ? found : end;
}

/* The value behind the last space of the line, which then ends before it. */
static int take_value(struct text_lines *lines, const char *name, uint64_t *value,
                      struct ct_error *err)
{
    size_t length = lines->length;
    while (length && lines->line[length - 1] == ' ')
        length--;
    size_t digits = length;
    while (digits && lines->line[digits - 1] >= '0' && lines->line[digits - 1] <= '9')
        digits--;
    *value = 0;
    for (size_t i = digits; i < length; i++)
        if (__builtin_mul_overflow(*value, 10, value) ||
            __builtin_add_overflow(*value, (uint64_t)(lines->line[i] - '0'), value))
            return ct_fail(err, "%s: line %" PRIu64 ": the value does not fit in 64 bits", name,
                           lines->number);
    if (digits == length || digits == 0 || lines->line[digits - 1] != ' ')
        return ct_fail(
            err, "%s: line %" PRIu64 ": is not `f1;f2;f3 value` with a whole number as its value",
            name, lines->number);
    lines->length = digits - 1;
    return CT_OK;
}

static uint32_t stack_node(struct gather *g, const char *at, const char *end)
{
    uint32_t node = gather_thread(g, 0, 0, "all", 3);
    if (gather_is_nothing(at, (size_t)(end - at)))
        return node;
    for (; at < end; at++) {
        const char *stop = find(at, end, ';');
        if (stop > at)
            node = gather_node(g, node, gather_named_frame(g, at, (size_t)(stop - at)));
        at = stop;
    }
    return node;
}

int import_folded(const char *text, size_t size, const char *name,
                  const struct import_options *options, struct gather *g, struct ct_error *err)
{
    struct text_lines lines = {.at = text, .end = text + size};
    g->origin = "folded stacks";
    const char *metric_name = options->metric ? options->metric : "samples";
    const char *unit = options->unit ? options->unit : "samples";
    uint32_t metric = gather_metric(g, gather_text(g, metric_name, strlen(metric_name)),
                                    gather_text(g, unit, strlen(unit)), CTP_METRIC_EXACT, 0);
    while (next_line(&lines)) {
        uint64_t value;
        if (lines.length == 0 || *lines.line == '#')
            continue;
        CT_TRY(take_value(&lines, name, &value, err));
        gather_add(g, stack_node(g, lines.line, lines.line + lines.length), metric, value);
    }
    return g->nodes.count ? CT_OK : ct_fail(err, "%s: has no stacks", name);
}
