/*
 * Puns: a site of two to four bytes becomes a jump of five, whose last bytes are those of the
 * instruction behind it, which stay as they are. The bytes of the distance that lie in the site are
 * free to choose; so the jump leads to one of 256, 65,536 or 16 million places in a row. At one of
 * them a page is mapped, and from there a second jump leads to the site's stub. Prefixes that the
 * processor ignores, before the jump, give other places: fewer, but elsewhere.
 *
 * The bytes behind a site must be what they will be from now on: puns are made after all other
 * edits of their module, from the last to the first.
 *
 * A page may serve many sites of its module. Each takes a mapping, of which a process has 65,530:
 * their number is limited.
 */
#include "runtime/edit/pun.h"

#include "arch/x86_64/syscall.h"
#include "base/page.h"
#include "base/search.h"

#include <sys/mman.h>

enum {
    MOST_PAGES = 8192, /* in a process */
    MOST_TRIES = 16,   /* for one site and number of prefixes */
    JUMP_BYTES = 5,
    FAR_JUMP_BYTES = 14,
    PREFIX = 0x2e /* the code segment's, which jumps ignore */
};

/* A page while its module is edited. */
struct pun_page {
    uint64_t address;               /* 0: a free place of the table */
    uint64_t used[PAGE_BYTES / 64]; /* one bit for each byte */
};

struct puns {
    const struct edited_module *module;
    struct pun_page *table; /* by address */
    uint64_t room;
    uint32_t count;
    uint64_t heap, stack; /* where the heap ends, and where the stack is, of the program itself */
};

/* The places that a jump can lead to. */
struct window {
    uint64_t start, places;
};

static uint32_t pages_in_process;

static struct pun_page *place_of(const struct puns *p, uint64_t address)
{
    uint64_t at = (address / PAGE_BYTES * UINT64_C(0x9e3779b97f4a7c15)) >> 32;
    while (p->table[at & (p->room - 1)].address && p->table[at & (p->room - 1)].address != address)
        at++;
    return &p->table[at & (p->room - 1)];
}

static bool is_used(const struct pun_page *page, uint32_t at)
{
    return page->used[at / 64] >> at % 64 & 1;
}

/* A place for `bytes` bytes in a page and in a window; 0: there is none. */
static uint64_t find_room(const struct pun_page *page, struct window w, uint32_t bytes)
{
    uint64_t start = w.start > page->address ? w.start - page->address : 0;
    uint64_t end = w.start + w.places - page->address; /* may lie behind the page */
    while (start < end && start + bytes <= PAGE_BYTES) {
        uint32_t free = 0;
        while (free < bytes && !is_used(page, (uint32_t)start + free))
            free++;
        if (free == bytes)
            return page->address + start;
        start += free + 1;
    }
    return 0;
}

/*
 * May a page be mapped here? The lowest addresses are where null pointers lead. Behind the heap and
 * below the stack they must be able to grow; behind the heap only if there is no other place.
 */
static bool is_allowed(const struct puns *p, uint64_t page, bool near_heap)
{
    const uint64_t lowest = 1 << 20, highest = (UINT64_C(1) << 47) - 2 * PAGE_BYTES, room = 1 << 30;
    const uint64_t sanitizers = 0x7fff7000; /* where theirs begins */
    uint64_t behind_heap = page - p->heap, below_stack = p->stack - page;
    if (page < lowest || page > highest || below_stack < room)
        return false;
    if (page >= sanitizers - 4 * PAGE_BYTES && page < UINT64_C(1) << 32)
        return false;
    return behind_heap >= (near_heap ? room / 4 : room);
}

static struct pun_page *map_page(struct puns *p, uint64_t address)
{
    if (pages_in_process == MOST_PAGES || !region_map_at(address, PAGE_BYTES))
        return NULL;
    pages_in_process++;
    p->count++;
    struct pun_page *page = place_of(p, address);
    page->address = address;
    for (uint8_t *at = (uint8_t *)address; at < (uint8_t *)address + PAGE_BYTES; at++)
        *at = 0xcc;
    return page;
}

/* Where the jump goes on, if it leads into a page that is there already, or into a new one. */
enum search { SHARED, NEW, NEW_NEAR_HEAP, SEARCHES };

static uint64_t search(struct puns *p, struct window w, uint32_t bytes, enum search how)
{
    uint64_t first = page_start(w.start), pages = (w.start + w.places - first) / PAGE_BYTES + 1;
    uint64_t step =
        how == SHARED || pages < MOST_TRIES ? PAGE_BYTES : pages / MOST_TRIES * PAGE_BYTES;
    for (uint64_t address = first; address < w.start + w.places; address += step) {
        struct pun_page *page = place_of(p, address);
        if (how == SHARED ? !page->address
                          : page->address || !is_allowed(p, address, how == NEW_NEAR_HEAP) ||
                                w.start > address + PAGE_BYTES - bytes)
            continue;
        if (!page->address && !(page = map_page(p, address)))
            continue;
        uint64_t place = find_room(page, w, bytes);
        if (place)
            return place;
    }
    return 0;
}

static bool reaches(uint64_t from, uint64_t to)
{
    int64_t distance = (int64_t)(to - from);
    return distance >= INT32_MIN && distance <= INT32_MAX;
}

