/*
 * The trace of a recording: every call and return, from the contexts that the runtime wrote down
 * one after the other. A context says who is active: what is on the stack and not among its callers
 * has returned, and callers that are not on the stack were called meanwhile, by code that is not
 * edited.
 */
#include "record/trace_file.h"

#include "base/key_set.h"
#include "record/arena_view.h"
#include "runtime/exact/exact_format.h"
#include "trace/trace.h"

#include <inttypes.h>
#include <string.h>

struct traced_module {
    uint32_t id;
    const char *name; /* its path's last part, in the arena's copy below */
    const struct map *map;
};

struct tracer {
    struct server *server;
    struct trace_writer *writer;
    struct key_set functions,
        labels; /* of the current process: by key; by keys of site and callee */
    VEC(uint32_t) function_numbers, label_numbers; /* in the trace */
    VEC(struct traced_module) modules;             /* of the current process */
    uint32_t next_function, next_label, next_thread;
};

static void read_modules(struct tracer *t, const struct arena_view *a)
{
    struct module_walk walk = module_walk_begin(a);
    while (module_walk_next(&walk)) {
        const char *slash = strrchr(walk.path, '/');
        vec_push(&t->modules,
                 (struct traced_module){walk.module->id, must_strdup(slash ? slash + 1 : walk.path),
                                        module_walk_map(&walk, &t->server->maps)});
    }
}

static uint32_t add_function(struct tracer *t, const char *name, const char *module)
{
    trace_add_function(t->writer, name, module);
    return t->next_function++;
}

/* The function of a callee's key, with the name that a profile has for it. */
static uint32_t function_of(struct tracer *t, uint64_t key)
{
    uint32_t before = t->functions.count, number = key_set_add(&t->functions, &key);
    if (number < before)
        return t->function_numbers.items[number];
    const struct traced_module *m = NULL;
    for (size_t i = 0; i < t->modules.count && !(KEY_FLAGS(key) & (KEY_ADDRESS | KEY_GAP)); i++)
        if (t->modules.items[i].id == KEY_MODULE(key))
            m = &t->modules.items[i];
    const struct map_function *f = m && m->map ? map_find_function(m->map, KEY_OFFSET(key)) : NULL;
    if (f)
        f = map_whole_of(m->map, f);
    uint32_t function;
    if (f && f->name) {
        function = add_function(t, map_string(m->map, f->name), m->name);
    } else {
        char *name =
            KEY_FLAGS(key) & KEY_GAP ? must_strdup("(context not known)")
            : m ? must_format("%s+0x%" PRIx64, m->name, (uint64_t)(f ? f->start : KEY_OFFSET(key)))
                : must_format("0x%" PRIx64, (uint64_t)KEY_MODULE(key) << 32 | KEY_OFFSET(key));
        function = add_function(t, name, "");
        free(name);
    }
    vec_push(&t->function_numbers, function);
    return function;
}

static uint32_t label_of(struct tracer *t, const struct arena_record *r)
{
    uint64_t key[2] = {r->site, r->callee};
    uint32_t before = t->labels.count, number = key_set_add(&t->labels, key);
    if (number == before) {
        trace_add_label(t->writer, function_of(t, r->callee), KEY_OFFSET(r->site));
        vec_push(&t->label_numbers, t->next_label++);
    }
    return t->label_numbers.items[number];
}

/* The stack of a thread: places of records, and for each record its position in it, plus one. */
struct active {
    VEC(uint32_t) places;
    uint32_t *positions; /* by the place in units of ARENA_RECORD_ALIGN */
};

static uint32_t *position_of(const struct active *stack, uint32_t place)
{
    return &stack->positions[(uint64_t)place * 8 / ARENA_RECORD_ALIGN];
}

static bool is_active(const struct active *stack, uint32_t place)
{
    uint32_t position = *position_of(stack, place);
    return position && position <= stack->places.count &&
           stack->places.items[position - 1] == place;
}

/*
 * A function that was bound after its first call has two records for one context: the one that was
 * called is not the one that calls. Is what is active just inside the parent the same context?
 */
static bool is_active_as_another(const struct arena_view *a, struct active *stack, uint32_t place,
                                 const struct arena_record *r)
{
    const struct arena_record *parent = view_at(a, r->parent, sizeof *parent);
    if (!parent || (parent->parent && !is_active(stack, r->parent)))
        return false;
    uint32_t inside = parent->parent ? *position_of(stack, r->parent) : 0;
    if (inside >= stack->places.count)
        return false;
    const struct arena_record *other = view_at(a, stack->places.items[inside], sizeof *other);
    if (other->parent != r->parent || other->site != r->site || other->callee != r->callee)
        return false;
    stack->places.items[inside] = place;
    *position_of(stack, place) = inside + 1;
    return true;
}

