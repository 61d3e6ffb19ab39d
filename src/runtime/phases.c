/*
 * What the program itself says of what it does: the other side of calltrail.h. Names are few and
 * stay; each is in the arena once.
 */
#include "runtime/phases.h"

#include "arch/x86_64/syscall.h"
#include "runtime/arena.h"
#include "runtime/engine.h"

#include <string.h>

#define EXPORTED __attribute__((visibility("default")))

static uint32_t find_phase(const char *name, size_t length)
{
    uint32_t place = guest->arena->first_phase;
    for (const struct arena_phase *p; place; place = p->next) {
        p = arena_at(place);
        if (p->name_bytes == length && memcmp(p + 1, name, length) == 0)
            return p->number;
    }
    return 0;
}

/* Two threads that name one at the same time: the one who comes second looks again. */
static uint32_t phase_number(const char *name, size_t length)
{
    struct arena_phase *made = NULL;
    for (;;) {
        uint32_t first = guest->arena->first_phase, number = find_phase(name, length);
        if (number)
            return number;
        if (!made)
            made = arena_take(sizeof *made + length);
        if (!made)
            return 0;
        memcpy(made + 1, name, length);
        made->name_bytes = (uint32_t)length;
        made->next = first;
        made->number = first ? ((const struct arena_phase *)arena_at(first))->number + 1 : 1;
        if (__atomic_compare_exchange_n((uint32_t *)&guest->arena->first_phase, &first,
                                        arena_place(made), false, __ATOMIC_SEQ_CST,
                                        __ATOMIC_SEQ_CST))
            return made->number;
    }
}

static void note_change(void)
{
    struct arena_header *a = guest->arena;
    uint32_t number = __atomic_fetch_add((uint32_t *)&a->change_count, 1, __ATOMIC_SEQ_CST);
    struct arena_change *c = &a->changes[number % ARENA_CHANGES];
    c->at_ns = UINT64_MAX; /* no reader looks at it meanwhile */
    c->phase = a->phase;
    c->paused = a->program_paused;
    c->at_ns = clock_ns(CLOCK_MONOTONIC);
}

void calltrail_phase(const char *name);
void calltrail_pause(void);
void calltrail_resume(void);

EXPORTED void calltrail_phase(const char *name)
{
    enum { LONGEST = 200 };
    if (!guest->arena)
        return;
    size_t length = name ? strnlen(name, LONGEST) : 0;
    guest->arena->phase = length ? phase_number(name, length) : 0;
    note_change();
}

/* Not in the arena alone: a child that is forked meanwhile has another one, and is paused, too. */
static bool is_paused;

/* Does it pause from now on? Otherwise it did before. */
static bool begin_pause(void)
{
    struct arena_header *a = guest->arena;
    if (__atomic_exchange_n((uint32_t *)&a->program_paused, 1, __ATOMIC_SEQ_CST))
        return false;
    a->was_paused = 1;
    a->program_paused_since_ns = clock_ns(CLOCK_MONOTONIC);
    note_change();
    return true;
}

void phases_begin(void)
{
    if (is_paused)
        begin_pause();
}

EXPORTED void calltrail_pause(void)
{
    if (!guest->arena || !begin_pause())
        return;
    is_paused = true;
    ENGINE_CALL(pauses);
}

EXPORTED void calltrail_resume(void)
{
    if (!guest->arena)
        return;
    struct arena_header *a = guest->arena;
    is_paused = false;
    ENGINE_CALL(goes_on);
    if (!a->program_paused)
        return;
    a->program_paused_ns = arena_paused_ns(a, clock_ns(CLOCK_MONOTONIC));
    a->program_paused_since_ns = 0;
    a->program_paused = 0;
    note_change();
}
