/*
 * Where threads count. The code in copies reads two words of its thread: a table with the address
 * of the thread's counters for each module, and the mirror of its stack. A thread that is not known
 * (yet) has tables of nobody's: it does the same, and what it counts is not in the profile.
 */
#include "arch/x86_64/syscall.h"
#include "runtime/arena.h"
#include "runtime/confined.h"
#include "runtime/edit/no_mirror.h"
#include "runtime/modules.h"
#include "runtime/paths/paths.h"
#include "runtime/thread.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>

enum { MIRROR_BYTES = 3 * PLAN_MIRROR_BYTES };

static uint64_t *nobodys_table[COPIES_MOST];
static_assert((int)MIRROR_BYTES <= (int)NO_MIRROR_BYTES, "every thread begins with that");

__thread uint64_t *const *paths_table = (uint64_t *const *)nobodys_table;
__thread uint64_t *paths_mirror = (uint64_t *)(void *)no_mirror;

/* Of a thread: private memory. */
struct path_counters {
    uint64_t *table[COPIES_MOST];
    uint32_t generation[COPIES_MOST]; /* of the module that these are for */
    uint64_t mirror[MIRROR_BYTES / sizeof(uint64_t)];
};

static void *map_private(uint64_t bytes)
{
    return raw_mmap(bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
}

/* Room in the arena; the supervisor makes more when it is asked for. */
static void *take_room(uint64_t bytes)
{
    enum { MOST_WAITS = 200 };
    static const struct timespec a_moment = {.tv_nsec = 2000000};
    void *room = arena_take(bytes);
    for (unsigned i = 0; !room && i < MOST_WAITS && !guest->no_room_for_calls; i++) {
        if (is_confined())
            return NULL;
        raw_syscall3(SYS_nanosleep, (long)&a_moment, 0, 0);
        room = arena_take(bytes);
    }
    guest->no_room_for_calls |= !room;
    return room;
}

static uint32_t generations[COPIES_MOST]; /* how many modules have had each number */

static void give(struct thread *t, uint32_t number, uint64_t count, uint32_t module_id)
{
    struct path_counters *c = t->of_engine;
    c->generation[number] = generations[number];
    struct paths_thread *said = paths_thread_in(t->record);
    struct paths_area *area = take_room(sizeof *area + count * sizeof area->counters[0]);
    if (!area) {
        said->modules_without++;
        c->table[number] = nobodys_table[number];
        return;
    }
    area->module_id = module_id;
    area->count = count;
    area->next = said->first_area;
    said->first_area = arena_place(area);
    c->table[number] = area->counters;
}

bool counters_add(uint32_t number, uint64_t count, uint32_t module_id)
{
    nobodys_table[number] = map_private(count * sizeof(uint64_t));
    if (!nobodys_table[number])
        return false;
    generations[number]++;
    for (struct thread *t = threads_lock(); t; t = t->next) {
        struct path_counters *c = t->of_engine;
        if (t->of == guest && t->record && c)
            give(t, number, count, module_id);
    }
    threads_unlock();
    return true;
}

void counters_remove(uint32_t number)
{
    nobodys_table[number] = NULL; /* what lies there stays: somebody may be counting still */
}

/* In a child another id, and its own arena. */
static uint32_t id_now(const struct copied_module *m)
{
    uint32_t index = guest->modules ? modules_find(guest->modules, m->base) : UINT32_MAX;
    return index == UINT32_MAX ? m->module_id : modules_id(guest->modules, index);
}

void counters_thread_begins(struct thread *t)
{
    struct path_counters *c = t->of_engine;
    if (!c)
        c = map_private(sizeof *c);
    if (!c)
        return;
    /* Modules may come meanwhile: nothing is ever missing in a table that is in use. */
    for (uint32_t number = 0; number < COPIES_MOST; number++)
        if (c->generation[number] != generations[number])
            c->table[number] = nobodys_table[number];
    t->of_engine = c;
    for (uint32_t number = 0; number < COPIES_MOST; number++) {
        const struct copied_module *m = copies_at(number);
        if (m && c->generation[number] != generations[number])
            give(t, number, m->counter_count, id_now(m));
        if (!c->table[number])
            c->table[number] = nobodys_table[number];
    }
    paths_mirror = c->mirror;
    paths_table = (uint64_t *const *)c->table;
}

void counters_thread_ends(struct thread *t)
{
    struct path_counters *c = t->of_engine;
    paths_table = (uint64_t *const *)nobodys_table;
    paths_mirror = (uint64_t *)(void *)no_mirror;
    if (!c || t->will_go_on)
        return;
    t->of_engine = NULL;
    if (!is_confined())
        raw_syscall3(SYS_munmap, (long)c, sizeof *c, 0);
}

void counters_forked(void)
{
    paths_table = (uint64_t *const *)nobodys_table;
    paths_mirror = (uint64_t *)(void *)no_mirror;
}
