#include "profile/slice_state.h"

#include <string.h>

struct module_name {
    uint8_t build_id[CTP_BUILD_ID_ROOM];
    uint64_t base;
    uint32_t path, kind;
};

/* Without a module there is nothing but the function: what stands for something that is no code. */
struct frame_name {
    uint64_t offset;
    uint32_t module, flags, gap;
    uint32_t function; /* its name, where there is no module */
};

struct process_name {
    uint64_t start_ns;
    uint32_t pid, command;
};

/* A thread may go on with the record of one that has ended, and then has another number: what stays
 * is when the first of them began. Of those that began at one time, which it is: they stay in the
 * order in which the recorder met them. */
struct thread_name {
    uint64_t start_ns;
    uint32_t process, which;
};

struct root_name {
    uint32_t thread, epoch; /* the epoch's name */
    uint32_t has_thread, has_epoch;
};

struct context_name {
    uint32_t parent, frame; /* of a root: CTP_NONE, and the root */
};

static uint32_t text(struct slice *s, const struct profile *p, uint32_t offset)
{
    return strings_add(&s->texts, profile_string(p, offset));
}

static void name_code(struct slice *s, struct slice_side *side)
{
    const struct profile *p = side->profile;
    side->modules = must_calloc((size_t)profile_module_count(p) + 1, sizeof *side->modules);
    side->frames = must_calloc((size_t)profile_frame_count(p) + 1, sizeof *side->frames);
    for (uint32_t i = 0; i < profile_module_count(p); i++) {
        const struct ctp_module *m = profile_module(p, i);
        struct module_name name = {.base = m->base, .path = text(s, p, m->path), .kind = m->kind};
        memcpy(name.build_id, m->build_id, sizeof name.build_id);
        side->modules[i] = key_set_add(&s->modules, &name);
    }
    for (uint32_t i = 0; i < profile_frame_count(p); i++) {
        const struct ctp_frame *f = profile_frame(p, i);
        bool has_module = f->module != CTP_NONE;
        struct frame_name name = {
            f->offset, has_module ? side->modules[f->module] : CTP_NONE, f->flags, f->gap,
            has_module ? 0 : text(s, p, profile_function(p, f->function)->name)};
        side->frames[i] = key_set_add(&s->frames, &name);
    }
}

static void name_threads(struct slice *s, struct slice_side *side)
{
    const struct profile *p = side->profile;
    side->processes = must_calloc((size_t)profile_process_count(p) + 1, sizeof *side->processes);
    side->threads = must_calloc((size_t)profile_thread_count(p) + 1, sizeof *side->threads);
    for (uint32_t i = 0; i < profile_process_count(p); i++) {
        const struct ctp_process *process = profile_process(p, i);
        struct process_name name = {process->start_ns, process->pid, text(s, p, process->command)};
        side->processes[i] = key_set_add(&s->processes, &name);
    }
    struct key_set begun; /* in this snapshot: names of threads, as if each were the first */
    VEC(uint32_t) counts = {0};
    key_set_init(&begun, sizeof(struct thread_name));
    for (uint32_t i = 0; i < profile_thread_count(p); i++) {
        const struct ctp_thread *t = profile_thread(p, i);
        struct thread_name name = {t->start_ns, side->processes[t->process], 0};
        uint32_t number = key_set_add(&begun, &name);
        if (number == counts.count)
            vec_push(&counts, 0);
        name.which = counts.items[number]++;
        side->threads[i] = key_set_add(&s->threads, &name);
    }
    vec_free(&counts);
    key_set_free(&begun);
}

