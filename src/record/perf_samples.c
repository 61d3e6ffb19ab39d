#include "record/perf_samples.h"

#include "base/strings.h"
#include "profile/profile.h"
#include "record/arena_view.h"
#include "unwind/walk.h"

#include <asm/perf_regs.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_FRAMES = 8192 };

struct perf_thread {
    const struct arena_header *arena;
    const struct arena_thread *record;
    struct grown_tree tree;
    VEC(uint64_t) values;  /* of each node, one for each event: as the samples say, */
    VEC(uint64_t) settled; /* and as they come to what was counted */
};

/* The modules of a process, as its arena lists them. */
struct perf_process {
    struct walk_modules modules;
    VEC(struct walk_module) items;
    VEC(uint32_t) ids; /* in the arena; 0: ours, whose frames are not shown */
    uint32_t newest;   /* place of the first of the list when this was made */
};

/* --- what a process has loaded -----------------------------------------------------------------
 */

/* Newest first: what lies where a newer one is, has been unloaded. */
static bool is_covered(const struct perf_process *p, const struct arena_module *m)
{
    for (size_t i = 0; i < p->items.count; i++)
        if (m->start < p->items.items[i].end && p->items.items[i].start < m->end)
            return true;
    return false;
}

static void insert_module(struct perf_process *p, const struct walk_module *m, uint32_t id)
{
    vec_push(&p->items, *m);
    vec_push(&p->ids, id);
    for (size_t i = p->items.count - 1; i && p->items.items[i - 1].start > m->start; i--) {
        p->items.items[i] = p->items.items[i - 1];
        p->ids.items[i] = p->ids.items[i - 1];
        p->items.items[i - 1] = *m;
        p->ids.items[i - 1] = id;
    }
}

static void list_modules(struct server *s, const struct arena_view *a, struct perf_process *p)
{
    struct module_walk walk = module_walk_begin(a);
    p->items.count = p->ids.count = 0;
    p->newest = walk.next;
    while (module_walk_next(&walk)) {
        const struct arena_module *m = walk.module;
        if (m->start >= m->end || is_covered(p, m))
            continue;
        const struct map *map = module_walk_map(&walk, &s->maps);
        struct walk_module module = {
            .start = m->start, .end = m->end, .base = m->base, .tables = map ? &map->tables : NULL};
        const char *name = strrchr(walk.path, '/');
        bool is_ours = name && strncmp(name, "/libcalltrail-", 14) == 0;
        insert_module(p, &module, is_ours ? 0 : m->id);
    }
    p->modules.items = p->items.items;
    p->modules.count = (uint32_t)p->items.count;
    p->modules.generation++;
}

static struct perf_process *process_of(struct perf_samples *s, size_t arena)
{
    while (s->processes.count <= arena)
        vec_push(&s->processes, NULL);
    struct perf_process *p = s->processes.items[arena];
    if (!p)
        p = s->processes.items[arena] = must_calloc(1, sizeof *p);
    struct arena_view a = arena_view_now(&s->server->arenas.items[arena]);
    if (!p->newest || p->newest != view_header(&a)->first_module)
        list_modules(s->server, &a, p);
    return p;
}

/* --- whose a sample is -------------------------------------------------------------------------
 */

static uint64_t last_exec_ns(const struct perf_samples *s, uint32_t pid, uint64_t before_ns)
{
    uint64_t last = 0;
    for (size_t i = 0; i < s->execs.count; i++) {
        const struct perf_exec *e = &s->execs.items[i];
        if (e->pid == pid && e->time_ns <= before_ns && e->time_ns > last)
            last = e->time_ns;
    }
    return last;
}

/* The arena that the process had then; of a program that has just been started there is none. */
static size_t arena_of(const struct perf_samples *s, const struct perf_sample *sample)
{
    size_t i = s->server->arenas.count;
    while (i--) {
        const struct arena_header *h = s->server->arenas.items[i].header;
        if (h->outer_pid == sample->pid && h->start_ns <= sample->time_ns)
            return h->start_ns >= last_exec_ns(s, sample->pid, sample->time_ns) ? i : SIZE_MAX;
    }
    return SIZE_MAX;
}

