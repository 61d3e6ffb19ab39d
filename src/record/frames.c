#include "record/frames.h"

#include <string.h>

static void known_begin(struct known_keys *known)
{
    key_set_init(&known->keys, sizeof(uint64_t));
}

static void known_end(struct known_keys *known)
{
    key_set_free(&known->keys);
    vec_free(&known->indices);
}

/* The index of a key; of a new one it is to be filled in. */
static bool is_new(struct known_keys *known, uint64_t key, uint32_t *number)
{
    *number = key_set_add(&known->keys, &key);
    if (*number < known->indices.count)
        return false;
    vec_push(&known->indices, CTP_NONE);
    return true;
}

static void add_module(struct frames *f, const struct module_walk *walk, struct open_maps *maps)
{
    const struct arena_module *r = walk->module;
    struct framed_module m = {
        .id = r->id, .map = module_walk_map(walk, maps), .is_kernel = r->kind == MODULE_KERNEL};
    struct ctp_module out = {.path = profile_add_string(f->writer, walk->path),
                             .kind = r->kind == MODULE_VDSO ? CTP_MODULE_VDSO
                                     : m.is_kernel          ? CTP_MODULE_KERNEL
                                                            : CTP_MODULE_FILE,
                             .base = m.map         ? m.map->header->base
                                     : m.is_kernel ? KERNEL_BASE
                                                   : 0,
                             .size = r->end - r->start};
    if (m.is_kernel && !f->kernel.items.count)
        kernel_names_read(&f->kernel);
    if (m.map) {
        out.build_id_size = m.map->header->build_id_size;
        memcpy(out.build_id, m.map->header->build_id, out.build_id_size);
    }
    m.index = profile_add_module(f->writer, &out);
    if (key_set_add(&f->module_ids, &m.id) == f->modules.count) /* a damaged arena may repeat it */
        vec_push(&f->modules, m);
}

void frames_begin(struct frames *f, struct profile_writer *writer, const struct arena_view *view,
                  struct open_maps *maps, uint32_t pid)
{
    *f = (struct frames){.writer = writer};
    known_begin(&f->frames);
    known_begin(&f->functions);
    key_set_init(&f->module_ids, sizeof(uint32_t));
    jit_read(&f->jit, pid);
    struct module_walk walk = module_walk_begin(view);
    while (module_walk_next(&walk))
        add_module(f, &walk, maps);
}

void frames_end(struct frames *f)
{
    key_set_free(&f->module_ids);
    vec_free(&f->modules);
    known_end(&f->frames);
    known_end(&f->functions);
    named_ranges_free(&f->jit);
    named_ranges_free(&f->kernel);
}

static const struct framed_module *module_by_id(const struct frames *f, uint32_t id)
{
    uint32_t at;
    return key_set_find(&f->module_ids, &id, &at) ? &f->modules.items[at] : NULL;
}

/* The profile's function for a key; each is added once. */
static uint32_t add_function(struct frames *f, uint64_t key, const struct ctp_function *function,
                             const char *name)
{
    uint32_t number;
    if (is_new(&f->functions, key, &number)) {
        struct ctp_function out = *function;
        out.name = profile_add_string(f->writer, name);
        f->functions.indices.items[number] = profile_add_function(f->writer, &out);
    }
    return f->functions.indices.items[number];
}

static uint32_t add_mapped(struct frames *f, const struct framed_module *m,
                           const struct map_function *function)
{
    return add_function(f, (uint64_t)m->index << 32 | function->start,
                        &(struct ctp_function){
                            .offset = function->start, .size = function->size, .module = m->index},
                        map_string(m->map, function->name));
}

