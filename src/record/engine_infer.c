/*
 * Engine `infer`: samples from outside, of two registers and as much of the stack as --window says.
 * What is above has the height of the stack in its place, and `calltrail infer` finds it in a map
 * of known paths. Contexts of which all is seen have their heights, too, so that maps can be made
 * of them.
 */
#include "record/engine.h"
#include "record/grow.h"
#include "record/outside/outside_arena.h"

enum { COLUMN_HEIGHT, COLUMN_VARIES, COLUMNS };
enum sum { SUM_BY_HEIGHT };

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
    (void)s;
    profile_fact_u64(w, scope, index, "by_height", sums[SUM_BY_HEIGHT]);
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
    .events = EVENT_CPU,
    .by_height = true,
    .metrics = name_metrics,
    .grow = grow_heights,
    .write_facts = write_facts,
};
