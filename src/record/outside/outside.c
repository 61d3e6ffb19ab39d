#include "record/outside/outside.h"

#include "base/clock.h"
#include "record/kernel_names.h"
#include "record/outside/outside_switches.h"
#include "record/outside/outside_walk.h"
#include "record/outside/outside_window.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int outside_begin(struct outside *o, struct server *server, const struct outside_wanted *wanted,
                  bool verify, struct ct_error *err)
{
    *o = (struct outside){.server = server, .verify = verify, .until_ns = UINT64_MAX};
    o->by_height = wanted->by_height;
    o->files.maps = &server->maps;
    if (wanted->in_kernel)
        o->names_kernel = kernel_names_are_readable();
    return outside_events_begin(&o->events, wanted, err);
}

void outside_end(struct outside *o)
{
    outside_events_end(&o->events);
    for (size_t i = 0; i < o->processes.count; i++)
        outside_process_free(o->processes.items[i]);
    vec_free(&o->processes);
    outside_files_end(&o->files);
}

struct outside_process *outside_find(const struct outside *o, uint32_t pid)
{
    for (size_t i = o->processes.count; i-- > 0;)
        if (o->processes.items[i]->pid == pid)
            return o->processes.items[i];
    return NULL;
}

/* Its threads have events each, of which one will call exec: the others end then. */
static int follow_threads(struct outside *o, pid_t pid, bool *is_gone, struct ct_error *err)
{
    char path[64];
    int status = CT_OK;
    *is_gone = true;
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    DIR *folder = opendir(path);
    const struct dirent *entry;
    while (folder && status == CT_OK && (entry = readdir(folder))) {
        pid_t tid = (pid_t)strtol(entry->d_name, NULL, 10);
        bool has_ended = true;
        if (tid > 0)
            status = outside_events_add(&o->events, tid, pid, true, &has_ended, err);
        *is_gone &= has_ended;
    }
    if (folder)
        closedir(folder);
    return status;
}

int outside_follow(struct outside *o, pid_t pid, uint32_t parent, struct ct_error *err)
{
    bool is_gone;
    uint64_t now = now_ns(); /* what the rings tell from before is of another of that number */
    CT_TRY(follow_threads(o, pid, &is_gone, err));
    if (is_gone)
        return ct_fail(err, "the program could not be started: its process has gone");
    struct outside_process *p = outside_process_new((uint32_t)pid, parent, now);
    p->listed_ns = now;
    p->awaits_exec = true;
    outside_thread_add(p, (uint32_t)pid, "", 0);
    vec_push(&o->processes, p);
    return CT_OK;
}

static void remove_process(struct outside *o, struct outside_process *p)
{
    uint32_t origin = p->origin;
    for (size_t i = 0; i < o->processes.count; i++)
        if (o->processes.items[i] == p)
            o->processes.items[i] = o->processes.items[--o->processes.count];
    outside_process_free(p);
    for (size_t i = 0; i < o->processes.count; i++)
        if (o->processes.items[i]->origin == origin)
            return; /* the events of those that it made would end with its own */
    outside_events_drop(&o->events, origin);
}

void outside_unfollow(struct outside *o, pid_t pid)
{
    struct outside_process *p = outside_find(o, (uint32_t)pid);
    if (p && p->awaits_exec)
        remove_process(o, p);
}

/* --- processes and threads ---------------------------------------------------------------------
 */

static void take_fork(struct outside *o, const struct outside_record *r)
{
    struct outside_process *p = outside_find(o, r->pid);
    struct outside_process *parent = outside_find(o, r->fork.parent_pid);
    const struct outside_thread *maker =
        parent ? outside_thread_find(parent, r->fork.parent_tid) : NULL;
    if (!p) {
        if (!o->events.wanted.follow || !parent)
            return;
        p = outside_process_new(r->pid, r->fork.parent_pid, r->time_ns);
        outside_process_copy(p, parent);
        p->listed_ns = parent->listed_ns;
        p->begin_ns = parent->begin_ns;
        p->origin = parent->origin;
        vec_push(&o->processes, p);
    }
    if (outside_thread_find(p, r->tid))
        return;
    struct outside_thread *t = outside_thread_add(p, r->tid, maker ? maker->name : "", r->time_ns);
    t->own = outside_window_own(o, r->tid, r->time_ns);
    if (maker) {
        t->heir_own = maker->own ? maker->own : maker->heir_own;
        t->heir_of = maker->own ? maker->tid : maker->heir_of;
    }
}

