/*
 * Engine `exact`: every call counted in its full context.
 *
 * A record is a calling context: a function, entered through a chain of call sites. Each thread has
 * its records in the arena, and a mirror of its stack: a table, indexed by the address of a
 * return-address slot, with the record of the frame that the slot belongs to.
 *
 * Returns have no code. At a site, the stub knows where its own function's return address lies, and
 * so where the mirror has the function's record. What is found there is right if it is for this
 * slot and for the return address in it: whatever wrote that return address last was the call at
 * that site, whose stub wrote the record at the same time. If it is not so, the stack is walked to
 * the first frame outside that the mirror knows: after a call from code that is not edited, in the
 * handler of a signal, or where two stacks share a place of the mirror. Frames that are entered
 * from code that is not edited are never known by the mirror alone.
 *
 *   engine_exact.c  when what happens
 *   counting.c      what is done at a site: the fast path, in machine code
 *   exact.c         the slow path: contexts that are new, stacks that must be walked
 *   records.c       a thread's records, and how they are found
 *   burst.c         counting for a short time now and then
 *   agrees.c        --verify
 *
 * The code of the program is changed by the editor (runtime/edit).
 */
#ifndef RUNTIME_EXACT_H
#define RUNTIME_EXACT_H

#include "runtime/edit/edited.h"
#include "runtime/exact/exact_format.h"

#define ALWAYS_INLINE static inline __attribute__((always_inline))

static inline const struct exact_settings *exact_settings(void)
{
    return exact_settings_in(guest->settings);
}

/* What is done at sites (counting.c). */
extern const struct stub_writer counting_stubs __attribute__((visibility("hidden")));

/*
 * The mirror has a tag and a record for each slot, in two arrays: a slot's address, but for a mask,
 * leads to its tag, and so much further lies its record. (The ABI has slots 16 bytes apart at
 * least, but compilers keep to it only where others call: a function of their own may have its slot
 * 8 bytes below its caller's.)
 *
 * The tag tells those apart that share an entry: it is the sum of the slot's address and of the
 * return address in it. (That two frames have the same entry and the same sum, two return addresses
 * and two stacks would have to be the same multiple of 4 MB apart.)
 *
 * Neither array begins at a page's start: otherwise an entry would be at the same place of its page
 * as the slot, and the processor takes a load for one that must wait for a store before it, by that
 * place alone.
 */
enum {
    MIRROR_SPAN = 4 << 20, /* of the stack */
    MIRROR_MASK = MIRROR_SPAN - 8,
    MIRROR_SHIFT = 2048 + 64,
    MIRROR_RECORDS = MIRROR_SPAN + 1024 + 64,
    MIRROR_MAPPED = 2 * MIRROR_SPAN + 4096
};

static_assert(MIRROR_SHIFT + MIRROR_RECORDS + MIRROR_SPAN <= MIRROR_MAPPED, "they fit");

#define BURST_NONE INT64_MIN

/* What stubs reach through %fs. */
struct exact_state {
    char *mirror;               /* its first tag */
    struct arena_header *arena; /* NULL: this thread does not count */
    struct other_entry *others;
    uint64_t others_mask; /* (entries - 1) * sizeof(struct other_entry) */
    int64_t calls;  /* with --burst: those since it began, or, between bursts, BURST_NONE more */
    uint64_t epoch; /* with --burst: another number for each; part of the tags */
};

extern __thread struct exact_state exact_state __attribute__((tls_model("initial-exec")));

/* --- records.c ------------------------------------------------------------------------------ */

/* What is known of the function at an address: for a context that is new. */
struct callee {
    uint64_t target;
    uint64_t function; /* its start; behind a stub of the PLT, of what that is bound to */
    uint64_t key;
    uint32_t first_site, site_count;
    uint32_t generation; /* of the modules */
};

