#include "record/engine_encode_dictionary.h"

#include "base/vec.h"
#include "encoding/dictionary.h"
#include "runtime/encode/encode_format.h"

#include <inttypes.h>
#include <stdio.h>

/* A dictionary in the making. */
struct written {
    struct frames *frames;
    VEC(uint8_t) bytes;
    size_t whole; /* of them, in whole records */
};

/* Chunks of an arena, of which nothing is trusted: there can be `most`. */
static bool next_chunk(struct dictionary_bytes *b)
{
    const struct arena_view *v = b->context;
    const struct encode_chunk *chunk =
        b->most && b->left ? view_at(v, (uint32_t)b->place, sizeof *chunk) : NULL;
    if (!chunk || !view_holds(v, chunk, sizeof *chunk + (uint64_t)chunk->room))
        return false;
    uint64_t bytes = chunk->room < b->left ? chunk->room : b->left;
    b->most--;
    b->place = chunk->next;
    b->at = (const uint8_t *)(chunk + 1);
    b->end = b->at + bytes;
    b->left -= bytes;
    return true;
}

static uint64_t to_frame(struct dictionary_copier *copier, uint64_t key)
{
    struct written *w = copier->context;
    return key ? frame_for(w->frames, key) : CTP_NONE;
}

static void put(struct dictionary_copier *copier, const uint8_t *bytes, size_t count)
{
    struct written *w = copier->context;
    for (size_t i = 0; i < count; i++)
        vec_push(&w->bytes, bytes[i]);
}

static void end_record(struct dictionary_copier *copier)
{
    struct written *w = copier->context;
    w->whole = w->bytes.count;
}

/* --- how the encoding went on ------------------------------------------------------------------
 */

static const struct encode_history *history_of_most_edges(const struct arena_view *v)
{
    const struct encode_history *h, *most = NULL;
    uint32_t most_edges = 0;
    VIEW_EACH(v, encode_process_in(view_header(v))->first_history, h) {
        uint32_t count = h->count < HISTORY_STEPS ? h->count : HISTORY_STEPS;
        uint32_t edges = count ? h->steps[count - 1].edges : 0;
        if (edges > most_edges) {
            most_edges = edges;
            most = h;
        }
    }
    return most;
}

/* Rows of numbers; `info --encoding` makes a table of them. */
static void write_progress(const struct arena_view *v, struct profile_writer *writer,
                           uint32_t process)
{
    const struct encode_history *h = history_of_most_edges(v);
    uint32_t count = !h ? 0 : h->count < HISTORY_STEPS ? h->count : HISTORY_STEPS;
    enum { ROW = 160 };
    char text[HISTORY_STEPS * ROW] = "", *to = text;
    for (uint32_t i = 0; i < count; i++) {
        const struct encode_step *s = &h->steps[i];
        to += snprintf(to, ROW, "%" PRIu64 " %u %u %u %" PRIu64 " %u %" PRIu64 ";",
                       (s->at_ns - view_header(v)->start_ns) / 1000, s->functions, s->edges,
                       s->coded_edges, s->ids, s->entries, s->pushes);
    }
    if (count)
        profile_fact_string(writer, CTP_SCOPE_PROCESS, process, "encode_progress", text);
}

static void write_depths(const struct arena_view *v, struct profile_writer *writer,
                         uint32_t process)
{
    uint64_t depths[HISTORY_DEPTHS] = {0}, sum = 0;
    const struct encode_history *h;
    char text[HISTORY_DEPTHS * 24] = "", *to = text;
    VIEW_EACH(v, encode_process_in(view_header(v))->first_history, h) {
        for (unsigned i = 0; i < HISTORY_DEPTHS; i++) {
            depths[i] += h->depths[i];
            sum += h->depths[i];
        }
    }
    for (unsigned i = 0; i < HISTORY_DEPTHS; i++)
        to += snprintf(to, 24, i ? " %" PRIu64 : "%" PRIu64, depths[i]);
    if (sum)
        profile_fact_string(writer, CTP_SCOPE_PROCESS, process, "encode_depths", text);
}

void encode_write_process(const struct arena_view *v, struct frames *frames,
                          struct profile_writer *writer, uint32_t process)
{
    const struct arena_header *h = view_header(v);
    const struct encode_log *log;
    write_progress(v, writer, process);
    write_depths(v, writer, process);
    VIEW_EACH(v, encode_process_in(h)->first_log, log) {
        struct written w = {.frames = frames};
        struct dictionary_copier copier = {to_frame, put, end_record, &w};
        struct dictionary_bytes bytes = {.more = next_chunk,
                                         .context = v,
                                         .left = log->bytes,
                                         .place = log->first_chunk,
                                         .most = v->size / sizeof(struct encode_chunk)};
        dictionary_copy(&copier, &bytes);
        struct ctp_dictionary out = {.run = encode_run(h),
                                     .size = w.whole,
                                     .number = log->number,
                                     .tid = log->tid,
                                     .process = process};
        profile_add_dictionary(writer, &out, w.bytes.items);
        vec_free(&w.bytes);
    }
}
