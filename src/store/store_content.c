#include "store/store_content.h"

#include "base/utf8.h"

#include <string.h>
#include <xxhash.h>

/* ---- Hashes ---------------------------------------------------------------------------------- */

/* A hash of numbers and of other hashes, of fixed length for each kind but frames, whose length is
 * the number of their lines. */
struct mixer {
    VEC(uint8_t) bytes;
};

static void mix(struct mixer *m, const void *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        vec_push(&m->bytes, ((const uint8_t *)bytes)[i]);
}

static void mix_number(struct mixer *m, uint64_t number)
{
    mix(m, &number, sizeof number);
}

static struct store_hash hash_of(const void *bytes, size_t size)
{
    XXH128_canonical_t canonical;
    struct store_hash hash;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits(bytes, size));
    memcpy(hash.bytes, canonical.digest, sizeof hash.bytes);
    return hash;
}

static struct store_hash mixed(struct mixer *m)
{
    struct store_hash hash = hash_of(m->bytes.items, m->bytes.count);
    vec_free(&m->bytes);
    return hash;
}

/* ---- Things ---------------------------------------------------------------------------------- */

static uint32_t add(struct content *c, enum content_kind kind, uint32_t index,
                    struct store_hash hash)
{
    struct content_set *set = &c->sets[kind];
    uint32_t before = set->hashes.count, number = key_set_add(&set->hashes, &hash);
    if (number == before)
        vec_push(&set->sources, index);
    c->numbers[kind][index] = number + 1;
    return number;
}

/* Adds the hash of a thing that was added before; zeros if it is none. */
static void mix_thing(struct content *c, struct mixer *m, enum content_kind kind, uint32_t index)
{
    static const struct store_hash none;
    const void *hash = &none;
    if (index != CTP_NONE)
        hash = key_set_get(&c->sets[kind].hashes, c->numbers[kind][index] - 1);
    mix(m, hash, sizeof none);
}

static void add_string(struct content *c, uint32_t offset)
{
    if (c->numbers[CONTENT_STRING][offset])
        return;
    const char *text = profile_string(c->profile, offset);
    add(c, CONTENT_STRING, offset, hash_of(text, strlen(text)));
}

/* Strings are all that others refer to, and the names of metrics. Arguments stay in the skeleton.
 */
static void add_strings(struct content *c)
{
    const struct profile *p = c->profile;
    for (uint32_t i = 0; i < profile_module_count(p); i++)
        add_string(c, profile_module(p, i)->path);
    for (uint32_t i = 0; i < profile_function_count(p); i++) {
        add_string(c, profile_function(p, i)->name);
        add_string(c, profile_function(p, i)->file);
    }
    for (uint32_t i = 0; i < profile_line_count(p); i++)
        add_string(c, profile_line(p, i)->file);
    for (uint32_t i = 0; i < profile_process_count(p); i++)
        add_string(c, profile_process(p, i)->command);
    for (uint32_t i = 0; i < profile_thread_count(p); i++)
        add_string(c, profile_thread(p, i)->name);
    for (uint32_t i = 0; i < profile_epoch_count(p); i++)
        add_string(c, profile_epoch(p, i)->name);
    for (uint32_t i = 0; i < p->metric_count; i++)
        add_string(c, profile_metric(p, i)->name);
}

/* As in merging: the build-id, or the path where there is none. */
static void add_module(struct content *c, uint32_t i)
{
    const struct ctp_module *module = profile_module(c->profile, i);
    struct mixer m = {0};
    mix_number(&m, module->kind);
    mix_number(&m, module->base);
    mix_number(&m, module->build_id_size);
    mix(&m, module->build_id, sizeof module->build_id);
    mix_thing(c, &m, CONTENT_STRING, module->build_id_size ? CTP_NONE : module->path);
    add(c, CONTENT_MODULE, i, mixed(&m));
}

static void add_function(struct content *c, uint32_t i)
{
    const struct ctp_function *f = profile_function(c->profile, i);
    struct mixer m = {0};
    mix_number(&m, f->offset);
    mix_number(&m, f->size);
    mix_number(&m, f->line);
    mix_thing(c, &m, CONTENT_MODULE, f->module);
    mix_thing(c, &m, CONTENT_STRING, f->name);
    mix_thing(c, &m, CONTENT_STRING, f->file);
    add(c, CONTENT_FUNCTION, i, mixed(&m));
}

/* With all that is known of the place: where one profile knows more than another, they have two
 * frames, and the sum chooses, as merging does. */
