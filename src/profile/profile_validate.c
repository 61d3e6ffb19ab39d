/*
 * The full check of a profile: what docs/format.md demands, rule by rule. The writer uses the same
 * rules on its tables and on the nodes that pass through it, so the two cannot disagree.
 */
#include "profile/profile_check.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* ---- Tables ---------------------------------------------------------------------------------- */

/* One pass over one table: where we are, for the message. */
struct place {
    const struct profile *profile;
    uint32_t kind;
    uint32_t index;
    struct ct_error *err;
};

static int bad_reference(const struct place *at, const char *field, uint64_t value, uint64_t count)
{
    return ct_fail(
        at->err, "%s: %s %" PRIu32 ": its %s is %" PRIu64 ", but there are only %" PRIu64,
        at->profile->name, profile_section_name(at->kind), at->index, field, value, count);
}

static int bad_record(const struct place *at, const char *reason)
{
    return ct_fail(at->err, "%s: %s %" PRIu32 ": %s", at->profile->name,
                   profile_section_name(at->kind), at->index, reason);
}

static int check_string(const struct place *at, const char *field, uint64_t offset)
{
    /* 0 is the empty string even where there is no section of strings. */
    if (offset != 0 && offset >= at->profile->strings_size)
        return bad_reference(at, field, offset, at->profile->strings_size);
    return CT_OK;
}

static int check_index(const struct place *at, const char *field, uint32_t value, uint32_t kind)
{
    uint32_t count = at->profile->tables[kind].count;
    return value < count ? CT_OK : bad_reference(at, field, value, count);
}

static int check_optional_index(const struct place *at, const char *field, uint32_t value,
                                uint32_t kind)
{
    return value == CTP_NONE ? CT_OK : check_index(at, field, value, kind);
}

/* Newer minor versions may have more values than this one knows: those are let through. */
static int check_enum(const struct place *at, const char *field, uint32_t value, uint32_t max)
{
    const struct ctp_header *header = at->profile->header;
    if (value <= max || (header && header->minor > CTP_MINOR))
        return CT_OK;
    return ct_fail(at->err, "%s: %s %" PRIu32 ": its %s is %" PRIu32 ", which is not defined",
                   at->profile->name, profile_section_name(at->kind), at->index, field, value);
}

static int check_module(const struct place *at)
{
    const struct ctp_module *module = profile_module(at->profile, at->index);
    CT_TRY(check_string(at, "path", module->path));
    CT_TRY(check_enum(at, "kind", module->kind, CTP_MODULE_KERNEL));
    if (module->build_id_size > CTP_BUILD_ID_ROOM)
        return bad_record(at, "its build-id is too long");
    for (uint32_t i = module->build_id_size; i < CTP_BUILD_ID_ROOM; i++)
        if (module->build_id[i])
            return bad_record(at, "its build-id goes on behind its end");
    return CT_OK;
}

static int check_function(const struct place *at)
{
    const struct ctp_function *function = profile_function(at->profile, at->index);
    CT_TRY(check_string(at, "name", function->name));
    CT_TRY(check_string(at, "file", function->file));
    return check_optional_index(at, "module", function->module, CTP_MODULES);
}

static int check_line(const struct place *at)
{
    const struct ctp_line *line = profile_line(at->profile, at->index);
    CT_TRY(check_string(at, "file", line->file));
    return check_optional_index(at, "function", line->function, CTP_FUNCTIONS);
}

static int check_frame(const struct place *at)
{
    const struct ctp_frame *frame = profile_frame(at->profile, at->index);
    CT_TRY(check_optional_index(at, "module", frame->module, CTP_MODULES));
    CT_TRY(check_optional_index(at, "function", frame->function, CTP_FUNCTIONS));
    uint64_t end = (uint64_t)frame->first_line + frame->line_count;
    if (end > profile_line_count(at->profile))
        return bad_reference(at, "last line", end - 1, profile_line_count(at->profile));
    CT_TRY(check_enum(at, "flags", frame->flags, CTP_FRAME_FLAGS_ALL));
    return check_enum(at, "gap", frame->gap, CTP_GAP_END - 1);
}

static int check_argument(const struct place *at)
{
    const void *items = at->profile->tables[CTP_ARGUMENTS].items;
    return check_string(at, "text", ((const uint32_t *)items)[at->index]);
}

