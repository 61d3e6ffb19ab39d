#include "record/collect.h"
#include "record/collect_perf.h"

#include "base/clock.h"
#include "profile/profile.h"
#include "record/epochs.h"
#include "record/frames.h"
#include "record/grow.h"
#include "record/kept.h"
#include "record/language.h"
#include "record/metrics.h"
#include "record/sample_times.h"
#include "record/strangers.h"
#include "record/thread_times.h"
#include "record/totals.h"
#include "record/tree_order.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PROGRESS_NODES = 1 << 16 };

struct collector {
    const struct recording *recording;
    struct profile_writer *writer;
    struct frames frames;          /* of the current arena */
    void *engine_state;            /* of the current arena, while its threads are counted, */
    uint64_t bytes_left;           /* and what chunks of nodes they may have */
    struct totals process, all;    /* of the current process, and of all */
    VEC(struct grown_tree) trees;  /* of each thread */
    size_t next_count, last_count; /* of those, the ones that are left of the current process */
    struct progress progress;
    struct metric_set metrics;
    uint32_t engine_metrics; /* how many of them are the engine's */
    struct epochs epochs;
    struct times times;
    bool is_whole;         /* the whole program was measured, but for what it paused itself */
    uint64_t end_ns;       /* of the current process, by the arena's clock; now, if it goes on */
    uint64_t known_end_ns; /* the same; 0, if it goes on or its end was not seen */
    uint64_t perf_rest[PERF_MOST_EVENTS]; /* what the kernel counted, and no context has */
    bool has_written_rest;
    bool has_unknown_time;           /* some process ended without a word of its CPU time */
    double sum_utime_s, sum_stime_s; /* of all processes, each counted once, */
    double going_on_utime_s, going_on_stime_s; /* and of those that no parent has waited for */
    uint32_t outside_processes;                /* that were recorded from outside, and */
    uint64_t window_bytes, lost_in_ring;
    uint64_t io_rest[2]; /* bytes read and written by the current process, not attributed yet */
};

/* A time of the arena's clock, since 1970. */
static uint64_t since_1970(const struct arena_header *h, uint64_t clock_ns)
{
    return clock_ns ? clock_ns + h->realtime_at_zero_ns : 0;
}

/* Threads have a node for what is not attributed, where an event can tell that there is some. */
static bool has_rest(const struct collector *c)
{
    return (c->metrics.layout.events.mask & (EVENT_WALL | EVENT_IO)) || c->recording->perf;
}

static void write_rest(struct collector *c, uint32_t root, const struct thread_times *times)
{
    uint32_t frame = frame_for(&c->frames, KEY_MAKE(0, KEY_LABEL, LABEL_NOT_ATTRIBUTED));
    profile_write_nodes(c->writer, &root, &frame, 1);
    struct node_extra rest = times->rest;
    if (c->recording->perf &&
        !c->has_written_rest) /* it is not known whose: the first thread has it */
        rest.perf = c->perf_rest;
    c->has_written_rest = true;
    rest.read_bytes = c->io_rest[0];
    rest.written_bytes = c->io_rest[1];
    memset(c->io_rest, 0, sizeof c->io_rest);
    metrics_write(&c->metrics, c->writer, NULL, 0, &rest);
}

/* A thread of which nothing else is known has a root for it, too. */
static uint32_t nodes_of_rest(const struct collector *c, const struct grown_tree *g)
{
    return !has_rest(c) ? 0 : g->items.count ? 1 : 2;
}

static void write_rest_only(struct collector *c, const struct arena_view *v,
                            const struct arena_thread *t, const struct grown_tree *g,
                            uint32_t thread, uint32_t *next_node)
{
    static const struct node_extra nothing;
    uint32_t none = CTP_NONE, root = *next_node;
    struct thread_times times =
        thread_times_of(c->recording->server, &c->metrics.layout, v, t, g, c->end_ns);
    profile_add_root(c->writer, thread, CTP_NONE);
    profile_write_nodes(c->writer, &none, &none, 1);
    metrics_write(&c->metrics, c->writer, NULL, 0, &nothing);
    write_rest(c, root, &times);
    *next_node += 2;
}

