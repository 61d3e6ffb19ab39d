/*
 * The table of marks: what the trampoline knows of each return address that it has replaced.
 *
 * Entry i belongs to stub i (arch/x86_64/trampoline.S). Any thread finds an entry by which stub was
 * hit, so an entry is changed by one thread at a time: by a change of its state.
 */
#ifndef RUNTIME_MARKS_H
#define RUNTIME_MARKS_H

#include "arch/x86_64/trampoline_layout.h"
#include "runtime/thread.h"

/*
 * An entry's state is the address of the slot that is marked, or one of these. The lowest bit says
 * that the mark is dead: it was left on the stack, or was written over, without a return.
 */
enum { MARK_FREE = 0, MARK_BEING_SET = 2, MARK_DEAD = 1 };

struct mark {
    uint64_t real;          /* the return address; the stub pushes it, unwinders read it */
    _Atomic uint64_t state; /* see above */
    struct thread *owner;
    void *exception; /* an unwinder has landed here with it */
    uint32_t node;   /* whose returns are counted; in the arena of the process below */
    uint32_t process;
    uint32_t stamp; /* another one for each use */
    uint32_t died;  /* by the table's clock */
    /*
     * It was on a stack that went on without returning to it. The program may have copied that
     * stack away (greenlets), perhaps several with the same mark, and may bring them back at any
     * time: the entry is for this slot and this address forever.
     */
    bool was_left;
    uint8_t unused[15];
};

static_assert(sizeof(struct mark) == MARK_BYTES, "the assembly counts in it");

extern struct mark trampoline_marks[MARK_COUNT] __attribute__((visibility("hidden"), aligned(64)));

extern char trampoline_stubs[];

/* Has a dead mark been alive again? Then the program puts stacks aside. */
extern bool marks_come_back;

/* What stands in the slot of a mark: an address inside its stub. */
static inline uint64_t mark_word(uint32_t number)
{
    return (uint64_t)(uintptr_t)trampoline_stubs + (uint64_t)number * MARK_STUB_BYTES + 1;
}

static inline bool mark_is_stub(uint64_t pc)
{
    return pc - (uint64_t)(uintptr_t)trampoline_stubs < (uint64_t)MARK_COUNT * MARK_STUB_BYTES;
}

static inline uint32_t mark_number(uint64_t pc)
{
    return (uint32_t)((pc - (uint64_t)(uintptr_t)trampoline_stubs) / MARK_STUB_BYTES);
}

static inline bool mark_change_state(struct mark *m, uint64_t from, uint64_t to)
{
    return __atomic_compare_exchange_n((uint64_t *)&m->state, &from, to, false, __ATOMIC_ACQ_REL,
                                       __ATOMIC_RELAXED);
}

/* An entry for this slot and address, which is MARK_BEING_SET from then on; NULL: there is none. */
struct mark *mark_take(const struct thread *thread, uint64_t slot, uint64_t real);

/*
 * The mark is off the stack, or no function will return to it. An unwinder that has seen it may
 * still ask for the address, and a stack that the program has put aside may come back with it.
 */
void mark_declare_dead(struct mark *mark, uint64_t slot);
void mark_declare_dead_from(struct mark *mark, uint64_t state, uint64_t slot);

#endif
