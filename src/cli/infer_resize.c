/* calltrail infer --resize: a map whose identifiers are distinct, where frames can grow. */
#include "cli/infer_text.h"

#include "infer/path_resize.h"
#include "infer/path_train.h"

#include <inttypes.h>

/* The mean of what the paper's programs needed; and what costs little (bench/notes-infer.md). */
#define USUAL_GROWTH 1.13
#define USUAL_CALLS  0.05

static double percent(uint64_t part, uint64_t whole)
{
    return whole ? 100.0 * (double)part / (double)whole : 0;
}

static double ratio(double part, double whole)
{
    return whole > 0 ? part / whole : 1;
}

static void print_places(const struct path_resize_result *r)
{
    static const char *const words[GROWTH_REASONS] = {
        [GROWTH_ALLOWED] = "the stack may grow before them",
        [GROWTH_NO_SITE] = "not changed in place",
        [GROWTH_INDIRECT] = "through pointers",
        [GROWTH_ANOTHER] = "to other modules",
        [GROWTH_LOOKS] = "to functions that may look above their frame; these"};
    uint64_t all = r->unread;
    for (unsigned i = 0; i < GROWTH_REASONS; i++)
        all += r->calls[i];
    printf("\n%" PRIu64 " calls that training met:\n", all);
    for (unsigned i = 0; i < GROWTH_REASONS; i++)
        if (r->calls[i])
            printf("%10" PRIu64 "  %s\n", r->calls[i], words[i]);
    for (unsigned i = 0; i < ABOVE_KINDS; i++)
        if (r->looks[i])
            printf("%14" PRIu64 "  %s\n", r->looks[i], above_names[i]);
    if (r->unread)
        printf("%10" PRIu64 "  in modules whose file is not there, or of another build\n",
               r->unread);
}

static void print_result(const struct path_resize_result *r)
{
    const struct path_precision *b = &r->before, *a = &r->after;
    printf("%zu of these calls have frames that grow, %.2f%% of the weight\n\n",
           r->growth.items.count, percent(a->calls_weight, r->weight));
    printf("  %-38s %10s %10s\n", "", "before", "after");
    printf("  %-38s %9.2f%% %9.2f%%\n", "precise, by paths", percent(b->paths, r->paths),
           percent(a->paths, r->paths));
    printf("  %-38s %9.2f%% %9.2f%%\n", "precise, by weight", percent(b->weight, r->weight),
           percent(a->weight, r->weight));
    printf("  %-38s %9.2f%% %9.2f%%\n", "among at most 5 paths", percent(b->few_paths, r->paths),
           percent(a->few_paths, r->paths));
    printf("  %-38s %10" PRIu64 " %10" PRIu64 "  %.3fx\n", "highest stack, bytes", b->highest_bytes,
           a->highest_bytes, ratio((double)a->highest_bytes, (double)b->highest_bytes));
    printf("  %-38s %10.0f %10.0f  %.3fx\n", "mean stack by weight, bytes", b->mean_bytes,
           a->mean_bytes, ratio(a->mean_bytes, b->mean_bytes));
    fprintf(stderr, "calltrail: %" PRIu64 " changes tried in %.1f s%s\n", r->tried,
            (double)r->time_ns / 1e9, r->is_cut ? "; there may be more to be had" : "");
}

static int write_map(const struct path_map *map, const struct path_resize_result *r,
                     const char *path, struct ct_error *err)
{
    struct path_trainer *t = path_train_begin(NULL);
    int status = path_train_take(t, &map->profile, err);
    if (status == CT_OK)
        status = path_train_write_grown(t, &r->growth, path, err);
    path_train_free(t);
    return status;
}

int infer_resize(const char *path, const struct infer_options *o, struct ct_error *err)
{
    struct path_map map;
    struct map_cache cache;
    struct path_resize_result result;
    CT_TRY(path_map_open(path, &map, err));
    if (map.growth.items.count) {
        path_map_close(&map);
        return ct_fail(err, "%s: its frames have grown already", path);
    }
    map_cache_open(&cache);
    const struct path_resize_limits limits = {
        .growth = o->most_growth > 0 ? o->most_growth : USUAL_GROWTH,
        .calls = o->most_calls >= 0 ? o->most_calls / 100 : USUAL_CALLS};
    path_resize(&map, &cache, &limits, &result);
    map_cache_close(&cache);
    int status = write_map(&map, &result, o->output, err);
    if (status == CT_OK) {
        print_places(&result);
        print_result(&result);
    }
    growth_free(&result.growth);
    path_map_close(&map);
    return status;
}
