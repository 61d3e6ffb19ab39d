/*
 * Applies the edit plan of a module: makes a stub for each site, near the module, and points the
 * site at it. Nobody runs the code meanwhile: modules are edited before their constructors, and at
 * the start of the program before there are other threads.
 *
 * Whatever cannot be changed safely is left as it is, and counted.
 */
#include "runtime/edit/edited.h"

#include "runtime/arch/x86_64/syscall.h"
#include "runtime/channel_format.h"

#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

enum { PAGE = 4096, COMMON_BYTES = 64 };

uint8_t *edit_map_at(uint64_t place, uint64_t bytes)
{
    place &= ~(uint64_t)(PAGE - 1);
    long got =
        raw_syscall6(SYS_mmap, (long)place, (long)bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (got > 0 && got != (long)place)
        raw_syscall3(SYS_munmap, got, (long)bytes, 0);
    return got == (long)place ? (uint8_t *)got : NULL;
}

/*
 * Memory that a rel32 of the module reaches: below it or, far enough above that the heap, which
 * begins behind the program, has room to grow.
 */
static uint8_t *map_near(uint64_t start, uint64_t end, uint64_t bytes)
{
    const uint64_t step = 1 << 20, reach = UINT64_C(1900) << 20, heap = UINT64_C(1) << 30;
    uint8_t *memory = NULL;
    for (uint64_t away = step; !memory && away + (end - start) + bytes < reach; away += step)
        if (start > bytes + away + (1 << 16))
            memory = edit_map_at(start - bytes - away, bytes);
    for (uint64_t away = heap; !memory && away + (end - start) + bytes < reach; away += step)
        memory = edit_map_at(end + away, bytes);
    return memory;
}

static int protection_of(uint32_t flags)
{
    return (flags & PF_R ? PROT_READ : 0) | (flags & PF_W ? PROT_WRITE : 0) |
           (flags & PF_X ? PROT_EXEC : 0);
}

/* Makes the module's code writable, or as it was. */
static bool protect(const struct edit_request *r, bool writable)
{
    const ElfW(Phdr) *headers = r->headers;
    bool done = true;
    for (unsigned i = 0; i < r->header_count; i++) {
        if (headers[i].p_type != PT_LOAD || !(headers[i].p_flags & PF_X))
            continue;
        uint64_t start = (r->bias + headers[i].p_vaddr) & ~(uint64_t)(PAGE - 1);
        uint64_t end =
            (r->bias + headers[i].p_vaddr + headers[i].p_filesz + PAGE - 1) & ~(uint64_t)(PAGE - 1);
        int how = protection_of(headers[i].p_flags) | (writable ? PROT_WRITE : 0);
        done &= raw_syscall3(SYS_mprotect, (long)start, (long)(end - start), how) >= 0;
    }
    return done;
}

/* Does a site lie in code, with all that is to be changed? */
static bool is_in_code(const struct edit_request *r, const struct plan_site *s)
{
    const ElfW(Phdr) *headers = r->headers;
    uint64_t start = r->base + s->offset - s->moved_bytes;
    /* The last bytes of a pun are those behind it; with prefixes, they are more. */
    uint64_t bytes = s->tier == TIER_PUN ? s->length + 4u : s->length > 5 ? s->length : 5u;
    uint64_t end = r->base + s->offset + bytes;
    for (unsigned i = 0; i < r->header_count; i++) {
        uint64_t low = r->bias + headers[i].p_vaddr;
        if (headers[i].p_type == PT_LOAD && (headers[i].p_flags & PF_X) && start >= low &&
            end <= low + headers[i].p_filesz)
            return true;
    }
    return false;
}

static void write_stubs(const struct edit_request *r, struct edited_module *m,
                        const struct stub_writer *writer)
{
    uint8_t *at = m->stubs + COMMON_BYTES;
    uint64_t not_edited = 0;
    uint32_t puns = 0;
    for (uint32_t i = 0; i < m->site_count; i++) {
        const struct plan_site *s = &m->sites[i];
        m->layouts[i].start = (uint32_t)(at - m->stubs);
        uint8_t *behind = NULL;
        if (s->tier != TIER_NONE && is_in_code(r, s)) /* map_stubs has made room for all */
            behind = stub_write(at, m, i, writer);
        if (!behind) {
            not_edited++;
            continue;
        }
        at = behind;
        puns += s->tier == TIER_PUN;
    }
    not_edited += pun_sites(m, puns);
    guest->arena->sites += m->site_count;
    guest->arena->sites_not_edited += not_edited;
}

/* A section of the plan, if it is all there. */
static const void *section(const struct edit_request *r, enum plan_section_kind kind,
                           uint64_t item_bytes, uint64_t least)
{
    const struct plan_section *s = &((const struct plan_header *)r->plan)->sections[kind];
    if (s->count < least || s->offset > r->plan_bytes ||
        s->count > (r->plan_bytes - s->offset) / item_bytes)
        return NULL;
    return (const char *)r->plan + s->offset;
}

static bool is_plan(const struct edit_request *r)
{
    const struct plan_header *h = r->plan;
    return h && r->plan_bytes >= sizeof *h && h->magic == PLAN_MAGIC &&
           h->version == PLAN_VERSION && h->file_bytes == r->plan_bytes;
}

/* What the plan says; the supervisor has checked its contents, this checks the frame. */
static bool take_plan(const struct edit_request *r, struct edited_module *m)
{
    const struct plan_header *h = r->plan;
    if (!is_plan(r))
        return false;
    const uint64_t count = h->sections[PLAN_SITES].count;
    *m = (struct edited_module){
        .base = r->base, .module_id = r->module_id, .plan = h, .site_count = (uint32_t)count};
    m->sites = section(r, PLAN_SITES, sizeof *m->sites, 1);
    m->by_rank = section(r, PLAN_BY_RANK, sizeof *m->by_rank, count);
    m->code = section(r, PLAN_CODE, 1, 0);
    return count <= UINT32_MAX && m->sites && m->by_rank && m->code;
}

/* Memory for the stubs and what is known of them; false: none that the module reaches is free. */
static bool map_stubs(struct edited_module *m, const struct stub_writer *writer, uint64_t *code)
{
    enum { LARGE = 8 << 20 };
    uint64_t stubs = COMMON_BYTES;
    uint32_t puns = 0;
    for (uint32_t i = 0; i < m->site_count; i++) {
        stubs += stub_most_bytes(&m->sites[i]) + writer->most_bytes(&m->sites[i]);
        puns += m->sites[i].tier == TIER_PUN;
    }
    stubs = (stubs + PAGE - 1) & ~(uint64_t)(PAGE - 1);
    uint64_t layouts = (m->site_count * sizeof *m->layouts + 7) & ~(uint64_t)7;
    m->stub_bytes = stubs + layouts + pun_table_bytes(puns);
    m->stubs = map_near(m->base, m->base + m->sites[m->site_count - 1].offset, m->stub_bytes);
    if (!m->stubs)
        return false;
    if (m->stub_bytes >= LARGE) /* a fault for each small page would take longer than to write it */
        raw_syscall3(SYS_madvise, (long)m->stubs, (long)m->stub_bytes, MADV_HUGEPAGE);
    m->layouts = (void *)(m->stubs + stubs);
    m->pun_pages = (void *)(m->stubs + stubs + layouts);
    *code = stubs;
    return true;
}

static bool apply(const struct edit_request *r, const struct stub_writer *writer)
{
    struct edited_module m;
    struct stat file = {0};
    uint64_t code_bytes;
    if (!take_plan(r, &m) || !map_stubs(&m, writer, &code_bytes))
        return false;
    raw_syscall3(SYS_fstat, r->file, (long)&file, 0);
    m.from = *r;
    m.device = file.st_dev;
    m.inode = file.st_ino;
    struct edited_module *kept = NULL;
    if (protect(r, true) && stub_write_common(m.stubs, &m, writer))
        kept = edited_add(&m);
    if (!kept) {
        protect(r, false);
        raw_syscall3(SYS_munmap, (long)m.stubs, (long)m.stub_bytes, 0);
        return false;
    }
    if (guest->flags & CHANNEL_DETACHES)
        pristine_map(kept, r);
    write_stubs(r, kept, writer);
    raw_syscall3(SYS_mprotect, (long)m.stubs, (long)code_bytes, PROT_READ | PROT_EXEC);
    protect(r, false);
    return true;
}

void edit_module(struct edit_request *r, const struct stub_writer *writer)
{
    if (guest->arena->detach || guest->arena->not_resumed)
        return;
    r->file = (int)raw_syscall4(SYS_openat, AT_FDCWD, (long)r->path, O_RDONLY | O_CLOEXEC, 0);
    if (r->file < 0)
        return;
    r->plan = channel_ask_plan(r->file, r->path, &r->plan_bytes);
    bool is_edited = r->plan && apply(r, writer);
    /* A plan without sites is that of a module of which nothing was asked. */
    if (!is_edited &&
        !(is_plan(r) && !((const struct plan_header *)r->plan)->sections[PLAN_SITES].count))
        guest->arena->modules_not_edited++;
    if (r->plan && !is_edited)
        raw_syscall3(SYS_munmap, (long)r->plan, (long)r->plan_bytes, 0);
    raw_syscall3(SYS_close, r->file, 0, 0);
}
