/* Engine `sample`: contexts of samples, and returns of frames that were marked (trampoline.md). */
#include "record/engine.h"
#include "record/grow.h"
#include "record/record.h"
#include "record/server.h"
#include "runtime/sample/sample_format.h"

#include <string.h>

struct sample_options {
    bool no_trampoline;
};

static int take_no_trampoline(void *options, const char *argument, struct ct_error *err)
{
    (void)argument;
    (void)err;
    ((struct sample_options *)options)->no_trampoline = true;
    return CT_OK;
}

static const struct engine_option option_rows[] = {
    {.name = "no-trampoline",
     .take = take_no_trampoline,
     .help = "leave the program's stack alone: deep stacks cost more, and\nthere are no returns",
     .man =
         "leave the program's stack alone: deep stacks cost more, and returns are not counted.\n"},
    {0}};

/* Samples of perf events are not taken in the program, where the marks would be set. */
static void make_settings(const void *options, const struct record_options *all,
                          uint64_t settings[ENGINE_SETTINGS])
{
    const struct sample_options *o = options;
    struct sample_settings s = {.trampoline =
                                    !o->no_trampoline && !all->perf.count && !all->outside};
    memcpy(settings, &s, sizeof s);
}

static bool has_returns(const struct server *s)
{
    return sample_settings_in(s->settings)->trampoline && (s->events.mask & EVENTS_BY_SAMPLES);
}

static uint32_t name_metrics(const struct server *s, struct metric_kind out[ENGINE_METRICS])
{
    out[0] = (struct metric_kind){.name = "returns",
                                  .unit = "returns",
                                  .description = "returns of calls that were under way at a sample",
                                  .kind = CTP_METRIC_AT_LEAST};
    return has_returns(s) ? 1 : 0;
}

enum sum { SUM_MARKS_SET, SUM_BOUNCES, SUM_REUSED, SUM_STALE };

static void grow_returns(void *state, const struct arena_view *v, const struct arena_thread *t,
                         struct grown_tree *g)
{
    (void)state;
    (void)v;
    for (uint32_t i = 0; i < g->items.count && g->columns; i++)
        if (g->items.items[i].measured)
            *grown_value(g, i, 0) = g->items.items[i].measured->returns;
    g->sums[SUM_MARKS_SET] += t->marks_set;
    g->sums[SUM_BOUNCES] += t->bounces;
    g->sums[SUM_REUSED] += t->frames_reused;
    g->sums[SUM_STALE] += t->stale_marks;
}

static void write_facts(const struct server *s, const uint64_t sums[ENGINE_SUMS],
                        struct profile_writer *w, enum ctp_scope scope, uint32_t index)
{
    if (!has_returns(s))
        return;
    profile_fact_u64(w, scope, index, "marks_set", sums[SUM_MARKS_SET]);
    profile_fact_u64(w, scope, index, "bounces", sums[SUM_BOUNCES]);
    profile_fact_u64(w, scope, index, "frames_reused", sums[SUM_REUSED]);
    profile_fact_u64(w, scope, index, "stale_marks", sums[SUM_STALE]);
}

const struct record_engine record_sample = {
    ENGINE_IS(sample),
    .help = "the stack of calls at each sample (the default)",
    .man = "The stack of calls at each sample; the default.\n",
    .options = option_rows,
    .options_bytes = sizeof(struct sample_options),
    .settings = make_settings,
    .events = EVENT_CPU,
    .metrics = name_metrics,
    .grow = grow_returns,
    .write_facts = write_facts,
};
