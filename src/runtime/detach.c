/*
 * Puts the original code back while the program runs, whatever its threads do.
 *
 * Nothing is written to the code. A second mapping of the module's file, made when the module was
 * edited, takes the place of the first in one system call (edit/live.c), so every instruction is
 * either the old or the new one.
 *
 * All edits but one kind change whole instructions into one, so that a thread, wherever it stopped,
 * finds an instruction there. The one kind is the room that short sites hop to, between functions
 * or in the place of other instructions. That is put back later, when every thread has gone on or
 * sleeps in the kernel: then nobody can be on the way through it. The stubs stay where they are.
 */
#include "runtime/exact.h"

#include "runtime/arch/x86_64/syscall.h"
#include "runtime/edit/observe.h"
#include "runtime/thread.h"

#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum { PAGE = 4096 };

enum detach_state { ATTACHED, ROOMS_LEFT, DETACHED };
static _Atomic uint32_t state;
static _Atomic uint32_t lock;

static void copy(uint8_t *to, const uint8_t *from, uint64_t count)
{
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(count) : : "memory");
}

uint8_t *pristine_copy(const struct pristine *p, int file)
{
    long got = raw_syscall6(SYS_mmap, 0, (long)p->bytes, PROT_READ, MAP_PRIVATE | MAP_NORESERVE,
                            file, (long)p->offset);
    return got > 0 ? (uint8_t *)got : NULL;
}

void pristine_map(struct edited_module *m, const struct edit_request *r)
{
    const ElfW(Phdr) *headers = r->headers;
    m->pristine_count = 0;
    for (unsigned i = 0; i < r->header_count && m->pristine_count < MOST_PRISTINE; i++) {
        const ElfW(Phdr) *h = &headers[i];
        if (h->p_type != PT_LOAD || !(h->p_flags & PF_X))
            continue;
        uint64_t before = h->p_vaddr & (PAGE - 1); /* in the first page */
        struct pristine *p = &m->pristine[m->pristine_count];
        *p = (struct pristine){0};
        p->start = r->bias + h->p_vaddr - before;
        p->bytes = (before + h->p_filesz + PAGE - 1) & ~(uint64_t)(PAGE - 1);
        p->offset = h->p_offset - before;
        for (unsigned k = 0; k < 2; k++)
            p->copies[k] = pristine_copy(p, r->file);
        m->pristine_count++;
    }
}

void pristine_unmap(struct edited_module *m)
{
    for (unsigned i = 0; i < m->pristine_count; i++) {
        const struct pristine *p = &m->pristine[i];
        uint8_t *const all[] = {p->copies[0], p->copies[1], p->edited};
        for (unsigned k = 0; k < sizeof all / sizeof all[0]; k++)
            if (all[k])
                raw_syscall3(SYS_munmap, (long)all[k], (long)p->bytes, 0);
    }
    m->pristine_count = 0;
}

bool pristine_put_back(struct pristine *p, unsigned k)
{
    if (!p->copies[k])
        return false;
    bool done = live_swap(p->copies[k], p->start, p->bytes);
    p->copies[k] = NULL;
    return done;
}

bool pristine_keep_rooms(const struct edited_module *m, struct pristine *p)
{
    uint64_t end = p->start + p->bytes;
    bool any = false;
    for (uint32_t i = 0; i < m->plan->site_count; i++) {
        const struct plan_site *s = &m->sites[i];
        if (s->tier != TIER_HOP || !m->layouts[i].end)
            continue;
        uint64_t room = m->base + s->offset + (uint64_t)(int64_t)s->hop, bytes = 5;
        if (s->flags & SITE_MAKES_ROOM) { /* a jump lies before it, too */
            room -= 5;
            bytes += 5;
        }
        if (!p->copies[0] || room < p->start || room + bytes > end)
            continue;
        if (!any)
            raw_syscall3(SYS_mprotect, (long)p->copies[0], (long)p->bytes, PROT_READ | PROT_WRITE);
        any = true;
        copy(p->copies[0] + (room - p->start), (const uint8_t *)room, bytes);
    }
    return any;
}

static enum detach_state put_all_back(void)
{
    bool rooms = false;
    const struct edited_list *list = edited_loaded();
    modules_unwatch();
    for (uint32_t i = 0; i < list->count; i++) {
        struct edited_module *m = list->items[i];
        for (unsigned k = 0; k < m->pristine_count; k++) {
            m->pristine[k].has_rooms = pristine_keep_rooms(m, &m->pristine[k]);
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

bool thread_sleeps(uint32_t tid)
{
    char text[64];
    long count = thread_read(tid, "/stat", text, sizeof text);
    if (count < 0)
        return true; /* it is gone */
    char found = 'R';
    for (long i = 0; i + 2 < count; i++) /* pid (name) state: a name has at most 15 bytes */
        if (text[i] == ')' && text[i + 1] == ' ')
            found = text[i + 2];
    return found == 'S' || found == 'D' || found == 'Z' || found == 'X';
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

void detach_tick(struct thread *t)
{
    /* What the linker is about to unmap must not come back. */
    if (state == DETACHED || _r_debug.r_state != RT_CONSISTENT ||
        __atomic_exchange_n((uint32_t *)&lock, 1, __ATOMIC_ACQUIRE))
        return;
    if (state == ATTACHED) {
        state = put_all_back();
    } else if (state == ROOMS_LEFT) {
        t->saw_detach = true;
        if (all_went_on()) {
            put_rooms_back();
            state = DETACHED;
        }
    }
    guest->arena->is_detached = state == DETACHED;
    __atomic_store_n((uint32_t *)&lock, 0, __ATOMIC_RELEASE);
}
