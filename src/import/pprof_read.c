/*
 * pprof's profile.proto, gzipped or plain. Fields come in any order, so the tables are read first
 * and the samples then.
 */
#include "base/reader.h"
#include "base/search.h"
#include "import/import.h"

#include <inttypes.h>
#include <string.h>
#include <zlib.h>

enum { FRAMES_MAX = 1 << 20 };
#define INFLATED_MAX (UINT64_C(1) << 30)

struct bytes {
    const uint8_t *at;
    size_t size;
};

struct value_type {
    uint64_t name, unit; /* strings */
};

struct mapping {
    uint64_t id, start, limit, offset, file, build_id;
    uint32_t module; /* once it is gathered */
};

struct function {
    uint64_t id, name, file, line;
};

struct location {
    uint64_t id;
    uint32_t frame; /* or CTP_NONE for the cost of a thread whose context is not known */
};

struct line {
    uint64_t function, line;
};

struct pprof_reader {
    struct gather *g;
    const char *name;
    VEC(struct bytes) strings, locations, samples;
    VEC(struct value_type) types;
    VEC(struct mapping) mappings;
    VEC(struct function) functions;
    VEC(struct location) frames;
    struct value_type period_type;
    uint64_t period, time_ns, duration_ns, default_type;
    uint32_t metrics[GATHER_METRICS_MAX]; /* by sample type */
    VEC(uint64_t) stack, values;
};

/* ---- Fields -------------------------------------------------------------------------------------
 */

struct field {
    uint32_t number;
    bool is_bytes;
    uint64_t value;
    struct bytes bytes;
};

/* The next field of a message; false at its end, and when it is damaged, which `r` knows. */
static bool next_field(struct reader *r, struct field *out)
{
    if (r->failed || reader_left(r) == 0)
        return false;
    uint64_t key = read_uleb(r);
    *out = (struct field){.number = key >> 3 > UINT32_MAX ? 0 : (uint32_t)(key >> 3)};
    switch (key & 7) {
    case 0:
        out->value = read_uleb(r);
        break;
    case 1:
        out->value = read_u64(r);
        break;
    case 2:
        out->is_bytes = true;
        out->bytes.size = read_uleb(r);
        out->bytes.at = r->at;
        reader_skip(r, out->bytes.size);
        break;
    case 5:
        out->value = read_u32(r);
        break;
    default:
        r->failed = true;
    }
    return !r->failed;
}

static struct reader reader_of(struct bytes bytes)
{
    return reader_over(bytes.at, bytes.size);
}

static int damaged(const struct pprof_reader *p, const char *what, struct ct_error *err)
{
    return ct_fail(err, "%s: is not a pprof profile, or is damaged: %s", p->name, what);
}

static struct bytes string_at(const struct pprof_reader *p, uint64_t number)
{
    return number < p->strings.count ? p->strings.items[number] : (struct bytes){0};
}

static uint32_t text_at(struct pprof_reader *p, uint64_t number)
{
    struct bytes s = string_at(p, number);
    return s.size ? gather_text(p->g, (const char *)s.at, s.size) : 0;
}

static bool string_is(const struct pprof_reader *p, uint64_t number, const char *text)
{
    struct bytes s = string_at(p, number);
    return s.size == strlen(text) && memcmp(s.at, text, s.size) == 0;
}

/* Numbers that may be packed into one field or come one by one. */
#define APPEND_NUMBERS(list, field)                                                                \
    do {                                                                                           \
        struct reader packed_ = reader_of((field).bytes);                                          \
        if (!(field).is_bytes)                                                                     \
            vec_push(list, (field).value);                                                         \
        while ((field).is_bytes && !packed_.failed && reader_left(&packed_))                       \
            vec_push(list, read_uleb(&packed_));                                                   \
    } while (0)

/* ---- Tables -------------------------------------------------------------------------------------
 */