static void name_contexts(struct slice *s, struct slice_side *side)
{
    const struct profile *p = side->profile;
    side->nodes = must_calloc((size_t)p->node_count + 1, sizeof *side->nodes);
    for (uint32_t i = 0; i < profile_root_count(p); i++) {
        const struct ctp_root *root = profile_root(p, i);
        bool has_thread = root->thread != CTP_NONE, has_epoch = root->epoch != CTP_NONE;
        struct root_name name = {has_thread ? side->threads[root->thread] : 0,
                                 has_epoch ? text(s, p, profile_epoch(p, root->epoch)->name) : 0,
                                 has_thread, has_epoch};
        struct context_name top = {CTP_NONE, key_set_add(&s->roots, &name)};
        side->nodes[root->first_node] = key_set_add(&s->contexts, &top);
        for (uint32_t k = 1; k < root->node_count; k++) {
            uint32_t node = root->first_node + k;
            struct context_name context = {side->nodes[p->parents[node]],
                                           side->frames[p->node_frames[node]]};
            side->nodes[node] = key_set_add(&s->contexts, &context);
        }
    }
}

/* What the older one has of a metric, by context. The caller frees it. */
static uint64_t *older_values(const struct slice *s, uint32_t metric)
{
    uint64_t *values = must_calloc((size_t)s->contexts.count + 1, sizeof *values);
    const struct profile *older = s->sides[0].profile, *newer = s->sides[1].profile;
    if (!older)
        return values;
    uint32_t same =
        profile_find_metric(older, profile_string(newer, profile_metric(newer, metric)->name));
    for (uint32_t n = 0; n < older->node_count && same != CTP_NONE; n++)
        values[s->sides[0].nodes[n]] += older->values[same][n];
    return values;
}

/*
 * Contexts of processes that the newer snapshot does not have any more: a recorder that runs for
 * long lets go of what has ended when slices have all of it. The caller frees it.
 */
static bool *find_let_go(const struct slice *s)
{
    const struct slice_side *newer = &s->sides[1];
    bool *is_there = must_calloc((size_t)s->processes.count + 1, sizeof *is_there);
    bool *let_go = must_calloc((size_t)s->contexts.count + 1, sizeof *let_go);
    for (uint32_t i = 0; i < profile_process_count(newer->profile); i++)
        is_there[newer->processes[i]] = true;
    for (uint32_t i = 0; i < s->contexts.count; i++) { /* parents come first */
        struct context_name context;
        memcpy(&context, key_set_get(&s->contexts, i), sizeof context);
        if (context.parent != CTP_NONE) {
            let_go[i] = let_go[context.parent];
            continue;
        }
        struct root_name root;
        struct thread_name thread;
        memcpy(&root, key_set_get(&s->roots, context.frame), sizeof root);
        if (!root.has_thread)
            continue;
        memcpy(&thread, key_set_get(&s->threads, root.thread), sizeof thread);
        let_go[i] = !is_there[thread.process];
    }
    free(is_there);
    return let_go;
}

static int subtract(struct slice *s, uint32_t metric, const bool *let_go, struct ct_error *err)
{
    const struct profile *p = s->sides[1].profile;
    uint64_t *before = older_values(s, metric), left = 0;
    s->values[metric] = must_calloc((size_t)p->node_count + 1, sizeof(uint64_t));
    for (uint32_t n = 0; n < p->node_count; n++) {
        uint64_t value = p->values[metric][n], *known = &before[s->sides[1].nodes[n]];
        uint64_t counted = value < *known ? value : *known; /* in earlier slices */
        *known -= counted;
        s->values[metric][n] = value - counted;
        s->kept[n] |= value > counted;
    }
    for (uint32_t i = 0; i < s->contexts.count; i++)
        left += let_go[i] ? 0 : before[i];
    free(before);
    if (left)
        return ct_fail(err, "%s: has less %s than the snapshot before it", p->name,
                       profile_string(p, profile_metric(p, metric)->name));
    return CT_OK;
}

/* Where the older snapshot has the first of each. */
static uint32_t *index_older(const struct key_set *set, const uint32_t *numbers, uint32_t count)
{
    uint32_t *places = must_realloc(NULL, (size_t)set->count + 1, sizeof *places);
    memset(places, 0xff, ((size_t)set->count + 1) * sizeof *places);
    for (uint32_t i = count; i-- > 0;)
        places[numbers[i]] = i;
    return places;
}

