/*
 * Adding profiles to a merge: what is the same, and what becomes of what differs.
 */
#include "profile/merge_state.h"

#include <string.h>

struct merge *merge_begin(const struct merge_options *options)
{
    struct merge *m = must_calloc(1, sizeof *m);
    m->keep_threads = options->keep_threads;
    m->join_ranks = options->join_ranks;
    m->parts = options->parts;
    strings_init(&m->texts);
    m->samples_text = strings_add(&m->texts, "samples");
    m->seconds_text = strings_add(&m->texts, "utime_s");
    key_set_init(&m->modules, sizeof(struct module_key));
    key_set_init(&m->functions, sizeof(struct function_key));
    key_set_init(&m->frames, sizeof(struct frame_key));
    key_set_init(&m->epochs, sizeof(uint32_t));
    key_set_init(&m->processes, sizeof(struct process_key));
    key_set_init(&m->threads, sizeof(struct thread_key));
    key_set_init(&m->roots, sizeof(struct root_key));
    key_set_init(&m->facts, sizeof(struct fact_key));
    return m;
}

void merge_free(struct merge *m)
{
    struct key_set *sets[] = {&m->modules,   &m->functions, &m->frames, &m->epochs,
                              &m->processes, &m->threads,   &m->roots,  &m->facts};
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
        key_set_free(sets[i]);
    for (size_t i = 0; i < m->metrics.count; i++)
        vec_free(&m->metrics.items[i].values);
    for (int i = 0; i < CTP_SCOPE_END; i++)
        vec_free(&m->instances[i]);
    strings_free(&m->texts);
    time_blocks_free(&m->times);
    vec_free(&m->metrics);
    vec_free(&m->module_records);
    vec_free(&m->frame_records);
    vec_free(&m->lines);
    vec_free(&m->process_records);
    vec_free(&m->thread_records);
    vec_free(&m->fact_records);
    vec_free(&m->parents);
    vec_free(&m->frames_of_nodes);
    free(m->slots);
    free(m);
}

/* What the records of the current profile became: numbers of the merge, by their own. */
struct addition {
    struct merge *merge;
    const struct profile *profile;
    bool costs_only;   /* what the profile says of itself is not asked for */
    uint32_t *strings; /* texts by offset, 0: not asked for yet */
    uint32_t *modules, *functions, *frames, *epochs, *processes, *threads, *metrics, *nodes;
};

static uint32_t text(struct addition *a, uint32_t offset)
{
    if (offset == 0 || offset >= a->profile->strings_size)
        return 0;
    if (!a->strings[offset])
        a->strings[offset] = strings_add(&a->merge->texts, profile_string(a->profile, offset));
    return a->strings[offset];
}

static uint32_t mapped(const uint32_t *map, uint32_t index)
{
    return index == CTP_NONE ? CTP_NONE : map[index];
}

/* The lesser of two texts, as bytes; the empty one only if there is no other. */
static uint32_t lesser_text(const struct merge *m, uint32_t a, uint32_t b)
{
    if (!a || !b)
        return a ? a : b;
    return strcmp(merge_text(m, a), merge_text(m, b)) <= 0 ? a : b;
}

/* ---- Code ------------------------------------------------------------------------------------ */

static void add_modules(struct addition *a)
{
    struct merge *m = a->merge;
    for (uint32_t i = 0; i < profile_module_count(a->profile); i++) {
        const struct ctp_module *module = profile_module(a->profile, i);
        uint32_t path = text(a, module->path);
        struct module_key key = {.base = module->base,
                                 .build_id_size = module->build_id_size,
                                 .kind = module->kind,
                                 .path = module->build_id_size ? 0 : path};
        memcpy(key.build_id, module->build_id, sizeof key.build_id);
        uint32_t before = m->modules.count, number = key_set_add(&m->modules, &key);
        a->modules[i] = number;
        if (number == before)
            vec_push(&m->module_records, (struct merged_module){path, module->size});
        if (a->costs_only)
            continue;
        struct merged_module *record = &m->module_records.items[number];
        record->path = lesser_text(m, record->path, path);
        record->size = record->size > module->size ? record->size : module->size;
        merge_count_instance(m, CTP_SCOPE_MODULE, number);
    }
}