static void write_node(struct collector *c, const struct arena_view *v, const struct grown_tree *g,
                       size_t i, uint32_t parent, uint32_t frame, const struct thread_times *times)
{
    const struct arena_node *measured = grown_measured(g, i);
    bool waits = times->waits_in && measured &&
                 (const char *)measured == v->bytes + (uint64_t)times->waits_in * 8;
    struct node_extra extra = {.engine = g->columns ? grown_value(g, (uint32_t)i, 0) : NULL,
                               .perf = grown_perf(g, i),
                               .running_ns = thread_running_ns(times, measured)};
    if (waits) {
        extra.blocked_ns = times->waits.blocked_ns;
        extra.lock_ns = times->waits.lock_ns;
        extra.lock_waits = times->waits.lock_waits;
    }
    profile_write_nodes(c->writer, &parent, &frame, 1);
    metrics_write(&c->metrics, c->writer, measured, view_header(v)->heap_peak, &extra);
}

/* Nodes up to this number are written; those before `shown` were shown. */
static uint32_t show_progress(struct collector *c, uint32_t shown, uint32_t end)
{
    progress_add(&c->progress, end - shown);
    return end;
}

static void write_tree(struct collector *c, const struct arena_view *v, const struct grown_tree *g,
                       uint32_t thread, size_t first, struct tree_order *order, uint32_t *next_node,
                       const struct thread_times *times)
{
    uint32_t phase = KEY_OFFSET(g->items.items[first].key), tree_root = *next_node,
             shown = tree_root;
    profile_add_root(c->writer, thread, first ? epoch_for(&c->epochs, v, phase) : CTP_NONE);
    for (size_t i = first; i < g->items.count; i = order->next ? order->next[i] : i + 1) {
        const struct grown_node *n = &g->items.items[i];
        uint32_t parent = i == first ? CTP_NONE : tree_order_number(order, n->parent);
        uint32_t frame = i == first ? CTP_NONE : frame_for(&c->frames, n->key);
        if (order->number)
            order->number[i] = *next_node;
        ++*next_node;
        write_node(c, v, g, i, parent, frame, times);
        if (*next_node - shown >= PROGRESS_NODES)
            shown = show_progress(c, shown, *next_node);
    }
    if (!first && has_rest(c)) {
        write_rest(c, tree_root, times);
        (*next_node)++;
    }
    show_progress(c, shown, *next_node);
}

static void write_thread(struct collector *c, const struct arena_view *v,
                         const struct arena_thread *t, const struct grown_tree *g, uint32_t thread,
                         uint32_t *next_node)
{
    size_t count = g->items.count;
    struct tree_order order = {.first_number = *next_node};
    VEC(uint32_t) roots = {0};
    vec_push(&roots, 0);
    for (uint32_t i = 1; i < count; i++)
        if (g->items.items[i].parent == 0 && (KEY_FLAGS(g->items.items[i].key) & KEY_PHASE))
            vec_push(&roots, i);
    if (roots.count > 1)
        tree_order_by_roots(g, roots.items, roots.count, &order);
    struct thread_times times =
        thread_times_of(c->recording->server, &c->metrics.layout, v, t, g, c->end_ns);
    for (size_t i = 0; i < roots.count; i++)
        write_tree(c, v, g, thread, roots.items[i], &order, next_node, &times);
    times_add_thread(&c->times, v, t, tree_order_of_place, &(struct numbered_tree){g, &order});
    vec_free(&roots);
    free(order.next);
    free(order.number);
}

