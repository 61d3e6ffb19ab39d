/*
 * Engine `infer`: samples from outside, of two registers and as much of the stack as --window says.
 * What is above has the height of the stack in its place, and `calltrail infer` finds it in a map
 * of known paths. Contexts of which all is seen have their heights, too, so that maps can be made
 * of them.
 *
 * With --resize the runtime is in the program: it makes the stack grow before the calls that a map
 * names, and takes the samples, of two registers.
 */
#include "edit/growth.h"
#include "record/engine.h"
#include "record/grow.h"
#include "record/outside/outside_arena.h"
#include "record/record.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The facts of a map and of what is recorded with it (infer/path_map.h). */
#define GROWTH_FACT "grown_calls"
#define GROWN_FACT  "grown"

enum { COLUMN_HEIGHT, COLUMN_VARIES, COLUMNS };
enum sum { SUM_BY_HEIGHT };
enum setting { SETTING_GROWTH }; /* its number; 0: there is none */

struct infer_options {
    bool has_growth, grows_all;
    struct growth growth;
    uint32_t refused; /* calls that cannot grow */
};

static int take_resize(void *options, const char *path, struct ct_error *err)
{
    struct infer_options *o = options;
    struct profile map;
    growth_free(&o->growth);
    CT_TRY(profile_open(path, &map, err));
    int status = profile_validate(&map, err);
    const struct ctp_fact *fact =
        status == CT_OK ? profile_find_fact(&map, CTP_SCOPE_PROFILE, 0, GROWTH_FACT) : NULL;
    if (status == CT_OK && (!fact || fact->type != CTP_STRING))
        status = ct_fail(err, "%s: no frames grow in it: calltrail infer --resize makes such a map",
                         path);
    if (status == CT_OK)
        status = growth_parse(profile_string(&map, (uint32_t)fact->value), path, &o->growth, err);
    profile_close(&map);
    o->has_growth = status == CT_OK;
    return status;
}

/* A test of the engine: every call that may, by more or less. */
static int take_all(void *options, const char *argument, struct ct_error *err)
{
    (void)argument;
    (void)err;
    ((struct infer_options *)options)->grows_all = true;
    return CT_OK;
}

static void forget(void *options)
{
    growth_free(&((struct infer_options *)options)->growth);
}

static const struct engine_option option_rows[] = {
    {.name = "resize",
     .argument = "MAP",
     .take = take_resize,
     .help = "inside the program, whose frames grow as the map says\n(calltrail infer --resize)",
     .man = "inside the program, whose frames grow as the map says that\n"
            ".Xr calltrail-infer 1\n"
            "has made with\n"
            ".Fl -resize .\n"},
    {.name = "resize-all",
     .take = take_all,
     .help = "inside the program, and all frames grow that can (a test of\nthe engine)",
     .man = "inside the program, and all frames grow that can: a test of the engine.\n"},
    {0}};

static bool is_inside(const void *options)
{
    const struct infer_options *o = options;
    return o->has_growth || o->grows_all;
}

static int check(const void *options, const struct record_options *all, struct ct_error *err)
{
    if (!is_inside(options))
        return CT_OK;
    if (all->outside)
        return ct_fail(err, "--resize cannot be combined with --outside or -p");
    if (all->perf.count || (all->events.mask & ~(uint32_t)EVENT_CPU))
        return ct_fail(err, "--resize can be combined with -e cpu only");
    return CT_OK;
}

static void make_settings(const void *options, const struct record_options *all,
                          uint64_t settings[ENGINE_SETTINGS])
{
    (void)all;
    if (is_inside(options))
        settings[SETTING_GROWTH] = growth_number(&((const struct infer_options *)options)->growth);
}

/* --- plans -------------------------------------------------------------------------------------
 */

static bool grows(const struct growth *g, const struct elf_file *file)
{
    for (size_t i = 0; i < g->items.count; i++)
        if (g->items.items[i].build_id_size == file->build_id_size &&
            memcmp(g->items.items[i].build_id, file->build_id, file->build_id_size) == 0)
            return true;
    return false;
}

static bool edits(const void *options, const char *path)
{
    struct elf_file file;
    if (((const struct infer_options *)options)->grows_all)
        return true;
    if (elf_open(path, &file, NULL) != CT_OK)
        return false;
    bool is_wanted = grows(&((const struct infer_options *)options)->growth, &file);
    elf_close(&file);
    return is_wanted;
}

