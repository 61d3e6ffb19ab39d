#include "import/import.h"

#include <string.h>

uint32_t import_find_format(const char *name)
{
    static const char *const names[] = {"auto", "folded", "perf", "pprof"};
    for (uint32_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    return CTP_NONE;
}

bool next_line(struct text_lines *lines)
{
    if (lines->at == lines->end)
        return false;
    size_t left = (size_t)(lines->end - lines->at);
    const char *end = memchr(lines->at, '\n', left);
    lines->line = lines->at;
    lines->length = end ? (size_t)(end - lines->at) : left;
    lines->at = end ? end + 1 : lines->end;
    lines->number++;
    if (lines->length && lines->line[lines->length - 1] == '\r')
        lines->length--;
    return true;
}

static bool starts_with(const void *bytes, size_t size, const void *magic, size_t magic_size)
{
    return size >= magic_size && memcmp(bytes, magic, magic_size) == 0;
}

/* pprof files are compressed, or begin with a field of few bytes; text has no such characters. */
static enum import_format detect_format(const void *bytes, size_t size)
{
    const uint8_t *first = bytes;
    if (starts_with(bytes, size, "\x1f\x8b", 2) || memchr(bytes, 0, size < 4096 ? size : 4096) ||
        (size > 1 && first[0] == '\n' && first[1] < '\t'))
        return IMPORT_PPROF;
    struct text_lines lines = {.at = bytes, .end = (const char *)bytes + size};
    while (next_line(&lines) && lines.number < 1000) {
        if (lines.length == 0 || *lines.line == '#')
            continue;
        struct text_lines before = lines;
        if (!next_line(&lines))
            lines.length = 0;
        return perf_script_begins_with(before.line, before.length, lines.line, lines.length)
                   ? IMPORT_PERF
                   : IMPORT_FOLDED;
    }
    return IMPORT_FOLDED;
}

static int refuse_known(const void *bytes, size_t size, const char *name, struct ct_error *err)
{
    static const uint64_t cpu_profile[2] = {0, 3};
    if (size == 0)
        return ct_fail(err, "%s: is empty", name);
    if (starts_with(bytes, size, CTP_MAGIC, 8))
        return ct_fail(err, "%s: is a calltrail profile already", name);
    if (starts_with(bytes, size, "PERFILE2", 8))
        return ct_fail(err, "%s: is perf's own file; import what `perf script -i %s` prints", name,
                       name);
    if (starts_with(bytes, size, cpu_profile, sizeof cpu_profile))
        return ct_fail(err,
                       "%s: is a gperftools CPU profile, which has no names; import what "
                       "`pprof -proto PROGRAM %s` or `google-pprof --collapsed PROGRAM %s` prints",
                       name, name, name);
    return CT_OK;
}

/* The metric that was asked for comes first: it is what views show. */
static int put_first(struct gather *g, const char *metric, const char *name, struct ct_error *err)
{
    for (uint32_t i = 0; i < g->metric_count; i++) {
        struct gather_metric chosen = g->metrics[i];
        if (strcmp(strings_get(&g->texts, chosen.name), metric) != 0)
            continue;
        memmove(&g->metrics[1], &g->metrics[0], i * sizeof chosen);
        g->metrics[0] = chosen;
        return CT_OK;
    }
    char names[200] = "";
    for (uint32_t i = 0; i < g->metric_count && strlen(names) + 3 < sizeof names; i++)
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", i ? ", " : "",
                 strings_get(&g->texts, g->metrics[i].name));
    return ct_fail(err, "%s: has no metric '%s'; there are: %s", name, metric, names);
}

static int import_self_described(const void *bytes, size_t size, const char *name,
                                 const struct import_options *options, enum import_format format,
                                 struct gather *g, struct ct_error *err)
{
    if (options->unit)
        return ct_fail(err, "%s: says in which units it counts: --unit is for folded stacks", name);
    if (format == IMPORT_PERF)
        CT_TRY(import_perf_script(bytes, size, name, g, err));
    else
        CT_TRY(import_pprof(bytes, size, name, g, err));
    return options->metric ? put_first(g, options->metric, name, err) : CT_OK;
}

int import_bytes(const void *bytes, size_t size, const char *name,
                 const struct import_options *options, struct gather *g, struct ct_error *err)
{
    enum import_format format = options->format;
    gather_init(g, "", name);
    CT_TRY(refuse_known(bytes, size, name, err));
    if (format == IMPORT_AUTO)
        format = detect_format(bytes, size);
    if (format == IMPORT_FOLDED)
        return import_folded(bytes, size, name, options, g, err);
    return import_self_described(bytes, size, name, options, format, g, err);
}
