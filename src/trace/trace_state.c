#include "trace/trace.h"

void trace_state_begin(struct trace_state *s)
{
    *s = (struct trace_state){0};
    strings_init(&s->strings);
    vec_push(&s->recent, (struct trace_recent){.count = 0});
    vec_push(&s->threads, (struct trace_thread){.stack = {0}});
}

void trace_state_free(struct trace_state *s)
{
    for (size_t i = 0; i < s->threads.count; i++)
        vec_free(&s->threads.items[i].stack);
    vec_free(&s->threads);
    vec_free(&s->functions);
    vec_free(&s->labels);
    vec_free(&s->recent);
    strings_free(&s->strings);
}

struct trace_recent *trace_state_recent(struct trace_state *s)
{
    const struct trace_thread *thread = &s->threads.items[s->thread];
    size_t depth = thread->stack.count;
    return &s->recent.items[depth ? thread->stack.items[depth - 1] + 1 : 0];
}

void trace_state_call(struct trace_state *s, uint32_t label)
{
    struct trace_recent *recent = trace_state_recent(s);
    uint32_t rank = 0;
    while (rank < recent->count && recent->labels[rank] != label)
        rank++;
    if (rank == recent->count) {
        if (recent->count < TRACE_RECENT)
            recent->count++;
        else
            rank--;
    }
    for (; rank > 0; rank--)
        recent->labels[rank] = recent->labels[rank - 1];
    recent->labels[0] = label;
    vec_push(&s->threads.items[s->thread].stack, label);
    s->events++;
}

bool trace_state_return(struct trace_state *s)
{
    struct trace_thread *thread = &s->threads.items[s->thread];
    if (thread->stack.count == 0)
        return false;
    thread->stack.count--;
    s->events++;
    return true;
}

void trace_state_add_label(struct trace_state *s, struct trace_label label)
{
    vec_push(&s->labels, label);
    vec_push(&s->recent, (struct trace_recent){.count = 0});
}

void trace_state_choose_thread(struct trace_state *s, uint32_t thread)
{
    if (thread == s->threads.count)
        vec_push(&s->threads, (struct trace_thread){.stack = {0}});
    s->thread = thread;
}

unsigned trace_state_label_bits(const struct trace_state *s)
{
    unsigned bits = 0;
    while (bits < 32 && s->labels.count > UINT64_C(1) << bits)
        bits++;
    return bits;
}