/* Does a sample come twice: from another event, too, that the thread has? */
static bool comes_twice(const struct outside_thread *t, const struct outside_event *e)
{
    uint32_t generation = e->generation + 1;
    return t->own == generation        ? e->tid != t->tid
           : t->heir_own == generation ? e->tid != t->heir_of
                                       : false;
}

static void end_process(struct outside *o, struct outside_process *p, uint64_t time_ns)
{
    if (p->has_arena)
        outside_header(&p->arena)->said_ns = time_ns;
    remove_process(o, p);
}

static void take_exit(struct outside *o, const struct outside_record *r)
{
    struct outside_process *p = outside_find(o, r->pid);
    if (!p || r->time_ns < p->start_ns) /* events end where privileges change, too */
        return;
    if (p->threads.count == 1)
        outside_process_need_arena(p, o->server, o->events.window_bytes);
    outside_thread_end(p, r->tid, r->time_ns);
    if (!p->threads.count)
        end_process(o, p, r->time_ns);
}

/* Of the threads only one is left, which has the process's number from now on. */
static void take_exec(struct outside_process *p, const struct outside_record *r)
{
    while (p->threads.count)
        outside_thread_end(p, p->threads.items[0]->tid, r->time_ns);
    if (p->has_arena)
        outside_header(&p->arena)->said_ns = r->time_ns;
    outside_process_forget(p);
    p->has_arena = p->awaits_exec = false;
    p->has_called_exec = true;
    p->start_ns = p->listed_ns = r->time_ns;
    p->begin_ns = 0;
    outside_thread_add(p, r->tid, r->name.text, r->time_ns);
}

static void take_name(struct outside *o, const struct outside_record *r)
{
    struct outside_process *p = outside_find(o, r->pid);
    if (!p || r->time_ns < p->listed_ns)
        return;
    if (r->name.is_exec) {
        take_exec(p, r);
        return;
    }
    struct outside_thread *t = outside_thread_find(p, r->tid);
    if (!t)
        return;
    strncpy(t->name, r->name.text, sizeof t->name - 1);
    if (t->has_tree)
        memcpy(t->tree.record->name, t->name, sizeof t->name);
}

/* The first file that is mapped after exec is the program, or the interpreter of a script. */
static void take_mapping(struct outside *o, const struct outside_record *r)
{
    struct outside_process *p = outside_find(o, r->pid);
    if (!p || r->time_ns < p->listed_ns)
        return;
    outside_process_map(p, &o->files, &r->mapping);
    if (!p->has_called_exec || *r->mapping.path != '/')
        return;
    p->has_called_exec = false;
    if (outside_process_need_arena(p, o->server, o->events.window_bytes))
        snprintf(outside_header(&p->arena)->program, ARENA_PROGRAM_BYTES, "%s", r->mapping.path);
}

/* --- samples -----------------------------------------------------------------------------------
 */

/* What cannot be charged to a process is said of the first. */
static void settle_losses(struct outside *o)
{
    const struct server *s = o->server;
    size_t first = 0;
    while (first < s->arenas.count && s->arenas.items[first].header->source != SOURCE_OUTSIDE)
        first++;
    if (first == s->arenas.count)
        return;
    struct arena_header *h = s->arenas.items[first].header;
    h->lost[LOST_IN_RING] += o->lost;
    h->lost[LOST_NO_THREAD] += o->unattributed;
    o->lost = o->unattributed = 0;
}

