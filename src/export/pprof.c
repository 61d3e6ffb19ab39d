/*
 * pprof's profile.proto, gzipped. Messages go out as they are made; the string table comes last,
 * which the format allows. Inlined functions are lines of one location, innermost first, as in our
 * own profiles.
 *
 * A location has an address, and ours are offsets in modules: each module is given a range of
 * addresses that none of the others has.
 */
#include "base/page.h"
#include "export/export.h"
#include "export/protobuf.h"
#include "export/text_table.h"
#include "query/facts.h"

#include <string.h>
#include <zlib.h>

/* The fields of the messages, as profile.proto numbers them. */
enum profile_field {
    PROFILE_SAMPLE_TYPE = 1,
    PROFILE_SAMPLE = 2,
    PROFILE_MAPPING = 3,
    PROFILE_LOCATION = 4,
    PROFILE_FUNCTION = 5,
    PROFILE_STRING = 6,
    PROFILE_TIME_NS = 9,
    PROFILE_DURATION_NS = 10,
    PROFILE_PERIOD_TYPE = 11,
    PROFILE_PERIOD = 12,
    PROFILE_COMMENT = 13,
    PROFILE_DEFAULT_TYPE = 14,
};
enum value_type_field { TYPE_NAME = 1, TYPE_UNIT = 2 };
enum sample_field { SAMPLE_LOCATION = 1, SAMPLE_VALUE = 2, SAMPLE_LABEL = 3 };
enum label_field { LABEL_KEY = 1, LABEL_STRING = 2, LABEL_NUMBER = 3 };
enum mapping_field {
    MAPPING_ID = 1,
    MAPPING_START = 2,
    MAPPING_LIMIT = 3,
    MAPPING_FILE = 5,
    MAPPING_BUILD_ID = 6,
    MAPPING_HAS_FUNCTIONS = 7,
    MAPPING_HAS_FILES = 8,
    MAPPING_HAS_LINES = 9,
    MAPPING_HAS_INLINED = 10,
};
enum location_field {
    LOCATION_ID = 1,
    LOCATION_MAPPING = 2,
    LOCATION_ADDRESS = 3,
    LOCATION_LINE = 4
};
enum line_field { LINE_FUNCTION = 1, LINE_LINE = 2, LINE_COLUMN = 3 };
enum function_field {
    FUNCTION_ID = 1,
    FUNCTION_NAME = 2,
    FUNCTION_SYMBOL = 3,
    FUNCTION_FILE = 4,
    FUNCTION_LINE = 5,
};

enum { FLUSH_BYTES = 1 << 16 };

struct pprof {
    const struct stacks *stacks;
    FILE *out;
    z_stream zip;
    struct message profile; /* what was not compressed yet */
    struct message part, inner;
    struct text_table texts;
    uint64_t *starts; /* addresses of modules */
};

/* ---- Bytes --------------------------------------------------------------------------------------
 */

static void compress_profile(struct pprof *p, int flush)
{
    uint8_t room[FLUSH_BYTES] = {0};
    p->zip.next_in = p->profile.bytes.items;
    p->zip.avail_in = (uInt)p->profile.bytes.count;
    do {
        p->zip.next_out = room;
        p->zip.avail_out = sizeof room;
        deflate(&p->zip, flush);
        fwrite(room, 1, sizeof room - p->zip.avail_out, p->out);
    } while (p->zip.avail_out == 0);
    p->profile.bytes.count = 0;
}

/* Ends the part that was being made: it is a field of the profile. */
static void add_part(struct pprof *p, enum profile_field field)
{
    message_bytes(&p->profile, field, &p->part);
    p->part.bytes.count = 0;
    if (p->profile.bytes.count >= FLUSH_BYTES)
        compress_profile(p, Z_NO_FLUSH);
}

static void add_inner(struct pprof *p, uint32_t field)
{
    message_bytes(&p->part, field, &p->inner);
    p->inner.bytes.count = 0;
}

static uint64_t text(struct pprof *p, const char *value)
{
    return text_number(&p->texts, value);
}

/* ---- What was measured --------------------------------------------------------------------------
 */

static void make_type(struct pprof *p, uint32_t metric)
{
    const char *unit = stack_metric_unit(p->stacks, metric);
    message_number(&p->part, TYPE_NAME, text(p, stack_metric_name(p->stacks, metric)));
    message_number(&p->part, TYPE_UNIT, text(p, strcmp(unit, "ns") == 0 ? "nanoseconds" : unit));
}