/* The jump from a place in a page to the stub. */
static void write_jump(struct puns *p, uint64_t place, uint64_t stub, uint32_t bytes)
{
    struct pun_page *page = place_of(p, page_start(place));
    uint8_t *at = (uint8_t *)place;
    for (uint32_t i = 0; i < bytes; i++)
        page->used[(place % PAGE_BYTES + i) / 64] |= UINT64_C(1) << (place % PAGE_BYTES + i) % 64;
    uint64_t number = bytes == JUMP_BYTES ? stub - (place + JUMP_BYTES) : stub;
    if (bytes == JUMP_BYTES) {
        *at++ = 0xe9;
    } else { /* jmp [rip + 0], and behind it the address */
        *at++ = 0xff;
        *at++ = 0x25;
        for (unsigned i = 0; i < 4; i++)
            *at++ = 0;
    }
    for (unsigned i = 0; i < (bytes == JUMP_BYTES ? 4 : 8); i++)
        *at++ = (uint8_t)(number >> 8 * i);
}

/* The window of a jump that begins at `text`, of which `own` bytes may be chosen. */
static struct window window_of(const uint8_t *text, unsigned own)
{
    uint64_t places = UINT64_C(1) << 8 * (own - 1);
    uint32_t distance = 0;
    for (unsigned i = own; i < JUMP_BYTES; i++)
        distance |= (uint32_t)text[i] << 8 * (i - 1);
    return (struct window){(uint64_t)text + JUMP_BYTES + (uint64_t)(int64_t)(int32_t)distance,
                           places};
}

static bool make_pun(struct puns *p, const struct plan_site *s, uint64_t stub)
{
    uint8_t *text = (uint8_t *)p->module->base + s->offset - s->moved_bytes;
    const unsigned room = s->moved_bytes + s->length;
    for (enum search how = SHARED; how < SEARCHES; how++) {
        for (unsigned prefixes = 0; prefixes < room; prefixes++) {
            struct window w = window_of(text + prefixes, room - prefixes);
            uint32_t bytes = reaches(w.start + JUMP_BYTES, stub) &&
                                     reaches(w.start + w.places + JUMP_BYTES, stub)
                                 ? JUMP_BYTES
                                 : FAR_JUMP_BYTES;
            uint64_t place = search(p, w, bytes, how);
            if (!place)
                continue;
            write_jump(p, place, stub, bytes);
            for (unsigned i = 0; i < prefixes; i++)
                *text++ = PREFIX;
            uint64_t distance = place - ((uint64_t)text + JUMP_BYTES);
            *text = 0xe9;
            for (unsigned i = 1; i < room - prefixes; i++)
                text[i] = (uint8_t)(distance >> 8 * (i - 1));
            return true;
        }
    }
    return false;
}

/* In order, for those who look for a page later. */
static void keep_pages(const struct puns *p, struct edited_module *m)
{
    uint32_t count = 0;
    for (uint64_t i = 0; i < p->room; i++) {
        uint64_t address = p->table[i].address;
        if (!address)
            continue;
        raw_syscall3(SYS_mprotect, (long)address, PAGE_BYTES, PROT_READ | PROT_EXEC);
        m->pun_pages[count++] = address;
    }
    for (uint32_t gap = count / 2; gap; gap /= 2)
        for (uint32_t i = gap; i < count; i++)
            for (uint32_t k = i; k >= gap && m->pun_pages[k - gap] > m->pun_pages[k]; k -= gap) {
                uint64_t swapped = m->pun_pages[k];
                m->pun_pages[k] = m->pun_pages[k - gap];
                m->pun_pages[k - gap] = swapped;
            }
    m->pun_page_count = count;
}

static uint32_t most_pages(uint32_t sites)
{
    return sites < MOST_PAGES ? sites : MOST_PAGES;
}

uint64_t pun_table_bytes(uint32_t sites)
{
    return most_pages(sites) * sizeof(uint64_t);
}

uint32_t pun_sites(struct edited_module *m, uint32_t sites)
{
    static uint64_t stack; /* the first module is edited in the first thread */
    struct puns p = {.module = m, .room = 16, .stack = stack};
    if (!stack)
        p.stack = stack = (uint64_t)__builtin_frame_address(0);
    while (p.room < 2ul * most_pages(sites))
        p.room *= 2;
    p.heap = (uint64_t)raw_syscall3(SYS_brk, 0, 0, 0);
    p.table = sites ? raw_mmap(p.room * sizeof *p.table, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1)
                    : NULL;
    uint32_t failed = 0;
    for (uint32_t i = m->site_count; i-- > 0 && sites;) {
        if (m->sites[i].tier != TIER_PUN || !m->layouts[i].bytes)
            continue;
        uint64_t stub = (uint64_t)m->stubs + m->layouts[i].start;
        if (!p.table || !make_pun(&p, &m->sites[i], stub)) {
            m->layouts[i].bytes = 0;
            failed++;
        }
    }
    if (p.table) {
        keep_pages(&p, m);
        raw_syscall3(SYS_munmap, (long)p.table, (long)(p.room * sizeof *p.table), 0);
    }
    return failed;
}

void pun_forget(struct edited_module *m)
{
    for (uint32_t i = 0; i < m->pun_page_count; i++)
        raw_syscall3(SYS_munmap, (long)m->pun_pages[i], PAGE_BYTES, 0);
    pages_in_process -= m->pun_page_count;
    m->pun_page_count = 0;
}

uint64_t pun_leads_to(const struct edited_module *m, uint64_t pc)
{
    uint32_t i;
    SEARCH(i, m->pun_page_count, m->pun_pages[i] + PAGE_BYTES <= pc);
    if (i == m->pun_page_count || pc < m->pun_pages[i])
        return 0;
    const uint8_t *at = (const uint8_t *)pc;
    if (*at == 0xff)
        return *(const uint64_t *)(at + 6);
    return *at == 0xe9 ? pc + JUMP_BYTES + (uint64_t)(int64_t) * (const int32_t *)(at + 1) : 0;
}
