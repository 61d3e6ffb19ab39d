/*
 * Reading the dictionary of a thread, and decoding words by it. It is the same in the program,
 * where the bytes are those of an arena and other threads may add to them, and offline, where they
 * may be anything: all that is read is checked, and what does not fit is an error.
 *
 * Nothing here allocates but by the caller's function, prints, or keeps anything.
 */
#ifndef ENCODING_DICTIONARY_H
#define ENCODING_DICTIONARY_H

#include "encoding/dictionary_format.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where the bytes come from: when `at` has reached `end`, `more` goes on to other ones, or says
 * that there are none. */
struct dictionary_bytes {
    const uint8_t *at, *end;
    bool (*more)(struct dictionary_bytes *bytes); /* NULL: that is all */
    /* For its use: */
    const void *context;
    uint64_t left, place, most;
};

/* Zeroed memory that the caller frees; NULL: there is none. */
struct dictionary_memory {
    void *(*take)(struct dictionary_memory *memory, size_t bytes);
    void *context;
};

enum dictionary_status {
    DICTIONARY_OK,
    DICTIONARY_DAMAGED,      /* it is not what the runtime writes */
    DICTIONARY_NO_NUMBERING, /* the snapshot's is not in it */
    DICTIONARY_NO_CONTEXT,   /* the word is none of this numbering */
    DICTIONARY_NO_TASK,      /* the snapshot's is not in it */
    DICTIONARY_NO_MEMORY,
    DICTIONARY_STATUS_COUNT
};

extern const char *const dictionary_status_texts[DICTIONARY_STATUS_COUNT];

struct dictionary_function {
    uint64_t key;
    uint32_t base, numbers; /* its range; none: it has none in this numbering */
    uint32_t rank;
    uint32_t first, count; /* its edges with a code, in `coded` */
};

struct dictionary_edge {
    uint64_t site_key;
    uint32_t caller, callee;
    uint32_t code;
    bool is_tail;
};

struct dictionary_entry {
    uint64_t caller; /* word */
    uint32_t edge;
};

struct dictionary {
    uint32_t function_count, edge_count, entry_count, task_count;
    uint32_t numbered; /* functions that have a range */
    struct dictionary_function *functions;
    struct dictionary_edge *edges;
    struct dictionary_entry *entries;  /* the first is none */
    struct dictionary_snapshot *tasks; /* likewise */
    uint32_t *order, *other_order;     /* functions by their ranges, and as they were before */
    uint32_t *coded;
    uint32_t coded_count, coded_room;
};

/* Reads all of it, and the ranges of one numbering. `bytes` is read twice. */
enum dictionary_status dictionary_read(struct dictionary *dictionary,
                                       const struct dictionary_bytes *bytes, uint32_t numbering,
                                       struct dictionary_memory *memory);

/*
 * Passes records on, as far as they are sound, each key as `translate` has it. Returns whether all
 * of them were.
 */
struct dictionary_copier {
    uint64_t (*translate)(struct dictionary_copier *copier, uint64_t key);
    void (*put)(struct dictionary_copier *copier, const uint8_t *bytes, size_t count);
    void (*end)(struct dictionary_copier *copier); /* of a record */
    void *context;
};

bool dictionary_copy(struct dictionary_copier *copier, const struct dictionary_bytes *bytes);

/* The function of a word; UINT32_MAX: it is none. */
uint32_t dictionary_function_of(const struct dictionary *dictionary, uint64_t word);

enum { DICTIONARY_MOST_CALLS = 1 << 20 };

/*
 * How a word's function was entered: the edge, and the word of its caller. `edge` is UINT32_MAX
 * where the thread begins. Every step leads to a word that is nearer to that.
 */
enum dictionary_status dictionary_leave(const struct dictionary *dictionary, uint64_t word,
                                        uint32_t *edge, uint64_t *caller);

#endif
