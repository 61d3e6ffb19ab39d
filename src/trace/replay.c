#include "trace/replay.h"

/* As far as a forest can count. */
static const uint64_t REGION_BYTES = UINT64_C(32) << 30;

struct replay_stack {
    VEC(uint32_t) places;
};

struct player {
    struct replay *replay;
    const struct trace *trace;
    const struct replay_options *options;
    VEC(struct replay_stack) threads;
};

static void take_call(struct player *p, struct replay_stack *stack, uint32_t label)
{
    struct forest *f = &p->replay->forest;
    uint32_t place, from = stack->places.count ? stack->places.items[stack->places.count - 1] : 0;
    if (!p->options->sites)
        label = p->trace->state.labels.items[label].function;
    if (stack->places.count == 0)
        place = forest_root(f, label);
    else if (from && p->options->fold_recursion && forest_at(f, from)->label == label)
        place = from;
    else
        place = from ? forest_enter(f, FOREST_HASHED, from, label, 0) : 0;
    forest_charge(f, place, 0, 1);
    p->replay->calls++;
    vec_push(&stack->places, place);
}

static int play(struct player *p, struct trace *trace, struct ct_error *err)
{
    for (;;) {
        struct trace_event event;
        CT_TRY(trace_next(trace, &event, err));
        if (event.kind == TRACE_END)
            return CT_OK;
        while (event.thread >= p->threads.count)
            vec_push(&p->threads, (struct replay_stack){.places = {0}});
        struct replay_stack *stack = &p->threads.items[event.thread];
        if (event.kind == TRACE_CALL)
            take_call(p, stack, event.label);
        else
            stack->places.count--; /* the reader has seen that there is one */
    }
}

int replay_trace(struct trace *trace, const struct replay_options *options, struct replay *out,
                 struct ct_error *err)
{
    *out = (struct replay){.calls = 0};
    CT_TRY(region_begin(&out->region, REGION_BYTES, err));
    struct player p = {.replay = out, .trace = trace, .options = options};
    int status = CT_OK;
    if (!forest_begin(&out->forest, &out->region.memory,
                      &(struct forest_options){.k = options->k, .metric_count = 1}))
        status = ct_fail(err, "there is no memory for a tree");
    if (status == CT_OK)
        status = play(&p, trace, err);
    if (status == CT_OK && out->forest.lost)
        status = ct_fail(err, "%s: has more contexts than fit in memory: try a smaller --k",
                         trace->name);
    for (size_t i = 0; i < p.threads.count; i++)
        vec_free(&p.threads.items[i].places);
    vec_free(&p.threads);
    if (status != CT_OK)
        replay_end(out);
    return status;
}

void replay_end(struct replay *replay)
{
    region_end(&replay->region);
}
