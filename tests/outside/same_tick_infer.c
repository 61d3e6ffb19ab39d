/*
 * same_tick_infer MAP FILE: completes what same_tick.c has written by a path map, as if the window
 * had been smaller, and compares it with the walk of the whole stack of the same tick. For windows
 * of 0, 1 and 4 KB prints of the samples whose stack is higher: how many the map completes to the
 * exact path, and how many of its answers are ambiguous, missing, or wrong.
 */
#include "infer/path_answer.h"
#include "record/outside/outside_base.h"
#include "same_tick_read.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { WINDOWS = 3, MOST_DEGREE = 5 };
static const uint64_t windows[WINDOWS] = {0, 1 << 10, 4 << 10};

struct counts {
    uint64_t cut, no_height;
    uint64_t quality[PATH_QUALITIES]; /* answers of each, and */
    uint64_t right[PATH_QUALITIES];   /* those with the true path among theirs */
    uint64_t first, few;              /* ambiguous: it is the heaviest; it is one of 5 at most */
};

struct run {
    const struct path_map *map;
    uint64_t samples, complete, frames;
    struct counts counts[WINDOWS];
    struct path_answer answers[WINDOWS];
};

/* --- frames, as the map calls them --------------------------------------------------------------
 */

static uint32_t module_of(const struct run *run, const struct same_tick_pair *pair, uint32_t module)
{
    const struct outside_file *file =
        module == UINT32_MAX ? NULL : pair->process->modules.items[module].file;
    return file && file->map ? path_map_module(run->map, file->map->header->build_id,
                                               file->map->header->build_id_size)
                             : CTP_NONE;
}

static uint32_t function_of(const struct run *run, const struct same_tick_pair *pair,
                            const struct walk_frame *f)
{
    uint32_t module = module_of(run, pair, f->module);
    if (module == CTP_NONE)
        return CTP_NONE;
    const struct map *map = pair->process->modules.items[f->module].file->map;
    uint64_t offset = f->pc - pair->process->walked.items[f->module].base;
    const struct map_function *function =
        map_find_function(map, offset - !(f->flags & FRAME_IS_PC));
    return function ? path_map_function(run->map, module, map_whole_of(map, function)->start)
                    : CTP_NONE;
}

static uint32_t place_of(const struct run *run, const struct same_tick_pair *pair,
                         const struct walk_frame *f)
{
    uint32_t module = module_of(run, pair, f->module);
    return module == CTP_NONE || (f->flags & FRAME_IS_PC)
               ? CTP_NONE
               : path_map_place(run->map, module,
                                f->pc - pair->process->walked.items[f->module].base);
}

/* --- one tick ------------------------------------------------------------------------------------
 */

/* Are the callers of a context those of the walk's frames from `from` on? */
static bool is_path(const struct run *run, const struct same_tick_pair *pair,
                    const struct outside_walked *truth, uint32_t from,
                    const struct path_context *context)
{
    uint32_t node = path_map_caller(run->map, context->node);
    for (; from < truth->count && node != CTP_NONE; from++) {
        if (profile_node_frame(&run->map->profile, node) !=
            place_of(run, pair, &truth->frames[from]))
            return false;
        node = path_map_caller(run->map, node);
    }
    return from == truth->count && node == CTP_NONE;
}

static void count(struct run *run, struct counts *n, const struct same_tick_pair *pair,
                  const struct outside_walked *truth, const struct outside_walked *seen,
                  const struct path_answer *a)
{
    uint32_t right = UINT32_MAX;
    for (uint32_t i = 0; i < a->candidates.count && right == UINT32_MAX; i++)
        if (is_path(run, pair, truth, seen->count, a->candidates.items[i]))
            right = i;
    n->quality[a->quality]++;
    n->right[a->quality] += right != UINT32_MAX;
    n->first += a->quality == PATH_AMBIGUOUS && right == 0;
    n->few +=
        a->quality == PATH_AMBIGUOUS && right != UINT32_MAX && a->candidates.count <= MOST_DEGREE;
}

