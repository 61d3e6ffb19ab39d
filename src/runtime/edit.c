/*
 * Applies the edit plan of a module: makes a stub for each site, near the module, and points the
 * site at it. Nobody runs the code meanwhile: modules are edited before their constructors, and at
 * the start of the program before there are other threads.
 *
 * Whatever cannot be changed safely is left as it is, and counted.
 */
#include "runtime/counting.h"

#include "runtime/arch/x86_64/syscall.h"
#include "runtime/channel_format.h"
#include "runtime/search.h"

#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

enum { PAGE = 4096 };

static struct edited_module edited[EDITED_MOST]; /* without a plan: not in use */
static uint32_t edited_count;                    /* those that have ever been */
static uint32_t next_site = 1;

/*
 * Two lists of those that are loaded. New ones are added at the end of the one in use; when some
 * go, the other is written, and takes its place. Handlers and the slow path never see a list change
 * otherwise: it is known when they are over. edited_by_site is asked at other times, too.
 */
static struct edited_list lists[2];
static _Atomic uint32_t list_number; /* counts up; the last bit says which is in use */

void exact_slow_entry(void) __attribute__((visibility("hidden")));

SLOW_TEXT const struct edited_module *edited_by_site(uint32_t site)
{
    for (;;) {
        uint32_t number = list_number, i;
        const struct edited_list *list = &lists[number & 1];
        SEARCH(i, list->count, list->items[i]->first_site <= site);
        const struct edited_module *found = i ? list->items[i - 1] : NULL;
        if (list_number == number)
            return found;
    }
}

const struct edited_list *edited_loaded(void)
{
    return &lists[list_number & 1];
}

static bool holds(const struct edited_module *m, uint64_t offset)
{
    const struct plan_site *last = &m->sites[m->plan->site_count - 1];
    return offset >= m->sites[0].offset && offset <= last->offset + last->length;
}

/* The index of the first site that is not before an offset. */
static uint32_t site_at_or_behind(const struct edited_module *e, uint64_t offset)
{
    uint32_t i;
    SEARCH(i, e->plan->site_count, e->sites[i].offset < offset);
    return i;
}

uint32_t edited_site_behind(uint64_t address)
{
    const struct edited_list *list = edited_loaded();
    for (uint32_t m = list->count; m-- > 0;) {
        const struct edited_module *e = list->items[m];
        uint64_t offset = address - e->base;
        if (!holds(e, offset))
            continue;
        uint32_t low = site_at_or_behind(e, offset);
        if (low && e->sites[low - 1].offset + e->sites[low - 1].length == offset &&
            e->sites[low - 1].kind <= SITE_CALL_INDIRECT && e->layouts[low - 1].end)
            return e->first_site + e->sites[low - 1].rank;
    }
    return 0;
}

uint32_t edited_site_of_key(uint64_t site_key)
{
    bool is_jump = KEY_FLAGS(site_key) & KEY_IS_PC;
    const struct edited_list *list = edited_loaded();
    for (uint32_t m = list->count; m-- > 0;) {
        const struct edited_module *e = list->items[m];
        if (e->module_id != KEY_MODULE(site_key))
            continue;
        if (!is_jump)
            return edited_site_behind(e->base + KEY_OFFSET(site_key));
        uint32_t i = site_at_or_behind(e, KEY_OFFSET(site_key));
        bool is_it = i < e->plan->site_count && e->sites[i].offset == KEY_OFFSET(site_key) &&
                     e->sites[i].kind >= SITE_TAIL && e->layouts[i].end;
        return is_it ? e->first_site + e->sites[i].rank : 0;
    }
    return 0;
}

bool edited_sites_of(uint64_t function, uint32_t *first, uint32_t *count)
{
    const struct edited_list *list = edited_loaded();
    for (uint32_t m = list->count; m-- > 0;) {
        const struct edited_module *e = list->items[m];
        uint64_t offset = function - e->base;
        if (offset > UINT32_MAX)
            continue;
        uint32_t low;
        SEARCH(low, e->plan->site_count, e->sites[e->by_rank[low]].function < offset);
        uint32_t end = low;
        while (end < e->plan->site_count && e->sites[e->by_rank[end]].function == offset)
            end++;
        if (end == low)
            continue;
        *first = e->first_site + low;
        *count = end - low;
        return true;
    }
    return false;
}

