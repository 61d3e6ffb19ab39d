/*
 * An arena is untrusted: the program that it lies in may have written anything to it. Every place
 * is checked before it is followed, and lists are cut when they are longer than the arena could
 * hold.
 */
#include "record/collect.h"

#include "base/strings.h"
#include "elf/elf_file.h"
#include "profile/profile.h"
#include "record/grow.h"
#include "record/jit.h"
#include "record/metrics.h"
#include "runtime/channel_format.h"
#include "runtime/walk.h"

#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static_assert((unsigned)ARENA_GAP_CUT == (unsigned)CTP_GAP_CUT, "one number for both");

struct module {
    uint32_t id;           /* in its arena */
    uint32_t index;        /* in the profile */
    const struct map *map; /* NULL: there is none */
};

/* What was counted, of one process or of all. */
struct totals {
    uint64_t samples, complete, walked, checked, differ, lost, merged, threads_not_sampled;
    uint64_t marks_set, bounces, reused, stale; /* of the trampoline */
    uint64_t calls, records, slow[ARENA_SLOW];  /* of engine exact */
    uint64_t sites, sites_not_edited;
    uint64_t bursts, calls_in_bursts, calls_between;
    uint64_t handler_ticks;
    uint64_t arena_bytes;
    uint64_t histogram[ARENA_HISTOGRAM]; /* of the handler's time, in ticks */
    double utime_s, stime_s;
};

/* From 64-bit keys to indices; open addressing. */
struct key_slot {
    uint64_t key;
    uint32_t index_plus_one; /* 0: free */
};

struct key_table {
    struct key_slot *slots;
    size_t room, count;
};

struct collector {
    const struct recording *recording;
    struct profile_writer *writer;
    VEC(struct module) modules;    /* of the arena at hand */
    struct key_table frames;       /* of the arena at hand: key to frame of the profile */
    struct key_table functions;    /* of the arena at hand: module and start to function */
    struct totals process, all;    /* of the process at hand, and of all */
    VEC(struct grown_tree) trees;  /* of each thread */
    size_t next_count, last_count; /* of those, the ones that are left of the process at hand */
    struct metric_set metrics;
    VEC(uint32_t) epochs; /* names of the phases, as strings of the profile */
    bool has_returns;     /* the trampoline was in use */
    bool has_calls;       /* engine exact was */
    bool is_whole;        /* the whole program was measured, but for what it paused itself */
    uint64_t end_ns;      /* of the process at hand, by the arena's clock */
    uint64_t perf_rest[PERF_MOST_EVENTS]; /* what the kernel counted, and no context has */
    bool has_written_rest;
    uint64_t io_rest[2]; /* bytes read and written by the process at hand, not attributed yet */
    struct jit_map jit;  /* of the process at hand */
};

/* A view of one arena, bounded by what is allocated of it. */
struct arena_view {
    const char *bytes;
    uint64_t size;
    struct arena_image before; /* calls up to then do not count */
};

static struct arena_view view_of(const struct server_arena *a)
{
    struct arena_view v = {(const char *)a->header, a->allocated, a->before};
    if (a->after.bytes) {
        v.bytes = a->after.bytes;
        v.size = a->after.size;
    }
    return v;
}

static const void *at(const struct arena_view *v, uint32_t place, uint64_t bytes)
{
    uint64_t offset = (uint64_t)place * 8;
    return place && offset <= v->size && bytes <= v->size - offset ? v->bytes + offset : NULL;
}

static const struct map *map_file(struct collector *c, const char *path)
{
    const struct open_map *opened = open_maps_find(&c->recording->server->maps, path);
    return opened ? &opened->map : NULL;
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
        struct module m = {.id = r->id};
        if (strcmp(path, "/proc/self/exe") == 0)
            snprintf(path, sizeof path, "%s", program);
        m.map = r->kind == MODULE_VDSO
                    ? open_maps_vdso(&c->recording->server->maps, r->end - r->start)
                    : map_file(c, path);
        struct ctp_module out = {.path = profile_add_string(c->writer, path),
                                 .kind = r->kind == MODULE_VDSO ? CTP_MODULE_VDSO : CTP_MODULE_FILE,
                                 .base = m.map ? m.map->header->base : 0,
                                 .size = r->end - r->start};
        if (m.map) {
            out.build_id_size = m.map->header->build_id_size;
            memcpy(out.build_id, m.map->header->build_id, out.build_id_size);
        }
        m.index = profile_add_module(c->writer, &out);
        vec_push(&c->modules, m);
    }
}

static const struct module *module_by_id(const struct collector *c, uint32_t id)
{
    for (size_t i = 0; i < c->modules.count; i++)
        if (c->modules.items[i].id == id)
            return &c->modules.items[i];
    return NULL;
}

static struct key_slot *find_key(const struct key_table *t, uint64_t key)
{
    size_t i = hash_bytes(&key, sizeof key) >> 20 & (t->room - 1);
    while (t->slots[i].index_plus_one && t->slots[i].key != key)
        i = (i + 1) & (t->room - 1);
    return &t->slots[i];
}

