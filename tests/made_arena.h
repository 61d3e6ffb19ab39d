/*
 * An arena made by hand, as a runtime would have left it: two modules, a phase, and two threads, of
 * which the first has samples, and records of engine exact with a trace. Damage is done to a copy,
 * which ends where memory ends: one byte too far is a fault.
 */
#ifndef MADE_ARENA_H
#define MADE_ARENA_H

#include "base/vec.h"
#include "fenced.h"
#include "record/collect.h"
#include "record/trace_file.h"
#include "runtime/exact/exact_format.h"

#include <stdio.h>
#include <string.h>

enum { MADE_PID = 0x7ffffffe };               /* above all pids: the process has ended */
static const uint32_t MADE_KIND = UINT32_MAX; /* of modules whose files are not opened */

struct made_arena {
    uint64_t *words;
    size_t room;    /* bytes */
    uint32_t place; /* the next */
};

static inline struct arena_header *made_header(const struct made_arena *a)
{
    return (struct arena_header *)a->words;
}

static inline void *made_at(const struct made_arena *a, uint32_t place)
{
    return a->words + place;
}

/* The place of so many bytes, all zero. */
static inline uint32_t made_take(struct made_arena *a, size_t bytes)
{
    uint32_t place = a->place;
    a->place += (uint32_t)((bytes + 7) / 8);
    if ((size_t)a->place * 8 > a->room)
        abort();
    return place;
}

static inline void made_module(struct made_arena *a, uint32_t id, const char *path)
{
    struct arena_header *h = made_header(a);
    size_t length = strlen(path);
    uint32_t place = made_take(a, sizeof(struct arena_module) + length);
    struct arena_module *m = made_at(a, place);
    *m = (struct arena_module){.next = h->first_module,
                               .id = id,
                               .start = id * UINT64_C(0x10000),
                               .end = id * UINT64_C(0x10000) + 0x2000,
                               .base = id * UINT64_C(0x10000),
                               .kind = MADE_KIND,
                               .path_bytes = (uint32_t)length};
    memcpy(m + 1, path, length);
    h->first_module = place;
}

static inline void made_phase(struct made_arena *a, uint32_t number, const char *name)
{
    struct arena_header *h = made_header(a);
    size_t length = strlen(name);
    uint32_t place = made_take(a, sizeof(struct arena_phase) + length);
    struct arena_phase *p = made_at(a, place);
    *p = (struct arena_phase){h->first_phase, number, (uint32_t)length, 0};
    memcpy(p + 1, name, length);
    h->first_phase = place;
}

static inline uint32_t made_thread(struct made_arena *a, uint32_t tid, const char *name)
{
    struct arena_header *h = made_header(a);
    uint32_t place = made_take(a, sizeof(struct arena_thread));
    struct arena_thread *t = made_at(a, place);
    *t = (struct arena_thread){.next = h->first_thread, .tid = tid, .start_ns = 5, .end_ns = 900};
    strncpy(t->name, name, sizeof t->name);
    h->first_thread = place;
    return place;
}

/* Behind the last node of a thread, in a chunk that has room. */
static inline uint32_t made_node(struct made_arena *a, uint32_t thread, uint32_t parent,
                                 uint64_t key, uint32_t count)
{
    struct arena_thread *t = made_at(a, thread);
    uint32_t node_bytes = made_header(a)->node_bytes;
    if (!t->first_chunk)
        t->first_chunk = made_take(a, chunk_bytes(node_bytes));
    struct arena_chunk *chunk = made_at(a, t->first_chunk);
    struct arena_node *n = chunk_node(chunk, node_bytes, chunk->count++);
    *n = (struct arena_node){.key = key, .parent = parent, .count = count};
    t->samples += count;
    return (uint32_t)((uint64_t *)n - a->words);
}

/* One chunk has all records of a thread, of which none has sites. */
static inline uint32_t made_record(struct made_arena *a, uint32_t thread, uint32_t parent,
                                   uint64_t site, uint64_t callee, uint64_t count)
{
    enum { MOST_RECORDS = 8 };
    struct exact_counts *counts = exact_counts_in(made_at(a, thread));
    if (!counts->first_record_chunk) {
        uint32_t place = made_take(a, 48 + MOST_RECORDS * arena_record_bytes(0));
        struct arena_record_chunk *chunk = made_at(a, place);
        chunk->start = 48 - place * 8 % ARENA_RECORD_ALIGN; /* so that places are multiples */
        chunk->room = (uint32_t)(MOST_RECORDS * arena_record_bytes(0));
        counts->first_record_chunk = place;
    }
    struct arena_record_chunk *chunk = made_at(a, counts->first_record_chunk);
    uint32_t place = counts->first_record_chunk + (chunk->start + chunk->used) / 8;
    chunk->used += (uint32_t)arena_record_bytes(0);
    struct arena_record *r = made_at(a, place);
    *r = (struct arena_record){
        .site = site, .callee = callee, .parent = parent, .is_made = 1, .count = count};
    return place;
}