static void add_functions(struct addition *a)
{
    for (uint32_t i = 0; i < profile_function_count(a->profile); i++) {
        const struct ctp_function *f = profile_function(a->profile, i);
        struct function_key key = {f->offset,        f->size,
                                   text(a, f->name), mapped(a->modules, f->module),
                                   text(a, f->file), f->line};
        a->functions[i] = key_set_add(&a->merge->functions, &key);
    }
}

static int compare_texts(const struct merge *m, uint32_t a, uint32_t b)
{
    return a == b ? 0 : strcmp(merge_text(m, a), merge_text(m, b));
}

#define COMPARE(x, y)                                                                              \
    do {                                                                                           \
        if ((x) != (y))                                                                            \
            return (x) < (y) ? -1 : 1;                                                             \
    } while (0)

/* By what they say and not by their numbers, which depend on the order of the profiles. */
int merge_compare_functions(const struct merge *m, uint32_t a, uint32_t b)
{
    if (a == b)
        return 0;
    if (a == CTP_NONE || b == CTP_NONE)
        return a == CTP_NONE ? -1 : 1;
    const struct function_key *x = key_set_get(&m->functions, a),
                              *y = key_set_get(&m->functions, b);
    COMPARE(x->file != 0, y->file != 0);
    COMPARE(x->offset, y->offset);
    COMPARE(x->size, y->size);
    COMPARE(x->line, y->line);
    int names = compare_texts(m, x->name, y->name);
    if (names == 0)
        names = compare_texts(m, x->file, y->file);
    if (names || x->module == y->module)
        return names;
    if (x->module == CTP_NONE || y->module == CTP_NONE)
        return x->module == CTP_NONE ? -1 : 1;
    const struct module_key *k = key_set_get(&m->modules, x->module),
                            *l = key_set_get(&m->modules, y->module);
    int order = memcmp(k, l, offsetof(struct module_key, path));
    return order ? order : compare_texts(m, k->path, l->path);
}

int merge_compare_lines(const struct merge *m, const struct merged_frame *a,
                        const struct merged_frame *b)
{
    COMPARE(a->line_count, b->line_count);
    for (uint32_t i = 0; i < a->line_count; i++) {
        const struct ctp_line *x = &m->lines.items[a->first_line + i],
                              *y = &m->lines.items[b->first_line + i];
        COMPARE(x->line, y->line);
        COMPARE(x->column, y->column);
        int order = compare_texts(m, x->file, y->file);
        if (order == 0)
            order = merge_compare_functions(m, x->function, y->function);
        if (order)
            return order;
    }
    return 0;
}

/* What the profile says of a frame's place. The lines are behind those that the merge keeps. */
static struct merged_frame describe_frame(struct addition *a, const struct ctp_frame *frame)
{
    struct merge *m = a->merge;
    struct merged_frame out = {mapped(a->functions, frame->function), (uint32_t)m->lines.count,
                               frame->line_count};
    for (uint32_t i = 0; i < frame->line_count; i++) {
        const struct ctp_line *line = profile_frame_line(a->profile, frame, i);
        vec_push(&m->lines, (struct ctp_line){mapped(a->functions, line->function),
                                              text(a, line->file), line->line, line->column});
    }
    return out;
}