static int check_process(const struct place *at)
{
    const struct ctp_process *process = profile_process(at->profile, at->index);
    if (process->parent != CTP_NONE && process->parent >= at->index)
        return bad_record(at, "its parent does not come before it");
    CT_TRY(check_string(at, "command", process->command));
    CT_TRY(check_enum(at, "flags", process->flags, CTP_PROCESS_FLAGS_ALL));
    CT_TRY(check_enum(at, "exit kind", process->exit_kind, CTP_EXIT_EXEC));
    /* The runs lie one after the other: printing all of them is linear in the file's size. */
    uint64_t expected = 0;
    if (at->index) {
        const struct ctp_process *before = profile_process(at->profile, at->index - 1);
        expected = (uint64_t)before->first_argument + before->argument_count;
    }
    if (process->first_argument != expected)
        return bad_record(at, "its arguments do not follow those of the process before it");
    uint64_t end = expected + process->argument_count;
    uint32_t count = at->profile->tables[CTP_ARGUMENTS].count;
    if (end > count)
        return bad_reference(at, "last argument", end - 1, count);
    return CT_OK;
}

static int check_thread(const struct place *at)
{
    const struct ctp_thread *thread = profile_thread(at->profile, at->index);
    CT_TRY(check_index(at, "process", thread->process, CTP_PROCESSES));
    CT_TRY(check_string(at, "name", thread->name));
    if (thread->creator != CTP_NONE && thread->creator >= at->profile->node_count)
        return bad_reference(at, "creator", thread->creator, at->profile->node_count);
    return CT_OK;
}

static int check_epoch(const struct place *at)
{
    return check_string(at, "name", profile_epoch(at->profile, at->index)->name);
}

static int check_metric(const struct place *at)
{
    const struct ctp_metric *metric = profile_metric(at->profile, at->index);
    CT_TRY(check_string(at, "name", metric->name));
    CT_TRY(check_string(at, "unit", metric->unit));
    CT_TRY(check_string(at, "description", metric->description));
    return check_enum(at, "kind", metric->kind, CTP_METRIC_AT_LEAST);
}

static int check_root(const struct place *at)
{
    const struct profile *p = at->profile;
    const struct ctp_root *root = profile_root(p, at->index);
    CT_TRY(check_optional_index(at, "thread", root->thread, CTP_THREADS));
    CT_TRY(check_optional_index(at, "epoch", root->epoch, CTP_EPOCHS));
    uint64_t expected = 0;
    if (at->index) {
        const struct ctp_root *before = profile_root(p, at->index - 1);
        expected = (uint64_t)before->first_node + before->node_count;
    }
    if (root->node_count == 0)
        return bad_record(at, "it has no nodes");
    if (root->first_node != expected)
        return bad_record(at, "its nodes do not follow those of the root before it");
    uint64_t end = expected + root->node_count;
    if (end > p->node_count)
        return bad_reference(at, "last node", end - 1, p->node_count);
    if (at->index + 1 == profile_root_count(p) && end != p->node_count)
        return bad_record(at, "it is the last one, but there are nodes behind its own");
    return CT_OK;
}

/* Facts are sorted by scope, index and key (as bytes), each key once. */
static int check_fact_order(const struct place *at, const struct ctp_fact *fact)
{
    const struct ctp_fact *before = profile_fact(at->profile, at->index - 1);
    if (before->scope != fact->scope || before->index != fact->index) {
        if (before->scope > fact->scope ||
            (before->scope == fact->scope && before->index > fact->index))
            return bad_record(at, "it is out of order");
        return CT_OK;
    }
    int order =
        strcmp(profile_string(at->profile, before->key), profile_string(at->profile, fact->key));
    if (order == 0)
        return bad_record(at, "its key is there already");
    return order < 0 ? CT_OK : bad_record(at, "it is out of order");
}

static int by_scope_and_key(const void *a, const void *b, void *strings)
{
    const struct ctp_fact *x = a, *y = b;
    if (x->scope != y->scope)
        return x->scope < y->scope ? -1 : 1;
    if (x->index != y->index)
        return x->index < y->index ? -1 : 1;
    return strcmp(strings_get(strings, x->key), strings_get(strings, y->key));
}

void profile_sort_facts(struct ctp_fact *facts, size_t count, struct string_pool *strings)
{
    if (count)
        qsort_r(facts, count, sizeof *facts, by_scope_and_key, strings);
}

