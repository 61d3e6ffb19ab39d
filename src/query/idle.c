#include "query/idle.h"

#include "base/vec.h"

#include <string.h>

/* A thread that waits in one place for so much of its time, in per cent, waits for work there. */
enum { LOOP_PERCENT = 20 };

/* Calls that wait for whatever comes next. Locks and files are waited for by those who need them.
 */
static const char *const waiting[] = {
    "epoll_wait", "epoll_pwait", "epoll_pwait2",      "poll",
    "ppoll",      "select",      "pselect",           "accept",
    "accept4",    "sem_wait",    "pthread_cond_wait", "pthread_cond_timedwait",
    "sigwait",    "sigwaitinfo", "sigtimedwait",      "io_getevents",
};

static const char *name_of(const struct profile *p, uint32_t node)
{
    uint32_t index = profile_node_frame(p, node);
    if (index == CTP_NONE)
        return "";
    uint32_t function = profile_frame(p, index)->function;
    return function < profile_function_count(p)
               ? profile_string(p, profile_function(p, function)->name)
               : "";
}

static bool waits_for_work(const char *name)
{
    for (size_t i = 0; i < sizeof waiting / sizeof *waiting; i++)
        if (strcmp(name, waiting[i]) == 0)
            return true;
    return false;
}

struct thread_time {
    uint64_t all, ran;
    uint64_t loop; /* the longest wait for work in one place… */
    uint32_t node; /* …which is this one */
};

static void sum_up(const struct profile *p, const uint64_t *wall, const uint64_t *blocked,
                   struct thread_time *times)
{
    for (uint32_t r = 0; r < profile_root_count(p); r++) {
        const struct ctp_root *root = profile_root(p, r);
        if (root->thread >= profile_thread_count(p))
            continue;
        struct thread_time *time = &times[root->thread];
        for (uint32_t i = root->first_node; i < root->first_node + root->node_count; i++) {
            if (!wall[i])
                continue;
            const char *name = name_of(p, i);
            time->all += wall[i];
            if (!blocked[i] && strcmp(name, "[not attributed]") != 0)
                time->ran += wall[i];
            if (blocked[i] > time->loop && waits_for_work(name)) {
                time->loop = blocked[i];
                time->node = i;
            }
        }
    }
}

int idle_find(const struct profile *p, uint32_t metric, struct idle *out, struct ct_error *err)
{
    *out = (struct idle){0};
    uint32_t blocked = profile_find_metric(p, "blocked"), threads = profile_thread_count(p);
    if (strcmp(profile_string(p, profile_metric(p, metric)->name), "wall") != 0 ||
        blocked == CTP_NONE)
        return CT_OK;
    CT_TRY(profile_verify_values(p, blocked, err));
    struct thread_time *times = must_calloc((size_t)threads + 1, sizeof *times);
    out->threads = must_calloc((size_t)threads + 1, sizeof *out->threads);
    out->nodes = must_calloc((size_t)p->node_count + 1, sizeof *out->nodes);
    sum_up(p, p->values[metric], p->values[blocked], times);
    uint32_t seen = 0;
    for (uint32_t i = 0; i < threads; i++) {
        seen += times[i].all != 0;
        out->threads[i] = times[i].all && !times[i].ran;
        out->count += out->threads[i];
        if (times[i].ran && (double)times[i].loop * 100 >= (double)times[i].all * LOOP_PERCENT)
            out->nodes[times[i].node] = true;
    }
    /* A program that does nothing but wait: where it waits is all that there is to say. */
    if (out->count == seen) {
        memset(out->threads, 0, (size_t)threads * sizeof *out->threads);
        out->count = 0;
    }
    free(times);
    return CT_OK;
}

void idle_free(struct idle *idle)
{
    free(idle->threads);
    free(idle->nodes);
    *idle = (struct idle){0};
}
