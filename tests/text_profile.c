/*
 * Writes a profile that is described as text, for outputs that must stay as they are:
 *
 *     text_profile DESCRIPTION OUT
 *
 * Words are separated by spaces; the last of a line goes to its end.
 *
 *     module NAME BUILD-ID PATH         "-" is no build-id
 *     metric NAME UNIT KIND PERIOD DESCRIPTION           KIND as in ctp_format.h
 *     process PID SECONDS COMMAND ARGUMENTS              exits with status 0
 *     thread TID NAME                   of the first process; contexts that follow are its own
 *     fact KEY NUMBER
 *     name SHORT MODULE!FUNCTION        SHORT stands for it in what follows
 *     source LINE FILE SHORT            where it is declared
 *     context VALUE,VALUE,… FRAME;FRAME;…                outermost first
 *
 * MODULE "none" is code of no module. A frame is SHORT, with @LINE behind it where that is known,
 * or MODULE+OFFSET.
 */
#include "base/vec.h"
#include "profile/profile.h"

#include <stdio.h>
#include <string.h>

enum { METRICS_MAX = 8, FUNCTION_BYTES = 0x1000 };

struct source {
    char *function, *file;
    uint32_t line;
};

struct short_name {
    char *text, *function;
};

struct node {
    uint32_t parent, frame;
    uint64_t values[METRICS_MAX];
};

struct maker {
    struct profile_writer *writer;
    VEC(char *) modules;
    VEC(char *) functions;
    VEC(char *) frames;
    VEC(struct source) sources;
    VEC(struct short_name) names;
    VEC(struct node) nodes;
    uint32_t first, metric_count, processes;
};

static void stop(const char *why, const char *what)
{
    fprintf(stderr, "text_profile: %s: %s\n", why, what);
    exit(1);
}

static uint32_t find(char **names, size_t count, const char *name)
{
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    return CTP_NONE;
}

static char *word(char **rest)
{
    char *text = strsep(rest, " ");
    if (!text)
        stop("a word is missing", "");
    return text;
}

static const char *function_called(const struct maker *m, const char *text)
{
    for (size_t i = 0; i < m->names.count; i++)
        if (strcmp(m->names.items[i].text, text) == 0)
            return m->names.items[i].function;
    stop("no such name", text);
    return NULL;
}

static uint32_t module_of(struct maker *m, const char *frame)
{
    char *name = must_strdup(frame);
    name[strcspn(name, "!+")] = '\0';
    if (strcmp(name, "none") == 0) {
        free(name);
        return CTP_NONE;
    }
    uint32_t module = find(m->modules.items, m->modules.count, name);
    if (module == CTP_NONE)
        stop("no such module", name);
    free(name);
    return module;
}

static uint32_t function_of(struct maker *m, const char *name, const struct source **source)
{
    *source = NULL;
    for (size_t i = 0; i < m->sources.count; i++)
        if (strcmp(m->sources.items[i].function, name) == 0)
            *source = &m->sources.items[i];
    uint32_t found = find(m->functions.items, m->functions.count, name);
    if (found != CTP_NONE)
        return found;
    vec_push(&m->functions, must_strdup(name));
    return profile_add_function(
        m->writer, &(struct ctp_function){
                       .offset = FUNCTION_BYTES * m->functions.count,
                       .size = FUNCTION_BYTES,
                       .name = profile_add_string(m->writer, strchr(name, '!') + 1),
                       .module = module_of(m, name),
                       .file = profile_add_string(m->writer, *source ? (*source)->file : ""),
                       .line = *source ? (*source)->line : 0});
}

static uint32_t frame_of(struct maker *m, const char *text)
{
    uint32_t found = find(m->frames.items, m->frames.count, text);
    if (found != CTP_NONE)
        return found;
    vec_push(&m->frames, must_strdup(text));
    char *name = must_strdup(text), *at = strchr(name, '@'), *plus = strchr(name, '+');
    uint32_t line = at ? (uint32_t)strtoul(at + 1, NULL, 10) : 0;
    struct ctp_frame frame = {.function = CTP_NONE};
    if (at)
        *at = '\0';
    if (!plus) {
        const struct source *source;
        const char *function = function_called(m, name);
        frame.module = module_of(m, function);
        frame.function = function_of(m, function, &source);
        frame.offset = FUNCTION_BYTES * (frame.function + 1) + 16 * (line % 64) + 16;
        frame.flags = CTP_FRAME_RETURN;
        if (line && source) {
            uint32_t file = profile_add_string(m->writer, source->file);
            frame.first_line =
                profile_add_line(m->writer, &(struct ctp_line){frame.function, file, line, 1});
            frame.line_count = 1;
        }
    } else {
        frame.module = module_of(m, name);
        frame.offset = strtoull(plus + 1, NULL, 16);
    }
    free(name);
    return profile_add_frame(m->writer, &frame);
}

static uint32_t node_of(struct maker *m, uint32_t parent, uint32_t frame)
{
    for (uint32_t i = m->first; i < m->nodes.count; i++)
        if (m->nodes.items[i].parent == parent && m->nodes.items[i].frame == frame)
            return i;
    vec_push(&m->nodes, (struct node){.parent = parent, .frame = frame});
    return (uint32_t)m->nodes.count - 1;
}

static void add_module(struct maker *m, char *rest)
{
    struct ctp_module module = {.kind = CTP_MODULE_FILE, .size = 0x100000};
    vec_push(&m->modules, must_strdup(word(&rest)));
    const char *id = word(&rest);
    for (unsigned byte; *id != '-' && sscanf(id, "%2x", &byte) == 1; id += 2)
        module.build_id[module.build_id_size++] = (uint8_t)byte;
    module.path = profile_add_string(m->writer, rest);
    profile_add_module(m->writer, &module);
}

