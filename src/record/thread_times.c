#include "record/thread_times.h"

uint64_t thread_running_ns(const struct thread_times *times, const struct arena_node *n)
{
    if (!n || !times->samples)
        return 0;
    return (uint64_t)((unsigned __int128)n->count * times->sampled_ns / times->samples);
}

struct thread_times thread_times_of(const struct server *s, const struct arena_header *layout,
                                    const struct arena_view *v, const struct arena_thread *t,
                                    const struct grown_tree *g, uint64_t now_ns)
{
    struct thread_times times = {
        .waits_in = t->waits_in, .samples = t->samples, .sampled_ns = t->sampled_ns};
    if (!(layout->events.mask & (EVENT_WALL | EVENT_LOCK)))
        return times;
    const struct arena_header *h = view_header(v);
    uint64_t end_ns = t->end_ns ? t->end_ns : now_ns, start_ns = t->start_ns;
    uint64_t paused_ns = t->end_ns ? t->paused_ns : arena_paused_ns(h, end_ns);
    paused_ns = paused_ns > t->paused_before_ns ? paused_ns - t->paused_before_ns : 0;
    if (s->window_end_ns && end_ns > s->window_end_ns)
        end_ns = s->window_end_ns;
    if (start_ns < s->window_start_ns)
        start_ns = s->window_start_ns;
    if (times.waits_in && end_ns > t->waits_since_ns)
        times.waits.blocked_ns = end_ns - t->waits_since_ns;
    if (times.waits_in && (t->waits_events & EVENT_LOCK)) {
        times.waits.lock_ns = times.waits.blocked_ns;
        times.waits.lock_waits = 1;
    }
    if (!(layout->events.mask & EVENT_WALL))
        return times;
    uint64_t known_ns = times.waits.blocked_ns;
    for (size_t i = 0; i < g->measured.count; i++) {
        const struct arena_node *n = g->measured.items[i];
        if (n)
            known_ns += thread_running_ns(&times, n) + *node_value(layout, n, VALUE_BLOCKED_NS);
    }
    known_ns += paused_ns + t->absent_ns;
    if (end_ns > start_ns && end_ns - start_ns > known_ns)
        times.rest.elapsed_ns = end_ns - start_ns - known_ns;
    return times;
}
