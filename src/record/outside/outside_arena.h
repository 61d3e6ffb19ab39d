/*
 * Arenas of processes without a runtime: what was sampled of them is written here, in the format
 * that a runtime would use, so that all that reads arenas works the same.
 */
#ifndef RECORD_OUTSIDE_ARENA_H
#define RECORD_OUTSIDE_ARENA_H

#include "base/key_set.h"
#include "record/server.h"

/* The header is NULL if there was no room for an arena. */
struct outside_arena {
    struct server *server;
    struct arena_header *header;
    uint32_t number; /* as in struct server_arena */
};

/* The contexts of a thread. */
struct outside_tree {
    struct arena_thread *record;
    struct arena_chunk *chunk; /* the newest */
    struct arena_times *times; /* the newest */
    struct key_set nodes;      /* by parent and key, */
    VEC(uint32_t) places;      /* and where each is */
};

struct outside_arena outside_arena_make(struct server *server, uint32_t pid, uint32_t parent_pid,
                                        uint64_t start_ns, uint32_t window_bytes);

static inline struct arena_header *outside_header(const struct outside_arena *a)
{
    return a->header;
}

/* What is to be known of a module; its id is 0 when there was no room. */
struct outside_module_fields {
    uint64_t start, end, base;
    uint64_t device, inode; /* of the file that its map was made of; 0: it has no map */
    enum arena_module_kind kind;
    const char *path;
};

uint32_t outside_arena_add_module(const struct outside_arena *arena,
                                  const struct outside_module_fields *fields);

/* A thread without nodes, of which nothing was sampled; NULL: there was no room. */
struct arena_thread *outside_arena_add_thread(const struct outside_arena *arena, uint32_t tid,
                                              const char *name, uint64_t start_ns, uint64_t end_ns);

/* A thread with its first node. False: there was no room. */
bool outside_tree_begin(const struct outside_arena *arena, struct outside_tree *tree, uint32_t tid,
                        const char *name, uint64_t start_ns);
void outside_tree_end(struct outside_tree *tree);

/* The child of a node, by their places; 0: there was no room, or there is no parent. */
uint32_t outside_tree_child(const struct outside_arena *arena, struct outside_tree *tree,
                            uint32_t parent, uint64_t key);

/* Counts a sample at a node, and notes when it came; at place 0 it is lost. */
void outside_tree_count(const struct outside_arena *arena, struct outside_tree *tree, uint32_t node,
                        unsigned end, uint64_t time_ns);

/*
 * A node's own height, in words, is kept where a runtime counts returns: from outside there are
 * none. The highest bit says that it was met with another height, too.
 */
#define OUTSIDE_HEIGHT_VARIES UINT32_C(0x80000000)
void outside_tree_note_height(const struct outside_arena *arena, uint32_t node, uint32_t words);

#endif
