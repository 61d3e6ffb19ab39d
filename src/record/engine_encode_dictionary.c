#include "record/engine_encode_dictionary.h"

#include "base/vec.h"
#include "encoding/dictionary.h"
#include "runtime/encode/encode_format.h"

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

void encode_write_process(const struct arena_view *v, struct frames *frames,
                          struct profile_writer *writer, uint32_t process)
{
    const struct arena_header *h = view_header(v);
    const struct encode_log *log;
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
