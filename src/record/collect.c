/*
 * An arena is untrusted: the program that it lies in may have written anything to it. Every place
 * is checked before it is followed, and lists are cut when they are longer than the arena could
 * hold.
 */
#include "record/collect.h"

#include "base/strings.h"
#include "profile/profile.h"
#include "runtime/walk.h"

#include <string.h>
#include <sys/wait.h>

struct module {
    uint32_t id;    /* in its arena */
    uint32_t index; /* in the profile */
    struct map map;
    bool has_map;
    const struct arena_module *record;
};

struct collector {
    const struct recording *recording;
    struct profile_writer *writer;
    VEC(struct module) modules; /* of the arena at hand */
    struct frame_slot {
        uint64_t key;
        uint32_t frame_plus_one;
    } * frames; /* of the arena at hand: key to frame of the profile */
    size_t frame_slots, frame_count;
    VEC(uint32_t) function_of; /* profile function by (module, function index): see function_for */
    VEC(uint64_t) function_keys;
    uint64_t samples, complete, walked, checked, differ, lost;
    uint64_t ticks_histogram[ARENA_HISTOGRAM];
    uint32_t metric;
    uint64_t total_nodes;
};

/* A view of one arena, bounded by what is allocated of it. */
struct arena_view {
    const char *bytes;
    uint64_t size;
};

static const void *at(const struct arena_view *v, uint32_t place, uint64_t bytes)
{
    uint64_t offset = (uint64_t)place * 8;
    return place && offset <= v->size && bytes <= v->size - offset ? v->bytes + offset : NULL;
}

static void open_modules(struct collector *c, const struct arena_view *v, const char *program)
{
    const struct arena_header *h = (const struct arena_header *)v->bytes;
    uint64_t most = v->size / sizeof(struct arena_module);
    const struct arena_module *r;
    for (uint32_t place = h->first_module; most-- && (r = at(v, place, sizeof *r));
         place = r->next) {
        if (!at(v, place, sizeof *r + r->path_bytes) || r->path_bytes > 4096)
            break;
        char path[4097] = "";
        memcpy(path, r + 1, r->path_bytes);
        struct module m = {.id = r->id, .record = r};
        if (strcmp(path, "/proc/self/exe") == 0)
            snprintf(path, sizeof path, "%s", program);
        m.has_map = r->kind == MODULE_FILE &&
                    map_for_file(&c->recording->server->cache, path, &m.map, NULL, NULL) == CT_OK;
        struct ctp_module out = {.path = profile_add_string(c->writer, path),
                                 .kind = r->kind == MODULE_VDSO ? CTP_MODULE_VDSO : CTP_MODULE_FILE,
                                 .base = m.has_map ? m.map.header->base : 0,
                                 .size = r->end - r->start};
        if (m.has_map) {
            out.build_id_size = m.map.header->build_id_size;
            memcpy(out.build_id, m.map.header->build_id, out.build_id_size);
        }
        m.index = profile_add_module(c->writer, &out);
        vec_push(&c->modules, m);
    }
}

static void close_modules(struct collector *c)
{
    for (size_t i = 0; i < c->modules.count; i++)
        if (c->modules.items[i].has_map)
            map_close(&c->modules.items[i].map);
    c->modules.count = 0;
}

static const struct module *module_by_id(const struct collector *c, uint32_t id)
{
    for (size_t i = 0; i < c->modules.count; i++)
        if (c->modules.items[i].id == id)
            return &c->modules.items[i];
    return NULL;
}

/* The profile's function for one of the map's; each is added once. */
static uint32_t function_for(struct collector *c, const struct module *m, uint64_t offset)
{
    const struct map_function *f = m->has_map ? map_find_function(&m->map, offset) : NULL;
    if (f && (f->flags & FUNCTION_FRAGMENT) && f->parent < m->map.function_count)
        f = &m->map.functions[f->parent];
    if (!f || !f->name)
        return CTP_NONE;
    uint64_t key = (uint64_t)m->index << 32 | f->start;
    for (size_t i = c->function_keys.count; i-- > 0;)
        if (c->function_keys.items[i] == key)
            return c->function_of.items[i];
    struct ctp_function out = {.offset = f->start,
                               .size = f->size,
                               .name = profile_add_string(c->writer, map_string(&m->map, f->name)),
                               .module = m->index};
    vec_push(&c->function_keys, key);
    vec_push(&c->function_of, profile_add_function(c->writer, &out));
    return c->function_of.items[c->function_of.count - 1];
}

