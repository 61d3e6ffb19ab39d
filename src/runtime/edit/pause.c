/*
 * ct_pause and ct_resume: the program pauses its measurement, and all original code is back, as at
 * the end of --duration (detach.c); a copy of the edited code waits until it goes on.
 *
 * To put the code back is safe whatever other threads do. The other way round it is not: one may
 * stand between two instructions that become one. So a process goes on counting only if it has no
 * other threads then; otherwise its calls are not counted any more, and a message says so.
 */
#include "runtime/edit/pause.h"

#include "arch/x86_64/syscall.h"
#include "base/page.h"
#include "runtime/channel_format.h"
#include "runtime/confined.h"
#include "runtime/edit/edited.h"
#include "runtime/edit/live.h"
#include "runtime/edit/observe.h"
#include "runtime/edit/pristine.h"
#include "runtime/modules.h"
#include "runtime/status.h"
#include "runtime/thread.h"
#include "runtime/threads.h"

#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

static bool is_paused;

/* The module's file, if it is still there; -1 otherwise. */
static int open_file(const struct edited_module *m)
{
    struct stat file;
    int fd = (int)raw_syscall4(SYS_openat, AT_FDCWD, (long)m->from.path, O_RDONLY | O_CLOEXEC, 0);
    if (fd >= 0 && (raw_syscall3(SYS_fstat, fd, (long)&file, 0) < 0 || file.st_dev != m->device ||
                    file.st_ino != m->inode)) {
        raw_syscall3(SYS_close, fd, 0, 0);
        return -1;
    }
    return fd;
}

/* A copy of the edited code: a mapping of the same file, but for the pages that differ. */
static bool keep_edited(struct pristine *p, int file)
{
    uint8_t *copy = pristine_copy(p, file);
    if (!copy)
        return false;
    raw_syscall3(SYS_mprotect, (long)copy, (long)p->bytes, PROT_READ | PROT_WRITE);
    for (uint64_t at = 0; at < p->bytes; at += PAGE_BYTES)
        if (memcmp((const void *)(p->start + at), copy + at, PAGE_BYTES) != 0)
            memcpy(copy + at, (const void *)(p->start + at), PAGE_BYTES);
    raw_syscall3(SYS_mprotect, (long)copy, (long)p->bytes, PROT_READ);
    p->edited = copy;
    return true;
}

/* Maps a module's code as it is in its file and, if that is wanted, as it is now. */
static bool prepare(struct edited_module *m, bool with_edited)
{
    struct edit_request from = m->from;
    from.file = open_file(m);
    pristine_unmap(m);
    if (from.file < 0)
        return false;
    pristine_map(m, &from);
    bool done = true;
    for (unsigned k = 0; k < m->pristine_count; k++)
        done = done && m->pristine[k].copies[0] && m->pristine[k].copies[1] &&
               (!with_edited || keep_edited(&m->pristine[k], from.file));
    raw_syscall3(SYS_close, from.file, 0, 0);
    if (!done)
        pristine_unmap(m);
    return done;
}

/* How long a thread has had a processor so far, in ns. */
static uint64_t ran_ns(uint32_t tid)
{
    char text[32];
    long count = thread_read(tid, "/schedstat", text, sizeof text);
    uint64_t ns = 0;
    for (long i = 0; i < count && text[i] >= '0' && text[i] <= '9'; i++)
        ns = ns * 10 + (uint64_t)(text[i] - '0');
    return ns;
}

/*
 * Until every other thread has run for a while since, or sleeps: then no thread is on the way
 * through the rooms that short sites hop to. False: that took too long.
 */
static bool wait_for_others(void)
{
    enum { PATIENCE = 1000, STEP_NS = 1000000, WHILE_NS = 100000 };
    uint32_t self = (uint32_t)raw_syscall3(SYS_gettid, 0, 0, 0);
    for (struct thread *t = threads_lock(); t; t = t->next)
        t->ran_before_ns = ran_ns(t->tid);
    threads_unlock();
    for (unsigned i = 0; i < PATIENCE; i++) {
        struct timespec step = {0, STEP_NS};
        bool all = true;
        for (struct thread *t = threads_lock(); t && all; t = t->next)
            all = !t->record || t->tid == self || thread_sleeps(t->tid) ||
                  ran_ns(t->tid) > t->ran_before_ns + WHILE_NS;
        threads_unlock();
        if (all)
            return true;
        raw_syscall3(SYS_nanosleep, (long)&step, 0, 0);
    }
    return false;
}