static inline void made_trace(struct made_arena *a, uint32_t thread, const uint32_t *places,
                              uint32_t count)
{
    struct exact_counts *counts = exact_counts_in(made_at(a, thread));
    uint32_t place = made_take(a, sizeof(struct arena_trace_chunk));
    struct arena_trace_chunk *chunk = made_at(a, place);
    memcpy(chunk->places, places, count * sizeof *places);
    chunk->count = count;
    counts->first_trace_chunk = place;
}

/* main calls f 30 times and g once; 7 samples are in f, 2 in a phase of main. */
static inline struct made_arena made_arena(const struct arena_events *events, bool is_exact)
{
    struct made_arena a = {.room = is_exact ? 100 << 10 : 40 << 10};
    a.words = must_calloc(a.room / 8, 8);
    struct arena_header *h = made_header(&a);
    a.place = (sizeof *h + 7) / 8;
    h->magic = ARENA_MAGIC;
    h->version = ARENA_VERSION;
    h->header_bytes = sizeof *h;
    h->pid = MADE_PID;
    h->source = SOURCE_PERF;
    h->events = *events;
    strcpy(h->program, "/bin/made");
    arena_lay_out(h);
    made_module(&a, 1, "/bin/made");
    made_module(&a, 2, "/lib/made.so");
    made_phase(&a, 1, "reading");
    uint32_t first = made_thread(&a, 10, "first");
    made_thread(&a, 11, "second");
    const uint64_t main = KEY_MAKE(1, 0, 0x100), f = KEY_MAKE(2, KEY_IS_PC, 0x200);
    uint32_t root = made_node(&a, first, 0, KEY_MAKE(0, KEY_ROOT, 0), 0);
    made_node(&a, first, made_node(&a, first, root, main, 0), f, 7);
    made_node(&a, first, made_node(&a, first, root, KEY_MAKE(0, KEY_PHASE, 1), 0), main, 2);
    if (is_exact) {
        uint32_t start = made_record(&a, first, 0, 0, KEY_MAKE(1, KEY_IS_PC, 0xf0), 1);
        uint32_t to_f = made_record(&a, first, start, main, f, 30);
        uint32_t to_g =
            made_record(&a, first, start, KEY_MAKE(1, 0, 0x120), KEY_MAKE(2, KEY_IS_PC, 0x300), 1);
        made_trace(&a, first, (const uint32_t[]){to_f, to_g, to_f}, 3);
    }
    h->allocated = h->used = (uint64_t)a.place * 8;
    return a;
}

/* A supervisor that has this arena, of a process that has ended. */
static inline struct server server_with(const struct fenced *arena,
                                        const struct record_engine *engine,
                                        const struct arena_events *events)
{
    struct server server = {.engine = engine, .period_ns = 1001001, .events = *events};
    struct server_arena only = {.header = (struct arena_header *)(void *)arena->bytes,
                                .pid = MADE_PID,
                                .allocated = arena->size,
                                .is_gone = true};
    ((struct exact_settings *)(void *)server.settings)->flags = EXACT_HEIGHTS;
    open_maps_begin(&server.maps);
    vec_push(&server.arenas, only);
    return server;
}

static inline void server_without(struct server *server)
{
    vec_free(&server->arenas);
    open_maps_end(&server->maps);
}

static inline int collect_bytes(const struct fenced *arena, const struct record_engine *engine,
                                const struct arena_events *events, const char *output,
                                struct ct_error *err)
{
    char *command[] = {"made", NULL};
    struct record_options options = {.output = output, .rate_hz = 999, .command = command};
    struct server server = server_with(arena, engine, events);
    struct recording recording = {
        .options = &options, .server = &server, .is_written = true, .ticks_per_ns = 1};
    int status = collect_profile(&recording, err);
    server_without(&server);
    return status;
}

static inline int trace_bytes(const struct fenced *arena, const char *output, struct ct_error *err)
{
    struct arena_events events = {.mask = EVENT_CPU};
    struct server server = server_with(arena, record_engine_at(ENGINE_exact), &events);
    int status = trace_file_write(&server, output, err);
    server_without(&server);
    return status;
}

#endif
