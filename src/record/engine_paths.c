/* Engine `paths`: the paths through functions, counted by copies of them. */
#include "edit/plan_format.h"
#include "flow/flow_plan.h"
#include "record/arena_view.h"
#include "record/engine.h"
#include "record/engine_paths_tree.h"
#include "record/record.h"
#include "record/server.h"
#include "runtime/paths/paths_format.h"

#include <fnmatch.h>
#include <string.h>

struct paths_options {
    const char *modules; /* a glob for the modules whose functions are relocated; NULL: most */
};

static int take_modules(void *options, const char *argument, struct ct_error *err)
{
    (void)err;
    ((struct paths_options *)options)->modules = argument;
    return CT_OK;
}

static const struct engine_option option_rows[] = {
    {.name = "modules",
     .argument = "GLOB",
     .take = take_modules,
     .help = "only functions of modules whose path or name matches",
     .man = "relocate only functions of modules whose path or name matches.\n"},
    {0}};

static int check(const void *options, const struct record_options *all, struct ct_error *err)
{
    (void)options;
    if (all->perf.count)
        return ct_fail(err, "perf events cannot be combined with --engine paths");
    if (all->delay_s > 0 || all->duration_s > 0)
        return ct_fail(err, "--delay and --duration cannot be combined with --engine paths");
    return CT_OK;
}

/* The C library and what starts programs stay as they are: threads begin and end in them, and
 * signal handlers return through them. */
static bool is_of_libc(const char *name)
{
    static const char *const globs[] = {"libc.so.*",   "libc-*.so", "ld-linux*",       "ld-musl*",
                                        "libpthread*", "libdl*",    "libcalltrail*.so"};
    for (unsigned i = 0; i < sizeof globs / sizeof globs[0]; i++)
        if (fnmatch(globs[i], name, 0) == 0)
            return true;
    return false;
}

static bool edits(const void *options, const char *path)
{
    const char *glob = ((const struct paths_options *)options)->modules;
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    if (is_of_libc(name))
        return false;
    return !glob || fnmatch(glob, path, 0) == 0 || fnmatch(glob, name, 0) == 0;
}

static uint32_t name_metrics(const struct server *s, struct metric_kind out[ENGINE_METRICS])
{
    (void)s;
    out[0] =
        (struct metric_kind){.name = "paths",
                             .unit = "paths",
                             .description = "executions of a path: the blocks below a function, in "
                                            "order, from where the path begins to where it ends",
                             .kind = CTP_METRIC_EXACT};
    return 1;
}

static void write_facts(const struct server *s, const uint64_t sums[ENGINE_SUMS],
                        struct profile_writer *w, enum ctp_scope scope, uint32_t index)
{
    (void)s;
    profile_fact_u64(w, scope, index, "paths", sums[PATHS_COUNTED]);
    profile_fact_u64(w, scope, index, "paths_without_beginning", sums[PATHS_LOST]);
    profile_fact_u64(w, scope, index, "paths_seen", sums[PATHS_SEEN]);
    profile_fact_u64(w, scope, index, "paths_functions_seen", sums[PATHS_FUNCTIONS]);
    profile_fact_u64(w, scope, index, "paths_modules_without_room", sums[PATHS_WITHOUT]);
    profile_fact_u64(w, scope, index, "paths_functions_relocated", sums[PATHS_RELOCATED]);
    profile_fact_u64(w, scope, index, "paths_functions_not_relocated", sums[PATHS_NOT_RELOCATED]);
}

const struct record_engine record_paths = {
    ENGINE_IS(paths),
    .help = "count the paths through each function, in unchanged programs, by\ncopies of functions "
            "with counting code on their branches",
    .man =
        "The paths through each function are counted, by copies of functions that have counting\n"
        "code on their branches.\nA path is the blocks from a function's entry, or from the "
        "head of a loop, to its\nreturn, to the end of the loop's body, or to an indirect jump.\n"
        "The metric is\n.Cm paths .\n"
        "Functions of the C library stay as they are.\n",
    .options = option_rows,
    .options_bytes = sizeof(struct paths_options),
    .check = check,
    .most_arena_bytes = UINT64_C(1536) << 20,
    .counts_always = true,
    .edits = edits,
    .plans = &flow_plans,
    .metrics = name_metrics,
    .arena_begins = paths_tree_begin,
    .grow = paths_tree_grow,
    .arena_ends = paths_tree_end,
    .write_facts = write_facts,
};