/* The slot of a key; free (index_plus_one is 0) when it is new, and then to be filled in. */
static struct key_slot *slot_for(struct key_table *t, uint64_t key)
{
    if (t->count * 2 >= t->room) {
        struct key_table bigger = {.room = t->room ? t->room * 2 : 1024, .count = t->count};
        bigger.slots = must_calloc(bigger.room, sizeof *bigger.slots);
        for (size_t i = 0; i < t->room; i++)
            if (t->slots[i].index_plus_one)
                *find_key(&bigger, t->slots[i].key) = t->slots[i];
        free(t->slots);
        *t = bigger;
    }
    struct key_slot *slot = find_key(t, key);
    if (!slot->index_plus_one)
        t->count++;
    slot->key = key;
    return slot;
}

static void free_table(struct key_table *t)
{
    free(t->slots);
    *t = (struct key_table){0};
}

/* The profile's function for one of the map's; each is added once. */
static uint32_t add_function(struct collector *c, const struct module *m,
                             const struct map_function *f)
{
    struct key_slot *slot = slot_for(&c->functions, (uint64_t)m->index << 32 | f->start);
    if (!slot->index_plus_one) {
        struct ctp_function out = {.offset = f->start,
                                   .size = f->size,
                                   .name =
                                       profile_add_string(c->writer, map_string(m->map, f->name)),
                                   .module = m->index};
        slot->index_plus_one = profile_add_function(c->writer, &out) + 1;
    }
    return slot->index_plus_one - 1;
}

/* A function without a name is known by its bounds. The nearest one before it that has a name comes
 * along, so that people see what it is next to. */
static uint32_t function_for(struct collector *c, const struct module *m, uint64_t offset)
{
    const struct map_function *f = m->map ? map_find_function(m->map, offset) : NULL;
    if (f && (f->flags & FUNCTION_FRAGMENT) && f->parent < m->map->function_count)
        f = &m->map->functions[f->parent];
    if (!f)
        return CTP_NONE;
    const struct map_function *named = f;
    while (named > m->map->functions && !named->name)
        named--;
    if (named != f && named->name && named->size)
        add_function(c, m, named);
    return add_function(c, m, f);
}

/* Code without a module: named by what the program wrote about it, or by nothing. */
static uint32_t jit_function(struct collector *c, uint64_t address)
{
    const struct jit_symbol *s = jit_find(&c->jit, address);
    if (!s)
        return CTP_NONE;
    struct key_slot *slot = slot_for(&c->functions, s->start | UINT64_C(1) << 63);
    if (!slot->index_plus_one) {
        struct ctp_function out = {.offset = s->start,
                                   .size = s->size,
                                   .name = profile_add_string(c->writer, s->name),
                                   .module = CTP_NONE};
        slot->index_plus_one = profile_add_function(c->writer, &out) + 1;
    }
    return slot->index_plus_one - 1;
}

/* A word instead of code. */
static uint32_t label_function(struct collector *c, uint32_t label)
{
    static const char *const words[ARENA_LABELS] = {"[file]",     "[socket]", "[pipe]",
                                                    "[terminal]", "[other]",  "[not attributed]"};
    const char *word = label < ARENA_LABELS ? words[label] : "[unknown]";
    struct key_slot *slot = slot_for(&c->functions, label | UINT64_C(3) << 62);
    if (!slot->index_plus_one) {
        struct ctp_function out = {.name = profile_add_string(c->writer, word), .module = CTP_NONE};
        slot->index_plus_one = profile_add_function(c->writer, &out) + 1;
    }
    return slot->index_plus_one - 1;
}

static uint32_t make_frame(struct collector *c, uint64_t key)
{
    uint32_t flags = KEY_FLAGS(key);
    struct ctp_frame out = {.offset = KEY_OFFSET(key), .module = CTP_NONE, .function = CTP_NONE};
    if (flags & KEY_GAP) {
        out.offset = 0;
        out.gap =
            KEY_OFFSET(key) && KEY_OFFSET(key) < CTP_GAP_END ? KEY_OFFSET(key) : CTP_GAP_OTHER;
        return profile_add_frame(c->writer, &out);
    }
    out.flags = (flags & KEY_IS_PC ? 0u : CTP_FRAME_RETURN) |
                (flags & KEY_GUESSED ? CTP_FRAME_GUESSED : 0u);
    if (flags & KEY_ADDRESS) {
        out.offset |= (uint64_t)KEY_MODULE(key) << 32;
        out.function = jit_function(c, out.offset);
        return profile_add_frame(c->writer, &out);
    }
    if (flags & KEY_LABEL) {
        out.offset = 0;
        out.flags = 0;
        out.function = label_function(c, KEY_OFFSET(key));
        return profile_add_frame(c->writer, &out);
    }
    const struct module *m = module_by_id(c, KEY_MODULE(key));
    if (m) {
        out.module = m->index;
        out.function = function_for(c, m, out.offset - (flags & KEY_IS_PC ? 0 : 1));
    }
    return profile_add_frame(c->writer, &out);
}

static uint32_t frame_for(struct collector *c, uint64_t key)
{
    struct key_slot *slot = slot_for(&c->frames, key);
    if (!slot->index_plus_one)
        slot->index_plus_one = make_frame(c, key) + 1;
    return slot->index_plus_one - 1;
}

/* Nodes of one thread, oldest first, which is in order of their places: parents before children. */
struct node_list {
    VEC(const struct arena_node *) items;
};

/* A time of the arena's clock, since 1970. */
static uint64_t since_1970(const struct arena_header *h, uint64_t clock_ns)
{
    return clock_ns ? clock_ns + h->realtime_at_zero_ns : 0;
}

