/*
 * A path map: which call paths of a program are known, by the function that they lead to and the
 * height of the stack there. Such a pair, a context identifier, is what two registers tell of a
 * context; the map says which paths it may stand for.
 *
 * The file is a profile (.ctp) like others, whose nodes are places of calls and, below them, the
 * functions that were called from there. Four values belong to each such function: its weight in
 * training; the height, which is the number of bytes from the slot of its return address up to the
 * outermost one of the thread; whether it was seen with other heights, too; and whether training
 * never saw it, and a search of the call graph found it (path_search.h). So a map is checked, shown
 * and kept as profiles are. It comes from outside: path_map_open checks all of it.
 */
#ifndef INFER_PATH_MAP_H
#define INFER_PATH_MAP_H

#include "base/key_set.h"
#include "edit/growth.h"
#include "profile/profile.h"

#include <stdbool.h>
#include <stdint.h>

/* The fact that makes a profile a path map, with its version. */
#define PATH_MAP_FACT "path_map"
enum { PATH_MAP_VERSION = 2, PATH_MOST_HEIGHTS = 8 };

/* With frames that grow (path_resize.h), the heights of a map hold for a program that runs so: the
 * fact has the text of edit/growth.h. What was recorded so says it, too, by a number. */
#define PATH_GROWTH_FACT "grown_calls"
#define PATH_GROWN_FACT  "grown"

/* Its metrics, in this order. Maps of version 1 have all but the last. */
enum path_map_metric { PATH_WEIGHT, PATH_HEIGHT, PATH_VARIES, PATH_SEARCHED, PATH_METRICS };

/* How a path is known. Those that were found in the code are the only ones there, or not. */
enum path_searched { PATH_BY_TRAINING, PATH_ALL_FOUND, PATH_SOME_FOUND };

/* A function in a context; its callers are those of its node. */
struct path_context {
    uint32_t function; /* in the map's table */
    uint32_t node;
    uint64_t height_bytes;
    uint64_t weight;
    bool varies;
    enum path_searched searched;
};

struct path_map {
    struct profile profile;
    struct path_context *contexts; /* by function, height, those of training first, falling weight,
                                      node */
    uint32_t count;
    uint32_t *first;     /* of each function's contexts; one more at the end */
    uint32_t *outermost; /* of each node, the frame of the outermost place above it, or CTP_NONE */
    bool *trained;       /* of each node, whether training met it */
    struct key_set children;          /* nodes but the root, by parent and frame; */
    struct key_set called;            /* in training: functions, by the place that called */
    struct key_set functions, places; /* of the code, by module and offset, */
    VEC(uint32_t) function_numbers;   /* and their numbers in the tables of functions */
    VEC(uint32_t) place_numbers;      /* and of frames */
    struct growth growth;             /* what has been added to the heights; mostly nothing */
};

int path_map_open(const char *path, struct path_map *out, struct ct_error *err);

/* The same for bytes in memory (profile_from_bytes). */
int path_map_from_bytes(const void *bytes, size_t size, const char *name, struct path_map *out,
                        struct ct_error *err);
void path_map_close(struct path_map *map);

/* The contexts that an identifier may stand for, heaviest first; returns how many. */
uint32_t path_map_find(const struct path_map *map, uint32_t function, uint64_t height_bytes,
                       const struct path_context **first);

/* The map's module of a build-id; its function that begins there, and the frame of the place of a
 * call with that return address. CTP_NONE: training did not see it. */
uint32_t path_map_module(const struct path_map *map, const uint8_t *build_id, uint32_t size);
uint32_t path_map_function(const struct path_map *map, uint32_t module, uint64_t offset);
uint32_t path_map_place(const struct path_map *map, uint32_t module, uint64_t offset);

/* In training: the node below another with this frame, and whether this function was called from
 * there. */
uint32_t path_map_child(const struct path_map *map, uint32_t node, uint32_t frame);
bool path_map_calls(const struct path_map *map, uint32_t node, uint32_t function);

/* The place that called: a node with a return address, or CTP_NONE, when there is none above. */
uint32_t path_map_caller(const struct path_map *map, uint32_t node);

/*
 * What a profile's functions and places are called in a map: CTP_NONE for those that training never
 * saw. Modules are the same by their build-ids. A module of another build than the map's is an
 * error, since its heights are others.
 */
struct path_names {
    uint32_t *functions, *frames, *modules;
};

/* Is the module one that calltrail brings into the program? Other runs do not have it. */
bool path_is_ours(const struct profile *profile, uint32_t module);

/* Was it recorded with frames that had grown, in any of its processes? */
bool path_is_grown(const struct profile *profile);

/* Was a profile recorded with the frames of the map? If not, that is an error. */
int path_map_fits(const struct path_map *map, const struct profile *profile, struct ct_error *err);

/* The bytes by which the stack has grown at a frame of a profile. */
uint32_t path_map_growth(const struct path_map *map, const struct profile *profile, uint32_t frame);

int path_names_make(const struct path_map *map, const struct profile *profile,
                    struct path_names *out, struct ct_error *err);
void path_names_free(struct path_names *names);

#endif