/* All of the kernel is one function where its names may not be seen. */
static uint32_t kernel_function(struct frames *f, const struct framed_module *m, uint64_t offset)
{
    const struct named_range *k = kernel_names_find(&f->kernel, KERNEL_BASE + offset);
    if (!k)
        return add_function(f, (uint64_t)m->index << 32, &(struct ctp_function){.module = m->index},
                            "[kernel]");
    uint64_t start = k->start - KERNEL_BASE;
    return add_function(
        f, (uint64_t)m->index << 32 | start,
        &(struct ctp_function){.offset = start, .size = k->size, .module = m->index}, k->name);
}

/* A function without a name is known by its bounds. The nearest one before it that has a name comes
 * along, so that people see what it is next to. */
static uint32_t function_for(struct frames *f, const struct framed_module *m, uint64_t offset)
{
    const struct map_function *function = m->map ? map_find_function(m->map, offset) : NULL;
    if (!function)
        return CTP_NONE;
    function = map_whole_of(m->map, function);
    const struct map_function *named = function;
    while (named > m->map->functions && !named->name)
        named--;
    if (named != function && named->name && named->size)
        add_mapped(f, m, named);
    return add_mapped(f, m, function);
}

/*
 * Code without a module: named by what the program wrote about it. All of which it wrote nothing is
 * one function, since it is not known where one ends; its frames still have their addresses.
 */
static uint32_t jit_function(struct frames *f, uint64_t address)
{
    const struct named_range *s = jit_find(&f->jit, address);
    if (!s)
        return add_function(f, UINT64_C(1) << 63, &(struct ctp_function){.module = CTP_NONE},
                            "[unknown code]");
    return add_function(
        f, s->start | UINT64_C(1) << 63,
        &(struct ctp_function){.offset = s->start, .size = s->size, .module = CTP_NONE}, s->name);
}

/* A word instead of code. */
static uint32_t label_function(struct frames *f, uint32_t label)
{
    static const char *const words[ARENA_LABELS] = {"[file]",     "[socket]", "[pipe]",
                                                    "[terminal]", "[other]",  "[not attributed]"};
    return add_function(f, label | UINT64_C(3) << 62, &(struct ctp_function){.module = CTP_NONE},
                        label < ARENA_LABELS ? words[label] : "[unknown]");
}

static uint32_t make_frame(struct frames *f, uint64_t key)
{
    uint32_t flags = KEY_FLAGS(key);
    struct ctp_frame out = {.offset = KEY_OFFSET(key), .module = CTP_NONE, .function = CTP_NONE};
    if (flags & KEY_GAP) {
        out.offset = KEY_OFFSET(key) == ARENA_GAP_HEIGHT ? (uint64_t)KEY_MODULE(key) * 8 : 0;
        out.gap =
            KEY_OFFSET(key) && KEY_OFFSET(key) < CTP_GAP_END ? KEY_OFFSET(key) : CTP_GAP_OTHER;
        return profile_add_frame(f->writer, &out);
    }
    out.flags = (flags & KEY_IS_PC ? 0u : CTP_FRAME_RETURN) |
                (flags & KEY_GUESSED ? CTP_FRAME_GUESSED : 0u);
    if (flags & KEY_ADDRESS) {
        out.offset |= (uint64_t)KEY_MODULE(key) << 32;
        out.function = jit_function(f, out.offset);
        return profile_add_frame(f->writer, &out);
    }
    if (flags & KEY_LABEL) {
        out.offset = 0;
        out.flags = 0;
        out.function = label_function(f, KEY_OFFSET(key));
        return profile_add_frame(f->writer, &out);
    }
    const struct framed_module *m = module_by_id(f, KEY_MODULE(key));
    if (m) {
        out.module = m->index;
        uint64_t at = out.offset - (flags & KEY_IS_PC ? 0 : 1);
        out.function = m->is_kernel ? kernel_function(f, m, at) : function_for(f, m, at);
    }
    return profile_add_frame(f->writer, &out);
}

uint32_t frame_for(struct frames *f, uint64_t key)
{
    uint32_t number;
    if (is_new(&f->frames, key, &number))
        f->frames.indices.items[number] = make_frame(f, key);
    return f->frames.indices.items[number];
}