static void add_process(struct maker *m, char *rest)
{
    const char *arguments[32];
    uint32_t count = 0;
    struct ctp_process process = {.parent = m->processes++ ? 0 : CTP_NONE,
                                  .start_ns = UINT64_C(1700000000000000000),
                                  .exit_kind = CTP_EXIT_STATUS};
    process.pid = (uint32_t)strtoul(word(&rest), NULL, 10);
    process.end_ns = process.start_ns + (uint64_t)(strtod(word(&rest), NULL) * 1e9);
    process.command = profile_add_string(m->writer, word(&rest));
    while (rest && count < 32)
        arguments[count++] = word(&rest);
    profile_add_process(m->writer, &process, count, arguments);
}

static void add_context(struct maker *m, char *rest)
{
    char *values = word(&rest);
    uint32_t at = node_of(m, CTP_NONE, CTP_NONE), metric = 0;
    for (char *frame; (frame = strsep(&rest, ";")) != NULL;)
        at = node_of(m, at, frame_of(m, frame));
    for (char *value; (value = strsep(&values, ",")) != NULL && metric < METRICS_MAX;)
        m->nodes.items[at].values[metric++] += strtoull(value, NULL, 10);
}

static void take_line(struct maker *m, char *line)
{
    struct profile_writer *w = m->writer;
    char *rest = line, *kind = word(&rest);
    if (strcmp(kind, "module") == 0) {
        add_module(m, rest);
    } else if (strcmp(kind, "metric") == 0) {
        struct ctp_metric metric = {.name = profile_add_string(w, word(&rest))};
        metric.unit = profile_add_string(w, word(&rest));
        metric.kind = (uint32_t)strtoul(word(&rest), NULL, 10);
        metric.period = strtoull(word(&rest), NULL, 10);
        metric.description = profile_add_string(w, rest);
        profile_add_metric(w, &metric);
        m->metric_count++;
    } else if (strcmp(kind, "process") == 0) {
        add_process(m, rest);
    } else if (strcmp(kind, "thread") == 0) {
        struct ctp_thread thread = {.creator = CTP_NONE};
        thread.tid = (uint32_t)strtoul(word(&rest), NULL, 10);
        thread.name = profile_add_string(w, rest);
        m->first = (uint32_t)m->nodes.count;
        profile_add_root(w, profile_add_thread(w, &thread), CTP_NONE);
        node_of(m, CTP_NONE, CTP_NONE);
    } else if (strcmp(kind, "fact") == 0) {
        const char *key = word(&rest);
        profile_fact_f64(w, CTP_SCOPE_PROFILE, 0, key, strtod(rest, NULL));
    } else if (strcmp(kind, "name") == 0) {
        struct short_name name = {.text = must_strdup(word(&rest))};
        name.function = must_strdup(rest);
        vec_push(&m->names, name);
    } else if (strcmp(kind, "source") == 0) {
        struct source source = {.line = (uint32_t)strtoul(word(&rest), NULL, 10)};
        source.file = must_strdup(word(&rest));
        source.function = must_strdup(function_called(m, rest));
        vec_push(&m->sources, source);
    } else if (strcmp(kind, "context") == 0) {
        add_context(m, rest);
    } else {
        stop("not a kind of line", kind);
    }
}

static void write_nodes(struct maker *m)
{
    size_t count = m->nodes.count;
    uint32_t *parents = must_calloc(count, sizeof *parents);
    uint32_t *frames = must_calloc(count, sizeof *frames);
    uint64_t *values = must_calloc(count, sizeof *values);
    for (size_t i = 0; i < count; i++) {
        parents[i] = m->nodes.items[i].parent;
        frames[i] = m->nodes.items[i].frame;
    }
    profile_begin_nodes(m->writer, (uint32_t)count);
    profile_write_nodes(m->writer, parents, frames, count);
    for (uint32_t k = 0; k < m->metric_count; k++) {
        for (size_t i = 0; i < count; i++)
            values[i] = m->nodes.items[i].values[k];
        profile_write_values(m->writer, k, values, count);
    }
    free(parents);
    free(frames);
    free(values);
}

static void free_names(char **names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(names[i]);
    free(names);
}

int main(int argc, char **argv)
{
    struct ct_error err;
    struct maker m = {0};
    FILE *in = argc == 3 ? fopen(argv[1], "r") : NULL;
    if (!in || profile_writer_open(argv[2], &m.writer, &err) != CT_OK)
        stop("usage: text_profile DESCRIPTION OUT", in ? err.text : "");
    char *line = NULL;
    size_t room = 0;
    for (ssize_t length; (length = getline(&line, &room, in)) > 0;) {
        line[strcspn(line, "\n")] = '\0';
        if (*line && *line != '#')
            take_line(&m, line);
    }
    free(line);
    fclose(in);
    write_nodes(&m);
    if (profile_writer_commit(m.writer, &err) != CT_OK)
        stop("cannot be written", err.text);
    free_names(m.modules.items, m.modules.count);
    free_names(m.functions.items, m.functions.count);
    free_names(m.frames.items, m.frames.count);
    for (size_t i = 0; i < m.sources.count; i++) {
        free(m.sources.items[i].function);
        free(m.sources.items[i].file);
    }
    for (size_t i = 0; i < m.names.count; i++) {
        free(m.names.items[i].text);
        free(m.names.items[i].function);
    }
    vec_free(&m.names);
    vec_free(&m.sources);
    vec_free(&m.nodes);
    return 0;
}