int slice_compare(struct slice *s, const struct profile *older, const struct profile *newer,
                  struct ct_error *err)
{
    *s = (struct slice){.sides = {{.profile = older}, {.profile = newer}}};
    strings_init(&s->texts);
    key_set_init(&s->modules, sizeof(struct module_name));
    key_set_init(&s->frames, sizeof(struct frame_name));
    key_set_init(&s->processes, sizeof(struct process_name));
    key_set_init(&s->threads, sizeof(struct thread_name));
    key_set_init(&s->roots, sizeof(struct root_name));
    key_set_init(&s->contexts, sizeof(struct context_name));
    for (int i = 0; i < 2; i++) {
        if (!s->sides[i].profile)
            continue;
        name_code(s, &s->sides[i]);
        name_threads(s, &s->sides[i]);
        name_contexts(s, &s->sides[i]);
    }
    const struct slice_side *a = &s->sides[0];
    s->older[0] =
        index_older(&s->processes, a->processes, older ? profile_process_count(older) : 0);
    s->older[1] = index_older(&s->threads, a->threads, older ? profile_thread_count(older) : 0);
    s->older[2] = index_older(&s->modules, a->modules, older ? profile_module_count(older) : 0);
    s->kept = must_calloc((size_t)newer->node_count + 1, sizeof *s->kept);
    s->values = must_calloc((size_t)newer->metric_count + 1, sizeof *s->values);
    int status = CT_OK;
    bool *let_go = find_let_go(s);
    for (uint32_t m = 0; m < newer->metric_count && status == CT_OK; m++)
        status = subtract(s, m, let_go, err);
    free(let_go);
    for (uint32_t n = newer->node_count; n-- > 0;)
        if (s->kept[n] && newer->parents[n] != CTP_NONE)
            s->kept[newer->parents[n]] = true;
    return status;
}

void slice_free(struct slice *s)
{
    struct key_set *sets[] = {&s->modules, &s->frames, &s->processes,
                              &s->threads, &s->roots,  &s->contexts};
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
        key_set_free(sets[i]);
    for (uint32_t m = 0; m < s->sides[1].profile->metric_count && s->values; m++)
        free(s->values[m]);
    for (int i = 0; i < 2; i++) {
        free(s->sides[i].modules);
        free(s->sides[i].frames);
        free(s->sides[i].processes);
        free(s->sides[i].threads);
        free(s->sides[i].nodes);
    }
    for (int i = 0; i < 3; i++)
        free(s->older[i]);
    free(s->values);
    free(s->kept);
    strings_free(&s->texts);
}

/* The index in the older snapshot of what a fact is about, or CTP_NONE. */
static uint32_t older_index(const struct slice *s, const struct ctp_fact *fact)
{
    const struct slice_side *b = &s->sides[1];
    const struct profile *p = s->sides[0].profile;
    switch (fact->scope) {
    case CTP_SCOPE_PROFILE:
        return 0;
    case CTP_SCOPE_METRIC:
        return profile_find_metric(
            p, profile_string(b->profile, profile_metric(b->profile, fact->index)->name));
    case CTP_SCOPE_PROCESS:
        return s->older[0][b->processes[fact->index]];
    case CTP_SCOPE_THREAD:
        return s->older[1][b->threads[fact->index]];
    case CTP_SCOPE_MODULE:
        return s->older[2][b->modules[fact->index]];
    default:
        return CTP_NONE;
    }
}

const struct ctp_fact *slice_older_fact(const struct slice *s, const struct ctp_fact *fact)
{
    const struct profile *older = s->sides[0].profile;
    uint32_t index = older ? older_index(s, fact) : CTP_NONE;
    if (index == CTP_NONE)
        return NULL;
    const struct ctp_fact *same = profile_find_fact(older, (enum ctp_scope)fact->scope, index,
                                                    profile_string(s->sides[1].profile, fact->key));
    return same && same->type == fact->type ? same : NULL;
}