static void write_call(struct tracer *t, struct active *stack, uint32_t place,
                       const struct arena_record *r)
{
    trace_write_call(t->writer, label_of(t, r));
    vec_push(&stack->places, place);
    *position_of(stack, place) = (uint32_t)stack->places.count;
}

/* A call into a context. False: the arena is damaged. */
static bool write_event(struct tracer *t, const struct arena_view *a, struct active *stack,
                        uint32_t place)
{
    VEC(uint32_t) missing = {0};
    const struct arena_record *r = view_at(a, place, sizeof *r);
    uint32_t above = r ? r->parent : 0, last = place;
    const struct arena_record *p = NULL;
    while (above && above < last && (p = view_at(a, above, sizeof *p)) && p->parent &&
           !is_active(stack, above) && !is_active_as_another(a, stack, above, p)) {
        vec_push(&missing, above);
        last = above;
        above = p->parent;
    }
    bool is_sound = r && p && above < last;
    size_t keep = is_sound && p->parent ? *position_of(stack, above) : 0;
    while (is_sound && stack->places.count > keep) {
        trace_write_return(t->writer);
        stack->places.count--;
    }
    for (size_t i = missing.count; is_sound && i-- > 0;)
        write_call(t, stack, missing.items[i], view_at(a, missing.items[i], sizeof *r));
    if (is_sound)
        write_call(t, stack, place, r);
    vec_free(&missing);
    return is_sound;
}

static void write_thread(struct tracer *t, const struct arena_view *a,
                         const struct arena_thread *thread)
{
    VEC(const struct arena_trace_chunk *) chunks = {0};
    struct active stack = {.positions =
                               must_calloc(a->size / ARENA_RECORD_ALIGN + 1, sizeof(uint32_t))};
    const struct arena_trace_chunk *k;
    VIEW_EACH(a, exact_counts_in(thread)->first_trace_chunk, k) {
        vec_push(&chunks, k);
    }
    bool is_sound = true;
    if (chunks.count)
        trace_choose_thread(t->writer, t->next_thread++);
    for (size_t i = chunks.count; i-- > 0 && is_sound;) {
        uint32_t count = chunks.items[i]->count;
        for (uint32_t e = 0; e < count && e < ARENA_TRACE_CALLS && is_sound; e++)
            is_sound = write_event(t, a, &stack, chunks.items[i]->places[e]);
    }
    vec_free(&chunks);
    vec_free(&stack.places);
    free(stack.positions);
}

static uint64_t write_process(struct tracer *t, const struct server_arena *arena)
{
    struct arena_view a = arena_view_now(arena);
    VEC(const struct arena_thread *) threads = {0};
    uint64_t lost = 0;
    const struct arena_thread *thread;
    key_set_init(&t->functions, sizeof(uint64_t));
    key_set_init(&t->labels, 2 * sizeof(uint64_t));
    read_modules(t, &a);
    VIEW_EACH(&a, view_header(&a)->first_thread, thread) {
        vec_push(&threads, thread);
    }
    for (size_t i = threads.count; i-- > 0;) {
        write_thread(t, &a, threads.items[i]);
        lost += exact_counts_in(threads.items[i])->trace_lost;
    }
    vec_free(&threads);
    for (size_t i = 0; i < t->modules.count; i++)
        free((char *)t->modules.items[i].name);
    t->modules.count = t->function_numbers.count = t->label_numbers.count = 0;
    key_set_free(&t->functions);
    key_set_free(&t->labels);
    return lost;
}

int trace_file_write(struct server *server, const char *path, struct ct_error *err)
{
    struct tracer t = {.server = server};
    uint64_t lost = 0;
    CT_TRY(trace_writer_open(path, &t.writer, err));
    for (size_t i = 0; i < server->arenas.count; i++)
        lost += write_process(&t, &server->arenas.items[i]);
    vec_free(&t.modules);
    vec_free(&t.function_numbers);
    vec_free(&t.label_numbers);
    if (lost)
        fprintf(stderr, "calltrail: %" PRIu64 " calls are not in %s: there was no room for them\n",
                lost, path);
    return trace_writer_commit(t.writer, err);
}
