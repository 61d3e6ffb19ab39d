#include "trace/trace.h"

#include <inttypes.h>
#include <string.h>
#include <xxhash.h>

/* `count` bits, at most 57; zeros behind the end, which is noted. */
static uint64_t bits(struct trace *t, unsigned count)
{
    if (t->bit_count - t->bit < count) {
        t->overrun = true;
        t->bit = t->bit_count;
        return 0;
    }
    uint64_t at = t->bit / 8, left = t->bit_count / 8 - at, word = 0;
    memcpy(&word, t->bytes + at, left < 8 ? (size_t)left : 8);
    word >>= t->bit % 8;
    t->bit += count;
    return word & ((UINT64_C(1) << count) - 1);
}

/* A number: how many bits it has, in 6 bits, and those. */
static uint64_t number(struct trace *t)
{
    unsigned length = (unsigned)bits(t, 6);
    uint64_t low = bits(t, length < 32 ? length : 32);
    return length > 32 ? low | bits(t, length - 32) << 32 : low;
}

static int damaged(const struct trace *t, struct ct_error *err, const char *what)
{
    return ct_fail(err, "%s: is damaged: %s (after event %" PRIu64 ")", t->name,
                   t->overrun ? "it ends in the middle of something" : what, t->state.events);
}

static int read_string(struct trace *t, uint32_t *out, struct ct_error *err)
{
    uint64_t length = number(t);
    if (length > TRACE_NAME_MAX || length > (t->bit_count - t->bit) / 8)
        return damaged(t, err, "a name is too long");
    char *text = must_calloc((size_t)length + 1, 1);
    for (uint64_t i = 0; i < length; i++)
        text[i] = (char)bits(t, 8);
    *out = strings_add(&t->state.strings, text);
    free(text);
    return CT_OK;
}

static int read_function(struct trace *t, struct ct_error *err)
{
    struct trace_function function = {0};
    CT_TRY(read_string(t, &function.name, err));
    CT_TRY(read_string(t, &function.module, err));
    vec_push(&t->state.functions, function);
    return CT_OK;
}

static int read_label(struct trace *t, struct ct_error *err)
{
    uint64_t function = number(t), site = number(t);
    if (t->overrun || function >= t->state.functions.count)
        return damaged(t, err, "a label is of a function that there is not");
    trace_state_add_label(&t->state, (struct trace_label){(uint32_t)function, site});
    return CT_OK;
}

static int read_thread(struct trace *t, struct ct_error *err)
{
    uint64_t thread = number(t);
    if (t->overrun || thread > t->state.threads.count)
        return damaged(t, err, "events are of a thread that there is not");
    trace_state_choose_thread(&t->state, (uint32_t)thread);
    return CT_OK;
}

static int read_end(struct trace *t, struct trace_event *event, struct ct_error *err)
{
    if (t->bit_count - t->bit >= 8 || bits(t, (unsigned)(t->bit_count - t->bit)) != 0)
        return damaged(t, err, "something follows the end");
    if (t->state.events != t->event_count)
        return damaged(t, err, "the header has another number of events");
    event->kind = TRACE_END;
    t->bit = t->bit_count;
    return CT_OK;
}

static int call(struct trace *t, struct trace_event *event, uint64_t label, struct ct_error *err)
{
    if (t->overrun || label >= t->state.labels.count)
        return damaged(t, err, "a call is of a label that there is not");
    trace_state_call(&t->state, (uint32_t)label);
    event->kind = TRACE_CALL;
    event->label = (uint32_t)label;
    event->thread = t->state.thread;
    return CT_OK;
}

static int call_recent(struct trace *t, struct trace_event *event, uint64_t rank,
                       struct ct_error *err)
{
    const struct trace_recent *recent = trace_state_recent(&t->state);
    if (t->overrun || rank >= recent->count)
        return damaged(t, err, "a call is of a recent callee that there is not");
    return call(t, event, recent->labels[rank], err);
}

int trace_next(struct trace *t, struct trace_event *event, struct ct_error *err)
{
    struct trace_state *s = &t->state;
    for (;;) {
        if (bits(t, 1) == 0) {
            if (t->overrun || !trace_state_return(s))
                return damaged(t, err, "a return has no call");
            *event = (struct trace_event){TRACE_RETURN, 0, s->thread};
            return CT_OK;
        }
        if (bits(t, 1) == 0)
            return call_recent(t, event, 0, err);
        if (bits(t, 1) == 0)
            return call_recent(t, event, 1 + bits(t, 3), err);
        if (bits(t, 1) == 0)
            return call(t, event, bits(t, trace_state_label_bits(s)), err);
        uint64_t escape = bits(t, 2);
        if (t->overrun)
            return damaged(t, err, "");
        if (escape == TRACE_ESCAPE_END)
            return read_end(t, event, err);
        CT_TRY(escape == TRACE_ESCAPE_FUNCTION ? read_function(t, err)
               : escape == TRACE_ESCAPE_LABEL  ? read_label(t, err)
                                               : read_thread(t, err));
    }
}

static int check(struct trace *t, const uint8_t *bytes, size_t size, struct ct_error *err)
{
    struct trace_header header;
    if (size < sizeof header || memcmp(bytes, TRACE_MAGIC, sizeof header.magic) != 0)
        return ct_fail(err, "%s: is not a calltrail trace", t->name);
    memcpy(&header, bytes, sizeof header);
    if (header.version != TRACE_VERSION || header.header_bytes != sizeof header)
        return ct_fail(err, "%s: was written by another version of calltrail (format %" PRIu32 ")",
                       t->name, header.version);
    if (header.stream_bytes > size - sizeof header)
        return ct_fail(err, "%s: is truncated: %zu bytes, %" PRIu64 " are missing", t->name, size,
                       header.stream_bytes - (size - sizeof header));
    if (header.stream_bytes < size - sizeof header)
        return ct_fail(err, "%s: is damaged: something follows the trace", t->name);
    t->bytes = bytes + sizeof header;
    t->bit_count = header.stream_bytes * 8;
    t->event_count = header.event_count;
    if (XXH3_64bits(t->bytes, (size_t)header.stream_bytes) != header.stream_hash)
        return ct_fail(err, "%s: is damaged: the hash of its events is wrong", t->name);
    return CT_OK;
}

int trace_from_bytes(const void *bytes, size_t size, const char *name, struct trace *out,
                     struct ct_error *err)
{
    *out = (struct trace){.name = must_strdup(name)};
    trace_state_begin(&out->state);
    int status = check(out, bytes, size, err);
    if (status != CT_OK)
        trace_close(out);
    return status;
}

int trace_open(const char *path, struct trace *out, struct ct_error *err)
{
    struct mapped_file file;
    CT_TRY(file_map(path, &file, err));
    int status = trace_from_bytes(file.bytes, file.size, path, out, err);
    if (status == CT_OK)
        out->file = file;
    else
        file_unmap(&file);
    return status;
}

void trace_close(struct trace *t)
{
    trace_state_free(&t->state);
    free(t->name);
    if (t->file.bytes)
        file_unmap(&t->file);
}