static int check_fact(const struct place *at)
{
    static const uint32_t tables[CTP_SCOPE_END] = {
        [CTP_SCOPE_PROCESS] = CTP_PROCESSES,
        [CTP_SCOPE_METRIC] = CTP_METRICS,
        [CTP_SCOPE_THREAD] = CTP_THREADS,
        [CTP_SCOPE_MODULE] = CTP_MODULES,
    };
    const struct profile *p = at->profile;
    const struct ctp_fact *fact = profile_fact(p, at->index);
    CT_TRY(check_enum(at, "scope", fact->scope, CTP_SCOPE_END - 1));
    CT_TRY(check_enum(at, "type", fact->type, CTP_STRING));
    if (fact->scope == CTP_SCOPE_PROFILE && fact->index != 0)
        return bad_record(at, "it is about the whole profile, but has an index");
    if (fact->scope > CTP_SCOPE_PROFILE && fact->scope < CTP_SCOPE_END)
        CT_TRY(check_index(at, "index", fact->index, tables[fact->scope]));
    CT_TRY(check_string(at, "key", fact->key));
    if (fact->type == CTP_STRING)
        CT_TRY(check_string(at, "value", fact->value));
    /* The limit also keeps the comparison of keys, and so this check, linear. */
    size_t length = strnlen(profile_string(p, fact->key), CTP_KEY_MAX + 1);
    if (length == 0 || length > CTP_KEY_MAX)
        return bad_record(at, length ? "its key is too long" : "its key is empty");
    return at->index ? check_fact_order(at, fact) : CT_OK;
}

static bool is_run_before(const struct ctp_time_run *a, const struct ctp_time_run *b)
{
    if (a->metric != b->metric)
        return a->metric < b->metric;
    return a->value != b->value ? a->value < b->value : a->span < b->span;
}

static int check_time_run(const struct place *at)
{
    const struct profile *p = at->profile;
    const struct ctp_time_run *run = profile_time_run(p, at->index);
    const struct ctp_time_run *before = profile_time_run(p, at->index - 1); /* of 0: none */
    CT_TRY(check_index(at, "metric", run->metric, CTP_METRICS));
    uint64_t expected = at->index ? (uint64_t)before->first + before->count : 0;
    if (at->index && !is_run_before(before, run))
        return bad_record(at, "it is out of order");
    if (run->count == 0)
        return bad_record(at, "it has no times");
    if (run->first != expected)
        return bad_record(at, "its times do not follow those of the run before it");
    uint64_t end = expected + run->count;
    uint32_t count = p->tables[CTP_TIMES].count;
    return end > count ? bad_reference(at, "last time", end - 1, count) : CT_OK;
}

/* They use up their section, and what is between them is zero. */
static int check_dictionaries(const struct profile *p, struct ct_error *err)
{
    const struct profile_table *table = &p->tables[CTP_DICTIONARIES];
    const struct ctp_dictionary *d;
    struct place place = {.profile = p, .kind = CTP_DICTIONARIES, .err = err};
    uint64_t at = 0, before = 0;
    while ((d = profile_next_dictionary(p, &at)) != NULL) {
        CT_TRY(check_index(&place, "process", d->process, CTP_PROCESSES));
        for (uint64_t i = before + sizeof *d + d->size; i < at; i++)
            if (table->items[i])
                return bad_record(&place, "what is behind it is not zero");
        before = at;
        place.index++;
    }
    return at == table->count ? CT_OK : bad_record(&place, "it does not end in the section");
}

static int check_whole(const struct profile *p, struct ct_error *err)
{
    const struct ctp_time_run *run = profile_time_run(p, profile_time_run_count(p) - 1);
    uint64_t timed = profile_time_run_count(p) ? (uint64_t)run->first + run->count : 0;
    if (timed != p->tables[CTP_TIMES].count)
        return ct_fail(err, "%s: times %" PRIu64 ": it belongs to no run", p->name, timed);
    const struct profile_table *processes = &p->tables[CTP_PROCESSES];
    const struct ctp_process *last = profile_process(p, processes->count - 1);
    uint64_t used = processes->count ? (uint64_t)last->first_argument + last->argument_count : 0;
    if (used != p->tables[CTP_ARGUMENTS].count)
        return ct_fail(err, "%s: arguments %" PRIu64 ": it belongs to no process", p->name, used);
    if (p->node_count && !profile_root_count(p))
        return ct_fail(err, "%s: roots: there are none, but there are nodes", p->name);
    return CT_OK;
}

