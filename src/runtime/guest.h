/*
 * What the runtime knows of the process that it is a guest in.
 *
 * `guest` lies in a page that is wiped in the child of a fork, however the fork was made: a child
 * finds nothing there, and leaves its parent's arena alone until it has one of its own.
 */
#ifndef RUNTIME_GUEST_H
#define RUNTIME_GUEST_H

#include "runtime/arena_format.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct engine;
struct heap_block;
struct heap_map;
struct thread;
struct walk_modules;

/* Memory with a point in it; see heap.c. */
struct heap_state {
    uint32_t lock;
    struct heap_block *blocks;
    uint64_t room, count;
    struct heap_map *maps; /* see heap_maps.c */
    uint64_t map_room, map_count;
};

/* Memory for the environment of a program that a child of vfork starts (exec_environment.c). */
struct exec_room {
    uint32_t owner; /* the thread that is in it; the kernel clears this */
    void *memory;
    size_t bytes;
};

enum { EXEC_ROOMS = 4 };

struct guest {
    struct arena_header *arena;         /* NULL: not recording */
    uint64_t arena_mapped;              /* bytes of it */
    uint32_t number;                    /* another one in the child of a fork; 0: not recording */
    uint32_t flags;                     /* enum channel_flags */
    const struct engine *engine;        /* NULL: not recording */
    uint64_t settings[ENGINE_SETTINGS]; /* its options, as in the arena */
    uint32_t next_module_id;
    _Atomic(const struct walk_modules *) modules;
    _Atomic uint32_t thread_list_lock;
    struct thread *threads;
    uint32_t threads_apart; /* that have ended; see threads_ended.c */
    struct heap_state heap;
    struct exec_room exec_rooms[EXEC_ROOMS];
    /* Room in the arena was waited for once, and none came: it is not waited for again. */
    bool no_room_for_calls, no_room_for_threads;
    /* Here, since the thread that holds one may be one that a child has not got: of channel.c, and
     * of who puts code back or changes it again (detach.c, pause.c). */
    _Atomic uint32_t message_lock, arena_lock, code_lock;
    _Atomic uint32_t action_lock, wish_lock; /* of masks.c, and of threads_other.c */
};

extern struct guest *guest; /* never NULL once the runtime has started */

/* It gets its page. False: there is none. */
bool guest_begin(void);

/* Does this process run in the memory of another, as a child of vfork does? */
bool has_borrowed_memory(void);

#endif