static void complete(struct run *run, struct counts *n, const struct same_tick_pair *pair,
                     const struct outside_walked *truth, uint64_t window_bytes)
{
    static struct outside_walked seen;
    static uint32_t inner[OUTSIDE_MOST_FRAMES];
    struct outside_sample s = *pair->outside;
    s.window_bytes = window_bytes;
    s.stack_bytes = s.stack_bytes < window_bytes ? s.stack_bytes : window_bytes;
    outside_walk(pair->process, &s, false, &seen);
    if (seen.end != ARENA_GAP_WINDOW)
        return;
    struct outside_base base;
    n->cut++;
    if (!seen.slot || !outside_base_in(pair->process, pair->registers[7], pair->stack,
                                       pair->stack_bytes, &base)) {
        n->no_height++;
        return;
    }
    struct walk_frame outermost = {.pc = base.word,
                                   .module = truth->frames[truth->count - 1].module};
    struct path_query q = {.function = function_of(run, pair, &seen.frames[seen.count - 1]),
                           .height_bytes = base.slot - seen.slot,
                           .outermost = place_of(run, pair, &outermost),
                           .inner = inner,
                           .cost = 1,
                           .leaf = function_of(run, pair, &seen.frames[0])};
    for (uint32_t i = seen.count - 1; i > 0; i--)
        inner[q.inner_count++] = place_of(run, pair, &seen.frames[i]);
    path_answer_find(run->map, &q, &run->answers[n - run->counts]);
    count(run, n, pair, truth, &seen, &run->answers[n - run->counts]);
}

static void take(void *context, const struct same_tick_pair *pair)
{
    static struct outside_walked truth;
    struct run *run = context;
    same_tick_walk_whole(pair, &truth);
    run->samples++;
    if (truth.end != WALK_COMPLETE || truth.count < 2)
        return;
    run->complete++;
    run->frames += truth.count;
    for (unsigned i = 0; i < WINDOWS; i++)
        complete(run, &run->counts[i], pair, &truth, windows[i]);
}

int main(int argc, char **argv)
{
    struct path_map map;
    struct ct_error err;
    struct run run = {.map = &map};
    uint64_t other = 0;
    if (argc != 3)
        return 2;
    if (path_map_open(argv[1], &map, &err) != CT_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    bool is_read = true;
    for (unsigned i = 0; i < WINDOWS; i++)
        path_answer_begin(&run.answers[i], &map);
    for (unsigned pass = 0; pass < 2; pass++) { /* what is missing tells of the others */
        run.samples = run.complete = run.frames = other = 0;
        memset(run.counts, 0, sizeof run.counts);
        is_read &= same_tick_each(argv[2], take, &run, &other);
        for (unsigned i = 0; i < WINDOWS; i++)
            path_answer_settle(&run.answers[i]);
    }
    printf("samples %" PRIu64 " complete %" PRIu64 " frames %" PRIu64 " other %" PRIu64 "\n",
           run.samples, run.complete, run.frames, other);
    for (unsigned i = 0; i < WINDOWS; i++) {
        const struct counts *n = &run.counts[i];
        static const char *const names[PATH_QUALITIES] = {"precise", "likely", "ambiguous",
                                                          "missing"};
        printf("window %" PRIu64 " cut %" PRIu64 " no-height %" PRIu64, windows[i], n->cut,
               n->no_height);
        for (unsigned q = 0; q < PATH_QUALITIES; q++)
            printf(" %s %" PRIu64 " %s-right %" PRIu64, names[q], n->quality[q], names[q],
                   n->right[q]);
        printf(" first %" PRIu64 " few %" PRIu64 "\n", n->first, n->few);
    }
    for (unsigned i = 0; i < WINDOWS; i++)
        path_answer_free(&run.answers[i]);
    path_map_close(&map);
    return is_read ? 0 : 1;
}