static void add_frames(struct addition *a)
{
    struct merge *m = a->merge;
    for (uint32_t i = 0; i < profile_frame_count(a->profile); i++) {
        const struct ctp_frame *frame = profile_frame(a->profile, i);
        uint32_t module = mapped(a->modules, frame->module);
        const struct module_key *code =
            module == CTP_NONE ? NULL : key_set_get(&m->modules, module);
        bool identified = code && code->build_id_size;
        struct merged_frame found = describe_frame(a, frame);
        struct frame_key key = {frame->offset, module, frame->flags, frame->gap,
                                identified ? CTP_NONE : found.function};
        uint32_t before = m->frames.count, number = key_set_add(&m->frames, &key);
        a->frames[i] = number;
        if (number == before) {
            vec_push(&m->frame_records, found);
            continue;
        }
        struct merged_frame *kept = &m->frame_records.items[number];
        int more = merge_compare_functions(m, found.function, kept->function);
        if (more == 0)
            more = merge_compare_lines(m, &found, kept);
        if (more > 0 && found.line_count <= kept->line_count) {
            /* In the place of the old ones: whatever is merged, lines do not pile up. */
            memcpy(&m->lines.items[kept->first_line], &m->lines.items[found.first_line],
                   found.line_count * sizeof *m->lines.items);
            found.first_line = kept->first_line;
        }
        if (more > 0)
            *kept = found;
        if (more <= 0 || found.first_line + found.line_count < m->lines.count)
            m->lines.count -= frame->line_count;
    }
}

/* ---- What ran -------------------------------------------------------------------------------- */

/* All arguments as one text: each with its length before it, so that none is taken for two. */
static uint32_t arguments_text(struct addition *a, const struct ctp_process *process)
{
    VEC(char) all = {0};
    const char *argument;
    for (uint32_t i = 0; (argument = profile_argument(a->profile, process, i)); i++) {
        char *part = must_format("%zu:%s", strlen(argument), argument);
        for (const char *c = part; *c; c++)
            vec_push(&all, *c);
        free(part);
    }
    vec_push(&all, '\0');
    uint32_t offset = strings_add(&a->merge->texts, all.items);
    vec_free(&all);
    return offset;
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return !a || (b && b < a) ? b : a; /* 0 is not known */
}

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static void join_process(struct ctp_process *kept, const struct ctp_process *other)
{
    if (kept->pid != other->pid)
        kept->pid = 0;
    if (kept->first_argument != other->first_argument)
        kept->first_argument = 0;
    if (kept->exit_kind != other->exit_kind || kept->exit_value != other->exit_value)
        kept->exit_kind = kept->exit_value = 0;
    kept->flags &= other->flags;
    kept->start_ns = earlier(kept->start_ns, other->start_ns);
    kept->end_ns = later(kept->end_ns, other->end_ns);
}

static void add_processes(struct addition *a)
{
    struct merge *m = a->merge;
    for (uint32_t i = 0; i < profile_process_count(a->profile); i++) {
        struct ctp_process p = *profile_process(a->profile, i);
        p.parent = profile_process_parent(a->profile, i);
        p.parent = m->keep_threads ? mapped(a->processes, p.parent) : CTP_NONE;
        p.first_argument = arguments_text(a, &p);
        p.command = text(a, p.command);
        if (!m->keep_threads)
            p.flags &= CTP_PROCESS_UNATTACHED;
        uint32_t rank = profile_process_rank(a->profile, i) + 1; /* CTP_NONE becomes 0 */
        struct process_key key = {.command = p.command};
        if (m->keep_threads)
            key = (struct process_key){p.start_ns, p.end_ns, p.command,   p.first_argument, p.pid,
                                       p.parent,   p.flags,  p.exit_kind, p.exit_value,     0};
        key.rank = m->join_ranks ? 0 : rank;
        uint32_t before = m->processes.count, number = key_set_add(&m->processes, &key);
        if (number == before)
            vec_push(&m->process_records, p);
        else
            join_process(&m->process_records.items[number], &p);
        merge_count_instance(m, CTP_SCOPE_PROCESS, number);
        a->processes[i] = number;
    }
}

/* Of a thread that is new, until the nodes are there. No node has this number. */
static const uint32_t CREATOR_NOT_ASKED = CTP_NONE - 1;

