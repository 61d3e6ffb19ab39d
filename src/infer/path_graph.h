/*
 * Which calls there can be: by training, and by the code of the modules. A call has a place, the
 * function that makes it, and how much stack lies between that function's return address and the
 * new one. With these, paths are searched from a function at a height backwards (path_search.h).
 *
 * A function that is jumped to at the end of another has the callers of that one: its frame is
 * gone. All calls through pointers lead to one function that stands for those that are pointed to.
 */
#ifndef INFER_PATH_GRAPH_H
#define INFER_PATH_GRAPH_H

#include "base/key_set.h"
#include "infer/path_map.h"
#include "map/cache.h"

/* How a call is known. */
enum path_level {
    PATH_BY_CALL,    /* training met it; or it is direct, or through the slot of a symbol */
    PATH_BY_POINTER, /* through a pointer, to what the address is taken of somewhere */
    PATH_LEVELS
};

enum { PATH_POINTED_TO = 0 }; /* the first function */
#define PATH_NOBODY CTP_NONE  /* calls the outermost function */

struct graph_module {
    struct ctp_module module;
    char *path;
    bool has_code; /* its file was read */
};

struct graph_function {
    uint32_t module;
    uint64_t offset, size;
    char *name;
};

struct graph_call {
    uint32_t caller, callee;
    uint32_t module; /* of the place, */
    uint16_t level;
    uint16_t is_trained;
    uint64_t offset; /* its return address */
    uint64_t bytes;  /* from the caller's return address down to this one */
};

struct graph_jump {
    uint32_t to, from;
    uint32_t level;
};

/* All calls that lead to a function, by jumps too. */
struct graph_callers {
    bool is_listed, is_pointed_to;
    VEC(struct graph_call) calls; /* their callee is where they lead first */
};

struct path_graph {
    VEC(struct graph_module) modules;
    struct key_set function_keys;
    VEC(struct graph_function) functions; /* the first one: PATH_POINTED_TO */
    VEC(struct graph_call) calls;
    VEC(struct graph_jump) jumps;
    VEC(struct graph_callers) callers; /* of each function, once asked for */
    uint32_t *first_call, *first_jump; /* of each function; one more at the end */
    uint32_t unsized;                  /* places whose function has no frame of a known size */
    uint32_t unread;                   /* modules without a file that is theirs */
};

void path_graph_begin(struct path_graph *graph);
void path_graph_free(struct path_graph *graph);

/* The graph's number of a module, by its build-id or else its path. */
uint32_t path_graph_module(struct path_graph *graph, const struct ctp_module *module,
                           const char *path);
uint32_t path_graph_function(struct path_graph *graph, uint32_t module, uint64_t offset,
                             uint64_t size, const char *name);

/* CTP_NONE: there is no such function. */
uint32_t path_graph_find(const struct path_graph *graph, uint32_t module, uint64_t offset);

/* The calls that training met, with the frame sizes that they had. */
void path_graph_train(struct path_graph *graph, const struct path_map *map);

/* The calls in the code of all modules that have been named (path_code.c). */
void path_graph_read_code(struct path_graph *graph, struct map_cache *cache);

/* All has been added: from now on callers can be asked for. */
void path_graph_seal(struct path_graph *graph);
const struct graph_callers *path_graph_callers(struct path_graph *graph, uint32_t function);

#endif
