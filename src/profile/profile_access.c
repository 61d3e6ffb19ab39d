/*
 * Accessors of profiles that are more than a bounds check, and the words for what they find. All
 * are safe on contents that have not been checked.
 */
#include "base/search.h"
#include "profile/profile.h"

#include <inttypes.h>
#include <string.h>

const struct ctp_module profile_no_module = {0};
const struct ctp_function profile_no_function = {.module = CTP_NONE};
const struct ctp_line profile_no_line = {.function = CTP_NONE};
const struct ctp_frame profile_no_frame = {.module = CTP_NONE, .function = CTP_NONE};
const struct ctp_process profile_no_process = {.parent = CTP_NONE};
const struct ctp_thread profile_no_thread = {.process = CTP_NONE, .creator = CTP_NONE};
const struct ctp_epoch profile_no_epoch = {0};
const struct ctp_metric profile_no_metric = {0};
const struct ctp_root profile_no_root = {
    .first_node = CTP_NONE, .thread = CTP_NONE, .epoch = CTP_NONE};
const struct ctp_fact profile_no_fact = {0};
const struct ctp_time_run profile_no_time_run = {.metric = CTP_NONE};

uint32_t profile_root_of(const struct profile *p, uint32_t node)
{
    /* The first root that begins behind the node; the one before it is the answer. */
    uint32_t i;
    SEARCH(i, profile_root_count(p), profile_root(p, i)->first_node <= node);
    if (i == 0 || node >= p->node_count)
        return CTP_NONE;
    const struct ctp_root *root = profile_root(p, i - 1);
    return node - root->first_node < root->node_count ? i - 1 : CTP_NONE;
}

uint32_t profile_find_metric(const struct profile *p, const char *name)
{
    for (uint32_t i = 0; i < p->metric_count; i++)
        if (strcmp(profile_string(p, profile_metric(p, i)->name), name) == 0)
            return i;
    return CTP_NONE;
}