/* How a function was entered. */
struct entered {
    uint32_t site;     /* its number; 0: in no way that the parent's record has a place for */
    uint64_t target;   /* where it led */
    bool is_indirect;  /* the site may have several callees */
    bool is_leaf;      /* what was entered calls nothing */
    uint64_t ret;      /* its return address, if whoever puts that there writes the mirror, too */
    uint32_t flags;    /* enum record_flags */
    uint32_t slot;     /* low half of the address of its return address */
    uint64_t site_key; /* for the arena: of the return address, or of the tail jump */
    struct callee callee; /* the function that was entered */
};

/*
 * The table of a thread's contexts that are found by more than a place in their parent: all callees
 * of an indirect site but the first, by that place and their address, which stubs look up too; and
 * what was entered from code that is not edited, by the parent, the function and where it came
 * from.
 */
struct other_entry {
    uint64_t from; /* address of the place, or of the parent; 0: free */
    uint64_t target;
    uint64_t site_key; /* 0 with a place */
    struct arena_record *record;
};

enum { OTHERS_BEYOND = 64 };

static_assert(sizeof(struct other_entry) == 32, "the stubs shift by 5");

struct records {
    struct other_entry *others;
    uint32_t room, count;
    char *spare; /* address space for its larger tables, or NULL */
    uint64_t spare_used;
    struct arena_record_chunk *chunk;
    struct arena_record *root;
    struct arena_record *overflow; /* counts what there is no room for */
    uint32_t k;                    /* of the arena */
    struct arena_thread *thread;
    bool is_new; /* the last one that was asked for had to be made */
};

/*
 * A new context of a site that had none, where nothing stands in the way: with signals, at any
 * moment of which a handler may come that does the same, and may never return. NULL: not so.
 */
struct arena_record *records_quick_child(struct records *r, struct arena_record *parent,
                                         const struct entered *how);

/* Memory of the arena, or NULL; waits for the supervisor to make it larger. */
void *records_memory(size_t bytes);

bool records_begin(struct records *r, struct arena_thread *thread);
void records_end(struct records *r);

/* What counts a call from `parent`; made if it is new. */
struct arena_record *records_child(struct records *r, struct arena_record *parent,
                                   const struct entered *how);

/*
 * The record of a function that was not known yet when its record was made: a new one, with places
 * for its sites. NULL: that was not the reason.
 */
struct arena_record *records_bound(struct records *r, struct arena_record *unbound,
                                   const struct callee *callee);

/* Calls through pointers to another module in the place of one that was unloaded are not its own;
 * as in struct engine. */
void records_forget_targets(uint64_t start, uint64_t end, uint64_t since);

/* The same of a thread that has ended, in whatever modules: its records are to be used again. */
void records_forget_all_targets(struct records *r);

/* A record below the root for stacks whose outer frames are not known. */
struct arena_record *records_gap(struct records *r, uint32_t walk_end);

/* --- burst.c -------------------------------------------------------------------------------- */

/* With --burst: at each tick a burst begins or ends; and the last one does. */
void burst_tick(struct thread *thread);
void burst_last(struct thread *thread);

/* --- agrees.c ------------------------------------------------------------------------------- */

/* As in struct engine. */
bool exact_leave_code(struct walk_registers *registers, uint64_t *restored_below);
bool exact_agrees(const struct walk_modules *modules, const struct walk_frame *frames,
                  uint32_t count);

/* --- exact.c -------------------------------------------------------------------------------- */

void exact_forget(void); /* in a child that was forked */
void exact_arena_moved(void);
void exact_thread_ends(struct thread *thread);
void exact_process_ends(void);

/* The record that the mirror has for a slot, if it is that of the frame which is there now. */
struct arena_record *mirror_find(uint64_t slot);

/* The calling thread's records; NULL: nothing is counted now. */
struct records *exact_records(void);

/* Functions that were not bound when they were called first are known by now, perhaps. */
void exact_resolve_unbound(void);

/* What the mirror of the calling thread says holds no more. */
void exact_forget_stack(void);

#endif