static void write_types(struct pprof *p)
{
    const struct stacks *s = p->stacks;
    const struct ctp_process *process = profile_process(s->profile, 0);
    for (uint32_t i = 0; i < s->metric_count; i++) {
        make_type(p, i);
        add_part(p, PROFILE_SAMPLE_TYPE);
    }
    make_type(p, 0);
    add_part(p, PROFILE_PERIOD_TYPE);
    message_number(&p->profile, PROFILE_PERIOD, profile_metric(s->profile, s->metrics[0])->period);
    message_number(&p->profile, PROFILE_TIME_NS, process->start_ns);
    uint64_t end_ns = first_process_at_end(s->profile)->end_ns;
    if (end_ns > process->start_ns)
        message_number(&p->profile, PROFILE_DURATION_NS, end_ns - process->start_ns);
    message_number(&p->profile, PROFILE_COMMENT, text(p, "calltrail " CALLTRAIL_VERSION));
    message_number(&p->profile, PROFILE_DEFAULT_TYPE, text(p, stack_metric_name(s, 0)));
}

/* ---- Code ---------------------------------------------------------------------------------------
 */

/* A module keeps the addresses that its own headers have, when it has any and they are free: from
 * `from` on. Returns what is free behind it. */
static uint64_t write_mapping(struct pprof *p, uint32_t i, uint64_t from)
{
    const struct stacks *s = p->stacks;
    const struct ctp_module *module = profile_module(s->profile, i);
    char id[CTP_BUILD_ID_ROOM * 2 + 1];
    uint64_t start = module->base >= from && module->base < UINT64_C(1) << 47 ? module->base : from;
    uint64_t size = module->size && module->size < UINT64_C(1) << 47 ? module->size : PAGE_BYTES;
    p->starts[i] = start;
    message_number(&p->part, MAPPING_ID, (uint64_t)i + 1);
    message_number(&p->part, MAPPING_START, start);
    message_number(&p->part, MAPPING_LIMIT, start + size);
    message_number(&p->part, MAPPING_FILE, text(p, stack_module_path(s, i)));
    message_number(&p->part, MAPPING_BUILD_ID, text(p, stack_build_id(module, id)));
    message_number(&p->part, MAPPING_HAS_FUNCTIONS, 1);
    message_number(&p->part, MAPPING_HAS_FILES, 1);
    message_number(&p->part, MAPPING_HAS_LINES, 1);
    message_number(&p->part, MAPPING_HAS_INLINED, s->options.inlined);
    add_part(p, PROFILE_MAPPING);
    return page_start(start + size + PAGE_BYTES * 2);
}

/* The module that the first process runs, by its path or else its file name, or CTP_NONE. */
static uint32_t main_module(const struct stacks *s)
{
    const char *command = profile_string(s->profile, profile_process(s->profile, 0)->command);
    uint32_t found = CTP_NONE;
    for (uint32_t i = profile_module_count(s->profile); *command && i-- > 0;) {
        const char *path = stack_module_path(s, i);
        if (strcmp(path, command) == 0)
            return s->labels.modules[i];
        if (strcmp(path_file(path), path_file(command)) == 0)
            found = s->labels.modules[i];
    }
    return found;
}

/* pprof takes the first mapping for the program. */
static void write_mappings(struct pprof *p)
{
    const struct stacks *s = p->stacks;
    uint32_t count = profile_module_count(s->profile), first = main_module(s);
    uint64_t next = PAGE_BYTES;
    p->starts = must_calloc((size_t)count + 1, sizeof *p->starts);
    if (first != CTP_NONE)
        next = write_mapping(p, first, next);
    for (uint32_t i = 0; i < count; i++)
        if (i != first && s->labels.modules[i] == i) /* else the same as an earlier one */
            next = write_mapping(p, i, next);
}

static void write_functions(struct pprof *p)
{
    const struct stacks *s = p->stacks;
    char room[STACK_NAME_ROOM];
    for (uint32_t i = 0; i < s->labels.items.count; i++) {
        const struct ctp_function *function = stack_function(s, i);
        message_number(&p->part, FUNCTION_ID, (uint64_t)i + 1);
        message_number(&p->part, FUNCTION_NAME, text(p, stack_label_name(s, i, room)));
        message_number(&p->part, FUNCTION_SYMBOL,
                       text(p, profile_string(s->profile, function->name)));
        message_number(&p->part, FUNCTION_FILE,
                       text(p, profile_string(s->profile, function->file)));
        message_number(&p->part, FUNCTION_LINE, function->line);
        add_part(p, PROFILE_FUNCTION);
    }
}

static void add_line(struct pprof *p, uint32_t label, uint32_t line, uint32_t column)
{
    message_number(&p->inner, LINE_FUNCTION, (uint64_t)label + 1);
    message_number(&p->inner, LINE_LINE, line);
    message_number(&p->inner, LINE_COLUMN, column);
    add_inner(p, LOCATION_LINE);
}

