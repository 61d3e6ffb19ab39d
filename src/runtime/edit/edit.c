/*
 * Applies the edit plan of a module: makes a stub for each site, near the module, and points the
 * site at it. No thread runs the code meanwhile: modules are edited before their constructors, and
 * at the start of the program before there are other threads.
 *
 * Whatever cannot be changed safely is left as it is, and counted.
 */
#include "runtime/edit/edit.h"

#include "arch/x86_64/syscall.h"
#include "base/page.h"
#include "runtime/channel.h"
#include "runtime/channel_format.h"
#include "runtime/edit/edited.h"
#include "runtime/edit/pristine.h"
#include "runtime/edit/pun.h"
#include "runtime/edit/stubs.h"
#include "runtime/guest.h"

#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

enum { COMMON_BYTES = 64, COMMON_CFI_BYTES = 32 };

static int protection_of(uint32_t flags)
{
    return (flags & PF_R ? PROT_READ : 0) | (flags & PF_W ? PROT_WRITE : 0) |
           (flags & PF_X ? PROT_EXEC : 0);
}

bool edit_protect(const struct edit_request *r, bool writable)
{
    const ElfW(Phdr) *headers = r->headers;
    bool done = true;
    for (unsigned i = 0; i < r->header_count; i++) {
        if (headers[i].p_type != PT_LOAD || !(headers[i].p_flags & PF_X))
            continue;
        uint64_t start = page_start(r->bias + headers[i].p_vaddr);
        uint64_t end = page_round_up(r->bias + headers[i].p_vaddr + headers[i].p_filesz);
        int how = protection_of(headers[i].p_flags) | (writable ? PROT_WRITE : 0);
        done &= raw_syscall3(SYS_mprotect, (long)start, (long)(end - start), how) >= 0;
    }
    return done;
}

bool edit_is_code(const struct edit_request *r, uint64_t start, uint64_t end)
{
    const ElfW(Phdr) *headers = r->headers;
    for (unsigned i = 0; i < r->header_count; i++) {
        uint64_t low = r->bias + headers[i].p_vaddr;
        if (headers[i].p_type == PT_LOAD && (headers[i].p_flags & PF_X) && start >= low &&
            end <= low + headers[i].p_filesz)
            return true;
    }
    return false;
}

