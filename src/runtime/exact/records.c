#include "runtime/exact/records.h"

#include "arch/x86_64/syscall.h"
#include "base/page.h"
#include "runtime/arena.h"
#include "runtime/confined.h"
#include "runtime/edit/edited.h"
#include "runtime/edit/stubs.h"
#include "runtime/exact/exact.h"
#include "runtime/thread.h"
#include "runtime/threads.h"

#include <sys/mman.h>
#include <sys/syscall.h>

enum { FIRST_ENTRIES = 64, FIRST_CHUNK = 4 << 10, LARGEST_CHUNK = 256 << 10 };

static const uint64_t SPARE_BYTES = UINT64_C(16) << 20; /* tables of 250,000 entries */

/* --- memory ------------------------------------------------------------------------------------
 */

static uint64_t table_bytes(uint32_t room)
{
    return (uint64_t)(room + OTHERS_BEYOND) * sizeof(struct other_entry);
}

static void *map_private(uint64_t bytes)
{
    return is_confined() ? NULL
                         : raw_mmap(bytes, PROT_READ | PROT_WRITE,
                                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
}

/*
 * From the address space that was set aside, as long as it lasts: a program with a system call
 * filter of its own may not ask for more later. Each piece is used once, and so it is empty.
 */
static struct other_entry *new_table(struct records *r, uint32_t room)
{
    uint64_t bytes = table_bytes(room);
    if (!r->spare || r->spare_used + bytes > SPARE_BYTES)
        return map_private(bytes);
    r->spare_used += bytes;
    return (void *)(r->spare + r->spare_used - bytes);
}

static void free_table(const struct records *r, struct other_entry *table, uint32_t room)
{
    const char *start = (const char *)table;
    const uint64_t bytes = table_bytes(room);
    if (!table || is_confined())
        return;
    if (start < r->spare || start >= r->spare + SPARE_BYTES) {
        raw_syscall3(SYS_munmap, (long)table, (long)bytes, 0);
        return;
    }
    uint64_t first = page_round_up((uint64_t)(uintptr_t)start);
    uint64_t end = page_start((uint64_t)(uintptr_t)start + bytes);
    if (end > first)
        raw_syscall3(SYS_madvise, (long)first, (long)(end - first), MADV_DONTNEED);
}

/* About a millisecond; without a system call where none may be made. */
static void wait_a_little(void)
{
    enum { STEP_NS = 1000000, STEP_PAUSES = 25000 };
    if (!is_confined()) {
        struct timespec step = {0, STEP_NS};
        raw_syscall3(SYS_nanosleep, (long)&step, 0, 0);
        return;
    }
    for (unsigned i = 0; i < STEP_PAUSES; i++) /* time stamps may be forbidden as well */
        __builtin_ia32_pause();
}

/*
 * The supervisor makes the arena larger when it looks, every few milliseconds. No call may go
 * uncounted for that, so this waits; but in each process only once for a supervisor that does not
 * answer.
 */
void *records_memory(size_t bytes)
{
    enum { PATIENCE = 400 };
    void *memory = arena_take(bytes);
    for (unsigned i = 0; !memory && i < PATIENCE && !guest->no_room_for_calls; i++) {
        wait_a_little();
        memory = arena_take(bytes);
    }
    guest->no_room_for_calls |= !memory;
    return memory;
}

/* Chunks grow with what the thread needs: most threads need little. */
static bool new_chunk(struct records *r, uint64_t least)
{
    uint64_t room = r->chunk ? 2ul * r->chunk->room : FIRST_CHUNK;
    room = room > LARGEST_CHUNK ? LARGEST_CHUNK : room;
    room = room < least ? least : room;
    const uint64_t align = ARENA_RECORD_ALIGN;
    struct arena_record_chunk *chunk = records_memory(sizeof *chunk + align + room);
    if (!chunk)
        return false;
    uint64_t address = (uint64_t)(uintptr_t)(chunk + 1);
    if (room >= LARGEST_CHUNK && !is_confined()) /* all its pages at once: that is cheaper */
        raw_syscall3(SYS_madvise, (long)page_round_up(address), (long)page_start(room) - PAGE_BYTES,
                     MADV_POPULATE_WRITE);
    chunk->start = (uint32_t)(sizeof *chunk + ((ARENA_RECORD_SHIFT - address) & (align - 1)));
    chunk->room = (uint32_t)room;
    struct exact_counts *counts = exact_counts_in(r->thread);
    chunk->next = counts->first_record_chunk;
    counts->first_record_chunk = arena_place(chunk);
    r->chunk = chunk;
    return true;
}

/*
 * Takes the bytes of a record from the chunk, in one instruction: no handler comes in between.
 * Where one came just before it and left too little, the bytes stay unused.
 */
ALWAYS_INLINE struct arena_record *take(const struct records *r, uint64_t bytes)
{
    struct arena_record_chunk *chunk = r->chunk;
    uint32_t at = (uint32_t)bytes;
    if (!chunk || chunk->used > chunk->room || chunk->room - chunk->used < bytes)
        return NULL;
    __asm__ volatile("xaddl %0, %1" : "+r"(at), "+m"(*(uint32_t *)&chunk->used) : : "memory");
    return at + bytes <= chunk->room ? (void *)((char *)chunk + chunk->start + at) : NULL;
}

ALWAYS_INLINE uint32_t place_of(const void *memory)
{
    return (uint32_t)(((const char *)memory - (const char *)exact_state.arena) / 8);
}

ALWAYS_INLINE uint64_t bytes_of(uint32_t site_count)
{
    return arena_record_bytes(site_count + arena_record_first_place(exact_settings()));
}

ALWAYS_INLINE uint32_t *place_at(struct arena_record *record, uint32_t index)
{
    return &record->child_by_site[arena_record_first_place(exact_settings()) + index];
}

/* The arena lies low. */
ALWAYS_INLINE uint32_t address_of(const struct arena_record *record)
{
    return (uint32_t)(uintptr_t)record;
}

static struct arena_record *record_at(uint32_t address)
{
    return (struct arena_record *)(uintptr_t)address;
}

ALWAYS_INLINE bool is_at_limit(void)
{
    uint64_t most = exact_settings()->most_records;
    return most && exact_process_in(exact_state.arena)->records >= most;
}

/*
 * With --k: the tree of a thread is a k-slab forest. A call is counted where its caller was
 * entered, but from depth 2k on what is entered is the chain of the last k functions alone, below a
 * gap: so every call is counted below at least k callers, or below all. (cct/forest.h is the same
 * offline.)
 *
 * Tail jumps are not cut: they may go back to a record of the same frame, whose callers would be
 * too few then. Nor is what calls nothing: no call of its own is counted in it.
 */
ALWAYS_INLINE uint32_t depth_below(const struct records *r, const struct arena_record *parent,
                                   const struct entered *how)
{
    bool is_gap = KEY_FLAGS(how->callee.key) & KEY_GAP;
    return r->k && parent && !is_gap ? (parent->flags >> RECORD_DEPTH_SHIFT) + 1 : 0;
}

ALWAYS_INLINE bool is_cut(const struct records *r, uint32_t depth, const struct entered *how)
{
    return r->k && depth >= 2 * r->k && !how->is_leaf && !(how->flags & RECORD_TAIL);
}

/*
 * A reader takes bytes for a record when `is_made` is there, and then knows how long it is: so
 * these are first, in this order.
 */
ALWAYS_INLINE void fill(const struct records *r, struct arena_record *new,
                        const struct arena_record *parent, const struct entered *how)
{
    new->site_count = how->callee.site_count;
    new->enter = address_of(new);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    new->is_made = 1;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    new->first_site = how->callee.first_site;
    new->parent = parent ? place_of(parent) : 0;
    new->flags = how->flags | (how->callee.is_untimed ? RECORD_UNTIMED : 0u) |
                 depth_below(r, parent, how) << RECORD_DEPTH_SHIFT;
    new->target = how->target;
    new->slot = how->slot;
    new->site = how->site_key;
    new->callee = how->callee.key;
    __atomic_fetch_add((uint64_t *)&exact_process_in(exact_state.arena)->records, 1,
                       __ATOMIC_RELAXED);
}

static struct arena_record *new_record(struct records *r, const struct arena_record *parent,
                                       const struct entered *how)
{
    uint64_t bytes = bytes_of(how->callee.site_count);
    if (is_at_limit())
        return NULL;
    struct arena_record *new = take(r, bytes);
    if (!new &&new_chunk(r, bytes))
        new = take(r, bytes);
    if (new)
        fill(r, new, parent, how);
    return new;
}

STUB_TEXT struct arena_record *records_quick_child(struct records *r, struct arena_record *parent,
                                                   const struct entered *how)
{
    uint32_t *first = place_at(parent, how->site - parent->first_site);
    if (*first || is_at_limit() || is_cut(r, depth_below(r, parent, how), how))
        return NULL;
    struct arena_record *new = take(r, bytes_of(how->callee.site_count));
    if (!new)
        return NULL;
    fill(r, new, parent, how);
    /* The context of a handler that came here in between, if any: counted there, and merged. */
    new->next = how->is_indirect ? 0 : *first;
    *first = address_of(new);
    return new;
}

bool records_begin(struct records *r, struct arena_thread *thread)
{
    const struct entered thread_start = {0};
    const struct entered no_room = {.callee.key = KEY_MAKE(0, KEY_GAP, WALK_LIMIT),
                                    .flags = RECORD_OVERFLOW};
    *r = (struct records){.thread = thread, .room = FIRST_ENTRIES, .k = exact_settings()->k};
    r->root = new_record(r, NULL, &thread_start);
    if (r->root) /* made while there is room: it is needed when there is none */
        r->overflow = new_record(r, r->root, &no_room);
    r->spare = map_private(SPARE_BYTES); /* or each table is mapped when it is needed */
    r->others = r->overflow ? new_table(r, r->room) : NULL;
    return r->others != NULL;
}

void records_end(struct records *r)
{
    free_table(r, r->others, r->room);
    r->others = NULL;
    if (r->spare && !is_confined())
        raw_syscall3(SYS_munmap, (long)r->spare, (long)SPARE_BYTES, 0);
    r->spare = NULL;
}

/* The context to which a call goes back, or NULL. */
static struct arena_record *earlier(const struct records *r, struct arena_record *parent,
                                    const struct entered *how)
{
    bool folds = exact_settings()->flags & EXACT_FOLDS;
    if (!folds && !(how->flags & RECORD_TAIL))
        return NULL;
    for (struct arena_record *at = parent; at != r->root; at = arena_at(at->parent)) {
        if (at->callee == how->callee.key)
            return at;
        /* All that were entered by tail jumps share one frame with what they came from. */
        if (!folds && !(at->flags & RECORD_TAIL))
            return NULL;
    }
    return NULL;
}

static struct arena_record *make(struct records *r, struct arena_record *parent,
                                 const struct entered *how)
{
    if (parent == r->overflow)
        return r->overflow;
    struct arena_record *back = earlier(r, parent, how);
    struct arena_record *new = new_record(r, parent, how);
    if (!new)
        return r->overflow;
    r->is_new = true;
    if (back) {
        new->flags |= RECORD_BACK;
        new->enter = address_of(back);
    }
    return new;
}

struct arena_record *records_bound(struct records *r, struct arena_record *unbound,
                                   const struct callee *callee)
{
    struct arena_record *parent = arena_at(unbound->parent);
    struct entered how = {.target = callee->function,
                          .flags = unbound->flags & RECORD_OF_CALL,
                          .slot = unbound->slot,
                          .site_key = unbound->site,
                          .callee = *callee};
    for (uint32_t i = 0; i < parent->site_count; i++) {
        uint32_t *place = place_at(parent, i);
        if (*place != address_of(unbound))
            continue;
        struct arena_record *bound = new_record(r, parent, &how);
        if (!bound)
            return r->overflow;
        bound->next = address_of(unbound);
        *place = address_of(bound);
        return bound;
    }
    return NULL;
}

/* --- all but the first callee of a site, and contexts without a place ---------------------------
 */

static bool is_key(const struct other_entry *e, const struct other_entry *key)
{
    return e->from == key->from && e->target == key->target && e->site_key == key->site_key;
}

/* Where an entry is, or belongs; NULL: it is time for a larger table. As the stubs compute it. */
static struct other_entry *find_other(struct other_entry *table, uint32_t room,
                                      const struct other_entry *key)
{
    uint64_t h = 0;
    __asm__("crc32q %1, %0" : "+r"(h) : "r"(key->from));
    __asm__("crc32q %1, %0" : "+r"(h) : "r"(key->target));
    uint32_t at = (uint32_t)h & (room - 1);
    while (table[at].from && !is_key(&table[at], key))
        at++;
    /* The last entry stays free, where every search ends. */
    return at < room + OTHERS_BEYOND - 1 ? &table[at] : NULL;
}

static bool copy_others(struct other_entry *table, uint32_t room, const struct records *r)
{
    for (uint32_t i = 0; i < r->room + OTHERS_BEYOND; i++) {
        if (!r->others[i].from)
            continue;
        struct other_entry *place = find_other(table, room, &r->others[i]);
        if (!place)
            return false;
        *place = r->others[i];
    }
    return true;
}

/* A new table with twice the room, or more: one in which nothing has to look far. */
static bool grow(struct records *r)
{
    for (uint32_t room = r->room * 2; room > r->room; room *= 2) {
        struct other_entry *table = new_table(r, room);
        if (!table)
            return false;
        if (!copy_others(table, room, r)) {
            free_table(r, table, room);
            continue;
        }
        free_table(r, r->others, r->room);
        r->others = table;
        r->room = room;
        return true;
    }
    return false;
}

static struct arena_record *other_child(struct records *r, struct arena_record *parent,
                                        struct other_entry key, const struct entered *how)
{
    struct other_entry *place = find_other(r->others, r->room, &key);
    bool is_known = place && place->from, by_address = key.target == how->target;
    if (is_known && (!by_address || /* or another library was at that address */
                     place->record->target == how->target))
        return place->record;
    while (!is_known && (!place || (r->count + 1) * 2 > r->room)) {
        if (!grow(r))
            return r->overflow;
        place = find_other(r->others, r->room, &key);
    }
    key.record = make(r, parent, how);
    if (key.record != r->overflow) {
        *place = key;
        r->count += !is_known;
    }
    return key.record;
}

/* A direct site has one callee, but for one that was bound later, or loaded again. */
static struct arena_record *direct_child(struct records *r, struct arena_record *parent,
                                         uint32_t *first, const struct entered *how)
{
    for (uint32_t *link = first; *link;) {
        struct arena_record *child = record_at(*link);
        if (child->target == how->target && child->callee == how->callee.key) {
            *link = child->next;
            child->next = *first;
            *first = address_of(child);
            return child;
        }
        link = &child->next;
    }
    struct arena_record *child = make(r, parent, how);
    if (child != r->overflow) {
        child->next = *first;
        *first = address_of(child);
    }
    return child;
}

/* The first callee of an indirect site is in its place, others in the table. */
static struct arena_record *indirect_child(struct records *r, struct arena_record *parent,
                                           uint32_t *first, const struct entered *how)
{
    struct arena_record *child = *first ? record_at(*first) : NULL;
    if (child && child->target == how->target && child->callee == how->callee.key)
        return child;
    if (child)
        return other_child(
            r, parent,
            (struct other_entry){.from = (uint64_t)(uintptr_t)first, .target = how->target}, how);
    child = make(r, parent, how);
    if (child != r->overflow)
        *first = address_of(child);
    return child;
}

static void forget_targets_in(struct arena_record_chunk *chunk, uint64_t start, uint64_t end)
{
    uint32_t used = chunk->used < chunk->room ? chunk->used : chunk->room;
    for (uint64_t at = 0; at < used;) {
        struct arena_record *record = (void *)((char *)chunk + chunk->start + at);
        if (record->is_made && record->target - start < end - start)
            record->target = 0;
        at += record->is_made ? bytes_of(record->site_count) : ARENA_RECORD_ALIGN;
    }
}

void records_forget_targets(uint64_t start, uint64_t end, uint64_t since)
{
    for (const struct thread *t = threads_lock(); t; t = t->next) {
        uint32_t place = t->record ? exact_counts_in(t->record)->first_record_chunk : 0;
        while (place) {
            struct arena_record_chunk *chunk = arena_at(place);
            forget_targets_in(chunk, start, end);
            place = arena_place((const char *)guest->arena + since) <= place ? chunk->next : 0;
        }
    }
    threads_unlock();
}

void records_forget_all_targets(struct records *r)
{
    uint32_t place = exact_counts_in(r->thread)->first_record_chunk;
    while (place) {
        struct arena_record_chunk *chunk = arena_at(place);
        forget_targets_in(chunk, 0, UINT64_MAX);
        place = chunk->next;
    }
}

static struct arena_record *whole_child(struct records *r, struct arena_record *parent,
                                        const struct entered *how)
{
    r->is_new = false;
    uint32_t index = how->site - parent->first_site;
    if (!how->site || index >= parent->site_count)
        return other_child(r, parent,
                           (struct other_entry){.from = (uint64_t)(uintptr_t)parent,
                                                .target = how->callee.key,
                                                .site_key = how->site_key},
                           how);
    uint32_t *first = place_at(parent, index);
    return how->is_indirect ? indirect_child(r, parent, first, how)
                            : direct_child(r, parent, first, how);
}

struct arena_record *records_gap(struct records *r, uint32_t walk_end)
{
    struct entered how = {.callee.key = KEY_MAKE(0, KEY_GAP, walk_end)};
    return whole_child(r, r->root, &how);
}

static bool is_at_site(const struct arena_record *record, uint32_t site)
{
    struct arena_record *parent = arena_at(record->parent);
    uint32_t index = site - parent->first_site;
    if (!site || index >= parent->site_count)
        return false;
    uint32_t at = *place_at(parent, index);
    while (at && at != address_of(record))
        at = record_at(at)->next;
    return at;
}

/* How a record's function was entered, as it was when the record was made. */
static struct entered entered_as(const struct arena_record *record)
{
    uint32_t site = edited_site_of_key(record->site);
    const struct edited_module *m = site ? edited_by_site(site) : NULL;
    enum site_kind kind = m ? edited_site(m, site)->kind : SITE_CALL;
    bool is_indirect = kind == SITE_CALL_INDIRECT || kind == SITE_TAIL_INDIRECT;
    if (!is_indirect && !is_at_site(record, site))
        site = 0; /* a direct call to another function, which then went on here */
    return (struct entered){.site = site,
                            .target = record->target,
                            .is_indirect = is_indirect,
                            .flags = record->flags & RECORD_TAIL,
                            .slot = record->slot,
                            .site_key = record->site,
                            .callee = {.target = record->target,
                                       .key = record->callee,
                                       .first_site = record->first_site,
                                       .site_count = record->site_count}};
}

/* The chain of the last k functions up to and with a record's, which is deeper than that. */
static struct arena_record *last_functions(struct records *r, const struct arena_record *record)
{
    struct arena_record *chain = records_gap(r, ARENA_GAP_CUT);
    for (uint32_t callers = r->k; callers-- > 0;) {
        const struct arena_record *at = record;
        for (uint32_t i = 0; i < callers; i++)
            at = arena_at(at->parent);
        struct entered how = entered_as(at);
        if (callers == r->k - 1) { /* where the first one was called from is not kept */
            how.site = 0;
            how.site_key = 0;
            how.flags = 0;
        }
        chain = whole_child(r, chain, &how);
    }
    return chain;
}

struct arena_record *records_child(struct records *r, struct arena_record *parent,
                                   const struct entered *how)
{
    struct arena_record *child = whole_child(r, parent, how);
    if (!r->is_new || !is_cut(r, child->flags >> RECORD_DEPTH_SHIFT, how))
        return child;
    child->enter = address_of(last_functions(r, child));
    r->is_new = true;
    return child;
}
