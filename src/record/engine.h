/*
 * An engine in the supervisor: what it is called, its options, what it needs before the program
 * starts, and what its arenas become in a profile.
 *
 * Each is one `const struct record_engine record_NAME` in record/engine_NAME.c, and a row of
 * ENGINE_LIST (runtime/engine_format.h). Nothing else in record or cli knows one by name. What an
 * engine leaves out is not done, or as usual.
 */
#ifndef RECORD_ENGINE_H
#define RECORD_ENGINE_H

#include "base/error.h"
#include "profile/profile.h"
#include "record/metrics.h"
#include "runtime/engine_format.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena_thread;
struct arena_view;
struct frames;
struct grown_tree;
struct plan;
struct plan_kind;
struct record_options;
struct server;
struct server_arena;

/* Sums that an engine keeps for each process. */
enum { ENGINE_SUMS = 16 };

/*
 * An option of an engine. The command line, --help, the manual page and completion know it from
 * this row alone.
 */
struct engine_option {
    const char *name;      /* without the dashes */
    char letter;           /* for short; 0: none */
    const char *argument;  /* what it is called, in capitals; NULL: there is none */
    const char *otherwise; /* the argument if none is given; NULL: there must be one */

    /* Takes it into the engine's own options. */
    int (*take)(void *options, const char *argument, struct ct_error *err);

    const char *help; /* one line or more */
    const char *man;  /* mdoc; it follows "With NAME:" */
};

struct record_engine {
    uint32_t number;  /* enum engine_number */
    const char *name; /* for both: ENGINE_IS */
    const char *help; /* one line or more */
    const char *man;  /* mdoc */

    /* Its options: rows up to one without a name. They are kept in a structure of so many bytes,
     * which begin as zeros. */
    const struct engine_option *options;
    size_t options_bytes;

    /* Can these options be combined, and with those that all engines have? */
    int (*check)(const void *options, const struct record_options *all, struct ct_error *err);

    /* What its options own is to be freed. */
    void (*forget)(void *options);

    /* What of it the runtime must know: the settings in the arenas. */
    void (*settings)(const void *options, const struct record_options *all,
                     uint64_t settings[ENGINE_SETTINGS]);

    /* It works from outside alone; where the window of a stack ends, its height is kept. */
    bool by_height;

    /* It does not, with these options, but inside the program. NULL: it does. */
    bool (*is_inside)(const void *options);

    /* --- before the program starts --- */
    uint32_t events;           /* what is measured without -e: enum arena_event */
    uint64_t most_arena_bytes; /* how large an arena may get, and how large it is at first */
    uint64_t first_arena_bytes;
    bool counts_always; /* what counts is what came between the images at both ends of --duration */

    /* Is the code of a module to be edited? An engine without this edits none. By which plans;
     * NULL: those of sites. */
    bool (*edits)(const void *options, const char *path);
    const struct plan_kind *plans;

    /* Another plan than that of all sites; `out` is closed by the caller. NULL: it is that one. */
    int (*choose_plan)(const void *options, struct server *server, const char *path,
                       struct plan *out);

    /* CPU time between ticks where no event is sampled; 0: as usual. */
    uint64_t (*tick_ns)(const void *options);

    /* --- what was measured --- */

    /* Its metrics, which come behind those of the events: how many. */
    uint32_t (*metrics)(const struct server *server, struct metric_kind out[ENGINE_METRICS]);

    /*
     * Adds what it has of a thread to its tree, which has the samples already, and to the tree's
     * sums. A node has a value for each of the metrics. Threads of an arena come one after the
     * other; `state` is what is kept meanwhile.
     */
    void *(*arena_begins)(const struct server *server, const struct arena_view *view);
    void (*grow)(void *state, const struct arena_view *view, const struct arena_thread *thread,
                 struct grown_tree *tree);
    void (*arena_ends)(void *state);

    /* Facts of a process, or of all, by their sums; and of the first of its metrics. */
    void (*write_facts)(const struct server *server, const uint64_t sums[ENGINE_SUMS],
                        struct profile_writer *writer, enum ctp_scope scope, uint32_t index);
    void (*write_metric_facts)(const struct server *server, const uint64_t sums[ENGINE_SUMS],
                               struct profile_writer *writer, uint32_t metric);

    /* What else it has of a process, when its modules and threads are in the profile. */
    void (*write_process)(const struct arena_view *view, struct frames *frames,
                          struct profile_writer *writer, uint32_t process);

    /* What is missing from the profile of a process, on stderr. */
    void (*say_what_is_missing)(const struct server *server, const struct server_arena *arena);

    /* A file that is written besides the profile (NULL: none), and how. */
    const char *(*output)(const void *options);
    int (*write_output)(struct server *server, const char *path, struct ct_error *err);
};

/* Does it work from outside, or edit code inside, with these options? */
static inline bool engine_is_outside(const struct record_engine *e, const void *options)
{
    return e->by_height && !(e->is_inside && e->is_inside(options));
}

static inline bool engine_edits(const struct record_engine *e, const void *options)
{
    return e->edits && !engine_is_outside(e, options);
}

#define ENGINE_IS(NAME) .number = ENGINE_##NAME, .name = #NAME

/* The one of a number, 0 to ENGINE_COUNT - 1, the first being the default; NULL: there is none. */
const struct record_engine *record_engine_at(uint32_t number);
const struct record_engine *record_engine_named(const char *name);

/* The plans by which it edits modules; NULL: it edits none. */
const struct plan_kind *record_engine_plans(const struct record_engine *engine);

/* The row of an option, or NULL. */
const struct engine_option *record_engine_option(const struct record_engine *engine,
                                                 const char *name);

#endif
