#include "record/outside/outside_records.h"

#include <linux/perf_event.h>
#include <string.h>

/* Bytes of a record, from the front; what is not there makes all that follows fail, too. */
struct record_cursor {
    const char *at;
    size_t left;
    bool failed;
};

static const void *next_bytes(struct record_cursor *c, uint64_t bytes)
{
    if (c->failed || bytes > c->left) {
        c->failed = true;
        return NULL;
    }
    const void *at = c->at;
    c->at += bytes;
    c->left -= bytes;
    return at;
}

static uint64_t next_word(struct record_cursor *c)
{
    uint64_t word = 0;
    const void *at = next_bytes(c, sizeof word);
    if (at)
        memcpy(&word, at, sizeof word);
    return word;
}

static uint32_t next_half(struct record_cursor *c)
{
    uint32_t half = 0;
    const void *at = next_bytes(c, sizeof half);
    if (at)
        memcpy(&half, at, sizeof half);
    return half;
}

/* At the end of all records but samples: pid and tid, the time, the event. */
enum { TRAILER_BYTES = 24 };

static bool read_trailer(struct record_cursor *c, struct outside_record *out)
{
    if (c->left < TRAILER_BYTES)
        return false;
    struct record_cursor end = {c->at + c->left - TRAILER_BYTES, TRAILER_BYTES, false};
    c->left -= TRAILER_BYTES;
    out->pid = next_half(&end);
    out->tid = next_half(&end);
    out->time_ns = next_word(&end);
    out->id = next_word(&end);
    return true;
}

/* A text that ends before the record does; NULL: it does not. */
static const char *rest_as_text(struct record_cursor *c)
{
    return !c->failed && c->left && memchr(c->at, 0, c->left) ? c->at : NULL;
}

static bool read_user_state(struct record_cursor *c, struct outside_sample *s)
{
    s->abi = next_word(c);
    if (s->abi == PERF_SAMPLE_REGS_ABI_32 || s->abi == PERF_SAMPLE_REGS_ABI_64) {
        const uint64_t *registers = next_bytes(c, OUTSIDE_REGISTERS * sizeof *registers);
        s->registers = s->abi == PERF_SAMPLE_REGS_ABI_64 ? registers : NULL;
    } else if (s->abi != PERF_SAMPLE_REGS_ABI_NONE) {
        return false;
    }
    s->window_bytes = next_word(c);
    s->stack = next_bytes(c, s->window_bytes);
    s->stack_bytes = s->window_bytes ? next_word(c) : 0;
    return !c->failed && s->stack_bytes <= s->window_bytes;
}

static bool read_sample(struct record_cursor *c, uint16_t misc, bool has_chain,
                        struct outside_record *out)
{
    struct outside_sample *s = &out->sample;
    *s = (struct outside_sample){.in_kernel = (misc & PERF_RECORD_MISC_CPUMODE_MASK) ==
                                              PERF_RECORD_MISC_KERNEL};
    out->kind = OUTSIDE_SAMPLE;
    out->id = next_word(c);
    s->ip = next_word(c);
    out->pid = next_half(c);
    out->tid = next_half(c);
    out->time_ns = next_word(c);
    if (has_chain) {
        s->chain_count = next_word(c);
        if (s->chain_count > c->left / sizeof *s->chain)
            return false;
        s->chain = next_bytes(c, s->chain_count * sizeof *s->chain);
    }
    return !c->failed && read_user_state(c, s);
}

static bool read_mapping(struct record_cursor *c, struct outside_record *out)
{
    struct outside_mapping *m = &out->mapping;
    out->kind = OUTSIDE_MAPPING;
    out->pid = next_half(c);
    out->tid = next_half(c);
    m->start = next_word(c);
    m->bytes = next_word(c);
    m->file_offset = next_word(c);
    m->major = next_half(c);
    m->minor = next_half(c);
    m->inode = next_word(c);
    m->generation = next_word(c);
    m->has_generation = true;
    next_bytes(c, 4 + 4); /* protection and flags */
    m->path = rest_as_text(c);
    return m->path && m->bytes && m->bytes <= UINT64_MAX - m->start;
}

static bool read_name(struct record_cursor *c, uint16_t misc, struct outside_record *out)
{
    out->kind = OUTSIDE_NAME;
    out->pid = next_half(c);
    out->tid = next_half(c);
    out->name.text = rest_as_text(c);
    out->name.is_exec = misc & PERF_RECORD_MISC_COMM_EXEC;
    return out->name.text != NULL;
}

static bool read_task(struct record_cursor *c, bool is_fork, struct outside_record *out)
{
    out->kind = is_fork ? OUTSIDE_FORK : OUTSIDE_EXIT;
    out->pid = next_half(c);
    out->fork.parent_pid = next_half(c);
    out->tid = next_half(c);
    out->fork.parent_tid = next_half(c);
    return !c->failed;
}

bool outside_record_read(const void *bytes, size_t size, bool has_chain, struct outside_record *out)
{
    struct perf_event_header h;
    *out = (struct outside_record){0};
    if (size < sizeof h)
        return false;
    memcpy(&h, bytes, sizeof h);
    if (h.size < sizeof h || h.size > size)
        return false;
    struct record_cursor c = {(const char *)bytes + sizeof h, h.size - sizeof h, false};
    if (h.type == PERF_RECORD_SAMPLE)
        return read_sample(&c, h.misc, has_chain, out);
    if (!read_trailer(&c, out))
        return false;
    switch (h.type) {
    case PERF_RECORD_MMAP2:
        return !(h.misc & PERF_RECORD_MISC_MMAP_BUILD_ID) && read_mapping(&c, out);
    case PERF_RECORD_COMM:
        return read_name(&c, h.misc, out);
    case PERF_RECORD_FORK:
    case PERF_RECORD_EXIT:
        return read_task(&c, h.type == PERF_RECORD_FORK, out);
    case PERF_RECORD_LOST:
        out->kind = OUTSIDE_LOST;
        next_word(&c);
        out->lost = next_word(&c);
        return !c.failed;
    case PERF_RECORD_LOST_SAMPLES:
        out->kind = OUTSIDE_LOST;
        out->lost = next_word(&c);
        return !c.failed;
    default:
        return false;
    }
}