static void take_sample(struct outside *o, const struct outside_record *r)
{
    if (r->time_ns < o->from_ns || r->time_ns >= o->until_ns)
        return;
    const struct outside_event *e = outside_event_of(&o->events, r->id);
    const struct outside_generation *g = &o->events.generations[e ? e->generation : 0];
    if (r->time_ns < g->from_ns || r->time_ns >= g->until_ns)
        return; /* another event has it, with another window */
    struct outside_process *p = outside_find(o, r->pid);
    struct outside_thread *t = p ? outside_thread_find(p, r->tid) : NULL;
    if (p && r->time_ns < p->begin_ns)
        return;
    if (o->events.samples_are_wide && (!p || p->awaits_exec))
        return; /* of another process, or of another program in it */
    if (t && e && comes_twice(t, e))
        return;
    if (!p || !outside_process_need_arena(p, o->server, o->events.window_bytes)) {
        o->unattributed++;
        return;
    }
    if (!t)
        t = outside_thread_add(p, r->tid, "", r->time_ns);
    if (!t->has_tree)
        t->has_tree = outside_tree_begin(&p->arena, &t->tree, t->tid, t->name, t->start_ns);
    if (t->has_tree)
        outside_count(o, p, t, &r->sample, r->time_ns);
    else
        outside_header(&p->arena)->lost[LOST_NO_ROOM]++;
}

static void take_record(void *context, const struct outside_record *r)
{
    struct outside *o = context;
    switch (r->kind) {
    case OUTSIDE_SAMPLE:
        take_sample(o, r);
        break;
    case OUTSIDE_MAPPING:
        take_mapping(o, r);
        break;
    case OUTSIDE_NAME:
        take_name(o, r);
        break;
    case OUTSIDE_FORK:
        take_fork(o, r);
        break;
    case OUTSIDE_EXIT:
        take_exit(o, r);
        break;
    case OUTSIDE_LOST:
        o->lost += r->lost;
        o->lost_told += r->lost;
        break;
    }
}

/* Processes and threads without samples are in the profile, too. */
static void list_the_rest(struct outside *o)
{
    for (size_t i = 0; i < o->processes.count; i++) {
        struct outside_process *p = o->processes.items[i];
        if (p->awaits_exec || !outside_process_need_arena(p, o->server, o->events.window_bytes))
            continue;
        for (size_t k = 0; k < p->threads.count; k++) {
            const struct outside_thread *t = p->threads.items[k];
            if (!t->has_tree)
                outside_arena_add_thread(&p->arena, t->tid, t->name, t->start_ns, 0);
        }
    }
}

void outside_read(struct outside *o, bool all)
{
    outside_events_read(&o->events, all, take_record, o);
    uint64_t counted = all ? outside_events_lost(&o->events) : 0;
    if (counted > o->lost_told)
        o->lost += counted - o->lost_told;
    if (all)
        list_the_rest(o);
    settle_losses(o);
    if (all)
        return;
    outside_window_adapt(o);
    outside_switches_adapt(o);
}

void outside_say_what_is_missing(const struct outside *o)
{
    enum { FEW = 5 }; /* of so few samples no share is said */
    uint64_t lost = 0;
    for (size_t i = 0; i < o->server->arenas.count; i++)
        lost += o->server->arenas.items[i].header->lost[LOST_IN_RING];
    if (lost)
        fprintf(stderr,
                "calltrail: %llu records are lost: the kernel's rings were full; a lower frequency "
                "(-F) or a smaller window (--window) needs less\n",
                (unsigned long long)lost);
    if (o->heights)
        fprintf(
            stderr,
            "calltrail: %.0f%% of the samples have a stack height in place of callers: calltrail "
            "infer MAP PROFILE finds them\n",
            100.0 * (double)o->heights / (double)o->samples);
    if (o->by_height && o->cut * 100 > o->samples)
        fprintf(stderr, "calltrail: %.0f%% of the stacks have no height that is certain\n",
                100.0 * (double)o->cut / (double)o->samples);
    else if (o->cut > FEW && o->cut * 100 > o->samples)
        fprintf(stderr,
                "calltrail: %.0f%% of the stacks are higher than the window of %u KB; --window 63 "
                "is the most\n",
                100.0 * (double)o->cut / (double)o->samples,
                (unsigned)(o->events.window_bytes >> 10));
    if (o->samples_32)
        fprintf(stderr,
                "calltrail: %llu samples are of 32-bit programs, whose callers are not known\n",
                (unsigned long long)o->samples_32);
}