bool edited_has_gaps(uint64_t base, uint32_t function)
{
    const struct edited_list *list = edited_loaded();
    for (uint32_t m = list->count; m-- > 0;) {
        const struct edited_module *e = list->items[m];
        if (e->base != base)
            continue;
        for (uint32_t i = 0; i < e->plan->site_count; i++)
            if (e->sites[i].function == function && e->sites[i].kind >= SITE_TAIL &&
                !e->layouts[i].end)
                return true;
        return false;
    }
    return true;
}

const struct edited_module *edited_by_stub(uint64_t address)
{
    const struct edited_list *list = edited_loaded();
    for (uint32_t m = list->count; m-- > 0;)
        if (address - (uint64_t)list->items[m]->stubs < list->items[m]->stub_bytes)
            return list->items[m];
    return NULL;
}

uint64_t edited_behind_pun(uint64_t address)
{
    const struct edited_list *list = edited_loaded();
    for (uint32_t m = list->count; m-- > 0;) {
        uint64_t stub = pun_leads_to(list->items[m], address);
        if (stub)
            return stub;
    }
    return address;
}

uint32_t edited_site_of_stub(uint64_t address)
{
    const struct edited_module *e = edited_by_stub(address);
    if (!e)
        return 0;
    uint64_t at = address - (uint64_t)e->stubs;
    uint32_t i;
    SEARCH(i, e->plan->site_count, e->layouts[i].start <= at);
    while (i && !e->layouts[i - 1].end)
        i--;
    bool is_inside = i && at - e->layouts[i - 1].start < e->layouts[i - 1].end;
    return is_inside ? e->first_site + e->sites[i - 1].rank : 0;
}

void edited_renumber(uint64_t base, uint32_t module_id)
{
    const struct edited_list *list = edited_loaded();
    for (uint32_t i = 0; i < list->count; i++)
        if (list->items[i]->base == base)
            list->items[i]->module_id = module_id;
}

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

static void write_stubs(const struct edit_request *r, struct edited_module *m)
{
    uint8_t *at = (uint8_t *)m->common.end;
    const uint8_t *end = (const uint8_t *)m->layouts;
    uint64_t not_edited = 0;
    uint32_t puns = 0;
    for (uint32_t i = 0; i < m->plan->site_count; i++) {
        const struct plan_site *s = &m->sites[i];
        m->layouts[i].start = (uint32_t)(at - m->stubs);
        if (s->tier == TIER_NONE || end - at < stub_most_bytes(s) || !is_in_code(r, s)) {
            not_edited++;
            continue;
        }
        at = stub_write(at, m, i);
        puns += s->tier == TIER_PUN;
    }
    not_edited += pun_sites(m, puns);
    guest->arena->sites += m->plan->site_count;
    guest->arena->sites_not_edited += not_edited;
}

static bool is_plan(const struct edit_request *r)
{
    const struct plan_header *h = r->plan;
    return h && r->plan_bytes >= sizeof *h && h->magic == PLAN_MAGIC &&
           h->version == PLAN_VERSION && h->file_bytes == r->plan_bytes &&
           r->plan_bytes >= sizeof *h + (uint64_t)h->site_count * PLAN_SITE_BYTES;
}

bool edit_plan_is_empty(const struct edit_request *r)
{
    return is_plan(r) && ((const struct plan_header *)r->plan)->site_count == 0;
}

static struct edited_module *free_entry(void)
{
    for (uint32_t i = 0; i < edited_count; i++)
        if (!edited[i].plan)
            return &edited[i];
    return edited_count < EDITED_MOST ? &edited[edited_count] : NULL;
}