static void grow_tree(struct grown_tree *g, struct collector *c, const struct arena_view *v,
                      const struct arena_thread *t)
{
    *g = (struct grown_tree){.columns = c->engine_metrics, .progress = &c->progress};
    const struct arena_header *h = view_header(v);
    const struct record_engine *engine = c->recording->server->engine;
    const struct perf_samples *perf = c->recording->perf;
    grow_samples(g, v, t, c->metrics.layout.node_bytes, &c->bytes_left);
    if (engine->grow)
        engine->grow(c->engine_state, v, t, g);
    if (perf && perf_samples_has(perf, h, t)) {
        grown_root(g);
        perf_samples_grow(perf, h, t, g);
    }
}

/* Visits the threads of an arena, oldest first. */
typedef void thread_fn(struct collector *c, const struct arena_view *v,
                       const struct arena_thread *t, uint32_t process, uint32_t *next_node);

static void count_thread(struct collector *c, const struct arena_view *v,
                         const struct arena_thread *t, uint32_t process, uint32_t *next_node)
{
    struct grown_tree tree;
    (void)process;
    grow_tree(&tree, c, v, t);
    grown_ends(&tree);
    *next_node += (uint32_t)tree.items.count + nodes_of_rest(c, &tree);
    vec_push(&c->trees, tree);
}

static void add_thread(struct collector *c, const struct arena_view *v,
                       const struct arena_thread *t, uint32_t process, uint32_t *next_node)
{
    if (c->next_count == c->last_count)
        return; /* it came after they were counted */
    struct grown_tree *tree = &c->trees.items[c->next_count++];
    char name[ARENA_NAME_BYTES + 1] = "";
    const struct arena_header *h = view_header(v);
    memcpy(name, t->name, ARENA_NAME_BYTES);
    struct ctp_thread out = {.process = process,
                             .tid = t->tid,
                             .name = profile_add_string(c->writer, name),
                             .creator = CTP_NONE,
                             .start_ns = since_1970(h, t->start_ns),
                             .end_ns = since_1970(h, t->end_ns ? t->end_ns : c->known_end_ns)};
    uint32_t thread = profile_add_thread(c->writer, &out);
    if (t->lives > 1 || c->recording->is_part) /* where others are added to it */
        profile_fact_u64(c->writer, CTP_SCOPE_THREAD, thread, "threads",
                         t->lives > 1 ? t->lives : 1);
    if (t->lives > 1 && t->has_other_names)
        profile_fact_u64(c->writer, CTP_SCOPE_THREAD, thread, "threads_of_other_names", 1);
    if (tree->items.count)
        write_thread(c, v, t, tree, thread, next_node);
    else if (has_rest(c))
        write_rest_only(c, v, t, tree, thread, next_node);
    for (unsigned i = 0; i < ENGINE_SUMS; i++)
        c->process.engine[i] += tree->sums[i];
    c->process.guessed += grown_guessed(tree);
    free_grown(tree);
    totals_add_thread(&c->process, t);
}

static void each_thread(struct collector *c, const struct arena_view *v, uint32_t process,
                        uint32_t *next_node, thread_fn *visit)
{
    VEC(const struct arena_thread *) threads = {0};
    const struct arena_thread *t;
    VIEW_EACH(v, view_header(v)->first_thread, t) {
        vec_push(&threads, t);
    }
    for (size_t i = threads.count; i-- > 0;)
        visit(c, v, threads.items[i], process, next_node);
    vec_free(&threads);
}

/*
 * When a process ended, by the arena's clock: it became another program then, or said so, or was
 * seen no more. 0: it goes on, or it was not seen when.
 */
static uint64_t known_end_of(const struct server *s, size_t i)
{
    const struct server_arena *a = &s->arenas.items[i], *successor = server_successor(s, i);
    if (successor)
        return successor->header->start_ns;
    if (server_arena_in_use(s, i))
        return 0;
    return a->header->said_ns ? a->header->said_ns : a->gone_ns;
}