static struct value_type read_type(struct bytes bytes)
{
    struct value_type type = {0};
    struct reader r = reader_of(bytes);
    for (struct field f; next_field(&r, &f);)
        *(f.number == 1 ? &type.name : f.number == 2 ? &type.unit : &(uint64_t){0}) = f.value;
    return type;
}

static struct mapping read_mapping(struct bytes bytes)
{
    struct mapping m = {0};
    struct reader r = reader_of(bytes);
    for (struct field f; next_field(&r, &f);) {
        uint64_t ignored = 0;
        uint64_t *fields[] = {&ignored, &m.id, &m.start, &m.limit, &m.offset, &m.file, &m.build_id};
        *(f.number < 7 ? fields[f.number] : &ignored) = f.value;
    }
    return m;
}

static struct function read_function(struct bytes bytes)
{
    struct function function = {0};
    struct reader r = reader_of(bytes);
    for (struct field f; next_field(&r, &f);) {
        uint64_t ignored = 0;
        uint64_t *fields[] = {&ignored, &function.id,   &function.name,
                              &ignored, &function.file, &function.line};
        *(f.number < 6 ? fields[f.number] : &ignored) = f.value;
    }
    return function;
}

static int read_tables(struct pprof_reader *p, struct bytes all, struct ct_error *err)
{
    struct reader r = reader_of(all);
    for (struct field f; next_field(&r, &f);) {
        switch (f.number) {
        case 1:
            vec_push(&p->types, read_type(f.bytes));
            break;
        case 2:
            vec_push(&p->samples, f.bytes);
            break;
        case 3:
            vec_push(&p->mappings, read_mapping(f.bytes));
            break;
        case 4:
            vec_push(&p->locations, f.bytes);
            break;
        case 5:
            vec_push(&p->functions, read_function(f.bytes));
            break;
        case 6:
            vec_push(&p->strings, f.bytes);
            break;
        case 9:
            p->time_ns = f.value;
            break;
        case 10:
            p->duration_ns = f.value;
            break;
        case 11:
            p->period_type = read_type(f.bytes);
            break;
        case 12:
            p->period = f.value;
            break;
        case 14:
            p->default_type = f.value;
            break;
        }
    }
    if (r.failed)
        return damaged(p, "it ends in the middle of a field", err);
    if (p->types.count == 0 || p->strings.count == 0)
        return damaged(p, "it says nothing about what was measured", err);
    if (p->types.count > GATHER_METRICS_MAX)
        return damaged(p, "it has too many types of values", err);
    return CT_OK;
}