static int choose(struct infer_options *o, struct server *s, const struct elf_file *file,
                  const char *path, struct plan *out)
{
    struct above_finder finder;
    struct plan whole;
    uint8_t build_id[GROWTH_BUILD_ID_ROOM] = {0};
    struct open_map *map = open_maps_find(&s->maps, path);
    if (!map || file->build_id_size > sizeof build_id ||
        plan_for_file(&s->maps.cache, path, &whole, NULL) != CT_OK)
        return CT_ERROR;
    memcpy(build_id, file->build_id, file->build_id_size);
    above_begin(&finder, file, &map->map, &whole);
    struct growth all = {0};
    if (o->grows_all)
        growth_list_all(&all, &finder, build_id, (uint32_t)file->build_id_size);
    int status = growth_plan(o->grows_all ? &all : &o->growth, &finder, build_id,
                             (uint32_t)file->build_id_size, out, &o->refused, NULL);
    growth_free(&all);
    above_end(&finder);
    plan_close(&whole);
    return status;
}

static int choose_plan(const void *options, struct server *s, const char *path, struct plan *out)
{
    struct elf_file file;
    CT_TRY(elf_open(path, &file, NULL));
    int status = choose((struct infer_options *)(uintptr_t)options, s, &file, path, out);
    elf_close(&file);
    return status;
}

/* Did any process run with other frames than those of the map? Then heights would mislead. */
static bool has_all_frames(const struct server *s)
{
    const struct infer_options *o = s->engine_options;
    bool has_all =
        o && !o->grows_all && !o->refused; /* a supervisor that was killed has not told */
    for (size_t i = 0; i < s->arenas.count; i++) {
        const struct arena_header *h = s->arenas.items[i].header;
        has_all = has_all && !h->sites_not_edited && !h->modules_not_edited;
    }
    return has_all;
}

/* --- what was measured -------------------------------------------------------------------------
 */

static uint32_t name_metrics(const struct server *s, struct metric_kind out[ENGINE_METRICS])
{
    (void)s;
    out[COLUMN_HEIGHT] = (struct metric_kind){
        .name = "height",
        .unit = "bytes",
        .description = "stack between the outermost return address and this context's own, when it "
                       "was sampled first: of each context alone, sums mean nothing",
        .kind = CTP_METRIC_EXACT};
    out[COLUMN_VARIES] =
        (struct metric_kind){.name = "height_varies",
                             .unit = "contexts",
                             .description = "contexts that were sampled with another height, too",
                             .kind = CTP_METRIC_EXACT};
    return COLUMNS;
}

static void grow_heights(void *state, const struct arena_view *v, const struct arena_thread *t,
                         struct grown_tree *g)
{
    (void)state;
    (void)v;
    for (uint32_t i = 0; i < g->measured.count && g->columns; i++) {
        uint32_t word = g->measured.items[i] ? g->measured.items[i]->returns : 0;
        *grown_value(g, i, COLUMN_HEIGHT) = (uint64_t)(word & ~OUTSIDE_HEIGHT_VARIES) * 8;
        *grown_value(g, i, COLUMN_VARIES) = (word & OUTSIDE_HEIGHT_VARIES) != 0;
    }
    g->sums[SUM_BY_HEIGHT] += t->ends[ARENA_GAP_HEIGHT];
}

static void write_facts(const struct server *s, const uint64_t sums[ENGINE_SUMS],
                        struct profile_writer *w, enum ctp_scope scope, uint32_t index)
{
    profile_fact_u64(w, scope, index, "by_height", sums[SUM_BY_HEIGHT]);
    if (!s->settings[SETTING_GROWTH])
        return;
    char number[20] = "in part";
    if (has_all_frames(s))
        snprintf(number, sizeof number, "%016" PRIx64, s->settings[SETTING_GROWTH]);
    profile_fact_string(w, scope, index, GROWN_FACT, number);
}

const struct record_engine record_infer = {
    ENGINE_IS(infer),
    .help = "from outside, by the height of the stack: callers that are\n"
            "not in the window (0 KB without --window) are found later\n"
            "(calltrail infer)",
    .man = "From outside, by the height of the stack: callers that are not in the window\n"
           ".Pq Fl -window ; No 0 KB by default\n"
           "are found later, by\n"
           ".Xr calltrail-infer 1 .\n",
    .options = option_rows,
    .options_bytes = sizeof(struct infer_options),
    .check = check,
    .forget = forget,
    .settings = make_settings,
    .events = EVENT_CPU,
    .by_height = true,
    .is_inside = is_inside,
    .edits = edits,
    .choose_plan = choose_plan,
    .metrics = name_metrics,
    .grow = grow_heights,
    .write_facts = write_facts,
};