static uint32_t add_process(struct collector *c, size_t i)
{
    const struct server *s = c->recording->server;
    const struct server_arena *a = &s->arenas.items[i];
    char program[ARENA_PROGRAM_BYTES]; /* in the arena it may have no end */
    snprintf(program, sizeof program, "%.*s", ARENA_PROGRAM_BYTES - 1, a->header->program);
    struct ctp_process out = {.pid = (uint32_t)a->pid,
                              .parent = CTP_NONE,
                              .command = profile_add_string(c->writer, program),
                              .start_ns = since_1970(a->header, a->header->start_ns)};
    for (size_t k = 0; k < i; k++) {
        if (server_is_same_process(&s->arenas.items[k], a)) {
            out.parent = (uint32_t)k;
            out.flags = CTP_PROCESS_EXEC;
        } else if (s->arenas.items[k].pid == a->parent_pid) {
            out.parent = (uint32_t)k;
            out.flags = 0;
        }
    }
    out.end_ns = since_1970(a->header, known_end_of(s, i));
    bool is_first =
        !c->recording->is_part &&
        (i == 0 || server_is_same_process(&s->arenas.items[0], a)); /* maybe after an exec */
    if (server_successor(s, i)) {
        out.exit_kind = CTP_EXIT_EXEC;
    } else if (is_first && WIFEXITED(c->recording->wait_status)) {
        out.exit_kind = CTP_EXIT_STATUS;
        out.exit_value = (uint32_t)WEXITSTATUS(c->recording->wait_status);
    } else if (is_first && WIFSIGNALED(c->recording->wait_status)) {
        out.exit_kind = CTP_EXIT_SIGNAL;
        out.exit_value = (uint32_t)WTERMSIG(c->recording->wait_status);
    }
    uint32_t arguments = 0;
    while (is_first && i == 0 && c->recording->options->command[arguments])
        arguments++;
    return profile_add_process(c->writer, &out, arguments,
                               (const char *const *)c->recording->options->command);
}

/* Where it ran. A rank is no count: as a whole number with a sign it is not summed in merging. */
static void add_job(struct collector *c, enum ctp_scope scope, uint32_t index)
{
    const struct job *job = &c->recording->options->job;
    if (job->host[0])
        profile_fact_string(c->writer, scope, index, "host", job->host);
    if (job->has_rank)
        profile_fact_i64(c->writer, scope, index, "rank", job->rank);
    if (job->has_rank && job->ranks)
        profile_fact_i64(c->writer, scope, index, "ranks", job->ranks);
}

static void add_facts(struct collector *c, enum ctp_scope scope, uint32_t index,
                      const struct totals *totals)
{
    const struct fact_kinds kinds = {
        .samples = c->metrics.layout.events.mask & EVENTS_BY_SAMPLES,
        .is_whole = c->is_whole,
        .rate_hz = (double)c->recording->options->rate_hz,
        .server = c->recording->server,
        .ticks_per_ns = c->recording->ticks_per_ns,
    };
    totals_write(totals, &kinds, c->writer, scope, index);
}

static const char *source_name(uint32_t source)
{
    return source == SOURCE_PERF      ? "perf task-clock, user mode"
           : source == SOURCE_OUTSIDE ? "perf task-clock, from outside"
           : source == SOURCE_TIMER   ? "CPU-time timers: perf events are not permitted here"
                                      : "none";
}

/*
 * Of the bytes that the kernel counts for a process, those that have no context. Its counters go on
 * over exec, so they are looked at with the process's last arena.
 */
static void find_io_rest(struct collector *c, size_t i)
{
    const struct server *s = c->recording->server;
    const struct server_arena *a = &s->arenas.items[i];
    uint64_t read = 0, written = 0;
    memset(c->io_rest, 0, sizeof c->io_rest);
    if (!a->has_io || !c->is_whole || a->header->was_paused)
        return;
    for (size_t k = 0; k <= i; k++) {
        if (s->arenas.items[k].pid == a->pid) {
            read += s->arenas.items[k].header->io_read;
            written += s->arenas.items[k].header->io_written;
        }
    }
    c->io_rest[0] = a->io_read > read ? a->io_read - read : 0;
    c->io_rest[1] = a->io_written > written ? a->io_written - written : 0;
}