int profile_check_tables(const struct profile *p, struct ct_error *err)
{
    static int (*const checks[CTP_KIND_END])(const struct place *) = {
        [CTP_MODULES] = check_module,     [CTP_FUNCTIONS] = check_function,
        [CTP_LINES] = check_line,         [CTP_FRAMES] = check_frame,
        [CTP_ARGUMENTS] = check_argument, [CTP_PROCESSES] = check_process,
        [CTP_THREADS] = check_thread,     [CTP_EPOCHS] = check_epoch,
        [CTP_METRICS] = check_metric,     [CTP_ROOTS] = check_root,
        [CTP_FACTS] = check_fact,         [CTP_TIME_RUNS] = check_time_run,
    };
    for (uint32_t kind = 0; kind < CTP_KIND_END; kind++) {
        if (!checks[kind])
            continue;
        struct place at = {.profile = p, .kind = kind, .err = err};
        for (; at.index < p->tables[kind].count; at.index++)
            CT_TRY(checks[kind](&at));
    }
    CT_TRY(check_dictionaries(p, err));
    return check_whole(p, err);
}

/* ---- Nodes and values ------------------------------------------------------------------------ */

static int bad_node(const char *name, uint32_t node, const char *reason, struct ct_error *err)
{
    return ct_fail(err, "%s: nodes %" PRIu32 ": %s", name, node, reason);
}

int node_check_chunk(struct node_check *check, const char *name, const uint32_t *parents,
                     const uint32_t *frames, size_t count, struct ct_error *err)
{
    uint32_t node = check->next;
    for (size_t i = 0; i < count; i++, node++) {
        if (parents[i] == CTP_NONE) {
            if (frames[i] != CTP_NONE)
                return bad_node(name, node, "it is a root, but has a frame", err);
            check->root_first = node;
            vec_push(&check->roots, node);
            continue;
        }
        if (parents[i] >= node)
            return bad_node(name, node, "its parent does not come before it", err);
        if (parents[i] < check->root_first)
            return bad_node(name, node, "its parent belongs to another root", err);
        if (frames[i] == CTP_NONE)
            return bad_node(name, node, "it has no frame, but is not a root", err);
        if (frames[i] > check->frame_max) {
            check->frame_max = frames[i];
            check->frame_max_at = node;
        }
    }
    check->next = node;
    return CT_OK;
}

int node_check_frames(const struct node_check *check, const char *name, uint32_t frame_count,
                      struct ct_error *err)
{
    bool any = check->next > check->roots.count; /* nodes that are not roots have frames */
    if (any && check->frame_max >= frame_count)
        return ct_fail(
            err, "%s: nodes %" PRIu32 ": its frame is %" PRIu32 ", but there are only %" PRIu32,
            name, check->frame_max_at, check->frame_max, frame_count);
    return CT_OK;
}

static int check_nodes(const struct profile *p, struct ct_error *err)
{
    struct node_check check = {0};
    int status = node_check_chunk(&check, p->name, p->parents, p->node_frames, p->node_count, err);
    if (status == CT_OK)
        status = node_check_frames(&check, p->name, profile_frame_count(p), err);
    if (status == CT_OK && check.roots.count != profile_root_count(p))
        status = ct_fail(err, "%s: roots: there are %" PRIu32 ", but %zu nodes without a parent",
                         p->name, profile_root_count(p), check.roots.count);
    for (uint32_t i = 0; status == CT_OK && i < check.roots.count; i++)
        if (profile_root(p, i)->first_node != check.roots.items[i])
            status =
                ct_fail(err, "%s: roots %" PRIu32 ": its first node is not a root", p->name, i);
    vec_free(&check.roots);
    return status;
}

bool add_values(uint64_t *total, const uint64_t *values, size_t count)
{
    unsigned __int128 sum = *total;
    for (size_t i = 0; i < count; i++)
        sum += values[i];
    *total = sum > UINT64_MAX ? UINT64_MAX : (uint64_t)sum;
    return sum <= UINT64_MAX;
}

/* So that no sum over any nodes, inclusive values above all, can overflow in a reader. */
static int check_values(const struct profile *p, struct ct_error *err)
{
    for (uint32_t m = 0; m < p->metric_count; m++) {
        uint64_t total = 0;
        if (!add_values(&total, p->values[m], p->node_count))
            return ct_fail(err, "%s: metric values %" PRIu32 ": the total does not fit in 64 bits",
                           p->name, m);
    }
    return CT_OK;
}