static const struct arena_thread *record_of(const struct server_arena *a,
                                            const struct perf_sample *sample)
{
    struct arena_view v = arena_view_now(a);
    const struct arena_thread *t;
    VIEW_EACH(&v, view_header(&v)->first_thread, t) {
        if (t->tid == sample->tid && t->start_ns <= sample->time_ns &&
            (!t->end_ns || t->end_ns >= sample->time_ns))
            return t;
    }
    return NULL;
}

static struct perf_thread *find_thread(const struct perf_samples *s,
                                       const struct arena_header *arena,
                                       const struct arena_thread *record)
{
    for (size_t i = s->threads.count; i-- > 0;)
        if (s->threads.items[i]->record == record && s->threads.items[i]->arena == arena)
            return s->threads.items[i];
    return NULL;
}

static struct perf_thread *thread_for(struct perf_samples *s, const struct arena_header *arena,
                                      const struct arena_thread *record)
{
    struct perf_thread *t = find_thread(s, arena, record);
    if (!t) {
        t = must_calloc(1, sizeof *t);
        t->arena = arena;
        t->record = record;
        grown_child(&t->tree, CTP_NONE, KEY_MAKE(0, KEY_ROOT, 0));
        vec_push(&s->threads, t);
    }
    return t;
}

/* --- one sample --------------------------------------------------------------------------------
 */

static void take_registers(const uint64_t *from, struct walk_registers *r)
{
    static const uint8_t before_r8[] = {
        [PERF_REG_X86_AX] = X86_RAX, [PERF_REG_X86_BX] = X86_RBX, [PERF_REG_X86_CX] = X86_RCX,
        [PERF_REG_X86_DX] = X86_RDX, [PERF_REG_X86_SI] = X86_RSI, [PERF_REG_X86_DI] = X86_RDI,
        [PERF_REG_X86_BP] = X86_RBP, [PERF_REG_X86_SP] = X86_RSP, [PERF_REG_X86_IP] = X86_RIP};
    static const uint8_t from_r8[] = {X86_R8,  X86_R9,  X86_R10, X86_R11,
                                      X86_R12, X86_R13, X86_R14, X86_R15};
    for (unsigned i = 0; i < sizeof before_r8; i++)
        r->value[before_r8[i]] = from[i];
    for (unsigned i = 0; i < sizeof from_r8; i++)
        r->value[from_r8[i]] = from[PERF_REGISTER_BEFORE_R8 + i];
}

static bool nothing_else(struct walk_memory *memory, uint64_t address)
{
    (void)memory;
    (void)address;
    return false;
}

static uint64_t key_of(const struct perf_process *p, const struct walk_frame *f)
{
    uint32_t flags =
        (f->flags & FRAME_IS_PC ? KEY_IS_PC : 0u) | (f->flags & FRAME_GUESSED ? KEY_GUESSED : 0u);
    if (f->module == UINT32_MAX)
        return KEY_MAKE(f->pc >> 32 & 0xffffff, flags | KEY_ADDRESS, f->pc);
    return KEY_MAKE(p->ids.items[f->module], flags, f->pc - p->items.items[f->module].base);
}

/* The last that the program had said of itself by then. */
static struct arena_change said_before(const struct arena_header *h, uint64_t time_ns)
{
    uint32_t count = h->change_count;
    struct arena_change said = {0};
    for (uint32_t back = 1; back <= count && back <= ARENA_CHANGES; back++) {
        const struct arena_change *c = &h->changes[(count - back) % ARENA_CHANGES];
        if (c->at_ns <= time_ns) {
            said.phase = c->phase;
            said.paused = c->paused;
            break;
        }
    }
    return said;
}