static uint32_t make_frame(struct collector *c, uint64_t key)
{
    uint32_t flags = KEY_FLAGS(key);
    struct ctp_frame out = {.offset = KEY_OFFSET(key), .module = CTP_NONE, .function = CTP_NONE};
    if (flags & KEY_GAP) {
        out.offset = 0;
        out.gap =
            KEY_OFFSET(key) && KEY_OFFSET(key) < CTP_GAP_OTHER ? KEY_OFFSET(key) : CTP_GAP_OTHER;
        return profile_add_frame(c->writer, &out);
    }
    out.flags = (flags & KEY_IS_PC ? 0u : CTP_FRAME_RETURN) |
                (flags & KEY_GUESSED ? CTP_FRAME_GUESSED : 0u);
    const struct module *m = module_by_id(c, KEY_MODULE(key));
    if (m) {
        out.module = m->index;
        out.function = function_for(c, m, out.offset - (flags & KEY_IS_PC ? 0 : 1));
    }
    return profile_add_frame(c->writer, &out);
}

static uint32_t frame_for(struct collector *c, uint64_t key)
{
    if (c->frame_count * 2 >= c->frame_slots) {
        struct frame_slot *old = c->frames;
        size_t old_slots = c->frame_slots;
        c->frame_slots = old_slots ? old_slots * 2 : 1024;
        c->frames = must_calloc(c->frame_slots, sizeof *c->frames);
        for (size_t i = 0; i < old_slots; i++) {
            if (!old[i].frame_plus_one)
                continue;
            size_t k = hash_bytes(&old[i].key, 8) >> 20 & (c->frame_slots - 1);
            while (c->frames[k].frame_plus_one)
                k = (k + 1) & (c->frame_slots - 1);
            c->frames[k] = old[i];
        }
        free(old);
    }
    size_t i = hash_bytes(&key, 8) >> 20 & (c->frame_slots - 1);
    for (; c->frames[i].frame_plus_one; i = (i + 1) & (c->frame_slots - 1))
        if (c->frames[i].key == key)
            return c->frames[i].frame_plus_one - 1;
    c->frames[i] = (struct frame_slot){key, make_frame(c, key) + 1};
    c->frame_count++;
    return c->frames[i].frame_plus_one - 1;
}

/* Nodes of one thread, oldest first, which is in order of their places: parents before children. */
struct node_list {
    VEC(const struct arena_node *) items;
};

static void list_nodes(const struct arena_view *v, const struct arena_thread *t,
                       struct node_list *out)
{
    VEC(const struct arena_chunk *) chunks = {0};
    uint64_t most = v->size / sizeof(struct arena_chunk);
    const struct arena_chunk *k;
    for (uint32_t place = t->first_chunk; most-- && (k = at(v, place, sizeof *k)); place = k->next)
        vec_push(&chunks, k);
    out->items.count = 0;
    for (size_t i = chunks.count; i-- > 0;) {
        uint32_t count = chunks.items[i]->count;
        for (uint32_t n = 0; n < count && n < ARENA_CHUNK_NODES; n++)
            vec_push(&out->items, &chunks.items[i]->nodes[n]);
    }
    vec_free(&chunks);
}

static uint32_t index_of(const struct arena_view *v, const struct node_list *list, uint32_t place,
                         size_t before)
{
    const void *wanted = v->bytes + (uint64_t)place * 8;
    size_t low = 0, high = before;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if ((const void *)list->items.items[middle] < wanted)
            low = middle + 1;
        else
            high = middle;
    }
    return low < before && (const void *)list->items.items[low] == wanted ? (uint32_t)low
                                                                          : CTP_NONE;
}