static void add_threads(struct addition *a)
{
    struct merge *m = a->merge;
    for (uint32_t i = 0; i < profile_thread_count(a->profile); i++) {
        struct ctp_thread t = *profile_thread(a->profile, i);
        t.process = a->processes[t.process];
        t.name = text(a, t.name);
        struct thread_key key = {.process = t.process, .name = t.name};
        if (m->keep_threads)
            key = (struct thread_key){t.start_ns, t.end_ns, t.process, t.name, t.tid, 0};
        uint32_t before = m->threads.count, number = key_set_add(&m->threads, &key);
        t.creator = CREATOR_NOT_ASKED;
        if (number == before)
            vec_push(&m->thread_records, t);
        struct ctp_thread *kept = &m->thread_records.items[number];
        if (kept->tid != t.tid)
            kept->tid = 0;
        kept->start_ns = earlier(kept->start_ns, t.start_ns);
        kept->end_ns = later(kept->end_ns, t.end_ns);
        merge_count_instance(m, CTP_SCOPE_THREAD, number);
        a->threads[i] = number;
    }
}

/* A thread's creator stays if all that were merged into it agree. */
static void add_creators(struct addition *a)
{
    struct merge *m = a->merge;
    for (uint32_t i = 0; i < profile_thread_count(a->profile); i++) {
        uint32_t creator = mapped(a->nodes, profile_thread(a->profile, i)->creator);
        struct ctp_thread *kept = &m->thread_records.items[a->threads[i]];
        bool is_first = kept->creator == CREATOR_NOT_ASKED;
        kept->creator = is_first || kept->creator == creator ? creator : CTP_NONE;
    }
}

static void add_epochs(struct addition *a)
{
    for (uint32_t i = 0; i < profile_epoch_count(a->profile); i++) {
        uint32_t name = text(a, profile_epoch(a->profile, i)->name);
        a->epochs[i] = key_set_add(&a->merge->epochs, &name);
    }
}

/* ---- Metrics --------------------------------------------------------------------------------- */

static uint64_t fact_or(const struct profile *p, uint32_t metric, const char *key, uint64_t other)
{
    const struct ctp_fact *fact = profile_find_fact(p, CTP_SCOPE_METRIC, metric, key);
    return fact && fact->type == CTP_U64 ? fact->value : other;
}

static uint64_t total_of(const struct profile *p, uint32_t metric)
{
    uint64_t total = 0;
    for (uint32_t n = 0; n < p->node_count; n++)
        total += p->values[metric][n];
    return total;
}

uint64_t merge_samples_of(const struct profile *p, uint32_t metric)
{
    uint64_t total = total_of(p, metric), period = profile_metric(p, metric)->period;
    uint64_t rounded = period ? total / period + (total % period >= (period + 1) / 2) : 0;
    return fact_or(p, metric, FACT_SAMPLES, rounded);
}

static struct merged_metric *find_metric(struct merge *m, uint32_t name, uint32_t *number)
{
    for (*number = 0; *number < m->metrics.count; ++*number)
        if (m->metrics.items[*number].name == name)
            return &m->metrics.items[*number];
    vec_push(&m->metrics, (struct merged_metric){.name = name, .period_min = UINT64_MAX});
    return NULL;
}

static int add_metric(struct addition *a, uint32_t i, struct ct_error *err)
{
    struct merge *m = a->merge;
    const struct profile *p = a->profile;
    const struct ctp_metric *metric = profile_metric(p, i);
    uint32_t name = text(a, metric->name), unit = text(a, metric->unit), number;
    struct merged_metric *kept = find_metric(m, name, &number);
    if (!kept) {
        kept = &m->metrics.items[number];
        kept->unit = unit;
        kept->kind = metric->kind;
        kept->description = text(a, metric->description);
    }
    if (kept->unit != unit)
        return ct_fail(err, "%s: %s is in %s there, and in %s in those before: not to be merged",
                       p->name, merge_text(m, name), merge_text(m, unit),
                       merge_text(m, kept->unit));
    if (kept->kind != CTP_METRIC_SAMPLED && metric->kind == CTP_METRIC_AT_LEAST)
        kept->kind = CTP_METRIC_AT_LEAST; /* exact and at least: the sum is at least */
    if (kept->kind != metric->kind &&
        (kept->kind != CTP_METRIC_AT_LEAST || metric->kind != CTP_METRIC_EXACT))
        return ct_fail(err, "%s: %s is %s there, and %s in those before: not to be merged", p->name,
                       merge_text(m, name), profile_metric_kind_name(metric->kind),
                       profile_metric_kind_name(kept->kind));
    kept->description = lesser_text(m, kept->description, text(a, metric->description));
    uint64_t total = total_of(p, i);
    uint64_t least = fact_or(p, i, FACT_PERIOD_MIN, metric->period);
    uint64_t most = fact_or(p, i, FACT_PERIOD_MAX, metric->period);
    kept->period_min = least < kept->period_min ? least : kept->period_min;
    kept->period_max = most > kept->period_max ? most : kept->period_max;
    kept->samples += merge_samples_of(p, i);
    if (kept->total + total < total)
        return ct_fail(err, "%s: the sum of %s does not fit in 64 bits any more", p->name,
                       merge_text(m, name));
    kept->total += total;
    merge_count_instance(m, CTP_SCOPE_METRIC, number);
    a->metrics[i] = number;
    return CT_OK;
}

