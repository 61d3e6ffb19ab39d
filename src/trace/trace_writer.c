#include "trace/trace.h"

#include <string.h>
#include <xxhash.h>

enum { BUFFER_BYTES = 1 << 16 };

struct trace_writer {
    struct trace_state state;
    struct new_file file;
    struct ct_error error;
    bool failed;
    uint64_t word; /* bits that do not make a byte yet */
    unsigned bits;
    uint64_t stream_bytes;
    XXH3_state_t *hash;
    size_t used;
    uint8_t buffer[BUFFER_BYTES];
};

int trace_writer_open(const char *path, struct trace_writer **out, struct ct_error *err)
{
    struct trace_writer *w = must_calloc(1, sizeof *w);
    if (file_begin(path, &w->file, err) != CT_OK) {
        free(w);
        return CT_ERROR;
    }
    trace_state_begin(&w->state);
    w->hash = XXH3_createState();
    XXH3_64bits_reset(w->hash);
    static const struct trace_header nothing; /* its place */
    fwrite(&nothing, sizeof nothing, 1, w->file.stream);
    *out = w;
    return CT_OK;
}

static void fail(struct trace_writer *w, const char *what)
{
    if (!w->failed)
        ct_fail(&w->error, "%s: %s", w->file.path, what);
    w->failed = true;
}

static void flush(struct trace_writer *w)
{
    XXH3_64bits_update(w->hash, w->buffer, w->used);
    fwrite(w->buffer, 1, w->used, w->file.stream); /* errors are seen at the commit */
    w->stream_bytes += w->used;
    w->used = 0;
}

/* `count` is at most 32. */
static void put(struct trace_writer *w, uint64_t value, unsigned count)
{
    w->word |= value << w->bits;
    w->bits += count;
    while (w->bits >= 8) {
        w->buffer[w->used++] = (uint8_t)w->word;
        w->word >>= 8;
        w->bits -= 8;
        if (w->used == BUFFER_BYTES)
            flush(w);
    }
}

static void put_number(struct trace_writer *w, uint64_t value)
{
    unsigned length = value ? 64 - (unsigned)__builtin_clzll(value) : 0;
    if (length > 63) {
        fail(w, "a number has more than 63 bits");
        length = 0;
    }
    put(w, length, 6);
    put(w, value & UINT32_MAX, length < 32 ? length : 32);
    if (length > 32)
        put(w, value >> 32, length - 32);
}

static void put_string(struct trace_writer *w, const char *text)
{
    size_t length = strlen(text);
    if (length > TRACE_NAME_MAX)
        length = TRACE_NAME_MAX;
    put_number(w, length);
    for (size_t i = 0; i < length; i++)
        put(w, (uint8_t)text[i], 8);
}

static void put_escape(struct trace_writer *w, enum trace_escape escape)
{
    put(w, 15, 4);
    put(w, escape, 2);
}

uint32_t trace_add_function(struct trace_writer *w, const char *name, const char *module)
{
    put_escape(w, TRACE_ESCAPE_FUNCTION);
    put_string(w, name);
    put_string(w, module);
    vec_push(&w->state.functions, (struct trace_function){0, 0}); /* the names are the reader's */
    return (uint32_t)w->state.functions.count - 1;
}

uint32_t trace_add_label(struct trace_writer *w, uint32_t function, uint64_t site)
{
    if (function >= w->state.functions.count) {
        fail(w, "a label is of a function that was not added");
        return 0;
    }
    put_escape(w, TRACE_ESCAPE_LABEL);
    put_number(w, function);
    put_number(w, site);
    trace_state_add_label(&w->state, (struct trace_label){function, site});
    return (uint32_t)w->state.labels.count - 1;
}

void trace_choose_thread(struct trace_writer *w, uint32_t thread)
{
    if (thread > w->state.threads.count) {
        fail(w, "threads are numbered one by one");
        return;
    }
    if (thread == w->state.thread)
        return;
    put_escape(w, TRACE_ESCAPE_THREAD);
    put_number(w, thread);
    trace_state_choose_thread(&w->state, thread);
}

void trace_write_call(struct trace_writer *w, uint32_t label)
{
    struct trace_state *s = &w->state;
    if (label >= s->labels.count) {
        fail(w, "a call has a label that was not added");
        return;
    }
    const struct trace_recent *recent = trace_state_recent(s);
    uint32_t rank = 0;
    while (rank < recent->count && recent->labels[rank] != label)
        rank++;
    if (rank == recent->count) {
        put(w, 7, 4);
        put(w, label, trace_state_label_bits(s));
    } else if (rank == 0) {
        put(w, 1, 2);
    } else {
        put(w, 3 | (uint64_t)(rank - 1) << 3, 6);
    }
    trace_state_call(s, label);
}

void trace_write_return(struct trace_writer *w)
{
    if (trace_state_return(&w->state))
        put(w, 0, 1);
    else
        fail(w, "there is no call to return from");
}

int trace_writer_commit(struct trace_writer *w, struct ct_error *err)
{
    put_escape(w, TRACE_ESCAPE_END);
    if (w->bits)
        put(w, 0, 8 - w->bits);
    flush(w);
    struct trace_header header = {.version = TRACE_VERSION,
                                  .header_bytes = sizeof header,
                                  .event_count = w->state.events,
                                  .stream_bytes = w->stream_bytes,
                                  .stream_hash = XXH3_64bits_digest(w->hash)};
    memcpy(header.magic, TRACE_MAGIC, sizeof header.magic);
    if (fseek(w->file.stream, 0, SEEK_SET) != 0)
        fail(w, "cannot be written twice at the beginning");
    fwrite(&header, sizeof header, 1, w->file.stream);
    int status = CT_ERROR;
    if (w->failed) {
        *err = w->error;
        file_abandon(&w->file);
    } else {
        status = file_commit(&w->file, err);
    }
    XXH3_freeState(w->hash);
    trace_state_free(&w->state);
    free(w);
    return status;
}