static void add_frame(struct content *c, uint32_t i)
{
    const struct ctp_frame *f = profile_frame(c->profile, i);
    struct mixer m = {0};
    mix_number(&m, f->offset);
    mix_number(&m, f->flags);
    mix_number(&m, f->gap);
    mix_thing(c, &m, CONTENT_MODULE, f->module);
    mix_thing(c, &m, CONTENT_FUNCTION, f->function);
    for (uint32_t k = 0; k < f->line_count; k++) {
        const struct ctp_line *line = profile_frame_line(c->profile, f, k);
        mix_number(&m, line->line);
        mix_number(&m, line->column);
        mix_thing(c, &m, CONTENT_FUNCTION, line->function);
        mix_thing(c, &m, CONTENT_STRING, line->file);
    }
    add(c, CONTENT_FRAME, i, mixed(&m));
}

struct origin {
    uint32_t command, thread, phase; /* strings, or CTP_NONE */
    uint32_t rank;
};

static struct origin origin_of(const struct profile *p, uint32_t root)
{
    const struct ctp_root *r = profile_root(p, root);
    struct origin o = {CTP_NONE, CTP_NONE, CTP_NONE, CTP_NONE};
    if (r->thread != CTP_NONE) {
        const struct ctp_thread *thread = profile_thread(p, r->thread);
        o.thread = thread->name;
        o.command = profile_process(p, thread->process)->command;
        o.rank = profile_process_rank(p, thread->process);
    }
    if (r->epoch != CTP_NONE)
        o.phase = profile_epoch(p, r->epoch)->name;
    return o;
}

static void add_origin(struct content *c, uint32_t i)
{
    struct origin o = origin_of(c->profile, i);
    struct mixer m = {0};
    mix_number(&m, o.rank);
    mix_thing(c, &m, CONTENT_STRING, o.command);
    mix_thing(c, &m, CONTENT_STRING, o.thread);
    mix_thing(c, &m, CONTENT_STRING, o.phase);
    add(c, CONTENT_ORIGIN, i, mixed(&m));
}

/* Parents come first. */
static void add_context(struct content *c, uint32_t node, uint32_t root)
{
    uint32_t parent = profile_parent(c->profile, node);
    struct mixer m = {0};
    mix_thing(c, &m, CONTENT_CONTEXT, parent);
    if (parent == CTP_NONE)
        mix_thing(c, &m, CONTENT_ORIGIN, root);
    else
        mix_thing(c, &m, CONTENT_FRAME, profile_node_frame(c->profile, node));
    add(c, CONTENT_CONTEXT, node, mixed(&m));
}

void content_open(struct content *c, const struct profile *p)
{
    const uint32_t counts[CONTENT_KINDS] = {p->strings_size,           profile_module_count(p),
                                            profile_function_count(p), profile_frame_count(p),
                                            profile_root_count(p),     p->node_count};
    *c = (struct content){.profile = p};
    for (int kind = 0; kind < CONTENT_KINDS; kind++) {
        key_set_init(&c->sets[kind].hashes, sizeof(struct store_hash));
        c->numbers[kind] = must_calloc((size_t)counts[kind] + 1, sizeof(uint32_t));
    }
    add_strings(c);
    for (uint32_t i = 0; i < profile_module_count(p); i++)
        add_module(c, i);
    for (uint32_t i = 0; i < profile_function_count(p); i++)
        add_function(c, i);
    for (uint32_t i = 0; i < profile_frame_count(p); i++)
        add_frame(c, i);
    for (uint32_t i = 0; i < profile_root_count(p); i++) {
        const struct ctp_root *root = profile_root(p, i);
        add_origin(c, i);
        for (uint32_t k = 0; k < root->node_count; k++)
            add_context(c, root->first_node + k, i);
    }
    for (int kind = 0; kind < CONTENT_KINDS; kind++)
        c->sets[kind].ids =
            must_calloc((size_t)c->sets[kind].hashes.count + 1, sizeof *c->sets[kind].ids);
}

void content_close(struct content *c)
{
    for (int kind = 0; kind < CONTENT_KINDS; kind++) {
        key_set_free(&c->sets[kind].hashes);
        vec_free(&c->sets[kind].sources);
        free(c->sets[kind].ids);
        free(c->numbers[kind]);
    }
}

/* ---- Rows ------------------------------------------------------------------------------------ */

uint32_t content_id(const struct content *c, enum content_kind kind, uint32_t index)
{
    return c->sets[kind].ids[c->numbers[kind][index] - 1];
}