static void write_locations(struct pprof *p)
{
    const struct stacks *s = p->stacks;
    for (uint32_t i = 0; i < s->frames.count; i++) {
        const struct stack_frame *frame = &s->frames.items[i];
        const struct ctp_frame *source = profile_frame(s->profile, frame->source);
        message_number(&p->part, LOCATION_ID, (uint64_t)i + 1);
        if (frame->module != CTP_NONE) {
            message_number(&p->part, LOCATION_MAPPING, (uint64_t)frame->module + 1);
            message_number(&p->part, LOCATION_ADDRESS, p->starts[frame->module] + frame->offset);
        } else if (stack_kind(s, frame) == LABEL_PLACE) {
            message_number(&p->part, LOCATION_ADDRESS, frame->offset);
        }
        bool has_inlined = s->options.inlined && !source->gap && !frame->is_alone;
        uint32_t lines = has_inlined ? source->line_count : 0;
        for (uint32_t k = 0; k + 1 < lines; k++) {
            const struct ctp_line *line = profile_frame_line(s->profile, source, k);
            uint32_t label = line ? s->line_labels[source->first_line + k] : CTP_NONE;
            if (label != CTP_NONE)
                add_line(p, label, line->line, line->column);
        }
        add_line(p, frame->label, frame->line, frame->column);
        add_part(p, PROFILE_LOCATION);
    }
}

/* ---- Samples ------------------------------------------------------------------------------------
 */

static void add_label(struct pprof *p, const char *key, const char *string, uint64_t number)
{
    message_number(&p->inner, LABEL_KEY, text(p, key));
    if (string)
        message_number(&p->inner, LABEL_STRING, text(p, string));
    else
        message_number(&p->inner, LABEL_NUMBER, number);
    add_inner(p, SAMPLE_LABEL);
}

static void write_sample(struct pprof *p, uint32_t thread, uint32_t node)
{
    const struct stacks *s = p->stacks;
    for (uint32_t at = node; at != thread; at = s->tree.nodes[at].parent)
        message_varint(&p->inner, (uint64_t)s->tree.nodes[at].label + 1);
    add_inner(p, SAMPLE_LOCATION);
    for (uint32_t i = 0; i < s->metric_count; i++)
        message_varint(&p->inner, s->values[i][node]);
    add_inner(p, SAMPLE_VALUE);
    if (thread) {
        const struct ctp_thread *record = stack_thread_record(s, thread);
        const struct ctp_process *process = profile_process(s->profile, record->process);
        char room[STACK_NAME_ROOM];
        add_label(p, "thread", stack_thread_name(s, thread, room), 0);
        add_label(p, "tid", NULL, record->tid);
        add_label(p, "process", path_file(profile_string(s->profile, process->command)), 0);
        add_label(p, "pid", NULL, process->pid);
    }
    add_part(p, PROFILE_SAMPLE);
}

static bool has_cost(const struct stacks *s, uint32_t node)
{
    for (uint32_t i = 0; i < s->metric_count; i++)
        if (s->values[i][node])
            return true;
    return false;
}

static void write_samples(struct pprof *p)
{
    const struct stacks *s = p->stacks;
    for (uint32_t thread = TREE_NONE; (thread = stack_thread(s, thread)) != TREE_NONE;)
        for (uint32_t i = thread + 1; i < thread + s->tree.sizes[thread]; i++)
            if (has_cost(s, i))
                write_sample(p, thread, i);
}

int export_pprof(const struct stacks *stacks, FILE *out, struct ct_error *err)
{
    struct pprof p = {.stacks = stacks, .out = out};
    if (deflateInit2(&p.zip, Z_BEST_SPEED, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY) !=
        Z_OK)
        return ct_fail(err, "zlib cannot start: %s", p.zip.msg ? p.zip.msg : "no memory");
    text_table_init(&p.texts);
    write_types(&p);
    write_mappings(&p);
    write_functions(&p);
    write_locations(&p);
    write_samples(&p);
    for (uint32_t i = 0; i < p.texts.offsets.count; i++) {
        message_text(&p.profile, PROFILE_STRING, text_of(&p.texts, i));
        if (p.profile.bytes.count >= FLUSH_BYTES)
            compress_profile(&p, Z_NO_FLUSH);
    }
    compress_profile(&p, Z_FINISH);
    deflateEnd(&p.zip);
    vec_free(&p.profile.bytes);
    vec_free(&p.part.bytes);
    vec_free(&p.inner.bytes);
    text_table_free(&p.texts);
    free(p.starts);
    return CT_OK;
}
