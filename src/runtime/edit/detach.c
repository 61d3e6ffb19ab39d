/*
 * Puts the original code back while the program runs, whatever its threads do.
 *
 * Nothing is written to the code. A second mapping of the module's file, made when the module was
 * edited, takes the place of the first in one system call: a thread that wants to run code there at
 * that moment waits in the kernel until it is done, so every instruction is either the old or the
 * new one.
 *
 * All edits but one kind change whole instructions into one, so that a thread, wherever it stopped,
 * finds an instruction there. The one kind is the room that short sites hop to, between functions
 * or in the place of other instructions. That is put back later, when every thread has gone on or
 * sleeps in the kernel: then no thread can be on the way through it. The stubs stay where they are.
 */
#include "runtime/edit/detach.h"

#include "arch/x86_64/syscall.h"
#include "runtime/edit/edited.h"
#include "runtime/edit/pristine.h"
#include "runtime/modules.h"
#include "runtime/thread.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum detach_state { ATTACHED, ROOMS_LEFT, DETACHED };
static _Atomic uint32_t state;

static enum detach_state put_all_back(void)
{
    bool rooms = false;
    const struct edited_list *list = edited_loaded();
    for (uint32_t i = 0; i < list->count; i++) {
        struct edited_module *m = list->items[i];
        for (unsigned k = 0; k < m->pristine_count; k++) {
            /* It may be so already in a child that was forked in the midst of this. */
            m->pristine[k].has_rooms |= pristine_keep_rooms(m, &m->pristine[k]);
            rooms |= m->pristine[k].has_rooms;
            pristine_put_back(&m->pristine[k], 0);
        }
    }
    return rooms ? ROOMS_LEFT : DETACHED;
}

static void put_rooms_back(void)
{
    const struct edited_list *list = edited_loaded();
    for (uint32_t i = 0; i < list->count; i++) {
        struct edited_module *m = list->items[i];
        for (unsigned k = 0; k < m->pristine_count; k++)
            if (m->pristine[k].has_rooms)
                pristine_put_back(&m->pristine[k], 1);
    }
}

/* Has every thread gone on since the sites were put back, or does it sleep? */
static bool all_went_on(void)
{
    bool did = true;
    /* Who holds the lock may be the thread that this one interrupted. */
    if (__atomic_exchange_n((uint32_t *)&guest->thread_list_lock, 1, __ATOMIC_ACQUIRE))
        return false;
    for (struct thread *t = guest->threads; t && did; t = t->next)
        did = !t->record || t->saw_detach || thread_sleeps(t->tid);
    __atomic_store_n((uint32_t *)&guest->thread_list_lock, 0, __ATOMIC_RELEASE);
    return did;
}

void edit_detach(struct thread *t)
{
    /* What the linker is about to unmap must not come back. */
    if (state == DETACHED || !modules_hold())
        return;
    enum detach_state next = state;
    if (state == ATTACHED) {
        next = put_all_back();
    } else {
        t->saw_detach = true;
        if (all_went_on()) {
            put_rooms_back();
            next = DETACHED;
        }
    }
    if (next == DETACHED)
        modules_unwatch();
    state = next; /* last: a child that is forked before does it all */
    guest->arena->is_detached = state == DETACHED;
    modules_let_go();
}