/* ---- The tree -------------------------------------------------------------------------------- */

static size_t slot_of(const struct merge *m, uint32_t parent, uint32_t frame)
{
    uint64_t key = ((uint64_t)parent << 32 | frame) * UINT64_C(0x9e3779b97f4a7c15);
    return ((key ^ key >> 29) * UINT64_C(0xbf58476d1ce4e5b9) >> 20) & (m->slot_count - 1);
}

static void grow_slots(struct merge *m)
{
    free(m->slots);
    m->slot_count = m->slot_count ? m->slot_count * 2 : 1024;
    m->slots = must_calloc(m->slot_count, sizeof *m->slots);
    for (uint32_t i = 0; i < m->parents.count; i++) {
        size_t at = slot_of(m, m->parents.items[i], m->frames_of_nodes.items[i]);
        while (m->slots[at])
            at = (at + 1) & (m->slot_count - 1);
        m->slots[at] = i + 1;
    }
}

static uint32_t child(struct merge *m, uint32_t parent, uint32_t frame)
{
    if ((m->parents.count + 1) * 4 > m->slot_count * 3)
        grow_slots(m);
    size_t at = slot_of(m, parent, frame);
    for (; m->slots[at]; at = (at + 1) & (m->slot_count - 1)) {
        uint32_t node = m->slots[at] - 1;
        if (m->parents.items[node] == parent && m->frames_of_nodes.items[node] == frame)
            return node;
    }
    m->slots[at] = (uint32_t)m->parents.count + 1;
    vec_push(&m->parents, parent);
    vec_push(&m->frames_of_nodes, frame);
    return m->slots[at] - 1;
}

static int add_nodes(struct addition *a, struct ct_error *err)
{
    struct merge *m = a->merge;
    const struct profile *p = a->profile;
    for (uint32_t r = 0; r < profile_root_count(p); r++) {
        const struct ctp_root *root = profile_root(p, r);
        struct root_key key = {mapped(a->threads, root->thread), mapped(a->epochs, root->epoch)};
        uint32_t number = key_set_add(&m->roots, &key);
        a->nodes[root->first_node] = child(m, CTP_NONE, number);
        for (uint32_t i = 1; i < root->node_count; i++) {
            uint32_t node = root->first_node + i;
            a->nodes[node] = child(m, a->nodes[p->parents[node]], a->frames[p->node_frames[node]]);
        }
        if (m->parents.count >= CTP_NONE - 1)
            return ct_fail(err, "%s: there are too many different contexts", p->name);
    }
    for (uint32_t i = 0; i < p->metric_count; i++) {
        struct merged_metric *metric = &m->metrics.items[a->metrics[i]];
        vec_reserve(&metric->values, m->parents.count);
        while (metric->values.count < m->parents.count)
            metric->values.items[metric->values.count++] = 0;
        for (uint32_t n = 0; n < p->node_count; n++)
            metric->values.items[a->nodes[n]] += p->values[i][n];
    }
    return CT_OK;
}

/* ---- All of it ------------------------------------------------------------------------------- */