static void write_thread(struct collector *c, const struct arena_view *v,
                         const struct node_list *list, uint32_t first)
{
    uint64_t period = ((const struct arena_header *)v->bytes)->period_ns;
    for (size_t i = 0; i < list->items.count; i++) {
        const struct arena_node *n = list->items.items[i];
        uint32_t parent = i ? index_of(v, list, n->parent, i) : CTP_NONE;
        uint32_t frame = i ? frame_for(c, n->key) : CTP_NONE;
        if (i && parent == CTP_NONE)
            parent = 0;
        if (i)
            parent += first;
        uint64_t value = n->count * period;
        profile_write_nodes(c->writer, &parent, &frame, 1);
        profile_write_values(c->writer, c->metric, &value, 1);
    }
}

static void sum_up(struct collector *c, const struct arena_thread *t)
{
    c->samples += t->samples;
    c->complete += t->ends[WALK_COMPLETE];
    c->walked += t->frames_walked;
    c->checked += t->verify_checked;
    c->differ += t->verify_differ;
    for (unsigned i = 0; i < ARENA_HISTOGRAM; i++)
        c->ticks_histogram[i] += t->handler_histogram[i];
}

/* Visits the threads of an arena, oldest first. */
typedef void thread_fn(struct collector *c, const struct arena_view *v,
                       const struct arena_thread *t, uint32_t process, uint32_t *next_node);

static void count_thread(struct collector *c, const struct arena_view *v,
                         const struct arena_thread *t, uint32_t process, uint32_t *next_node)
{
    struct node_list list = {0};
    (void)process;
    (void)c;
    list_nodes(v, t, &list);
    *next_node += (uint32_t)list.items.count;
    vec_free(&list.items);
}

static void add_thread(struct collector *c, const struct arena_view *v,
                       const struct arena_thread *t, uint32_t process, uint32_t *next_node)
{
    struct node_list list = {0};
    list_nodes(v, t, &list);
    if (list.items.count) {
        char name[ARENA_NAME_BYTES + 1] = "";
        memcpy(name, t->name, ARENA_NAME_BYTES);
        struct ctp_thread out = {.process = process,
                                 .tid = t->tid,
                                 .name = profile_add_string(c->writer, name),
                                 .creator = CTP_NONE};
        uint32_t thread = profile_add_thread(c->writer, &out);
        profile_add_root(c->writer, thread, CTP_NONE);
        write_thread(c, v, &list, *next_node);
        *next_node += (uint32_t)list.items.count;
        sum_up(c, t);
    }
    vec_free(&list.items);
}

static void each_thread(struct collector *c, const struct arena_view *v, uint32_t process,
                        uint32_t *next_node, thread_fn *visit)
{
    VEC(const struct arena_thread *) threads = {0};
    const struct arena_header *h = (const struct arena_header *)v->bytes;
    uint64_t most = v->size / sizeof(struct arena_thread);
    const struct arena_thread *t;
    for (uint32_t place = h->first_thread; most-- && (t = at(v, place, sizeof *t)); place = t->next)
        vec_push(&threads, t);
    for (size_t i = threads.count; i-- > 0;)
        visit(c, v, threads.items[i], process, next_node);
    vec_free(&threads);
}

static uint32_t add_process(struct collector *c, size_t i)
{
    const struct server *s = c->recording->server;
    const struct server_arena *a = &s->arenas.items[i];
    struct ctp_process out = {.pid = (uint32_t)a->pid,
                              .parent = CTP_NONE,
                              .command = profile_add_string(c->writer, a->program)};
    for (size_t k = 0; k < i; k++) {
        if (s->arenas.items[k].pid == a->pid) {
            out.parent = (uint32_t)k;
            out.flags = CTP_PROCESS_EXEC;
        } else if (s->arenas.items[k].pid == a->parent_pid) {
            out.parent = (uint32_t)k;
            out.flags = 0;
        }
    }
    if (i == 0 && WIFEXITED(c->recording->wait_status)) {
        out.exit_kind = CTP_EXIT_STATUS;
        out.exit_value = (uint32_t)WEXITSTATUS(c->recording->wait_status);
    } else if (i == 0 && WIFSIGNALED(c->recording->wait_status)) {
        out.exit_kind = CTP_EXIT_SIGNAL;
        out.exit_value = (uint32_t)WTERMSIG(c->recording->wait_status);
    }
    uint32_t arguments = 0;
    while (i == 0 && c->recording->options->command[arguments])
        arguments++;
    return profile_add_process(c->writer, &out, arguments,
                               (const char *const *)c->recording->options->command);
}