/* All three kinds of records begin with their id. */
static int compare_ids(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

#define SORT_BY_ID(list)                                                                           \
    do {                                                                                           \
        if ((list)->count)                                                                         \
            qsort((list)->items, (list)->count, sizeof *(list)->items, compare_ids);               \
    } while (0)
#define FIND_BY_ID(list, id) find_by_id((list)->items, (list)->count, sizeof *(list)->items, id)

static const void *find_by_id(const void *items, size_t count, size_t item_bytes, uint64_t id)
{
    size_t i;
    SEARCH(i, count, *(const uint64_t *)((const char *)items + i * item_bytes) < id);
    const uint64_t *found = i < count ? (const void *)((const char *)items + i * item_bytes) : NULL;
    return id && found && *found == id ? found : NULL;
}

/* The metric that pprof shows by default comes first, as it does in ours. */
static void gather_metrics(struct pprof_reader *p)
{
    size_t first = p->types.count - 1;
    for (size_t i = 0; i < p->types.count; i++)
        if (p->default_type && p->types.items[i].name == p->default_type)
            first = i;
    for (size_t k = 0; k < p->types.count; k++) {
        size_t i = k == 0 ? first : k <= first ? k - 1 : k;
        const struct value_type *type = &p->types.items[i];
        bool sampled =
            p->period && type->name == p->period_type.name && type->unit == p->period_type.unit;
        uint32_t name = text_at(p, type->name), unit = text_at(p, type->unit);
        if (string_is(p, type->unit, "nanoseconds"))
            unit = gather_text(p->g, "ns", 2);
        p->metrics[i] = gather_metric(p->g, name ? name : gather_text(p->g, "values", 6), unit,
                                      sampled ? CTP_METRIC_SAMPLED : CTP_METRIC_EXACT, p->period);
    }
}

static void gather_mappings(struct pprof_reader *p)
{
    for (size_t i = 0; i < p->mappings.count; i++) {
        struct mapping *m = &p->mappings.items[i];
        m->module = gather_module(
            p->g, &(struct gather_module){.path = text_at(p, m->file),
                                          .build_id = text_at(p, m->build_id),
                                          .size = m->limit > m->start ? m->limit - m->start : 0});
    }
}

/* ---- Locations ----------------------------------------------------------------------------------
 */

/*
 * Our own exports name code without a symbol after its module and the offset of the place, or of
 * the function that holds it, or after its address; that is no function's name. Sets the frame's
 * offset or its function to what the name says: a function of at least one byte.
 */
static bool is_place(struct gather *g, const char *name, const char *path,
                     struct gather_frame *frame)
{
    const char *slash = strrchr(path, '/'), *file = slash && slash[1] ? slash + 1 : path;
    size_t length = frame->module == CTP_NONE ? 0 : strlen(file);
    if (length && (strncmp(name, file, length) != 0 || name[length++] != '+'))
        return false;
    if (strncmp(name + length, "0x", 2) != 0)
        return false;
    char *end;
    uint64_t offset = strtoull(name + length, &end, 16);
    if (*end || (offset - frame->offset > 1 && (!length || offset > frame->offset)))
        return false;
    frame->function = CTP_NONE;
    if (offset < frame->offset) {
        frame->function = gather_function(
            g, &(struct gather_function){.module = frame->module, .offset = offset, .size = 1});
        return true;
    }
    frame->flags = offset > frame->offset ? CTP_FRAME_RETURN : 0;
    frame->offset = offset;
    return true;
}

static uint32_t function_of(struct pprof_reader *p, uint64_t id, uint32_t module)
{
    const struct function *function = FIND_BY_ID(&p->functions, id);
    if (!function || !string_at(p, function->name).size)
        return CTP_NONE;
    return gather_function(p->g, &(struct gather_function){.name = text_at(p, function->name),
                                                           .file = text_at(p, function->file),
                                                           .module = module,
                                                           .line = function->line <= UINT32_MAX
                                                                       ? (uint32_t)function->line
                                                                       : 0});
}

static uint32_t file_of(struct pprof_reader *p, uint64_t id)
{
    const struct function *function = FIND_BY_ID(&p->functions, id);
    return function ? text_at(p, function->file) : 0;
}

/* Lines come innermost first; a list is made from its end. The last line is the frame's own. */
static uint32_t gather_lines(struct pprof_reader *p, const struct line *lines, size_t count,
                             uint32_t module, uint32_t *own)
{
    uint32_t list = CTP_NONE;
    for (size_t i = count; i-- > 0;) {
        uint32_t function = function_of(p, lines[i].function, module);
        if (i + 1 == count)
            *own = function;
        list = gather_line(
            p->g,
            &(struct gather_line){.function = function,
                                  .file = file_of(p, lines[i].function),
                                  .line = lines[i].line <= UINT32_MAX ? (uint32_t)lines[i].line : 0,
                                  .next = list});
    }
    return list;
}

static struct line read_line(struct bytes bytes)
{
    struct line line = {0};
    struct reader r = reader_of(bytes);
    for (struct field f; next_field(&r, &f);)
        *(f.number == 1 ? &line.function : f.number == 2 ? &line.line : &(uint64_t){0}) = f.value;
    return line;
}

static void gather_location(struct pprof_reader *p, struct bytes bytes)
{
    struct reader r = reader_of(bytes);
    uint64_t id = 0, mapping_id = 0, address = 0;
    VEC(struct line) lines = {0};
    for (struct field f; next_field(&r, &f);) {
        if (f.number == 4)
            vec_push(&lines, read_line(f.bytes));
        else
            *(f.number == 1   ? &id
              : f.number == 2 ? &mapping_id
              : f.number == 3 ? &address
                              : &(uint64_t){0}) = f.value;
    }
    const struct mapping *mapping = FIND_BY_ID(&p->mappings, mapping_id);
    struct gather_frame frame = {.module = mapping ? mapping->module : CTP_NONE,
                                 .function = CTP_NONE,
                                 .lines = CTP_NONE,
                                 .offset = mapping && address >= mapping->start
                                               ? address - mapping->start + mapping->offset
                                               : address};
    struct location location = {.id = id};
    frame.lines = gather_lines(p, lines.items, lines.count, frame.module, &frame.function);
    /* Both are in the pool already: looking for them moves nothing. */
    const char *path = mapping ? strings_get(&p->g->texts, text_at(p, mapping->file)) : "";
    const char *name = "";
    if (frame.function != CTP_NONE)
        name = strings_get(&p->g->texts,
                           GATHER_RECORD(p->g->functions, gather_function, frame.function)->name);
    bool has_source = lines.count > 1 ||
                      (lines.count && (lines.items[0].line || file_of(p, lines.items[0].function)));
    if (lines.count && is_place(p->g, name, path, &frame) && lines.count == 1)
        has_source = false;
    if (!has_source) /* symbolize looks for it then */
        frame.lines = CTP_NONE;
    if (lines.count == 1 && frame.module == CTP_NONE && *name == '(')
        location.frame = gather_is_nothing(name, strlen(name))
                             ? CTP_NONE
                             : gather_named_frame(p->g, name, strlen(name));
    else
        location.frame = gather_frame(p->g, &frame);
    vec_push(&p->frames, location);
    vec_free(&lines);
}

/* ---- Samples ------------------------------------------------------------------------------------
 */

struct sample_thread {
    uint32_t pid, tid;
    uint64_t name; /* string */
};

/* The labels that say which thread it was, as ours and other tools call them. */
static void read_label(struct pprof_reader *p, struct bytes bytes, struct sample_thread *out)
{
    uint64_t key = 0, string = 0, number = 0;
    struct reader r = reader_of(bytes);
    for (struct field f; next_field(&r, &f);)
        *(f.number == 1   ? &key
          : f.number == 2 ? &string
          : f.number == 3 ? &number
                          : &(uint64_t){0}) = f.value;
    if (string_is(p, key, "thread") || string_is(p, key, "thread_name"))
        out->name = string;
    else if ((string_is(p, key, "tid") || string_is(p, key, "thread_id")) && number <= UINT32_MAX)
        out->tid = (uint32_t)number;
    else if (string_is(p, key, "pid") && number <= UINT32_MAX)
        out->pid = (uint32_t)number;
}

static int gather_sample(struct pprof_reader *p, struct bytes bytes, struct ct_error *err)
{
    struct reader r = reader_of(bytes);
    struct sample_thread thread = {0};
    p->stack.count = p->values.count = 0;
    for (struct field f; next_field(&r, &f);) {
        if (f.number == 1)
            APPEND_NUMBERS(&p->stack, f);
        else if (f.number == 2)
            APPEND_NUMBERS(&p->values, f);
        else if (f.number == 3)
            read_label(p, f.bytes, &thread);
        if (p->stack.count > FRAMES_MAX)
            return damaged(p, "a stack of more than a million frames", err);
    }
    if (r.failed)
        return damaged(p, "a sample ends in the middle of a field", err);
    if (p->values.count != p->types.count)
        return damaged(p, "a sample with too few or too many values", err);
    struct bytes name = string_at(p, thread.name);
    uint32_t node =
        name.size ? gather_thread(p->g, thread.pid, thread.tid, (const char *)name.at, name.size)
                  : gather_thread(p->g, thread.pid, thread.tid, "all", 3);
    for (size_t i = p->stack.count; i-- > 0;) {
        const struct location *location = FIND_BY_ID(&p->frames, p->stack.items[i]);
        if (!location)
            return damaged(p, "a sample has a location that is not defined", err);
        if (location->frame != CTP_NONE)
            node = gather_node(p->g, node, location->frame);
    }
    for (size_t i = 0; i < p->types.count; i++) {
        if (p->values.items[i] > INT64_MAX)
            return ct_fail(err,
                           "%s: has values below zero, as differences have; calltrail has no "
                           "profiles of those",
                           p->name);
        gather_add(p->g, node, p->metrics[i], p->values.items[i]);
    }
    return CT_OK;
}

static int gather_profile(struct pprof_reader *p, struct bytes all, struct ct_error *err)
{
    CT_TRY(read_tables(p, all, err));
    if (p->mappings.count) /* the first in the file is the program, whatever its number */
        p->g->command = text_at(p, p->mappings.items[0].file);
    SORT_BY_ID(&p->mappings);
    SORT_BY_ID(&p->functions);
    gather_metrics(p);
    gather_mappings(p);
    for (size_t i = 0; i < p->locations.count; i++)
        gather_location(p, p->locations.items[i]);
    SORT_BY_ID(&p->frames);
    for (size_t i = 0; i < p->samples.count; i++)
        CT_TRY(gather_sample(p, p->samples.items[i], err));
    if (p->time_ns < INT64_MAX && p->duration_ns < INT64_MAX) {
        p->g->start_ns = p->time_ns;
        p->g->duration_ns = p->duration_ns;
    }
    return CT_OK;
}

/* ---- The file -----------------------------------------------------------------------------------
 */

static int inflate_all(const uint8_t *bytes, size_t size, const char *name, struct bytes *out,
                       struct ct_error *err)
{
    z_stream zip = {.next_in = (Bytef *)(uintptr_t)bytes};
    VEC(uint8_t) all = {0};
    int status = inflateInit2(&zip, MAX_WBITS + 16);
    while (status == Z_OK && all.count < INFLATED_MAX) {
        size_t left = size - (size_t)(zip.next_in - bytes);
        zip.avail_in = left > 1 << 30 ? 1 << 30 : (uInt)left;
        vec_reserve(&all, all.count + (1 << 16));
        zip.next_out = all.items + all.count;
        zip.avail_out = 1 << 16;
        status = inflate(&zip, Z_NO_FLUSH);
        all.count = (size_t)(zip.next_out - all.items);
    }
    inflateEnd(&zip);
    *out = (struct bytes){all.items, all.count};
    if (status == Z_STREAM_END)
        return CT_OK;
    free(all.items);
    if (status == Z_OK)
        return ct_fail(err, "%s: is more than a gigabyte when it is unpacked", name);
    return ct_fail(err, "%s: is truncated or damaged: it cannot be unpacked", name);
}

int import_pprof(const uint8_t *bytes, size_t size, const char *name, struct gather *g,
                 struct ct_error *err)
{
    struct pprof_reader p = {.g = g, .name = name};
    struct bytes all = {bytes, size};
    bool zipped = size >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b;
    g->origin = "pprof";
    if (zipped)
        CT_TRY(inflate_all(bytes, size, name, &all, err));
    int status = gather_profile(&p, all, err);
    if (zipped)
        free((void *)(uintptr_t)all.at);
    vec_free(&p.strings);
    vec_free(&p.locations);
    vec_free(&p.samples);
    vec_free(&p.types);
    vec_free(&p.mappings);
    vec_free(&p.functions);
    vec_free(&p.frames);
    vec_free(&p.stack);
    vec_free(&p.values);
    return status;
}