bool profile_metric_is_of_calls(const struct profile *p, uint32_t metric)
{
    static const char *const names[] = {"calls", "returns", "height", "height_varies"};
    const char *name = profile_string(p, profile_metric(p, metric)->name);
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

uint32_t profile_process_parent(const struct profile *p, uint32_t process)
{
    uint32_t parent = profile_process(p, process)->parent;
    return parent < process ? parent : CTP_NONE;
}

uint32_t profile_process_rank(const struct profile *p, uint32_t process)
{
    const struct ctp_fact *fact = profile_find_fact(p, CTP_SCOPE_PROCESS, process, "rank");
    return fact && fact->type == CTP_I64 && fact->value < INT32_MAX ? (uint32_t)fact->value
                                                                    : CTP_NONE;
}

/* Position `first + i` of a run in a table, or CTP_NONE when either end of the run is passed. */
static uint32_t in_run(const struct profile_table *table, uint32_t first, uint32_t count,
                       uint32_t i)
{
    uint64_t at = (uint64_t)first + i;
    return i < count && at < table->count ? (uint32_t)at : CTP_NONE;
}

const char *profile_argument(const struct profile *p, const struct ctp_process *process, uint32_t i)
{
    const struct profile_table *table = &p->tables[CTP_ARGUMENTS];
    uint32_t at = in_run(table, process->first_argument, process->argument_count, i);
    if (at == CTP_NONE)
        return NULL;
    return profile_string(p, ((const uint32_t *)(const void *)table->items)[at]);
}

const struct ctp_line *profile_frame_line(const struct profile *p, const struct ctp_frame *frame,
                                          uint32_t i)
{
    uint32_t at = in_run(&p->tables[CTP_LINES], frame->first_line, frame->line_count, i);
    return at == CTP_NONE ? NULL : profile_line(p, at);
}

static bool is_fact_before(const struct ctp_fact *fact, uint64_t scope, uint64_t index)
{
    return fact->scope < scope || (fact->scope == scope && fact->index < index);
}

/* The first fact that is not below (scope, index). */
static uint32_t first_fact(const struct profile *p, uint64_t scope, uint64_t index)
{
    uint32_t i;
    SEARCH(i, profile_fact_count(p), is_fact_before(profile_fact(p, i), scope, index));
    return i;
}

struct profile_range profile_facts_of(const struct profile *p, enum ctp_scope scope, uint32_t index)
{
    uint32_t first = first_fact(p, scope, index), end = first;
    /* Step by step, not by a second search: facts out of order must not be taken for ours. */
    while (end < profile_fact_count(p) && profile_fact(p, end)->scope == (uint32_t)scope &&
           profile_fact(p, end)->index == index)
        end++;
    return (struct profile_range){first, end};
}

const struct ctp_fact *profile_find_fact(const struct profile *p, enum ctp_scope scope,
                                         uint32_t index, const char *key)
{
    struct profile_range range = profile_facts_of(p, scope, index);
    for (uint32_t i = range.first; i < range.end; i++)
        if (strcmp(profile_string(p, profile_fact(p, i)->key), key) == 0)
            return profile_fact(p, i);
    return NULL;
}

double profile_fact_double(const struct ctp_fact *fact)
{
    double value;
    memcpy(&value, &fact->value, sizeof value);
    return value;
}

#define NAME_IN(names, i) ((i) < sizeof(names) / sizeof *(names) ? (names)[i] : "unknown")

const char *profile_module_kind_name(uint32_t kind)
{
    static const char *const names[] = {"unknown", "file", "vdso", "jit", "kernel"};
    return NAME_IN(names, kind);
}

const char *profile_metric_kind_name(uint32_t kind)
{
    static const char *const names[] = {"exact", "sampled", "at least"};
    return NAME_IN(names, kind);
}

const char *profile_gap_name(uint32_t gap)
{
    static const char *const names[CTP_GAP_END] = {
        [CTP_GAP_NONE] = "none",
        [CTP_GAP_LIMIT] = "more frames than could be kept",
        [CTP_GAP_NO_MODULE] = "code outside every module",
        [CTP_GAP_NO_MAP] = "module without a map",
        [CTP_GAP_NO_RULE] = "code without unwind information",
        [CTP_GAP_UNKNOWN_RULE] = "unwind rule not understood",
        [CTP_GAP_REGISTER] = "register lost",
        [CTP_GAP_MEMORY] = "stack not readable",
        [CTP_GAP_NO_PROGRESS] = "stack does not go on",
        [CTP_GAP_OTHER] = "unknown",
        [CTP_GAP_CUT] = "earlier callers were not to be kept",
        [CTP_GAP_SWITCHED] = "callers are on another stack",
        [CTP_GAP_WINDOW] = "cut by the window of the stack",
        [CTP_GAP_HEIGHT] = "only the stack's height is known",
    };
    return NAME_IN(names, gap);
}

/* The part of a path behind the last slash, which may be nothing. */
static const char *file_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

const char *profile_node_name(const struct profile *p, uint32_t node, char *text, size_t room)
{
    uint32_t index = profile_node_frame(p, node);
    if (index == CTP_NONE) {
        const struct ctp_root *root = profile_root(p, profile_root_of(p, node));
        snprintf(text, room, "[thread %s]",
                 profile_string(p, profile_thread(p, root->thread)->name));
        return text;
    }
    const struct ctp_frame *frame = profile_frame(p, index);
    const char *name = profile_string(p, profile_function(p, frame->function)->name);
    if (frame->gap != CTP_GAP_NONE)
        snprintf(text, room, "[%s]", profile_gap_name(frame->gap));
    else if (*name)
        snprintf(text, room, "%s", name);
    else if (frame->module < profile_module_count(p))
        snprintf(text, room, "%s+0x%" PRIx64,
                 file_part(profile_string(p, profile_module(p, frame->module)->path)),
                 frame->offset);
    else
        snprintf(text, room, "0x%" PRIx64, frame->offset);
    return text;
}

static uint64_t lives(const struct profile *p, enum ctp_scope scope, uint32_t index,
                      const char *key)
{
    const struct ctp_fact *fact = profile_find_fact(p, scope, index, key);
    return fact && fact->type == CTP_U64 && fact->value > 1 ? fact->value : 1;
}

uint64_t profile_thread_lives(const struct profile *p, uint32_t thread)
{
    return lives(p, CTP_SCOPE_THREAD, thread, "threads");
}

uint64_t profile_process_lives(const struct profile *p, uint32_t process)
{
    return lives(p, CTP_SCOPE_PROCESS, process, "processes");
}
