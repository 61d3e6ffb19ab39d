/*
 * What engine exact says, read from outside: the mirror of the thread's stack from the process's
 * memory, the records from the arena, which is a file.
 */
#ifndef EXACT_ENGINE_H
#define EXACT_ENGINE_H

#include "exact_code.h"
#include "exact_contexts.h"

#include "runtime/exact/exact_format.h"

struct engine {
    pid_t pid;
    uint64_t state_at;    /* address of the thread's exact_state */
    uint64_t mirror;      /* in the process's memory */
    uint64_t arena_start; /* likewise */
    uint64_t arena_bytes;
    const uint8_t *arena; /* here */
    const struct arena_thread *thread;
    uint64_t *counts_before; /* by the record's address / ARENA_RECORD_ALIGN */
    uint64_t slow_before[SLOW_REASONS];
};

/*
 * Finds the engine in a stopped process. `ready` is false as long as its main thread does not count
 * yet.
 */
int engine_find(struct engine *engine, const struct code_view *code, uint64_t fs_base, bool *ready,
                struct ct_error *err);
void engine_free(struct engine *engine);

/* The record that the mirror has for the frame with this return address; 0: none. */
uint64_t engine_record(const struct engine *engine, uint64_t slot, uint64_t ret);

/* The context that a record stands for. */
uint32_t engine_context(const struct engine *engine, struct contexts *contexts, uint64_t record);

/* The window begins: what has been counted so far. */
void engine_begin(struct engine *engine);

/* The window is over: adds what was counted in it to `counted` of each context. */
void engine_end(const struct engine *engine, struct contexts *contexts);

#endif