int profile_check_times(const struct profile *p, struct ct_error *err)
{
    const struct ctp_time *items = profile_times(p);
    for (uint32_t r = 0; r < profile_time_run_count(p); r++) {
        const struct ctp_time_run *run = profile_time_run(p, r);
        for (uint32_t i = 0; i < run->count; i++) {
            const struct ctp_time *t = &items[run->first + i];
            if (t->node >= p->node_count)
                return ct_fail(err, "%s: times %" PRIu32 ": its node does not exist", p->name,
                               run->first + i);
            if (i && (t->us < t[-1].us || (t->us == t[-1].us && t->node < t[-1].node)))
                return ct_fail(err, "%s: times %" PRIu32 ": it is out of order", p->name,
                               run->first + i);
        }
    }
    return CT_OK;
}

/* ---- Bytes ----------------------------------------------------------------------------------- */

static bool is_big(uint32_t kind)
{
    return kind == CTP_PARENTS || kind == CTP_NODE_FRAMES || kind == CTP_VALUES ||
           kind == CTP_TIMES || kind == CTP_DICTIONARIES;
}

static int check_hash(const struct profile *p, uint32_t i, struct ct_error *err)
{
    const struct ctp_section *s = &p->sections[i];
    if (p->hashed[i])
        return CT_OK;
    if (XXH3_64bits(p->bytes + s->offset, s->element_size * s->count) != s->hash)
        return ct_fail(err, "%s: is damaged: the hash of section %" PRIu32 " (%s) does not match",
                       p->name, i, profile_section_name(s->kind));
    p->hashed[i] = true;
    return CT_OK;
}

static int check_hashes(const struct profile *p, bool big_ones_too, struct ct_error *err)
{
    for (uint32_t i = 0; i < p->header->toc_count; i++)
        if (big_ones_too || !is_big(p->sections[i].kind))
            CT_TRY(check_hash(p, i, err));
    return CT_OK;
}

/* Bytes between the sections are zero: then every byte of a file is covered by some check. */
static int check_gaps(const struct profile *p, struct ct_error *err)
{
    size_t count;
    struct profile_span *spans = profile_sorted_spans(p, &count);
    uint64_t at = 0;
    int status = CT_OK;
    for (size_t i = 0; i <= count && status == CT_OK; i++) {
        uint64_t end = i < count ? spans[i].start : p->size;
        for (; at < end && status == CT_OK; at++)
            if (p->bytes[at])
                status = ct_fail(err,
                                 "%s: is damaged: byte %" PRIu64
                                 ", which belongs to no section, is not zero",
                                 p->name, at);
        if (i < count)
            at = spans[i].end;
    }
    free(spans);
    return status;
}

int profile_validate_tables(const struct profile *p, struct ct_error *err)
{
    CT_TRY(check_hashes(p, false, err));
    return profile_check_tables(p, err);
}

int profile_verify_values(const struct profile *p, uint32_t metric, struct ct_error *err)
{
    for (uint32_t i = 0; i < p->header->toc_count; i++) {
        const struct ctp_section *s = &p->sections[i];
        if (s->kind == CTP_TIMES || s->kind == CTP_DICTIONARIES) /* code that reads them does it */
            continue;
        if (s->kind == CTP_VALUES && p->restricted) /* they were verified, and others are used */
            continue;
        if (is_big(s->kind) && (s->kind != CTP_VALUES || metric == CTP_NONE || s->aux == metric))
            CT_TRY(check_hash(p, i, err));
    }
    return CT_OK;
}

int profile_verify_times(const struct profile *p, struct ct_error *err)
{
    for (uint32_t i = 0; i < p->header->toc_count; i++)
        if (p->sections[i].kind == CTP_TIMES)
            CT_TRY(check_hash(p, i, err));
    return profile_check_times(p, err);
}

int profile_verify_dictionaries(const struct profile *p, struct ct_error *err)
{
    for (uint32_t i = 0; i < p->header->toc_count; i++)
        if (p->sections[i].kind == CTP_DICTIONARIES)
            CT_TRY(check_hash(p, i, err));
    return CT_OK;
}

int profile_validate(const struct profile *p, struct ct_error *err)
{
    CT_TRY(check_hashes(p, true, err));
    CT_TRY(check_gaps(p, err));
    CT_TRY(profile_check_tables(p, err));
    CT_TRY(check_nodes(p, err));
    CT_TRY(profile_check_times(p, err));
    return check_values(p, err);
}