static double seconds(struct timeval t)
{
    return (double)t.tv_sec + (double)t.tv_usec / 1e6;
}

static void add_facts(struct collector *c)
{
    struct profile_writer *w = c->writer;
    const struct recording *r = c->recording;
    double utime = seconds(r->usage.ru_utime), stime = seconds(r->usage.ru_stime);
    profile_fact_u64(w, CTP_SCOPE_PROFILE, 0, "samples", c->samples);
    profile_fact_f64(w, CTP_SCOPE_PROFILE, 0, "rate_asked_hz", (double)r->options->rate_hz);
    profile_fact_f64(w, CTP_SCOPE_PROFILE, 0, "rate_got_hz",
                     utime > 0 ? (double)c->samples / utime : 0);
    profile_fact_u64(w, CTP_SCOPE_PROFILE, 0, "lost", c->lost);
    profile_fact_u64(w, CTP_SCOPE_PROFILE, 0, "walks_complete", c->complete);
    profile_fact_u64(w, CTP_SCOPE_PROFILE, 0, "walks_total", c->samples);
    profile_fact_f64(w, CTP_SCOPE_PROFILE, 0, "frames_walked_per_sample",
                     c->samples ? (double)c->walked / (double)c->samples : 0);
    profile_fact_u64(w, CTP_SCOPE_PROFILE, 0, "verify_checked", c->checked);
    profile_fact_u64(w, CTP_SCOPE_PROFILE, 0, "verify_differ", c->differ);
    profile_fact_f64(w, CTP_SCOPE_PROFILE, 0, "utime_s", utime);
    profile_fact_f64(w, CTP_SCOPE_PROFILE, 0, "stime_s", stime);
}

int collect_profile(const struct recording *recording, struct ct_error *err)
{
    struct collector c = {.recording = recording};
    struct server *s = recording->server;
    CT_TRY(profile_writer_open(recording->options->output, &c.writer, err));
    struct ctp_metric metric = {.name = profile_add_string(c.writer, "cpu"),
                                .unit = profile_add_string(c.writer, "ns"),
                                .description = profile_add_string(c.writer, "user CPU time"),
                                .kind = CTP_METRIC_SAMPLED,
                                .period = s->period_ns};
    c.metric = profile_add_metric(c.writer, &metric);
    uint32_t nodes = 0;
    for (size_t i = 0; i < s->arenas.count; i++) {
        struct arena_view v = {(const char *)s->arenas.items[i].header,
                               s->arenas.items[i].allocated};
        each_thread(&c, &v, 0, &nodes, count_thread);
    }
    profile_begin_nodes(c.writer, nodes);
    nodes = 0;
    for (size_t i = 0; i < s->arenas.count; i++) {
        struct arena_view v = {(const char *)s->arenas.items[i].header,
                               s->arenas.items[i].allocated};
        uint32_t process = add_process(&c, i);
        open_modules(&c, &v, s->arenas.items[i].program);
        each_thread(&c, &v, process, &nodes, add_thread);
        for (unsigned k = 0; k < ARENA_LOSSES; k++)
            c.lost += s->arenas.items[i].header->lost[k];
        close_modules(&c);
        free(c.frames);
        c.frames = NULL;
        c.frame_slots = c.frame_count = 0;
    }
    add_facts(&c);
    vec_free(&c.modules);
    vec_free(&c.function_of);
    vec_free(&c.function_keys);
    return profile_writer_commit(c.writer, err);
}
