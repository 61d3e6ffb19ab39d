/*
 * What engine `paths` keeps in an arena: counters of each thread for each module, and what it says
 * of a process. The runtime writes it, the supervisor reads it.
 */
#ifndef PATHS_FORMAT_H
#define PATHS_FORMAT_H

#include "runtime/arena_format.h"

struct paths_process {
    _Atomic uint64_t functions; /* that were relocated, of all modules so far */
    _Atomic uint64_t others;    /* of those modules: that were not */
    _Atomic uint64_t bytes;     /* of copies */
};

static_assert(sizeof(struct paths_process) <= 8 * ENGINE_PROCESS, "it has its place");

struct paths_thread {
    _Atomic uint32_t first_area;      /* place of a list, newest first */
    _Atomic uint32_t modules_without; /* modules for which there was no room */
};

static_assert(sizeof(struct paths_thread) <= 8 * ENGINE_THREAD, "it has its place");

static inline struct paths_process *paths_process_in(const struct arena_header *h)
{
    return (struct paths_process *)(uintptr_t)h->engine_process;
}

static inline struct paths_thread *paths_thread_in(const struct arena_thread *t)
{
    return (struct paths_thread *)(uintptr_t)t->engine;
}

/* The counters of a module, as its plan numbers them. */
struct paths_area {
    uint32_t next;
    uint32_t module_id;
    uint64_t count;
    uint64_t counters[];
};

#endif
