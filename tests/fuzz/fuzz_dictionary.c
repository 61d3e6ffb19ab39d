/*
 * Any bytes as the dictionary of a thread, and as the text of a snapshot: read, decode, copy.
 * Nothing may crash, hang or take more memory than the bytes suggest; each step leads towards the
 * thread's first call, and to a word of the edge's caller. The first 12 bytes are a word and a
 * numbering.
 */
#include "encoding/dictionary.h"
#include "encoding/snapshot_text.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { PARTS = 16 };

struct parts {
    void *at[PARTS];
    unsigned count;
};

static void *take(struct dictionary_memory *memory, size_t bytes)
{
    struct parts *parts = memory->context;
    if (parts->count == PARTS)
        abort();
    return parts->at[parts->count++] = calloc(1, bytes);
}

static void decode(const struct dictionary *d, uint64_t word)
{
    /* Entries lead to those before them, and between two entries each function is met once. */
    uint64_t most = (uint64_t)(d->entry_count + 1) * (d->function_count + 1) + 1;
    for (uint64_t i = 0;; i++) {
        uint32_t edge;
        uint64_t caller = 0;
        if (i > most)
            abort();
        if (dictionary_leave(d, word, &edge, &caller) != DICTIONARY_OK || edge == UINT32_MAX)
            return;
        if (dictionary_function_of(d, word) != d->edges[edge].callee ||
            dictionary_function_of(d, caller) != d->edges[edge].caller)
            abort();
        word = caller;
    }
}

static uint64_t same(struct dictionary_copier *copier, uint64_t key)
{
    (void)copier;
    return key;
}

static void put(struct dictionary_copier *copier, const uint8_t *bytes, size_t count)
{
    const uint8_t **expected = copier->context;
    if (memcmp(*expected, bytes, count) != 0)
        abort();
    *expected += count;
}

static void end(struct dictionary_copier *copier)
{
    (void)copier;
}

static void try_text(const uint8_t *data, size_t size)
{
    char *text = calloc(1, size + 1);
    const char *at = text;
    struct snapshot_text s;
    memcpy(text, data, size);
    if (snapshot_text_read(&at, &s)) {
        char again[SNAPSHOT_TEXT_BYTES];
        const char *back = again;
        struct snapshot_text t;
        snapshot_text_write(&s, again);
        if (!snapshot_text_read(&back, &t) || memcmp(&s, &t, sizeof s) != 0)
            abort();
    }
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint64_t word;
    uint32_t numbering;
    try_text(data, size);
    if (size < sizeof word + sizeof numbering)
        return 0;
    memcpy(&word, data, sizeof word);
    memcpy(&numbering, data + sizeof word, sizeof numbering);
    size_t left = size - sizeof word - sizeof numbering;
    uint8_t *bytes = malloc(left ? left : 1); /* exactly as long: the sanitizer sees one too many */
    memcpy(bytes, data + size - left, left);
    const struct dictionary_bytes all = {.at = bytes, .end = bytes + left};
    struct parts parts = {0};
    struct dictionary_memory memory = {take, &parts};
    struct dictionary d;
    if (dictionary_read(&d, &all, numbering, &memory) == DICTIONARY_OK) {
        decode(&d, word);
        for (uint32_t i = 0; i < 64; i++) {
            decode(&d, (uint64_t)i << 32);
            decode(&d, (uint64_t)i << 32 | i % 4);
            decode(&d, i);
        }
    }
    for (unsigned i = 0; i < parts.count; i++)
        free(parts.at[i]);
    const uint8_t *expected = bytes;
    struct dictionary_copier copier = {same, put, end, &expected};
    dictionary_copy(&copier, &all);
    free(bytes);
    return 0;
}
