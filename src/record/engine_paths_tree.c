/*
 * Counters become nodes: below each function the blocks of its paths, in their order. Paths that
 * begin alike share their first blocks, and the count is that of the last. The numbers mean what
 * they meant when the copies were made: the graph of a function is made again from its module.
 */
#include "record/engine_paths_tree.h"

#include "flow/flow_plan.h"
#include "record/server.h"
#include "runtime/paths/paths_format.h"

#include <string.h>

struct paths_module {
    uint32_t id;
    bool is_good;
    struct plan plan;
    struct map map;
    struct elf_file file;
    struct flow_module flow;
};

struct paths_tree {
    struct map_cache *cache;
    const struct arena_header *header;
    bool has_process; /* its sums are added */
    VEC(struct paths_module *) modules;
};

void *paths_tree_begin(const struct server *s, const struct arena_view *v)
{
    struct paths_tree *t = must_calloc(1, sizeof *t);
    t->cache = (struct map_cache *)&s->maps.cache;
    t->header = view_header(v);
    return t;
}

void paths_tree_end(void *state)
{
    struct paths_tree *t = state;
    for (size_t i = 0; i < t->modules.count; i++) {
        struct paths_module *m = t->modules.items[i];
        if (m->is_good) {
            flow_module_end(&m->flow);
            elf_close(&m->file);
            map_close(&m->map);
            plan_close(&m->plan);
        }
        free(m);
    }
    vec_free(&t->modules);
    free(t);
}

static bool open_module(struct map_cache *cache, const char *path, struct paths_module *m)
{
    if (plan_of_kind(&flow_plans, cache, path, &m->plan, NULL) != CT_OK)
        return false;
    if (map_for_file(cache, path, &m->map, NULL, NULL) == CT_OK) {
        if (elf_open(path, &m->file, NULL) == CT_OK) {
            flow_module_open(&m->flow, &m->file, &m->map);
            return true;
        }
        map_close(&m->map);
    }
    plan_close(&m->plan);
    return false;
}

static struct paths_module *module_of(struct paths_tree *t, const struct arena_view *v, uint32_t id)
{
    for (size_t i = 0; i < t->modules.count; i++)
        if (t->modules.items[i]->id == id)
            return t->modules.items[i];
    struct paths_module *m = must_calloc(1, sizeof *m);
    m->id = id;
    vec_push(&t->modules, m);
    for (struct module_walk w = module_walk_begin(v); module_walk_next(&w);)
        if (w.module->id == id) {
            m->is_good = open_module(t->cache, w.path, m);
            break;
        }
    return m;
}

static uint64_t key_of(uint32_t module_id, uint32_t offset)
{
    return KEY_MAKE(module_id, KEY_IS_PC, offset);
}

/* One path: the node of its last block has its count. */
static void add_path(struct grown_tree *g, const struct routine *r, uint32_t function, uint32_t id,
                     uint64_t number, uint64_t count)
{
    enum { MOST_EDGES = 1 << 16 };
    static uint32_t edges[MOST_EDGES];
    uint32_t length = flow_path(&r->graph, number, edges, MOST_EDGES), node = function;
    for (uint32_t k = 0; k < length && k < MOST_EDGES; k++) {
        uint32_t to = r->graph.edges.items[edges[k]].to;
        if (to >= FLOW_FIRST)
            node = grown_child(g, node, key_of(id, r->blocks.items[to - FLOW_FIRST].offset));
    }
    *grown_value(g, node, 0) += count;
    g->sums[PATHS_COUNTED] += count;
    g->sums[PATHS_SEEN]++;
}

static void add_routine(struct grown_tree *g, struct paths_module *m,
                        const struct plan_routine *entry, const uint64_t *counters)
{
    struct routine r;
    bool is_seen = false;
    for (uint32_t k = 0; k < entry->paths && !is_seen; k++)
        is_seen = counters[k];
    if (!is_seen)
        return;
    routine_read(&m->flow, entry->start, 0, &r);
    if (!r.reason && routine_number(&r, PLAN_MOST_PATHS) && r.graph.paths == entry->paths) {
        uint32_t function = grown_child(g, 0, key_of(m->id, entry->start));
        g->sums[PATHS_FUNCTIONS]++;
        for (uint32_t k = 0; k < entry->paths; k++)
            if (counters[k])
                add_path(g, &r, function, m->id, k, counters[k]);
    }
    routine_free(&r);
}

static void add_area(struct paths_tree *t, struct grown_tree *g, const struct arena_view *v,
                     const struct paths_area *area)
{
    const uint64_t count = area->count;
    struct paths_module *m = module_of(t, v, area->module_id);
    if (!m->is_good || count != m->plan.header->counter_count ||
        !view_holds(v, area->counters, count * sizeof(uint64_t)))
        return;
    for (uint64_t k = m->plan.header->path_count; k < count; k++)
        g->sums[PATHS_LOST] += area->counters[k];
    for (uint32_t k = 0; k < m->plan.routine_count; k++) {
        const struct plan_routine *entry = &m->plan.routines[k];
        if (entry->paths && entry->first <= count && entry->paths <= count - entry->first)
            add_routine(g, m, entry, area->counters + entry->first);
    }
}

void paths_tree_grow(void *state, const struct arena_view *v, const struct arena_thread *thread,
                     struct grown_tree *g)
{
    struct paths_tree *t = state;
    const struct paths_thread *said = paths_thread_in(thread);
    const struct paths_area *area;
    if (!t->has_process) {
        const struct paths_process *process = paths_process_in(t->header);
        g->sums[PATHS_RELOCATED] += process->functions;
        g->sums[PATHS_NOT_RELOCATED] += process->others;
        t->has_process = true;
    }
    g->sums[PATHS_WITHOUT] += said->modules_without;
    if (said->first_area)
        grown_root(g);
    VIEW_EACH(v, said->first_area, area)
        add_area(t, g, v, area);
}