/* Does a site lie in code, with all that is to be changed? */
static bool is_in_code(const struct edit_request *r, const struct plan_site *s)
{
    /* The last bytes of a pun are those behind it; with prefixes, they are more. */
    uint64_t bytes = s->tier == TIER_PUN ? s->length + 4u : s->length > 5 ? s->length : 5u;
    return edit_is_code(r, r->base + s->offset - s->moved_bytes, r->base + s->offset + bytes);
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
        if (writer->leaves_alone && writer->leaves_alone(s))
            continue;
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

const void *edit_section(const struct edit_request *r, enum plan_section_kind kind,
                         uint64_t item_bytes, uint64_t least)
{
    const struct plan_section *s = &((const struct plan_header *)r->plan)->sections[kind];
    if (s->count < least || s->offset > r->plan_bytes ||
        s->count > (r->plan_bytes - s->offset) / item_bytes)
        return NULL;
    return (const char *)r->plan + s->offset;
}

bool edit_ask_plan(struct edit_request *r)
{
    r->file = (int)raw_syscall4(SYS_openat, AT_FDCWD, (long)r->path, O_RDONLY | O_CLOEXEC, 0);
    if (r->file < 0)
        return false;
    r->plan = channel_ask_plan(r->file, r->path, &r->plan_bytes);
    return true;
}

void edit_forget_plan(struct edit_request *r, bool is_used)
{
    if (r->plan && !is_used)
        raw_syscall3(SYS_munmap, (long)r->plan, (long)r->plan_bytes, 0);
    raw_syscall3(SYS_close, r->file, 0, 0);
}

bool edit_is_plan(const struct edit_request *r)
{
    const struct plan_header *h = r->plan;
    return h && r->plan_bytes >= sizeof *h && h->magic == PLAN_MAGIC &&
           h->version == PLAN_VERSION && h->file_bytes == r->plan_bytes;
}

/* What the plan says; the supervisor has checked its contents, this checks the frame. */
static bool take_plan(const struct edit_request *r, struct edited_module *m)
{
    const struct plan_header *h = r->plan;
    if (!edit_is_plan(r))
        return false;
    const uint64_t count = h->sections[PLAN_SITES].count;
    *m = (struct edited_module){
        .base = r->base, .module_id = r->module_id, .plan = h, .site_count = (uint32_t)count};
    m->sites = edit_section(r, PLAN_SITES, sizeof *m->sites, 1);
    m->by_rank = edit_section(r, PLAN_BY_RANK, sizeof *m->by_rank, count);
    m->code = edit_section(r, PLAN_CODE, 1, 0);
    return count <= UINT32_MAX && m->sites && m->by_rank && m->code;
}

/* Memory for the stubs and what is known of them; false: none that the module reaches is free. */
static bool map_stubs(struct edited_module *m, const struct stub_writer *writer)
{
    uint64_t stubs = COMMON_BYTES;
    uint32_t puns = 0, last = m->sites[m->site_count - 1].offset;
    for (uint32_t i = 0; i < m->site_count; i++) {
        stubs += stub_most_bytes(&m->sites[i]) + writer->most_bytes(&m->sites[i]);
        puns += m->sites[i].tier == TIER_PUN;
        last = m->sites[i].target > last ? m->sites[i].target : last; /* it is jumped to */
    }
    const struct region_code common = {.cfi_bytes = COMMON_CFI_BYTES};
    uint64_t layouts = m->site_count * sizeof *m->layouts;
    if (!region_map(&m->region, m->base, m->base + last, stubs, layouts + pun_table_bytes(puns),
                    region_cfi_bytes(&common, 1)))
        return false;
    m->stubs = m->region.code;
    m->layouts = (void *)m->region.data;
    m->pun_pages = (void *)(m->region.data + layouts);
    return true;
}

/* What the common code does to the stack, for others than us: from its rows. */
static uint32_t write_common_cfi(const struct edited_module *m, uint8_t cfi[COMMON_CFI_BYTES])
{
    enum { ADVANCE = 0x40, CFA_OFFSET = 0x0e, LONGEST = 3 };
    const struct stub_row *row = &rows_all[rows_shapes[m->common.shape].first_row];
    uint32_t bytes = 0;
    for (; row[1].at != ROW_LAST && bytes + LONGEST <= COMMON_CFI_BYTES; row++) {
        cfi[bytes++] = (uint8_t)(ADVANCE | (row[1].at - row->at));
        cfi[bytes++] = CFA_OFFSET;
        cfi[bytes++] = (uint8_t)(8 + 8 * row[1].words);
    }
    return bytes;
}

/* The code can be run, and all who walk stacks know the way out of it. */
static void publish(const struct edited_module *m)
{
    uint8_t cfi[COMMON_CFI_BYTES];
    const struct region_code common = {.start = m->stubs,
                                       .bytes = m->common.bytes,
                                       .cfi = cfi,
                                       .cfi_bytes = write_common_cfi(m, cfi)};
    region_publish(&m->region, &(struct region_tables){.base = m->base,
                                                       .sites = m->sites,
                                                       .layouts = m->layouts,
                                                       .site_count = m->site_count,
                                                       .shapes = rows_shapes,
                                                       .rows = rows_all,
                                                       .others = &common,
                                                       .other_count = 1});
}

static bool apply(const struct edit_request *r, const struct stub_writer *writer)
{
    struct edited_module m;
    struct stat file = {0};
    if (!take_plan(r, &m) || !map_stubs(&m, writer))
        return false;
    raw_syscall3(SYS_fstat, r->file, (long)&file, 0);
    m.from = *r;
    m.device = file.st_dev;
    m.inode = file.st_ino;
    struct edited_module *kept = NULL;
    if (edit_protect(r, true) && stub_write_common(m.stubs, &m, writer))
        kept = edited_add(&m);
    if (!kept) {
        edit_protect(r, false);
        region_unmap(&m.region);
        return false;
    }
    if (guest->flags & CHANNEL_DETACHES)
        pristine_map(kept, r);
    write_stubs(r, kept, writer);
    publish(kept);
    edit_protect(r, false);
    return true;
}

void edit_module(struct edit_request *r, const struct stub_writer *writer)
{
    if (guest->arena->detach || guest->arena->not_resumed)
        return;
    if (!edit_ask_plan(r))
        return;
    if (edit_is_plan(r)) {
        const struct plan_header *h = r->plan;
        guest->arena->functions_not_edited += (uint32_t)h->sections[PLAN_UNDECODED].count;
        guest->arena->unknown_bytes += h->unknown_bytes;
    }
    bool is_edited = r->plan && apply(r, writer);
    /* A plan without sites is that of a module of which nothing was asked. */
    if (!is_edited &&
        !(edit_is_plan(r) && !((const struct plan_header *)r->plan)->sections[PLAN_SITES].count))
        guest->arena->modules_not_edited++;
    edit_forget_plan(r, is_edited);
}
