#include "runtime/edit/edited.h"

#include "arch/x86_64/syscall.h"
#include "base/search.h"
#include "runtime/arena_format.h"
#include "runtime/edit/pristine.h"
#include "runtime/edit/pun.h"
#include "runtime/edit/stubs.h"
#include "unwind/walk.h"

#include <sys/syscall.h>

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

STUB_TEXT const struct edited_module *edited_by_site(uint32_t site)
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
    const struct plan_site *last = &m->sites[m->site_count - 1];
    return offset >= m->sites[0].offset && offset <= last->offset + last->length;
}

/* The index of the first site that is not before an offset. */
static uint32_t site_at_or_behind(const struct edited_module *e, uint64_t offset)
{
    uint32_t i;
    SEARCH(i, e->site_count, e->sites[i].offset < offset);
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
            e->sites[low - 1].kind <= SITE_CALL_INDIRECT && e->layouts[low - 1].bytes)
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
        bool is_it = i < e->site_count && e->sites[i].offset == KEY_OFFSET(site_key) &&
                     e->sites[i].kind >= SITE_TAIL && e->layouts[i].bytes;
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
        SEARCH(low, e->site_count, e->sites[e->by_rank[low]].function < offset);
        uint32_t end = low;
        while (end < e->site_count && e->sites[e->by_rank[end]].function == offset)
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
        for (uint32_t i = 0; i < e->site_count; i++)
            if (e->sites[i].function == function && e->sites[i].kind >= SITE_TAIL &&
                !e->layouts[i].bytes)
                return true;
        return false;
    }
    return true;
}

/* Is this the way from a site to its stub? Then the stub's address, otherwise the same. */
static uint64_t behind_pun(uint64_t address)
{
    const struct edited_list *list = edited_loaded();
    for (uint32_t m = list->count; m-- > 0;) {
        uint64_t stub = pun_leads_to(list->items[m], address);
        if (stub)
            return stub;
    }
    return address;
}

static const struct edited_module *by_stub(uint64_t address)
{
    const struct edited_list *list = edited_loaded();
    for (uint32_t m = list->count; m-- > 0;)
        if (address - (uint64_t)list->items[m]->stubs < list->items[m]->region.code_bytes)
            return list->items[m];
    return NULL;
}

/* The index of the site whose stub has this place; UINT32_MAX: none. */
static uint32_t site_of_stub(const struct edited_module *e, uint64_t at)
{
    uint32_t i;
    SEARCH(i, e->site_count, e->layouts[i].start <= at);
    while (i && !e->layouts[i - 1].bytes)
        i--;
    bool is_inside = i && at - e->layouts[i - 1].start < e->layouts[i - 1].bytes;
    return is_inside ? i - 1 : UINT32_MAX;
}

extern const char __start_stub_text[] __attribute__((visibility("hidden")));
extern const char __stop_stub_text[] __attribute__((visibility("hidden")));

struct edited_left edited_leave(struct walk_registers *r)
{
    const struct edited_left outside = {0}, lost = {.is_lost = true};
    uint64_t pc = r->value[X86_RIP];
    if (pc >= (uint64_t)__start_stub_text && pc < (uint64_t)__stop_stub_text)
        return lost;
    pc = behind_pun(pc);
    const struct edited_module *m = by_stub(pc);
    if (!m)
        return outside;
    r->value[X86_RIP] = pc;
    if (pc - (uint64_t)m->stubs < m->common.bytes) { /* called by a stub */
        rows_leave(m->common.shape, (uint32_t)(pc - (uint64_t)m->stubs), 0, r);
        pc = r->value[X86_RIP];
    }
    uint32_t i = site_of_stub(m, pc - (uint64_t)m->stubs);
    if (i == UINT32_MAX)
        return lost;
    const struct stub_layout *l = &m->layouts[i];
    const uint32_t at = (uint32_t)(pc - (uint64_t)m->stubs) - l->start;
    rows_leave(l->shape, at, m->base + m->sites[i].offset, r);
    return (struct edited_left){.site = &m->sites[i],
                                .by_return = at && at == rows_return(l->shape)};
}

uint64_t edited_return_of(const struct edited_module *m, const struct plan_site *s)
{
    const struct stub_layout *l = &m->layouts[s - m->sites];
    uint32_t at = l->bytes ? rows_return(l->shape) : 0;
    return at ? (uint64_t)m->stubs + l->start + at : 0;
}

uint64_t edited_real_return(uint64_t address)
{
    const struct edited_module *m = by_stub(address);
    uint32_t i = m ? site_of_stub(m, address - (uint64_t)m->stubs) : UINT32_MAX;
    if (i == UINT32_MAX || edited_return_of(m, &m->sites[i]) != address)
        return address;
    return m->base + m->sites[i].offset + m->sites[i].length;
}

/* A site that is a call all the same has its return address on the stack, as in stubs.c. */
static void enter_stub(const struct edited_module *e, uint32_t i, struct walk_registers *r)
{
    const struct plan_site *s = &e->sites[i];
    uint64_t site = e->base + s->offset;
    uint32_t at;
    const struct stub_row *row =
        rows_enter(e->layouts[i].shape, (int64_t)(r->value[X86_RIP] - site), &at);
    if (!row || row->words > 1)
        return;
    if (row->words) {
        r->value[X86_RSP] -= 8;
        *(uint64_t *)r->value[X86_RSP] = site + s->length;
    }
    r->value[X86_RIP] = (uint64_t)e->stubs + e->layouts[i].start + at;
}

void edited_enter(struct walk_registers *r)
{
    enum { CALL_BYTES = 5 }; /* it ends where the site's ended */
    const struct edited_list *list = edited_loaded();
    for (uint32_t m = list->count; m-- > 0;) {
        const struct edited_module *e = list->items[m];
        uint64_t address = r->value[X86_RIP], offset = address - e->base;
        uint32_t i = offset > UINT32_MAX ? e->site_count : site_at_or_behind(e, offset);
        if (i == e->site_count || !e->layouts[i].bytes)
            continue;
        /* What is there leads to the stub, or is the program's own again. */
        const struct plan_site *s = &e->sites[i];
        const uint8_t *site = (const uint8_t *)e->base + s->offset, *start = site - s->moved_bytes;
        if (address > (uint64_t)start && (*start == 0xe9 || site[s->length - CALL_BYTES] == 0xe8)) {
            enter_stub(e, i, r);
            return;
        }
    }
}

void edited_renumber(uint64_t base, uint32_t module_id)
{
    const struct edited_list *list = edited_loaded();
    for (uint32_t i = 0; i < list->count; i++)
        if (list->items[i]->base == base)
            list->items[i]->module_id = module_id;
}

static struct edited_module *free_entry(void)
{
    for (uint32_t i = 0; i < edited_count; i++)
        if (!edited[i].plan)
            return &edited[i];
    return edited_count < EDITED_MOST ? &edited[edited_count] : NULL;
}

struct edited_module *edited_add(const struct edited_module *m)
{
    struct edited_module *kept = free_entry();
    if (!kept || m->site_count > UINT32_MAX - next_site)
        return NULL;
    *kept = *m;
    kept->first_site = next_site;
    edited_count += kept == &edited[edited_count];
    next_site += m->site_count;
    struct edited_list *list = &lists[list_number & 1];
    list->items[list->count] = kept;
    list->count++;
    return kept;
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
        region_unmap(&gone.region);
        raw_syscall3(SYS_munmap, (long)gone.plan, (long)gone.plan->file_bytes, 0);
    }
}