/* The node of the sample's stack. `is_complete`: it was walked to its end. */
static uint32_t walk(const struct perf_process *p, const struct perf_sample *sample, uint32_t phase,
                     struct grown_tree *tree, bool *is_complete)
{
    static struct walk_frame frames[MOST_FRAMES];
    struct walk_registers r = {0};
    take_registers(sample->registers, &r);
    uint64_t sp = r.value[X86_RSP];
    struct walk_memory memory = {.start = sp,
                                 .end = sp + sample->stack_bytes,
                                 .bias = (uint64_t)(uintptr_t)sample->stack - sp,
                                 .find_memory = nothing_else};
    struct walk_result walked = walk_frames(&p->modules, &r, &memory, frames, MOST_FRAMES);
    uint32_t node = phase ? grown_child(tree, 0, KEY_MAKE(0, KEY_PHASE, phase)) : 0;
    *is_complete = walked.end == WALK_COMPLETE;
    if (!*is_complete)
        node = grown_child(tree, node, KEY_MAKE(0, KEY_GAP, walked.end));
    for (uint32_t i = walked.count; i-- > 0;)
        if (frames[i].module == UINT32_MAX || p->ids.items[frames[i].module])
            node = grown_child(tree, node, key_of(p, &frames[i]));
    return node;
}

static void take_sample(void *context, const struct perf_sample *sample)
{
    struct perf_samples *s = context;
    size_t arena = sample->registers ? arena_of(s, sample) : SIZE_MAX;
    const struct arena_thread *record =
        arena == SIZE_MAX ? NULL : record_of(&s->server->arenas.items[arena], sample);
    if (!record) { /* part of what the kernel counted and no context is charged with */
        s->taken[sample->event].elsewhere += sample->period;
        return;
    }
    struct arena_change said = said_before(s->server->arenas.items[arena].header, sample->time_ns);
    if (said.paused) {
        s->taken[sample->event].paused += sample->period;
        return;
    }
    struct perf_thread *t = thread_for(s, s->server->arenas.items[arena].header, record);
    bool is_complete;
    uint32_t node = walk(process_of(s, arena), sample, said.phase, &t->tree, &is_complete);
    uint32_t events = s->rings.wanted->count;
    while (t->values.count < t->tree.items.count * events)
        vec_push(&t->values, 0);
    t->values.items[node * events + sample->event] += sample->period;
    s->taken[sample->event].counted += sample->period;
    s->samples[sample->event]++;
    s->complete[sample->event] += is_complete;
}

static void take_end(void *context, const struct perf_sample *rest)
{
    struct perf_samples *s = context;
    vec_push(&s->ends, *rest); /* the ring of another processor may still have its first sample */
}

static void take_exec(void *context, uint32_t pid, uint64_t time_ns)
{
    struct perf_samples *s = context;
    vec_push(&s->execs, (struct perf_exec){pid, time_ns});
}

/* --- estimates that come to what was counted ---------------------------------------------------
 */

uint64_t perf_scale_next(struct perf_scale *scale, uint64_t value)
{
    scale->sum += value;
    uint64_t before = scale->scaled_sum;
    scale->scaled_sum = (uint64_t)((unsigned __int128)scale->sum * scale->to / scale->of);
    return scale->scaled_sum - before;
}

static void scale_thread(struct perf_thread *t, uint32_t event, uint32_t events,
                         struct perf_scale *scale)
{
    for (size_t at = event; at < t->settled.count; at += events)
        t->settled.items[at] = perf_scale_next(scale, t->settled.items[at]);
}

/* Whose end it is: a thread that has samples, or NULL. Its own end is earlier than the kernel's. */
static struct perf_thread *ended_thread(const struct perf_samples *s, const struct perf_sample *end)
{
    size_t arena = arena_of(s, end);
    if (arena == SIZE_MAX)
        return NULL;
    struct arena_view v = arena_view_now(&s->server->arenas.items[arena]);
    const struct arena_thread *t;
    VIEW_EACH(&v, view_header(&v)->first_thread, t) {
        if (t->tid == end->tid && t->start_ns <= end->time_ns) /* newest first */
            return find_thread(s, s->server->arenas.items[arena].header, t);
    }
    return NULL;
}

