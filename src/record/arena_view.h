/*
 * A view of one arena, bounded by what is allocated of it.
 *
 * An arena is untrusted: the program that it lies in may have written anything to it. Every place
 * is checked before it is followed, and lists are cut when they are longer than the arena could
 * hold.
 */
#ifndef RECORD_ARENA_VIEW_H
#define RECORD_ARENA_VIEW_H

#include "record/server.h"

struct arena_view {
    const char *bytes;
    uint64_t size;
    struct arena_image before; /* what was counted up to then does not count */
};

/* The arena as it is now. */
struct arena_view arena_view_now(const struct server_arena *arena);

/* The arena as it is, or as it was when --duration ended. */
struct arena_view arena_view_at_end(const struct server_arena *arena);

static inline const struct arena_header *view_header(const struct arena_view *v)
{
    return (const struct arena_header *)v->bytes;
}

/* What is at an offset, or a place, if that many bytes are there; or NULL. */
static inline const void *view_bytes(const struct arena_view *v, uint64_t offset, uint64_t bytes)
{
    return offset && offset <= v->size && bytes <= v->size - offset ? v->bytes + offset : NULL;
}

static inline const void *view_at(const struct arena_view *v, uint32_t place, uint64_t bytes)
{
    return view_bytes(v, (uint64_t)place * 8, bytes);
}

/* Whether something in the view is so long. */
static inline bool view_holds(const struct arena_view *v, const void *item, uint64_t bytes)
{
    return view_bytes(v, (uint64_t)((const char *)item - v->bytes), bytes) != NULL;
}

/* A loop over a list, newest first: `item` points to each in turn, of so many bytes. */
#define VIEW_EACH_OF(v, first, item, bytes)                                                        \
    for (uint64_t place_ = (first), left_ = (v)->size / (bytes);                                   \
         left_-- && ((item) = view_at((v), (uint32_t)place_, (bytes))); place_ = (item)->next)
#define VIEW_EACH(v, first, item) VIEW_EACH_OF(v, first, item, sizeof *(item))

/* The modules of an arena, newest first. */
struct module_walk {
    const struct arena_view *view;
    uint32_t next; /* place */
    uint64_t left; /* how many there can be */
    /* The current one: */
    const struct arena_module *module;
    char path[4097];
};

struct module_walk module_walk_begin(const struct arena_view *view);

/* Goes to the next module. False: there is none. */
bool module_walk_next(struct module_walk *walk);

/* The map of the current module, or NULL. */
const struct map *module_walk_map(const struct module_walk *walk, struct open_maps *maps);

#endif