const char *content_table(enum content_kind kind)
{
    static const char *const tables[CONTENT_KINDS] = {"string", "module", "function",
                                                      "frame",  "origin", "context"};
    return tables[kind];
}

/* The id of what is referred to; null for none. */
static void field_id(const struct content *c, enum content_kind kind, uint32_t index,
                     struct wire *w)
{
    if (index == CTP_NONE)
        wire_field_null(w);
    else
        wire_field_u32(w, content_id(c, kind, index));
}

static void string_row(const struct content *c, uint32_t offset, struct wire *w)
{
    const char *text = profile_string(c->profile, offset);
    char *clean = utf8_copy(text);
    wire_field_text(w, clean);
    if (strcmp(clean, text) == 0)
        wire_field_null(w);
    else
        wire_field_text(w, text);
    free(clean);
}

static void module_row(const struct content *c, uint32_t i, struct wire *w)
{
    const struct ctp_module *module = profile_module(c->profile, i);
    field_id(c, CONTENT_STRING, module->path, w);
    wire_field_u32(w, module->kind);
    wire_field_u64(w, module->base);
    wire_field_u64(w, module->size);
    wire_field_bytes(w, module->build_id, module->build_id_size);
}

static void function_row(const struct content *c, uint32_t i, struct wire *w)
{
    const struct ctp_function *f = profile_function(c->profile, i);
    field_id(c, CONTENT_MODULE, f->module, w);
    field_id(c, CONTENT_STRING, f->name, w);
    field_id(c, CONTENT_STRING, f->file, w);
    wire_field_u32(w, f->line);
    wire_field_u64(w, f->offset);
    wire_field_u64(w, f->size);
}

static void frame_row(const struct content *c, uint32_t i, struct wire *w)
{
    const struct ctp_frame *f = profile_frame(c->profile, i);
    struct wire lines = {0};
    field_id(c, CONTENT_MODULE, f->module, w);
    field_id(c, CONTENT_FUNCTION, f->function, w);
    wire_field_u64(w, f->offset);
    wire_field_u32(w, f->flags);
    wire_field_u32(w, f->gap);
    wire_array(&lines, TYPE_INT4, (size_t)f->line_count * 4);
    for (uint32_t k = 0; k < f->line_count; k++) {
        const struct ctp_line *line = profile_frame_line(c->profile, f, k);
        wire_field_u32(&lines, line->function == CTP_NONE
                                   ? 0
                                   : content_id(c, CONTENT_FUNCTION, line->function));
        wire_field_u32(&lines, content_id(c, CONTENT_STRING, line->file));
        wire_field_u32(&lines, line->line);
        wire_field_u32(&lines, line->column);
    }
    wire_field_bytes(w, lines.bytes.items, lines.bytes.count);
    vec_free(&lines.bytes);
}

static void origin_row(const struct content *c, uint32_t root, struct wire *w)
{
    struct origin o = origin_of(c->profile, root);
    field_id(c, CONTENT_STRING, o.command, w);
    if (o.rank == CTP_NONE)
        wire_field_null(w);
    else
        wire_field_u32(w, o.rank);
    field_id(c, CONTENT_STRING, o.thread, w);
    field_id(c, CONTENT_STRING, o.phase, w);
}

static void context_row(const struct content *c, uint32_t node, struct wire *w)
{
    uint32_t parent = profile_parent(c->profile, node);
    field_id(c, CONTENT_CONTEXT, parent, w);
    field_id(c, CONTENT_FRAME, profile_node_frame(c->profile, node), w);
    field_id(c, CONTENT_ORIGIN, parent == CTP_NONE ? profile_root_of(c->profile, node) : CTP_NONE,
             w);
}

void content_row(const struct content *c, enum content_kind kind, uint32_t number, struct wire *w)
{
    static const struct {
        uint16_t fields;
        void (*write)(const struct content *, uint32_t, struct wire *);
    } rows[CONTENT_KINDS] = {{2, string_row}, {5, module_row}, {6, function_row},
                             {6, frame_row},  {4, origin_row}, {3, context_row}};
    const struct content_set *set = &c->sets[kind];
    wire_u16(w, (uint16_t)(rows[kind].fields + 2));
    wire_field_u32(w, set->ids[number]);
    wire_field_bytes(w, key_set_get(&set->hashes, number), sizeof(struct store_hash));
    rows[kind].write(c, set->sources.items[number], w);
}