static int add_all(struct addition *a, struct ct_error *err)
{
    struct merge *m = a->merge;
    for (uint32_t i = 0; i < a->profile->metric_count; i++)
        CT_TRY(add_metric(a, i, err));
    add_modules(a);
    add_functions(a);
    add_frames(a);
    add_processes(a);
    add_threads(a);
    add_epochs(a);
    CT_TRY(add_nodes(a, err));
    add_creators(a);
    merge_add_times(m, a->profile, a->metrics, a->nodes);
    merge_add_facts(m, a->profile,
                    (uint32_t *[CTP_SCOPE_END]){[CTP_SCOPE_PROCESS] = a->processes,
                                                [CTP_SCOPE_METRIC] = a->metrics,
                                                [CTP_SCOPE_THREAD] = a->threads,
                                                [CTP_SCOPE_MODULE] = a->modules});
    const struct ctp_fact *merged =
        profile_find_fact(a->profile, CTP_SCOPE_PROFILE, 0, FACT_PROFILES);
    m->profiles += merged && merged->type == CTP_U64 ? (uint32_t)merged->value : 1;
    return CT_OK;
}

/* ---- Costs alone ----------------------------------------------------------------------------- */

static int find_threads(struct addition *a, struct ct_error *err)
{
    struct merge *m = a->merge;
    const struct profile *p = a->profile;
    bool known = true;
    for (uint32_t i = 0; i < profile_process_count(p); i++) {
        uint32_t rank = m->join_ranks ? 0 : profile_process_rank(p, i) + 1;
        struct process_key key = {.command = text(a, profile_process(p, i)->command), .rank = rank};
        known &= key_set_find(&m->processes, &key, &a->processes[i]);
    }
    for (uint32_t i = 0; i < profile_thread_count(p) && known; i++) {
        const struct ctp_thread *t = profile_thread(p, i);
        struct thread_key key = {.process = a->processes[t->process], .name = text(a, t->name)};
        known &= key_set_find(&m->threads, &key, &a->threads[i]);
    }
    return known ? CT_OK : ct_fail(err, "%s: has costs of a thread that is not known", p->name);
}

static int find_metrics(struct addition *a, struct ct_error *err)
{
    struct merge *m = a->merge;
    const struct profile *p = a->profile;
    for (uint32_t i = 0; i < p->metric_count; i++) {
        struct merged_metric *kept =
            find_metric(m, text(a, profile_metric(p, i)->name), &a->metrics[i]);
        uint64_t total = total_of(p, i);
        if (!kept)
            return ct_fail(err, "%s: has costs of a metric that is not known", p->name);
        if (kept->total + total < total)
            return ct_fail(err, "%s: the sum of %s does not fit in 64 bits any more", p->name,
                           merge_text(m, kept->name));
        kept->total += total;
    }
    return CT_OK;
}

static int add_costs(struct addition *a, struct ct_error *err)
{
    CT_TRY(find_metrics(a, err));
    CT_TRY(find_threads(a, err));
    add_modules(a);
    add_functions(a);
    add_frames(a);
    add_epochs(a);
    return add_nodes(a, err);
}

static int add_with(int (*add)(struct addition *, struct ct_error *), struct merge *m,
                    const struct profile *p, bool costs_only, struct ct_error *err)
{
    struct addition a = {.merge = m, .profile = p, .costs_only = costs_only};
    struct {
        uint32_t **map;
        uint32_t count;
    } maps[] = {
        {&a.strings, p->strings_size},
        {&a.modules, profile_module_count(p)},
        {&a.functions, profile_function_count(p)},
        {&a.frames, profile_frame_count(p)},
        {&a.epochs, profile_epoch_count(p)},
        {&a.processes, profile_process_count(p)},
        {&a.threads, profile_thread_count(p)},
        {&a.metrics, p->metric_count},
        {&a.nodes, p->node_count},
    };
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++)
        *maps[i].map = must_calloc((size_t)maps[i].count + 1, sizeof **maps[i].map);
    int status = add(&a, err);
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++)
        free(*maps[i].map);
    return status;
}

int merge_add(struct merge *m, const struct profile *p, struct ct_error *err)
{
    return add_with(add_all, m, p, false, err);
}

int merge_add_costs(struct merge *m, const struct profile *p, struct ct_error *err)
{
    return add_with(add_costs, m, p, true, err);
}