static void settle_end(struct perf_samples *s, const struct perf_sample *end)
{
    struct perf_thread *t = ended_thread(s, end);
    struct perf_amounts *all = &s->settled[end->event];
    uint32_t events = s->rings.wanted->count;
    uint64_t known = 0;
    for (size_t at = end->event; t && at < t->settled.count; at += events)
        known += t->settled.items[at];
    struct perf_scale scale = {.to = known + end->period, .of = known};
    if (known)
        scale_thread(t, end->event, events, &scale);
    *(known ? &all->counted : &all->elsewhere) += end->period;
}

static void settle_all(struct perf_samples *s, uint32_t event)
{
    struct perf_amounts *all = &s->settled[event];
    struct perf_scale scale = {.to = s->kernel[event].count,
                               .of = all->counted + all->paused + all->elsewhere};
    if (!scale.of)
        return;
    for (size_t i = 0; i < s->threads.count; i++)
        scale_thread(s->threads.items[i], event, s->rings.wanted->count, &scale);
    all->counted = scale.scaled_sum;
    all->paused = perf_scale_next(&scale, all->paused);
    all->elsewhere = perf_scale_next(&scale, all->elsewhere);
}

void perf_samples_settle(struct perf_samples *s)
{
    for (size_t i = 0; i < s->threads.count; i++) {
        struct perf_thread *t = s->threads.items[i];
        t->settled.count = 0;
        for (size_t at = 0; at < t->values.count; at++)
            vec_push(&t->settled, t->values.items[at]);
    }
    memcpy(s->settled, s->taken, sizeof s->settled);
    for (size_t i = 0; i < s->ends.count; i++)
        settle_end(s, &s->ends.items[i]);
    for (uint32_t i = 0; i < s->rings.wanted->count; i++) {
        s->kernel[i] = perf_rings_count(&s->rings, i);
        if (!s->rings.wanted->items[i].period)
            settle_all(s, i);
    }
}

/* --- all ---------------------------------------------------------------------------------------
 */

void perf_samples_begin(struct perf_samples *s, struct server *server)
{
    s->server = server;
}

void perf_samples_end(struct perf_samples *s)
{
    for (size_t i = 0; i < s->threads.count; i++) {
        free_grown(&s->threads.items[i]->tree);
        vec_free(&s->threads.items[i]->values);
        vec_free(&s->threads.items[i]->settled);
        free(s->threads.items[i]);
    }
    for (size_t i = 0; i < s->processes.count; i++) {
        if (s->processes.items[i]) {
            vec_free(&s->processes.items[i]->items);
            vec_free(&s->processes.items[i]->ids);
        }
        free(s->processes.items[i]);
    }
    vec_free(&s->threads);
    vec_free(&s->processes);
    vec_free(&s->execs);
    vec_free(&s->ends);
    perf_rings_close(&s->rings);
}

void perf_samples_read(struct perf_samples *s)
{
    struct perf_visitor visitor = {
        .exec = take_exec, .sample = take_sample, .end = take_end, .context = s};
    perf_rings_read(&s->rings, &visitor);
}

bool perf_samples_has(const struct perf_samples *s, const struct arena_header *arena,
                      const struct arena_thread *thread)
{
    return find_thread(s, arena, thread) != NULL;
}

void perf_samples_grow(const struct perf_samples *s, const struct arena_header *arena,
                       const struct arena_thread *thread, struct grown_tree *g)
{
    const struct perf_thread *t = find_thread(s, arena, thread);
    if (!t)
        return;
    VEC(uint32_t) indices = {0};
    uint32_t events = s->rings.wanted->count;
    for (size_t i = 0; i < t->tree.items.count; i++) {
        const struct grown_node *n = &t->tree.items.items[i];
        uint32_t index = i ? grown_child(g, indices.items[n->parent], n->key) : 0;
        vec_push(&indices, index);
        if ((i + 1) * events <= t->settled.count)
            grown_set_perf(g, index, &t->settled.items[i * events]);
    }
    vec_free(&indices);
}