/* Of a process without a runtime in it: how much of its stacks was seen, and what was not. */
static void add_outside(struct collector *c, const struct arena_header *h, uint32_t process)
{
    profile_fact_u64(c->writer, CTP_SCOPE_PROCESS, process, "window_bytes", h->window_bytes);
    profile_fact_u64(c->writer, CTP_SCOPE_PROCESS, process, "cut_by_window",
                     c->process.cut_by_window);
    profile_fact_u64(c->writer, CTP_SCOPE_PROCESS, process, "lost_in_ring", h->lost[LOST_IN_RING]);
    c->outside_processes++;
    c->window_bytes = h->window_bytes;
    c->lost_in_ring += h->lost[LOST_IN_RING];
}

/* Why a process was not measured like any other; NULL: it was. */
static const char *restriction(const struct arena_header *h)
{
    if (h->is_silent)
        return "not measured to its end: a filter for system calls does not permit it";
    if (h->is_debugged)
        return "not sampled: it has a debugger, which sees every signal";
    return language_consequence(h->languages);
}

/*
 * The kernel's sum has the processes that were waited for. Daemons are in it neither while they go
 * on, nor when they have ended: their parent is init by then.
 */
static void add_times(struct collector *c, size_t i)
{
    const struct server *s = c->recording->server;
    if (server_successor(s, i)) /* its time goes on */
        return;
    c->sum_utime_s += c->process.utime_s;
    c->sum_stime_s += c->process.stime_s;
    if (i && !server_is_same_process(&s->arenas.items[0], &s->arenas.items[i]) &&
        server_arena_in_use(s, i)) {
        c->going_on_utime_s += c->process.utime_s;
        c->going_on_stime_s += c->process.stime_s;
    }
}

