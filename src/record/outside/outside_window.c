#include "record/outside/outside_window.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

/* Numbers of processes or threads, each once. */
struct numbers {
    struct key_set set;
};

static bool add_number(struct numbers *n, uint32_t number)
{
    uint32_t before = n->set.count;
    key_set_add(&n->set, &number);
    return n->set.count > before;
}

/* The children of a thread, which may have been made since the rings were last read. */
static void add_children(struct numbers *pids, uint32_t pid, uint32_t tid)
{
    char path[80];
    unsigned child;
    snprintf(path, sizeof path, "/proc/%u/task/%u/children", pid, tid);
    FILE *file = fopen(path, "re");
    while (file && fscanf(file, "%u", &child) == 1)
        add_number(pids, child);
    if (file)
        fclose(file);
}

/* New events for the threads of a process that have none; sets whether there were any. */
static int renew_threads(struct outside *o, uint32_t pid, struct numbers *tids,
                         struct numbers *pids, bool *is_new)
{
    char path[64];
    int status = CT_OK;
    snprintf(path, sizeof path, "/proc/%u/task", pid);
    DIR *folder = opendir(path);
    const struct dirent *entry;
    while (folder && status == CT_OK && (entry = readdir(folder))) {
        uint32_t tid = (uint32_t)strtoul(entry->d_name, NULL, 10);
        if (!tid || !add_number(tids, tid))
            continue;
        const struct outside_process *p = outside_find(o, pid);
        status =
            outside_events_renew(&o->events, (pid_t)tid, p ? p->origin : pid, p && p->awaits_exec);
        if (o->events.wanted.follow)
            add_children(pids, pid, tid);
        *is_new = true;
    }
    if (folder)
        closedir(folder);
    return status;
}

/* As when processes are attached to: until nothing is new. */
static int renew_all(struct outside *o)
{
    struct numbers pids, tids;
    bool is_new = true;
    int status = CT_OK;
    if (o->events.samples_are_wide)
        return outside_events_renew(&o->events, 0, 0, false);
    key_set_init(&pids.set, sizeof(uint32_t));
    key_set_init(&tids.set, sizeof(uint32_t));
    for (size_t i = 0; i < o->processes.count; i++)
        add_number(&pids, o->processes.items[i]->pid);
    while (is_new && status == CT_OK) {
        is_new = false;
        for (uint32_t i = 0; i < pids.set.count && status == CT_OK; i++)
            status = renew_threads(o, *(const uint32_t *)key_set_get(&pids.set, i), &tids, &pids,
                                   &is_new);
    }
    key_set_free(&pids.set);
    key_set_free(&tids.set);
    return status;
}

uint32_t outside_window_own(const struct outside *o, uint32_t tid, uint64_t made_ns)
{
    const struct outside_events *e = &o->events;
    uint32_t own = 0;
    for (size_t i = 0; e->generation && i < e->events.count; i++) {
        const struct outside_event *event = &e->events.items[i];
        if (event->is_sampling && event->tid == tid && event->opened_ns > made_ns &&
            event->generation + 1 > own)
            own = event->generation + 1;
    }
    return own;
}

static void note_own(struct outside *o)
{
    for (size_t i = 0; i < o->processes.count; i++) {
        struct outside_process *p = o->processes.items[i];
        if (p->has_arena)
            outside_header(&p->arena)->window_bytes = (uint32_t)o->events.window_bytes;
        for (size_t k = 0; k < p->threads.count; k++) {
            struct outside_thread *t = p->threads.items[k];
            uint32_t own = outside_window_own(o, t->tid, t->start_ns);
            t->own = own > t->own ? own : t->own;
        }
    }
}

/*
 * All threads get new events, and then the others end: one that is inherited cannot be ended alone.
 * Each sample counts once, since each generation of events has its time.
 */
void outside_window_adapt(struct outside *o)
{
    enum { FEW = 4, PER_CENT = 100 };
    if (o->cut < FEW || o->cut * PER_CENT < o->samples || !outside_events_enlarge(&o->events))
        return;
    bool failed = renew_all(o) != CT_OK;
    outside_events_switch(&o->events, failed);
    if (failed)
        return;
    note_own(o);
    o->samples = o->cut = 0;
}