bool edit_module(const struct edit_request *r)
{
    enum { LARGE = 8 << 20 };
    const struct plan_header *h = r->plan;
    struct edited_module *kept = free_entry();
    if (!is_plan(r) || !h->site_count || !kept || h->site_count > UINT32_MAX - next_site)
        return false;
    struct edited_module m = {.base = r->base,
                              .first_site = next_site,
                              .module_id = r->module_id,
                              .plan = h,
                              .sites = (const void *)(h + 1)};
    m.by_rank = (const void *)(m.sites + h->site_count);
    m.code = (const uint8_t *)(m.by_rank + h->site_count);
    uint64_t stubs = STUB_POINTER_BYTES + STUB_COMMON_BYTES;
    uint32_t puns = 0;
    for (uint32_t i = 0; i < h->site_count; i++) {
        stubs += stub_most_bytes(&m.sites[i]);
        puns += m.sites[i].tier == TIER_PUN;
    }
    stubs = (stubs + PAGE - 1) & ~(uint64_t)(PAGE - 1);
    uint64_t layouts = (h->site_count * sizeof *m.layouts + 7) & ~(uint64_t)7;
    m.stub_bytes = stubs + layouts + pun_table_bytes(puns);
    uint64_t last = r->base + m.sites[h->site_count - 1].offset;
    m.stubs = map_near(r->base, last, m.stub_bytes);
    if (!m.stubs || !protect(r, true)) {
        protect(r, false);
        if (m.stubs)
            raw_syscall3(SYS_munmap, (long)m.stubs, (long)m.stub_bytes, 0);
        return false;
    }
    if (m.stub_bytes >= LARGE) /* a fault for each small page would take longer than to write it */
        raw_syscall3(SYS_madvise, (long)m.stubs, (long)m.stub_bytes, MADV_HUGEPAGE);
    struct stat file = {0};
    raw_syscall3(SYS_fstat, r->file, (long)&file, 0);
    m.from = *r;
    m.device = file.st_dev;
    m.inode = file.st_ino;
    m.layouts = (void *)(m.stubs + stubs);
    m.pun_pages = (void *)(m.stubs + stubs + layouts);
    if (guest->flags & CHANNEL_DETACHES)
        pristine_map(&m, r);
    *(void (**)(void))m.stubs = exact_slow_entry;
    counting_write_common(m.stubs + STUB_POINTER_BYTES, m.stubs, &m.common);
    *kept = m;
    edited_count += kept == &edited[edited_count];
    next_site += h->site_count;
    struct edited_list *list = &lists[list_number & 1];
    list->items[list->count] = kept;
    list->count++;
    write_stubs(r, kept);
    raw_syscall3(SYS_mprotect, (long)m.stubs, (long)stubs, PROT_READ | PROT_EXEC);
    protect(r, false);
    return true;
}

static bool is_among(const uint64_t *bases, uint32_t count, uint64_t base)
{
    for (uint32_t i = 0; i < count; i++)
        if (bases[i] == base)
            return true;
    return false;
}

void edit_hide_modules(const uint64_t *bases, uint32_t count)
{
    const struct edited_list *now = edited_loaded();
    struct edited_list *next = &lists[(list_number + 1) & 1];
    next->count = 0;
    for (uint32_t i = 0; i < now->count; i++)
        if (!is_among(bases, count, now->items[i]->base))
            next->items[next->count++] = now->items[i];
    if (next->count < now->count)
        list_number++;
}

static bool is_hidden(const struct edited_module *m)
{
    const struct edited_list *list = edited_loaded();
    for (uint32_t i = 0; i < list->count; i++)
        if (list->items[i] == m)
            return false;
    return true;
}

/*
 * Forgotten first, and then unmapped: a child that is forked in between, by another thread, finds
 * nothing that has gone, or that is something else's by now.
 */
void edit_forget_hidden(void)
{
    for (uint32_t i = 0; i < edited_count; i++) {
        struct edited_module gone = edited[i];
        if (!gone.plan || !is_hidden(&edited[i]))
            continue;
        edited[i].plan = NULL;
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
        pristine_unmap(&gone);
        pun_forget(&gone);
        raw_syscall3(SYS_munmap, (long)gone.stubs, (long)gone.stub_bytes, 0);
        raw_syscall3(SYS_munmap, (long)gone.plan, (long)gone.plan->file_bytes, 0);
    }
}
