#include "runtime/exact.h"

#include "runtime/arch/x86_64/syscall.h"
#include "runtime/channel_format.h"

#include <sys/mman.h>
#include <sys/syscall.h>

enum { FIRST_ENTRIES = 1 << 10 };

static uint64_t table_bytes(uint32_t room)
{
    return (uint64_t)(room + RECORDS_BEYOND) * sizeof(struct child_entry);
}

static struct child_entry *new_table(uint32_t room)
{
    if (is_confined())
        return NULL;
    void *table = raw_mmap(table_bytes(room), PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
    if (table) /* what is looked for lies anywhere in it: few large pages are found faster */
        raw_syscall3(SYS_madvise, (long)table, (long)table_bytes(room), MADV_HUGEPAGE);
    return table;
}

static void free_table(struct child_entry *table, uint32_t room)
{
    if (table && !is_confined())
        raw_syscall3(SYS_munmap, (long)table, (long)table_bytes(room), 0);
}

/*
 * The supervisor makes the arena larger when it looks, every few milliseconds. No call may go
 * uncounted for that, so this waits; but only once for a supervisor that does not come.
 */
static void *take_patiently(size_t bytes)
{
    enum { PATIENCE = 400, STEP_NS = 1000000 };
    static bool nobody_comes;
    void *memory = arena_take(bytes);
    for (unsigned i = 0; !memory && i < PATIENCE && !nobody_comes && !is_confined(); i++) {
        struct timespec step = {0, STEP_NS};
        raw_syscall3(SYS_nanosleep, (long)&step, 0, 0);
        memory = arena_take(bytes);
    }
    nobody_comes |= !memory;
    return memory;
}

static struct arena_record *new_record(struct records *r, const struct arena_record *parent,
                                       uint64_t site, uint64_t callee, uint32_t flags)
{
    struct arena_header *arena = guest->arena;
    if (arena->most_records && arena->records >= arena->most_records)
        return NULL;
    if (!r->chunk || r->chunk->count == ARENA_CHUNK_RECORDS) {
        struct arena_record_chunk *chunk = take_patiently(sizeof *chunk);
        if (!chunk)
            return NULL;
        chunk->next = r->thread->first_record_chunk;
        r->thread->first_record_chunk = arena_place(chunk);
        r->chunk = chunk;
    }
    struct arena_record *new = &r->chunk->records[r->chunk->count];
    *new = (struct arena_record){
        .site = site, .callee = callee, .parent = parent ? arena_place(parent) : 0, .flags = flags};
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    r->chunk->count++;
    __atomic_fetch_add((uint64_t *)&arena->records, 1, __ATOMIC_RELAXED);
    return new;
}

bool records_begin(struct records *r, struct arena_thread *thread)
{
    *r = (struct records){.thread = thread, .room = FIRST_ENTRIES};
    r->root = new_record(r, NULL, 0, 0, 0);
    if (r->root) /* made while there is room: it is needed when there is none */
        r->overflow = new_record(r, r->root, 0, KEY_MAKE(0, KEY_GAP, WALK_LIMIT), RECORD_OVERFLOW);
    r->table = r->overflow ? new_table(r->room) : NULL;
    return r->table != NULL;
}

void records_end(struct records *r)
{
    free_table(r->table, r->room);
    r->table = NULL;
}

/* As the stubs compute it: where to begin to look. */
static uint32_t hash(uint32_t parent, uint32_t site, uint64_t callee)
{
    uint64_t h = 0, key = (uint64_t)site << 32 | parent;
    __asm__("crc32q %1, %0" : "+r"(h) : "r"(key));
    if (callee)
        __asm__("crc32q %1, %0" : "+r"(h) : "r"(callee));
    return (uint32_t)h;
}

/* NULL: it is time for a larger table. */
static struct child_entry *insert(struct child_entry *table, uint32_t room,
                                  const struct child_entry *new)
{
    uint32_t at = hash(new->parent, new->site, new->callee) & (room - 1);
    /* The last entry stays free, where every search ends. */
    while (at < room + RECORDS_BEYOND - 1 && table[at].parent)
        at++;
    if (at == room + RECORDS_BEYOND - 1)
        return NULL;
    table[at] = *new;
    return &table[at];
}

/* A new table with twice the room, or more: one in which nothing has to look far. */
static bool grow(struct records *r)
{
    for (uint32_t room = r->room * 2; room > r->room; room *= 2) {
        struct child_entry *table = new_table(room);
        bool fits = table != NULL;
        if (!table)
            return false;
        for (uint32_t i = 0; i < r->room + RECORDS_BEYOND && fits; i++)
            if (r->table[i].parent)
                fits = insert(table, room, &r->table[i]) != NULL;
        struct child_entry *old = r->table;
        uint32_t old_room = r->room;
        if (!fits) {
            free_table(table, room);
            continue;
        }
        r->table = table;
        r->room = room;
        if (exact_state.table == old) { /* nothing may use the old one any more */
            exact_state.table = table;
            exact_state.mask_bytes = (uint64_t)(room - 1) * sizeof *table;
        }
        free_table(old, old_room);
        return true;
    }
    return false;
}

/* The context to which a call goes back, or NULL. */
static struct arena_record *earlier(const struct records *r, struct arena_record *parent,
                                    const struct entered *how)
{
    bool folds = guest->flags & CHANNEL_FOLD;
    if (!folds && !(how->flags & RECORD_TAIL))
        return NULL;
    for (struct arena_record *at = parent; at != r->root; at = arena_at(at->parent)) {
        if (at->callee == how->callee_key)
            return at;
        /* All that were entered by tail jumps share one frame with what they came from. */
        if (!folds && !(at->flags & RECORD_TAIL))
            return NULL;
    }
    return NULL;
}

/* What counts the call, and the context that it leads to. */
static void make(struct records *r, struct arena_record *parent, const struct entered *how,
                 struct child_entry *new)
{
    struct arena_record *back = parent == r->overflow ? NULL : earlier(r, parent, how);
    struct arena_record *record = NULL;
    if (parent != r->overflow)
        record = new_record(r, parent, how->site_key, how->callee_key,
                            how->flags | (back ? RECORD_BACK : 0));
    new->counter = record ? record : r->overflow;
    new->record = record &&back ? back : new->counter;
}

const struct child_entry *records_child(struct records *r, struct arena_record *parent,
                                        const struct entered *how)
{
    static struct child_entry homeless[2]; /* where there is no memory for a larger table */
    struct child_entry new = {.parent = (uint32_t)(uintptr_t)parent,
                              .site = how->site,
                              .callee = how->by_callee ? how->callee : 0};
    uint32_t at = hash(new.parent, new.site, new.callee) & (r->room - 1);
    for (; r->table[at].parent; at++)
        if (r->table[at].parent == new.parent && r->table[at].site == new.site &&
            r->table[at].callee == new.callee)
            return &r->table[at];
    make(r, parent, how, &new);
    struct child_entry *entry = NULL;
    while (r->count * 2 > r->room || !(entry = insert(r->table, r->room, &new)))
        if (!grow(r)) {
            homeless[0] = (struct child_entry){.counter = r->overflow, .record = r->overflow};
            return homeless;
        }
    r->count++;
    return entry;
}

struct arena_record *records_gap(struct records *r, uint32_t walk_end)
{
    uint64_t key = KEY_MAKE(0, KEY_GAP, walk_end);
    struct entered how = {
        .site = (uint32_t)UNKNOWN_SITE, .by_callee = true, .callee = key, .callee_key = key};
    return records_child(r, r->root, &how)->record;
}
