/*
 * The code of modules as it is in their files, for putting it back: mappings of the file that take
 * the place of the edited ones in one system call (live.c says why that is safe). And what has to
 * be known of other threads for that.
 */
#include "runtime/edit/pristine.h"

#include "arch/x86_64/syscall.h"
#include "base/page.h"
#include "runtime/edit/live.h"
#include "runtime/edit/observe.h"

#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/syscall.h>

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
        uint64_t before = h->p_vaddr & (PAGE_BYTES - 1); /* in the first page */
        struct pristine *p = &m->pristine[m->pristine_count];
        *p = (struct pristine){0};
        p->start = r->bias + h->p_vaddr - before;
        p->bytes = page_round_up(before + h->p_filesz);
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
    uint8_t *memory = p->copies[k];
    if (!memory)
        return false;
    p->copies[k] = NULL; /* a child that is forked now may not find it there any more */
    return live_swap(memory, p->start, p->bytes);
}

bool pristine_keep_rooms(const struct edited_module *m, struct pristine *p)
{
    uint64_t end = p->start + p->bytes;
    bool any = false;
    for (uint32_t i = 0; i < m->site_count; i++) {
        const struct plan_site *s = &m->sites[i];
        if (s->tier != TIER_HOP || !m->layouts[i].bytes)
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
