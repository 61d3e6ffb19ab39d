/* From keys of an arena to frames of the profile, with the functions and modules they are of. */
#ifndef RECORD_FRAMES_H
#define RECORD_FRAMES_H

#include "base/key_set.h"
#include "profile/profile.h"
#include "record/arena_view.h"
#include "record/jit.h"
#include "record/kernel_names.h"

struct framed_module {
    uint32_t id;           /* in its arena */
    uint32_t index;        /* in the profile */
    const struct map *map; /* NULL: there is none */
    bool is_kernel;
};

/* 64-bit keys, and an index into the profile for each. */
struct known_keys {
    struct key_set keys;
    VEC(uint32_t) indices;
};

struct frames {
    struct profile_writer *writer;
    struct key_set module_ids; /* of the modules, in their order: */
    VEC(struct framed_module) modules;
    struct known_keys frames;    /* by key */
    struct known_keys functions; /* by module and start */
    struct named_ranges jit;
    struct named_ranges kernel; /* read when there is a module of it */
};

/* Of one arena, that of process `pid`: adds its modules to the profile. */
void frames_begin(struct frames *frames, struct profile_writer *writer,
                  const struct arena_view *view, struct open_maps *maps, uint32_t pid);
void frames_end(struct frames *frames);

/* The profile's frame for a key; each is added once. */
uint32_t frame_for(struct frames *frames, uint64_t key);

#endif