static void collect_arena(struct collector *c, size_t i, uint32_t *nodes)
{
    struct server_arena *a = &c->recording->server->arenas.items[i];
    const struct arena_header *h = a->header;
    struct arena_view v = arena_view_at_end(a);
    c->process = (struct totals){0};
    uint32_t process = add_process(c, i);
    c->known_end_ns = known_end_of(c->recording->server, i);
    c->end_ns = c->known_end_ns ? c->known_end_ns : now_ns();
    frames_begin(&c->frames, c->writer, &v, &c->recording->server->maps, h->pid);
    epochs_begin_arena(&c->epochs, &v);
    times_begin_arena(&c->times, &v);
    find_io_rest(c, i);
    each_thread(c, &v, process, nodes, add_thread);
    c->process.arena_bytes = h->used;
    c->process.sites = h->sites;
    c->process.sites_not_edited = h->sites_not_edited;
    c->process.modules_not_edited = h->modules_not_edited;
    c->process.functions_not_edited = h->functions_not_edited;
    c->process.unknown_bytes = h->unknown_bytes;
    for (unsigned k = 0; k < ARENA_LOSSES; k++)
        c->process.lost += h->lost[k];
    c->process.threads_not_sampled = h->threads_not_sampled;
    c->process.utime_s = h->utime_ns ? (double)h->utime_ns / 1e9 : a->utime_s;
    c->process.stime_s = h->utime_ns ? (double)h->stime_ns / 1e9 : a->stime_s;
    add_times(c, i);
    c->has_unknown_time |= c->process.utime_s == 0 && c->process.stime_s == 0 && a->is_gone;
    add_facts(c, CTP_SCOPE_PROCESS, process, &c->process);
    if (c->recording->is_part)
        profile_fact_u64(c->writer, CTP_SCOPE_PROCESS, process, "processes", 1);
    add_job(c, CTP_SCOPE_PROCESS, process);
    profile_fact_string(c->writer, CTP_SCOPE_PROCESS, process, "sampled_by",
                        source_name(h->source));
    if (h->source == SOURCE_OUTSIDE)
        add_outside(c, h, process);
    const char *consequence = restriction(h);
    if (consequence)
        profile_fact_string(c->writer, CTP_SCOPE_PROCESS, process, "restricted", consequence);
    totals_add(&c->all, &c->process);
    if (c->recording->server->engine->write_process)
        c->recording->server->engine->write_process(&v, &c->frames, c->writer, process);
    frames_end(&c->frames);
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

/* Of a part, what the totals need; of a recording, all that is said of it. */
static void add_profile_facts(struct collector *c)
{
    const struct recording *recording = c->recording;
    const struct server *s = recording->server;
    if (recording->is_part) {
        kept_write_facts(&(struct kept){c->all, true, c->has_unknown_time}, c->writer);
        return;
    }
    if (recording->has_usage) { /* the kernel's own sum, where there is one, is better */
        c->all.utime_s = larger(recording->utime_s + c->going_on_utime_s, c->sum_utime_s);
        c->all.stime_s = larger(recording->stime_s + c->going_on_stime_s, c->sum_stime_s);
    } else if (c->has_unknown_time) { /* a part is not the sum */
        c->all.utime_s = c->all.stime_s = 0;
    }
    add_facts(c, CTP_SCOPE_PROFILE, 0, &c->all);
    add_job(c, CTP_SCOPE_PROFILE, 0);
    if (s->engine->write_metric_facts && c->metrics.engine != CTP_NONE)
        s->engine->write_metric_facts(s, c->all.engine, c->writer, c->metrics.engine);
    if (c->outside_processes) {
        profile_fact_u64(c->writer, CTP_SCOPE_PROFILE, 0, "processes_from_outside",
                         c->outside_processes);
        profile_fact_u64(c->writer, CTP_SCOPE_PROFILE, 0, "window_bytes", c->window_bytes);
        profile_fact_u64(c->writer, CTP_SCOPE_PROFILE, 0, "cut_by_window", c->all.cut_by_window);
        profile_fact_u64(c->writer, CTP_SCOPE_PROFILE, 0, "lost_in_ring", c->lost_in_ring);
    }
    uint64_t from_ns = s->window_start_ns ? s->window_start_ns
                       : s->arenas.count  ? s->arenas.items[0].header->start_ns
                                          : s->window_end_ns;
    if (s->paused && !s->has_begun) /* the program ended before the delay did */
        profile_fact_f64(c->writer, CTP_SCOPE_PROFILE, 0, "measured_s", 0);
    else if (!c->is_whole && s->window_end_ns > from_ns)
        profile_fact_f64(c->writer, CTP_SCOPE_PROFILE, 0, "measured_s",
                         (double)(s->window_end_ns - from_ns) / 1e9);
    if (c->metrics.cpu != CTP_NONE)
        add_facts(c, CTP_SCOPE_METRIC, c->metrics.cpu, &c->all);
}

/* What is kept of processes that have ended is of the recording, but not of a part. */
static int begin_totals(struct collector *c, struct kept *kept, struct ct_error *err)
{
    *kept = (struct kept){0};
    if (c->recording->is_part)
        return CT_OK;
    CT_TRY(kept_read(c->recording->server, kept, err));
    c->all = kept->totals;
    c->sum_utime_s = kept->totals.utime_s;
    c->sum_stime_s = kept->totals.stime_s;
    c->has_unknown_time = kept->has_unknown_time;
    return CT_OK;
}

static void begin_progress(struct collector *c, const char *what, uint64_t total)
{
    progress_begin(&c->progress, what, total);
    c->progress.is_terminal &= c->recording->is_over; /* or it is the program's */
}

static void collect_arenas(struct collector *c)
{
    const struct server *s = c->recording->server;
    uint32_t nodes = 0;
    uint64_t bytes = 0;
    VEC(size_t) last_counts = {0};
    for (size_t i = 0; i < s->arenas.count; i++)
        bytes += s->arenas.items[i].header->used;
    begin_progress(c, "contexts", bytes);
    for (size_t i = 0; i < s->arenas.count; i++) {
        struct arena_view v = arena_view_at_end(&s->arenas.items[i]);
        c->bytes_left = v.size;
        c->engine_state = s->engine->arena_begins ? s->engine->arena_begins(s, &v) : NULL;
        each_thread(c, &v, 0, &nodes, count_thread);
        if (s->engine->arena_ends)
            s->engine->arena_ends(c->engine_state);
        vec_push(&last_counts, c->trees.count);
    }
    progress_end(&c->progress);
    profile_begin_nodes(c->writer, nodes);
    begin_progress(c, "profile", nodes);
    nodes = 0;
    for (size_t i = 0; i < s->arenas.count; i++) {
        c->last_count = last_counts.items[i];
        collect_arena(c, i, &nodes);
    }
    progress_end(&c->progress);
    vec_free(&last_counts);
}

/* The processes whose arenas are there. */
static int collect_into(struct collector *c, const char *path, bool keeps_old, struct ct_error *err)
{
    const struct recording *recording = c->recording;
    const struct server *s = recording->server;
    CT_TRY(profile_writer_open(path, &c->writer, err));
    if (keeps_old)
        profile_writer_keep_old(c->writer);
    epochs_begin(&c->epochs, c->writer);
    c->is_whole = recording->options->delay_s == 0 && recording->options->duration_s == 0;
    metrics_add(&c->metrics, c->writer, &s->events, s->period_ns);
    struct metric_kind kinds[ENGINE_METRICS];
    c->engine_metrics = s->engine->metrics ? s->engine->metrics(s, kinds) : 0;
    metrics_add_engine(&c->metrics, c->writer, kinds, c->engine_metrics);
    if (recording->perf)
        collect_perf(recording->perf, &c->metrics, c->writer, c->perf_rest);
    times_begin(&c->times, c->writer, s, recording->ticks_per_ns);
    c->times.metric = c->metrics.cpu;
    if (recording->is_part)
        c->times.start_ns = recording->start_ns;
    collect_arenas(c);
    if (!recording->is_part)
        strangers_write(recording->server, c->writer);
    add_profile_facts(c);
    epochs_end(&c->epochs);
    times_end(&c->times);
    vec_free(&c->trees);
    return profile_writer_commit(c->writer, err);
}

/* Both those that are there and those of which only what they measured is kept. */
static int collect_and_join(struct collector *c, const char *output, bool keeps_old,
                            struct ct_error *err)
{
    const struct server *s = c->recording->server;
    char *rest = kept_path(s, "rest");
    struct profile_writer *writer;
    int status = collect_into(c, rest, false, err);
    if (status == CT_OK)
        status = profile_writer_open(output, &writer, err);
    if (status == CT_OK) {
        if (keeps_old)
            profile_writer_keep_old(writer);
        status = kept_join(s, rest, writer, err);
        if (status == CT_OK)
            status = profile_writer_commit(writer, err);
        else
            profile_writer_abandon(writer);
    }
    unlink(rest);
    free(rest);
    return status;
}

int collect_profile(const struct recording *recording, struct ct_error *err)
{
    struct collector c = {.recording = recording};
    struct kept kept;
    const char *output = recording->snapshot ? recording->snapshot : recording->options->output;
    bool keeps_old = !recording->is_written && !recording->snapshot;
    CT_TRY(begin_totals(&c, &kept, err));
    bool joins = kept.is_there && !recording->for_slice;
    return (joins ? collect_and_join : collect_into)(&c, output, keeps_old, err);
}
