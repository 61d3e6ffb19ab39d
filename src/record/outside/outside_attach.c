#include "record/outside/outside_attach.h"

#include "base/clock.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void read_name(uint32_t pid, uint32_t tid, char name[OUTSIDE_NAME_BYTES])
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%u/task/%u/comm", pid, tid);
    FILE *file = fopen(path, "re");
    if (!file || !fgets(name, OUTSIDE_NAME_BYTES, file))
        name[0] = '\0';
    name[strcspn(name, "\n")] = '\0';
    if (file)
        fclose(file);
}

uint32_t outside_parent_of(uint32_t pid)
{
    char path[64], line[256];
    unsigned parent = 0;
    snprintf(path, sizeof path, "/proc/%u/status", pid);
    FILE *file = fopen(path, "re");
    while (file && !parent && fgets(line, sizeof line, file))
        sscanf(line, "PPid: %u", &parent);
    if (file)
        fclose(file);
    return parent;
}

/* Events for the threads that have none yet; sets whether there were any. */
static int attach_threads(struct outside *o, struct outside_process *p, bool *is_new,
                          struct ct_error *err)
{
    char path[64], name[OUTSIDE_NAME_BYTES];
    int status = CT_OK;
    snprintf(path, sizeof path, "/proc/%u/task", p->pid);
    DIR *folder = opendir(path);
    const struct dirent *entry;
    while (folder && status == CT_OK && (entry = readdir(folder))) {
        uint32_t tid = (uint32_t)strtoul(entry->d_name, NULL, 10);
        bool is_gone = false;
        if (!tid || outside_thread_find(p, tid))
            continue;
        if (!o->events.is_wide)
            status =
                outside_events_add(&o->events, (pid_t)tid, (pid_t)p->origin, false, &is_gone, err);
        if (status != CT_OK || is_gone)
            continue;
        read_name(p->pid, tid, name);
        outside_thread_add(p, tid, name, now_ns())->own =
            o->events.samples_are_wide ? 0 : o->events.generation + 1;
        *is_new = true;
    }
    if (folder)
        closedir(folder);
    return status;
}

static struct outside_process *add_process(struct outside *o, uint32_t pid)
{
    struct outside_process *p = outside_process_new(pid, outside_parent_of(pid), now_ns());
    vec_push(&o->processes, p);
    return p;
}

/* The children of all threads of a process that are not known yet. */
static bool add_children(struct outside *o, const struct outside_process *p)
{
    bool is_new = false;
    for (size_t i = 0; i < p->threads.count; i++) {
        char path[80];
        unsigned child;
        snprintf(path, sizeof path, "/proc/%u/task/%u/children", p->pid, p->threads.items[i]->tid);
        FILE *file = fopen(path, "re");
        while (file && fscanf(file, "%u", &child) == 1) {
            if (!outside_find(o, child)) {
                add_process(o, child);
                is_new = true;
            }
        }
        if (file)
            fclose(file);
    }
    return is_new;
}

/*
 * A thread makes others while the list is read; those of one that has events inherit them. So it is
 * read again until nothing is new. One that got its events both ways is known by its own
 * (outside_thread's own).
 */
static int attach_all(struct outside *o, size_t first, struct ct_error *err)
{
    enum { MOST_ROUNDS = 1000 };
    bool is_new = true;
    for (unsigned round = 0; is_new && round < MOST_ROUNDS; round++) {
        is_new = false;
        for (size_t i = first; i < o->processes.count; i++) {
            CT_TRY(attach_threads(o, o->processes.items[i], &is_new, err));
            if (o->events.wanted.follow)
                is_new |= add_children(o, o->processes.items[i]);
        }
    }
    return CT_OK;
}

/* Where two descriptors for each thread and processor are too many, two for each processor do. */
static int attach_with_few_descriptors(struct outside *o, size_t first, struct ct_error *err)
{
    struct ct_error wide;
    int status = attach_all(o, first, err);
    if (status == CT_OK || first || !o->events.lacks_descriptors ||
        outside_events_widen(&o->events, &wide) != CT_OK)
        return status;
    for (size_t i = 0; i < o->processes.count; i++)
        for (size_t k = 0; k < o->processes.items[i]->threads.count; k++)
            o->processes.items[i]->threads.items[k]->own = 0;
    return attach_all(o, first, err);
}

/*
 * What is mapped while the list is read is told by the events, too, and counts again. Samples count
 * from its end on: before, it is not certain what was there.
 */
static void list_process(struct outside *o, struct outside_process *p)
{
    p->listed_ns = now_ns();
    outside_process_list(p, &o->files);
    p->begin_ns = now_ns();
    outside_process_need_arena(p, o->server, o->events.window_bytes);
}

/* Maps are made before the events are open: large ones take seconds. */
static void make_maps(struct outside *o, uint32_t pid)
{
    struct outside_process *p = outside_process_new(pid, 0, 0);
    outside_process_list(p, &o->files);
    outside_process_free(p);
}

static int check_process(pid_t pid, struct ct_error *err)
{
    char path[64], line[256] = "";
    int group = 0;
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return ct_fail(err, "there is no process %d", pid);
    while (!group && fgets(line, sizeof line, file))
        sscanf(line, "Tgid: %d", &group);
    fclose(file);
    if (group && group != pid)
        return ct_fail(err, "%d is a thread of process %d: give the process", pid, group);
    return CT_OK;
}

int outside_attach(struct outside *o, const pid_t *pids, size_t count, struct ct_error *err)
{
    size_t first = o->processes.count; /* those before are known */
    for (size_t i = 0; i < count; i++) {
        CT_TRY(check_process(pids[i], err));
        make_maps(o, (uint32_t)pids[i]);
    }
    for (size_t i = 0; i < count; i++)
        if (!outside_find(o, (uint32_t)pids[i]))
            add_process(o, (uint32_t)pids[i]);
    CT_TRY(attach_with_few_descriptors(o, first, err));
    for (size_t i = 0; i < count; i++) {
        const struct outside_process *p = outside_find(o, (uint32_t)pids[i]);
        if (!p || !p->threads.count)
            return ct_fail(err, "process %d has ended, or is a zombie", pids[i]);
    }
    for (size_t i = first; i < o->processes.count; i++)
        list_process(o, o->processes.items[i]);
    return CT_OK;
}