typedef int work_fn(struct dl_phdr_info *info, size_t bytes, void *unused);

/*
 * With the linker's lock no other thread loads or unloads modules meanwhile. A process without
 * other threads does not need it, and may never get it: libc leaves it as it was in the child of a
 * fork, and a thread of the parent may have had it.
 */
static void without_linker(work_fn *work)
{
    if (status_is_alone())
        work(NULL, 0, NULL);
    else
        dl_iterate_phdr(work, NULL);
}

static int put_all_back(struct dl_phdr_info *info, size_t bytes, void *unused)
{
    (void)info;
    (void)bytes;
    (void)unused;
    const struct edited_list *list = edited_loaded();
    const bool alone = status_is_alone();
    bool all = true, rooms = false;
    for (uint32_t i = 0; i < list->count; i++)
        all &= prepare(list->items[i], true);
    guest->arena->not_paused |= !all;
    for (uint32_t i = 0; i < list->count; i++) {
        struct edited_module *m = list->items[i];
        for (unsigned k = 0; k < m->pristine_count; k++) {
            struct pristine *p = &m->pristine[k];
            p->has_rooms = !alone && pristine_keep_rooms(m, p);
            rooms |= p->has_rooms;
            pristine_put_back(p, 0);
        }
    }
    if (rooms && wait_for_others())
        for (uint32_t i = 0; i < list->count; i++)
            for (unsigned k = 0; k < list->items[i]->pristine_count; k++)
                if (list->items[i]->pristine[k].has_rooms)
                    pristine_put_back(&list->items[i]->pristine[k], 1);
    modules_unwatch();
    return 1;
}

/*
 * Other threads may be loading and unloading modules: there is a moment between two of them. In the
 * child of a fork, the linker's lists may be for good as one of the parent's threads had left them.
 */
static bool hold(void)
{
    enum { PATIENCE = 2000, STEP_NS = 1000000 };
    if (status_is_alone())
        return !__atomic_exchange_n((uint32_t *)&guest->code_lock, 1, __ATOMIC_ACQUIRE);
    for (unsigned i = 0; i < PATIENCE; i++) {
        struct timespec step = {0, STEP_NS};
        if (modules_hold())
            return true;
        if (guest->arena->detach)
            return false;
        raw_syscall3(SYS_nanosleep, (long)&step, 0, 0);
    }
    return false;
}

void edit_pause(void)
{
    if (guest->arena->detach || is_confined())
        return;
    if (!hold()) {
        guest->arena->not_paused = 1;
        return;
    }
    without_linker(put_all_back);
    is_paused = true;
    modules_let_go();
}

/* The edited code takes its place again. */
static void put_edited(struct pristine *p)
{
    live_swap(p->edited, p->start, p->bytes);
    p->edited = NULL;
}

static int put_all_edits(struct dl_phdr_info *info, size_t bytes, void *unused)
{
    (void)info;
    (void)bytes;
    (void)unused;
    modules_refresh(); /* what has come and gone meanwhile */
    modules_watch();
    const struct edited_list *list = edited_loaded();
    for (uint32_t i = 0; i < list->count && !guest->arena->not_resumed; i++) {
        struct edited_module *m = list->items[i];
        for (unsigned k = 0; k < m->pristine_count; k++)
            if (m->pristine[k].edited && !guest->arena->detach)
                put_edited(&m->pristine[k]);
        pristine_unmap(m);
        if ((guest->flags & CHANNEL_DETACHES) && !guest->arena->detach)
            prepare(m, false);
    }
    return 1;
}

bool edit_resume(void)
{
    if (!is_paused || is_confined() ||
        __atomic_exchange_n((uint32_t *)&guest->code_lock, 1, __ATOMIC_ACQUIRE))
        return false;
    is_paused = false;
    guest->arena->not_resumed |= !status_is_alone();
    without_linker(put_all_edits);
    __atomic_store_n((uint32_t *)&guest->code_lock, 0, __ATOMIC_RELEASE);
    return true;
}