static void list_nodes(const struct collector *c, const struct arena_view *v,
                       const struct arena_thread *t, struct node_list *out)
{
    VEC(const struct arena_chunk *) chunks = {0};
    uint32_t node_bytes = c->metrics.layout.node_bytes;
    uint64_t bytes = chunk_bytes(node_bytes), most = v->size / bytes;
    const struct arena_chunk *k;
    for (uint32_t place = t->first_chunk; most-- && (k = at(v, place, bytes)); place = k->next)
        vec_push(&chunks, k);
    out->items.count = 0;
    for (size_t i = chunks.count; i-- > 0;) {
        uint32_t count = chunks.items[i]->count;
        for (uint32_t n = 0; n < count && n < chunk_nodes(node_bytes); n++)
            vec_push(&out->items, chunk_node(chunks.items[i], node_bytes, n));
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

/* The profile's phase for the number of one in the arena at hand. */
static uint32_t epoch_for(struct collector *c, const struct arena_view *v, uint32_t number)
{
    char name[256] = "";
    uint64_t most = v->size / sizeof(struct arena_phase);
    const struct arena_phase *p;
    for (uint32_t place = ((const struct arena_header *)v->bytes)->first_phase;
         most-- && (p = at(v, place, sizeof *p)); place = p->next) {
        if (p->number != number || p->name_bytes >= sizeof name ||
            !at(v, place, sizeof *p + p->name_bytes))
            continue;
        memcpy(name, p + 1, p->name_bytes);
        break;
    }
    uint32_t text = profile_add_string(c->writer, name);
    for (size_t i = 0; i < c->epochs.count; i++)
        if (c->epochs.items[i] == text)
            return (uint32_t)i;
    vec_push(&c->epochs, text);
    return profile_add_epoch(c->writer, name);
}

/* What the arena does not say of a thread's time: the call that it is still in, and the rest. */
struct thread_times {
    uint32_t waits_in; /* a place */
    struct node_extra waits, rest;
};

static struct thread_times times_of(const struct collector *c, const struct arena_view *v,
                                    const struct arena_thread *t, const struct grown_tree *g)
{
    struct thread_times times = {.waits_in = t->waits_in};
    if (!(c->metrics.layout.events.mask & EVENT_WALL))
        return times;
    const struct arena_header *h = (const struct arena_header *)v->bytes;
    const struct server *s = c->recording->server;
    uint64_t end_ns = t->end_ns ? t->end_ns : c->end_ns, start_ns = t->start_ns;
    uint64_t paused_ns = t->end_ns ? t->paused_ns : arena_paused_ns(h, end_ns);
    paused_ns = paused_ns > t->paused_before_ns ? paused_ns - t->paused_before_ns : 0;
    if (s->window_end_ns && end_ns > s->window_end_ns)
        end_ns = s->window_end_ns;
    if (start_ns < s->window_start_ns)
        start_ns = s->window_start_ns;
    if (times.waits_in && end_ns > t->waits_since_ns)
        times.waits.blocked_ns = end_ns - t->waits_since_ns;
    uint64_t known_ns = times.waits.blocked_ns;
    for (size_t i = 0; i < g->items.count; i++) {
        const struct arena_node *n = g->items.items[i].measured;
        if (n)
            known_ns += n->count * c->metrics.period_ns +
                        *node_value(&c->metrics.layout, n, VALUE_BLOCKED_NS);
    }
    known_ns += paused_ns;
    if (end_ns > start_ns && end_ns - start_ns > known_ns)
        times.rest.elapsed_ns = end_ns - start_ns - known_ns;
    return times;
}

/* Threads have a node for what is not attributed, where an event can tell that there is some. */
static bool has_rest(const struct collector *c)
{
    return (c->metrics.layout.events.mask & (EVENT_WALL | EVENT_IO)) || c->recording->perf;
}

static void write_rest(struct collector *c, uint32_t root, const struct thread_times *times)
{
    uint32_t frame = frame_for(c, KEY_MAKE(0, KEY_LABEL, LABEL_NOT_ATTRIBUTED));
    profile_write_nodes(c->writer, &root, &frame, 1);
    struct node_extra rest = times->rest;
    if (c->recording->perf &&
        !c->has_written_rest) /* nobody knows whose: the first thread has it */
        rest.perf = c->perf_rest;
    c->has_written_rest = true;
    rest.read_bytes = c->io_rest[0];
    rest.written_bytes = c->io_rest[1];
    memset(c->io_rest, 0, sizeof c->io_rest);
    metrics_write(&c->metrics, c->writer, NULL, 0, &rest);
}

/* A thread of which nothing else is known has a root for it, too. */
static uint32_t nodes_of_rest(const struct collector *c, const struct grown_tree *g)
{
    return !has_rest(c) ? 0 : g->items.count ? 1 : 2;
}

static void write_rest_only(struct collector *c, const struct arena_view *v,
                            const struct arena_thread *t, const struct grown_tree *g,
                            uint32_t thread, uint32_t *next_node)
{
    static const struct node_extra nothing;
    uint32_t none = CTP_NONE, root = *next_node;
    struct thread_times times = times_of(c, v, t, g);
    profile_add_root(c->writer, thread, CTP_NONE);
    profile_write_nodes(c->writer, &none, &none, 1);
    metrics_write(&c->metrics, c->writer, NULL, 0, &nothing);
    write_rest(c, root, &times);
    *next_node += 2;
}

/*
 * A tree for each phase, and first the one of no phase, whose root is the thread's. `root[i]` is
 * the first node of the tree that node i is in, `number[i]` its number in the profile.
 */
static void write_tree(struct collector *c, const struct arena_view *v, const struct grown_tree *g,
                       uint32_t thread, size_t first, const uint32_t *root, uint32_t *number,
                       uint32_t *next_node, const struct thread_times *times)
{
    const struct arena_header *h = (const struct arena_header *)v->bytes;
    uint32_t phase = KEY_OFFSET(g->items.items[first].key), tree_root = *next_node;
    profile_add_root(c->writer, thread, first ? epoch_for(c, v, phase) : CTP_NONE);
    for (size_t i = first; i < g->items.count; i++) {
        if (root[i] != first)
            continue;
        const struct grown_node *n = &g->items.items[i];
        uint32_t parent = i == first ? CTP_NONE : number[n->parent];
        uint32_t frame = i == first ? CTP_NONE : frame_for(c, n->key);
        bool waits = times->waits_in && n->measured &&
                     (const char *)n->measured == v->bytes + (uint64_t)times->waits_in * 8;
        struct node_extra extra = {.calls = n->calls,
                                   .height = n->height,
                                   .height_varies = n->height_varies,
                                   .perf = n->perf,
                                   .blocked_ns = waits ? times->waits.blocked_ns : 0};
        number[i] = (*next_node)++;
        profile_write_nodes(c->writer, &parent, &frame, 1);
        metrics_write(&c->metrics, c->writer, n->measured, h->heap_peak, &extra);
    }
    if (!first && has_rest(c)) {
        write_rest(c, tree_root, times);
        (*next_node)++;
    }
}

static void write_thread(struct collector *c, const struct arena_view *v,
                         const struct arena_thread *t, const struct grown_tree *g, uint32_t thread,
                         uint32_t *next_node)
{
    size_t count = g->items.count;
    uint32_t *root = must_calloc(count, sizeof *root), *number = must_calloc(count, sizeof *number);
    VEC(uint32_t) roots = {0};
    vec_push(&roots, 0);
    for (uint32_t i = 1; i < count; i++) {
        const struct grown_node *n = &g->items.items[i];
        root[i] = root[n->parent];
        if (n->parent == 0 && (KEY_FLAGS(n->key) & KEY_PHASE)) {
            root[i] = i;
            vec_push(&roots, i);
        }
    }
    struct thread_times times = times_of(c, v, t, g);
    for (size_t i = 0; i < roots.count; i++)
        write_tree(c, v, g, thread, roots.items[i], root, number, next_node, &times);
    vec_free(&roots);
    free(root);
    free(number);
}

static void add_thread_totals(struct totals *sum, const struct arena_thread *t)
{
    sum->samples += t->samples;
    sum->complete += t->ends[WALK_COMPLETE];
    sum->walked += t->frames_walked;
    sum->checked += t->verify_checked;
    sum->differ += t->verify_differ;
    sum->lost += t->fired > t->arrived ? t->fired - t->arrived : 0;
    sum->merged += t->merged;
    sum->handler_ticks += t->handler_ticks;
    sum->marks_set += t->marks_set;
    sum->bounces += t->bounces;
    sum->reused += t->frames_reused;
    sum->stale += t->stale_marks;
    for (unsigned i = 0; i < ARENA_SLOW; i++)
        sum->slow[i] += t->slow[i];
    sum->bursts += t->bursts;
    sum->calls_in_bursts += t->calls_in_bursts;
    sum->calls_between += t->calls_between;
    for (unsigned i = 0; i < ARENA_HISTOGRAM; i++)
        sum->histogram[i] += t->handler_histogram[i];
}

static void add_totals(struct totals *sum, const struct totals *part)
{
    sum->samples += part->samples;
    sum->complete += part->complete;
    sum->walked += part->walked;
    sum->checked += part->checked;
    sum->differ += part->differ;
    sum->marks_set += part->marks_set;
    sum->bounces += part->bounces;
    sum->reused += part->reused;
    sum->stale += part->stale;
    sum->calls += part->calls;
    sum->records += part->records;
    for (unsigned i = 0; i < ARENA_SLOW; i++)
        sum->slow[i] += part->slow[i];
    sum->sites += part->sites;
    sum->bursts += part->bursts;
    sum->calls_in_bursts += part->calls_in_bursts;
    sum->calls_between += part->calls_between;
    sum->sites_not_edited += part->sites_not_edited;
    sum->lost += part->lost;
    sum->merged += part->merged;
    sum->handler_ticks += part->handler_ticks;
    sum->arena_bytes += part->arena_bytes;
    sum->threads_not_sampled += part->threads_not_sampled;
    sum->utime_s += part->utime_s;
    sum->stime_s += part->stime_s;
    for (unsigned i = 0; i < ARENA_HISTOGRAM; i++)
        sum->histogram[i] += part->histogram[i];
}

/* The samples of a thread: nodes whose parents come before them. */
static void grow_samples(struct grown_tree *g, const struct collector *c,
                         const struct arena_view *v, const struct arena_thread *t)
{
    struct node_list list = {0};
    VEC(uint32_t) indices = {0};
    list_nodes(c, v, t, &list);
    for (size_t i = 0; i < list.items.count; i++) {
        const struct arena_node *n = list.items.items[i];
        uint32_t parent = i ? index_of(v, &list, n->parent, i) : CTP_NONE;
        uint32_t index =
            i ? grown_child(g, parent == CTP_NONE ? 0 : indices.items[parent], n->key) : 0;
        g->items.items[index].measured = n;
        vec_push(&indices, index);
    }
    vec_free(&indices);
    vec_free(&list.items);
}

/*
 * A record's own node is its function's entry; what it calls hangs below the node of the place from
 * where it calls, as the frames of a walked stack do.
 */
struct record_tables {          /* from a record's place to … */
    struct key_table nodes;     /* the node that its callees hang below, and to */
    struct key_table outermost; /* the slot of the outermost record that has one */
};

static void add_calls(struct grown_tree *g, struct record_tables *known,
                      const struct arena_record *r, uint32_t place, uint64_t count)
{
    struct key_table *places = &known->nodes;
    struct key_slot *parent = slot_for(places, r->parent);
    uint32_t above = parent->index_plus_one ? parent->index_plus_one - 1 : 0;
    uint32_t caller = r->site ? grown_child(g, above, r->site) : above;
    uint32_t node = r->callee ? grown_child(g, caller, r->callee) : caller;
    bool is_gap = r->callee && (KEY_FLAGS(r->callee) & KEY_GAP);
    slot_for(places, place)->index_plus_one = (is_gap ? node : caller) + 1;
    g->calls += count;
    g->records++;
    uint32_t outermost = slot_for(&known->outermost, r->parent)->index_plus_one;
    slot_for(&known->outermost, place)->index_plus_one = outermost ? outermost : r->slot;
    if (r->callee) {
        struct grown_node *n = &g->items.items[node];
        uint32_t height = outermost && r->slot ? outermost - r->slot : 0;
        /* Several records of one context: of a function that was bound after its first call. */
        n->height_varies |= (r->flags & RECORD_VARIES) || (n->calls && n->height != height);
        n->height = height;
        n->calls += count;
    }
}

static uint64_t calls_of(const struct arena_view *v, const struct arena_record *r, uint64_t offset)
{
    if (!v->before.bytes || offset + sizeof *r > v->before.size)
        return r->count;
    const struct arena_record *then = (const void *)(v->before.bytes + offset);
    return r->count > then->count ? r->count - then->count : 0;
}

/* What the calls of bursts stand for: all calls of the thread. */
static uint64_t all_calls(const struct arena_thread *t, uint64_t calls)
{
    if (!t->calls_in_bursts)
        return calls;
    double scale = 1 + (double)t->calls_between / (double)t->calls_in_bursts;
    double scaled = (double)calls * scale;
    return scaled < 0x1p62 ? (uint64_t)(scaled + 0.5) : calls;
}

/* The calls of a thread: records whose parents come before them. */
static void grow_calls(struct grown_tree *g, const struct arena_view *v,
                       const struct arena_thread *t)
{
    struct record_tables known = {0};
    VEC(const struct arena_record_chunk *) chunks = {0};
    uint64_t most = v->size / sizeof(struct arena_record_chunk);
    uint64_t left = v->size / ARENA_RECORD_ALIGN;
    const struct arena_record_chunk *k;
    for (uint32_t place = t->first_record_chunk; most-- && (k = at(v, place, sizeof *k));
         place = k->next)
        vec_push(&chunks, k);
    for (size_t i = chunks.count; i-- > 0;) {
        uint64_t start =
            (uint64_t)((const char *)chunks.items[i] - v->bytes) + chunks.items[i]->start;
        uint32_t used = chunks.items[i]->used, room = chunks.items[i]->room;
        uint64_t end = start + (used < room ? used : room);
        const struct arena_record *r;
        for (uint64_t next = start;
             next < end && left-- && (r = at(v, (uint32_t)(next / 8), sizeof *r));
             next += r->enter ? arena_record_bytes(r->site_count) : ARENA_RECORD_ALIGN)
            if (r->enter) /* or its bytes were taken, and it was never made */
                add_calls(g, &known, r, (uint32_t)(next / 8), all_calls(t, calls_of(v, r, next)));
    }
    vec_free(&chunks);
    free_table(&known.nodes);
    free_table(&known.outermost);
}

static void grow_tree(struct grown_tree *g, const struct collector *c, const struct arena_view *v,
                      const struct arena_thread *t)
{
    *g = (struct grown_tree){0};
    const struct arena_header *h = (const struct arena_header *)v->bytes;
    const struct perf_samples *perf = c->recording->perf;
    bool has_perf = perf && perf_samples_has(perf, h, t);
    if (!t->first_chunk && !t->first_record_chunk && !has_perf)
        return;
    grown_child(g, CTP_NONE, KEY_MAKE(0, KEY_ROOT, 0));
    grow_samples(g, c, v, t);
    grow_calls(g, v, t);
    if (has_perf)
        perf_samples_grow(perf, h, t, g);
}

/* Visits the threads of an arena, oldest first. */
typedef void thread_fn(struct collector *c, const struct arena_view *v,
                       const struct arena_thread *t, uint32_t process, uint32_t *next_node);

static void count_thread(struct collector *c, const struct arena_view *v,
                         const struct arena_thread *t, uint32_t process, uint32_t *next_node)
{
    struct grown_tree tree;
    (void)process;
    grow_tree(&tree, c, v, t);
    *next_node += (uint32_t)tree.items.count + nodes_of_rest(c, &tree);
    vec_push(&c->trees, tree);
}

static void add_thread(struct collector *c, const struct arena_view *v,
                       const struct arena_thread *t, uint32_t process, uint32_t *next_node)
{
    if (c->next_count == c->last_count)
        return; /* it came after they were counted */
    struct grown_tree *tree = &c->trees.items[c->next_count++];
    char name[ARENA_NAME_BYTES + 1] = "";
    const struct arena_header *h = (const struct arena_header *)v->bytes;
    memcpy(name, t->name, ARENA_NAME_BYTES);
    struct ctp_thread out = {.process = process,
                             .tid = t->tid,
                             .name = profile_add_string(c->writer, name),
                             .creator = CTP_NONE,
                             .start_ns = since_1970(h, t->start_ns),
                             .end_ns = since_1970(h, t->end_ns)};
    uint32_t thread = profile_add_thread(c->writer, &out);
    if (tree->items.count)
        write_thread(c, v, t, tree, thread, next_node);
    else if (has_rest(c))
        write_rest_only(c, v, t, tree, thread, next_node);
    c->process.calls += tree->calls;
    c->process.records += tree->records;
    free_grown(tree);
    add_thread_totals(&c->process, t);
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

/* A process that became another program ended there; the others said so, or were seen no more. */
static void add_end(const struct server *s, size_t i, struct ctp_process *out)
{
    const struct server_arena *a = &s->arenas.items[i];
    uint64_t end_ns = a->is_gone ? a->header->said_ns : 0;
    if (a->is_gone && !end_ns)
        end_ns = a->gone_ns;
    for (size_t k = i + 1; k < s->arenas.count && out->exit_kind == CTP_EXIT_UNKNOWN; k++) {
        if (s->arenas.items[k].pid == a->pid) {
            end_ns = s->arenas.items[k].header->start_ns;
            out->exit_kind = CTP_EXIT_EXEC;
        }
    }
    out->end_ns = since_1970(a->header, end_ns);
}

/* By the arena's clock; of one that goes on, now. */
static uint64_t end_of(const struct server *s, size_t i)
{
    const struct server_arena *a = &s->arenas.items[i];
    for (size_t k = i + 1; k < s->arenas.count; k++)
        if (s->arenas.items[k].pid == a->pid)
            return s->arenas.items[k].header->start_ns;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    uint64_t now_ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
    uint64_t said_ns = a->header->said_ns;
    if (said_ns && !server_arena_in_use(s, i))
        return said_ns;
    return a->is_gone && a->gone_ns ? a->gone_ns : now_ns;
}

/* Children that were seen, but never said hello. */
static void add_unattached(struct collector *c)
{
    const struct server *s = c->recording->server;
    for (size_t i = 0; i < s->strangers.count; i++) {
        const struct server_stranger *stranger = &s->strangers.items[i];
        struct ctp_process out = {.pid = stranger->pid,
                                  .parent = stranger->parent,
                                  .command = profile_add_string(c->writer, stranger->program),
                                  .flags = CTP_PROCESS_UNATTACHED};
        bool is_known = false;
        for (size_t k = 0; k < s->arenas.count && !is_known; k++)
            is_known = s->arenas.items[k].pid == stranger->pid;
        if (!is_known)
            profile_add_process(c->writer, &out, 0, NULL);
    }
}

static uint32_t add_process(struct collector *c, size_t i)
{
    const struct server *s = c->recording->server;
    const struct server_arena *a = &s->arenas.items[i];
    struct ctp_process out = {.pid = (uint32_t)a->pid,
                              .parent = CTP_NONE,
                              .command = profile_add_string(c->writer, a->header->program),
                              .start_ns = since_1970(a->header, a->header->start_ns)};
    for (size_t k = 0; k < i; k++) {
        if (s->arenas.items[k].pid == a->pid) {
            out.parent = (uint32_t)k;
            out.flags = CTP_PROCESS_EXEC;
        } else if (s->arenas.items[k].pid == a->parent_pid) {
            out.parent = (uint32_t)k;
            out.flags = 0;
        }
    }
    add_end(s, i, &out);
    if (out.exit_kind != CTP_EXIT_UNKNOWN) {
        ;
    } else if (i == 0 && WIFEXITED(c->recording->wait_status)) {
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

static double percentile_ns(const struct totals *t, double share, double ticks_per_ns)
{
    uint64_t total = 0, seen = 0;
    for (unsigned i = 0; i < ARENA_HISTOGRAM; i++)
        total += t->histogram[i];
    for (unsigned i = 0; i < ARENA_HISTOGRAM; i++) {
        seen += t->histogram[i];
        if (total && (double)seen >= share * (double)total) /* the middle of the bucket */
            return (double)(histogram_least(i) + histogram_least(i + 1)) / 2 / ticks_per_ns;
    }
    return 0;
}

static const char *const slow_names[SLOW_REASONS] = {[SLOW_NEW] = "slow_new_contexts",
                                                     [SLOW_RESYNC] = "slow_resyncs",
                                                     [SLOW_UNCOUNTED] = "slow_uncounted",
                                                     [SLOW_OTHER] = "slow_others"};

static void add_facts(struct collector *c, enum ctp_scope scope, uint32_t index,
                      const struct totals *t)
{
    struct profile_writer *w = c->writer;
    double ticks = c->recording->ticks_per_ns;
    if (c->metrics.layout.events.mask & EVENTS_BY_SAMPLES) {
        profile_fact_u64(w, scope, index, "samples", t->samples);
        profile_fact_f64(w, scope, index, "rate_asked_hz", (double)c->recording->options->rate_hz);
        /* Of stacks that were looked at: a sample that stands for several makes it no faster. */
        profile_fact_f64(w, scope, index, "rate_got_hz",
                         t->utime_s > 0 ? (double)(t->samples - t->merged) / t->utime_s : 0);
        profile_fact_u64(w, scope, index, "lost", t->lost);
        profile_fact_u64(w, scope, index, "merged", t->merged);
    }
    profile_fact_u64(w, scope, index, "arena_bytes", t->arena_bytes);
    profile_fact_u64(w, scope, index, "threads_not_sampled", t->threads_not_sampled);
    profile_fact_u64(w, scope, index, "walks_complete", t->complete);
    profile_fact_u64(w, scope, index, "walks_total", t->samples);
    profile_fact_f64(w, scope, index, "handler_ns_p50", percentile_ns(t, 0.5, ticks));
    profile_fact_f64(w, scope, index, "handler_ns_p99", percentile_ns(t, 0.99, ticks));
    profile_fact_f64(w, scope, index, "handler_s", (double)t->handler_ticks / ticks / 1e9);
    profile_fact_f64(w, scope, index, "frames_walked_per_sample",
                     t->samples ? (double)t->walked / (double)t->samples : 0);
    if (c->has_returns) {
        profile_fact_u64(w, scope, index, "marks_set", t->marks_set);
        profile_fact_u64(w, scope, index, "bounces", t->bounces);
        profile_fact_u64(w, scope, index, "frames_reused", t->reused);
        profile_fact_u64(w, scope, index, "stale_marks", t->stale);
    }
    if (c->has_calls) {
        profile_fact_u64(w, scope, index, "calls", t->calls);
        profile_fact_u64(w, scope, index, "call_records", t->records);
        for (unsigned i = 0; i < SLOW_REASONS; i++)
            profile_fact_u64(w, scope, index, slow_names[i], t->slow[i]);
        profile_fact_u64(w, scope, index, "sites", t->sites);
        profile_fact_u64(w, scope, index, "sites_not_edited", t->sites_not_edited);
    }
    profile_fact_u64(w, scope, index, "verify_checked", t->checked);
    profile_fact_u64(w, scope, index, "verify_differ", t->differ);
    profile_fact_f64(w, scope, index, "utime_s", t->utime_s);
    profile_fact_f64(w, scope, index, "stime_s", t->stime_s);
}

static const char *source_name(uint32_t source)
{
    return source == SOURCE_PERF    ? "perf task-clock, user mode"
           : source == SOURCE_TIMER ? "CPU-time timers: perf events are not permitted here"
                                    : "none";
}

/*
 * Of the bytes that the kernel counts for a process, those that have no context. Its counters go on
 * over exec, so they are looked at with the process's last arena.
 */
static void find_io_rest(struct collector *c, size_t i)
{
    const struct server *s = c->recording->server;
    const struct server_arena *a = &s->arenas.items[i];
    uint64_t read = 0, written = 0;
    memset(c->io_rest, 0, sizeof c->io_rest);
    if (!a->has_io || !c->is_whole || a->header->was_paused)
        return;
    for (size_t k = 0; k <= i; k++) {
        if (s->arenas.items[k].pid == a->pid) {
            read += s->arenas.items[k].header->io_read;
            written += s->arenas.items[k].header->io_written;
        }
    }
    c->io_rest[0] = a->io_read > read ? a->io_read - read : 0;
    c->io_rest[1] = a->io_written > written ? a->io_written - written : 0;
}

static void collect_arena(struct collector *c, size_t i, uint32_t *nodes)
{
    struct server_arena *a = &c->recording->server->arenas.items[i];
    const struct arena_header *h = a->header;
    struct arena_view v = view_of(a);
    c->process = (struct totals){0};
    c->jit = (struct jit_map){0};
    jit_read(&c->jit, h->pid);
    uint32_t process = add_process(c, i);
    c->end_ns = end_of(c->recording->server, i);
    open_modules(c, &v, h->program);
    find_io_rest(c, i);
    each_thread(c, &v, process, nodes, add_thread);
    c->process.arena_bytes = h->used;
    c->process.sites = h->sites;
    c->process.sites_not_edited = h->sites_not_edited;
    for (unsigned k = 0; k < ARENA_LOSSES; k++)
        c->process.lost += h->lost[k];
    c->process.threads_not_sampled = h->threads_not_sampled;
    c->process.utime_s = h->utime_ns ? (double)h->utime_ns / 1e9 : a->utime_s;
    c->process.stime_s = h->utime_ns ? (double)h->stime_ns / 1e9 : a->stime_s;
    add_facts(c, CTP_SCOPE_PROCESS, process, &c->process);
    profile_fact_string(c->writer, CTP_SCOPE_PROCESS, process, "sampled_by",
                        source_name(h->source));
    add_totals(&c->all, &c->process);
    c->modules.count = 0;
    free_table(&c->frames);
    free_table(&c->functions);
    jit_free(&c->jit);
}

/* How each perf event could be had, and what became of it. */
static void add_perf(struct collector *c, const struct perf_samples *perf)
{
    const struct perf_wanted *wanted = perf->rings.wanted;
    metrics_add_perf(&c->metrics, c->writer, wanted);
    for (uint32_t i = 0; i < wanted->count; i++) {
        struct perf_count count = perf_rings_count(&perf->rings, i);
        uint32_t metric = c->metrics.perf[i];
        uint64_t known = perf->counted[i] + perf->paused[i];
        c->perf_rest[i] = count.count > known ? count.count - known : 0;
        profile_fact_u64(c->writer, CTP_SCOPE_METRIC, metric, "samples", perf->samples[i]);
        profile_fact_u64(c->writer, CTP_SCOPE_METRIC, metric, "lost", perf->rings.got[i].lost);
        profile_fact_u64(c->writer, CTP_SCOPE_METRIC, metric, "walks_complete", perf->complete[i]);
        profile_fact_u64(c->writer, CTP_SCOPE_METRIC, metric, "walks_total", perf->samples[i]);
        profile_fact_u64(c->writer, CTP_SCOPE_METRIC, metric, "kernel_count", count.count);
        profile_fact_u64(c->writer, CTP_SCOPE_METRIC, metric, "paused_count", perf->paused[i]);
        profile_fact_f64(c->writer, CTP_SCOPE_METRIC, metric, "counted_share",
                         count.enabled_ns ? (double)count.running_ns / (double)count.enabled_ns
                                          : 0);
        profile_fact_u64(c->writer, CTP_SCOPE_METRIC, metric, "precise_ip",
                         perf->rings.got[i].precise);
        profile_fact_string(c->writer, CTP_SCOPE_METRIC, metric, "counted_in",
                            perf->rings.got[i].user_only ? "user mode: the rest is not permitted"
                                                         : "user mode and the kernel");
    }
}

int collect_profile(const struct recording *recording, struct ct_error *err)
{
    struct collector c = {.recording = recording};
    const struct server *s = recording->server;
    CT_TRY(profile_writer_open(recording->options->output, &c.writer, err));
    c.has_returns = (s->flags & CHANNEL_TRAMPOLINE) && (s->events.mask & EVENTS_BY_SAMPLES);
    c.is_whole = recording->options->delay_s == 0 && recording->options->duration_s == 0;
    c.has_calls = s->flags & CHANNEL_EXACT;
    metrics_add(&c.metrics, c.writer, &s->events, s->period_ns,
                &(struct metrics_wanted){.returns = c.has_returns,
                                         .calls = c.has_calls,
                                         .bursts = s->burst_ns,
                                         .heights = s->flags & CHANNEL_HEIGHT});
    if (recording->perf)
        add_perf(&c, recording->perf);
    uint32_t nodes = 0;
    VEC(size_t) last_counts = {0};
    for (size_t i = 0; i < s->arenas.count; i++) {
        struct arena_view v = view_of(&s->arenas.items[i]);
        each_thread(&c, &v, 0, &nodes, count_thread);
        vec_push(&last_counts, c.trees.count);
    }
    profile_begin_nodes(c.writer, nodes);
    nodes = 0;
    for (size_t i = 0; i < s->arenas.count; i++) {
        c.last_count = last_counts.items[i];
        collect_arena(&c, i, &nodes);
    }
    add_unattached(&c);
    if (recording->has_usage) { /* the kernel's own sum, where there is one, is better */
        c.all.utime_s = recording->utime_s;
        c.all.stime_s = recording->stime_s;
    }
    add_facts(&c, CTP_SCOPE_PROFILE, 0, &c.all);
    if (s->burst_ns && c.metrics.calls != CTP_NONE) {
        uint32_t calls = c.metrics.calls;
        profile_fact_i64(c.writer, CTP_SCOPE_METRIC, calls, "burst_on_ns", (int64_t)s->burst_ns);
        profile_fact_i64(c.writer, CTP_SCOPE_METRIC, calls, "burst_period_ns",
                         (int64_t)s->period_ns);
        profile_fact_u64(c.writer, CTP_SCOPE_METRIC, calls, "bursts", c.all.bursts);
        profile_fact_u64(c.writer, CTP_SCOPE_METRIC, calls, "calls_in_bursts",
                         c.all.calls_in_bursts);
        profile_fact_u64(c.writer, CTP_SCOPE_METRIC, calls, "calls_made",
                         c.all.calls_in_bursts + c.all.calls_between);
    }
    if (s->k && c.metrics.calls != CTP_NONE)
        profile_fact_i64(c.writer, CTP_SCOPE_METRIC, c.metrics.calls, "callers_kept", s->k);
    if (s->window_start_ns && s->window_end_ns > s->window_start_ns) /* --delay, --duration */
        profile_fact_f64(c.writer, CTP_SCOPE_PROFILE, 0, "measured_s",
                         (double)(s->window_end_ns - s->window_start_ns) / 1e9);
    if (c.metrics.cpu != CTP_NONE)
        add_facts(&c, CTP_SCOPE_METRIC, c.metrics.cpu, &c.all);
    vec_free(&c.modules);
    vec_free(&c.epochs);
    vec_free(&c.trees);
    vec_free(&last_counts);
    return profile_writer_commit(c.writer, err);
}
