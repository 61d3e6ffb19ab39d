/*
 * Engine `exact`: every call counted in its full context.
 *
 * A record is a calling context: a function, entered through a chain of call sites. Each thread
 * has its records in the arena, a table that finds the record of (caller's record, site), and a
 * shadow stack of (address of the return-address slot, record).
 *
 * Returns have no code, so the shadow stack may hold entries of functions that are gone. At a site
 * the stub knows where its own function's return address lies: everything below that is gone, and
 * the top must then be exactly that slot. If it is not, the stack is walked and the shadow stack
 * made anew: after a longjmp, a throw, a switch of stacks, or a call from code that is not edited.
 *
 *   stubs.c     the code that takes the place of a site: the fast path
 *   edit.c      which modules are edited; their sites
 *   exact.c     the slow path: contexts that are new, stacks that must be walked
 *   records.c   a thread's records and the table that finds them
 */
#ifndef RUNTIME_EXACT_H
#define RUNTIME_EXACT_H

#include "edit/plan_format.h"
#include "runtime/process.h"

struct shadow_entry {
    uint64_t slot; /* address of the return address */
    struct arena_record *record;
};

/*
 * An entry of the table: parent and site are the key, at indirect sites the callee too. What counts
 * the call is nearly always the record of the new context; where a tail jump or a recursion goes
 * back to a context that is there already, it is one of its own.
 */
struct child_entry {
    uint32_t parent; /* low half of the address of the parent's record; 0: free */
    uint32_t site;
    struct arena_record *counter;
    uint64_t callee; /* 0 at direct sites */
    struct arena_record *record;
};

static_assert(sizeof(struct child_entry) == 32, "the stubs shift by 5");

/* What stubs reach through %fs. */
struct exact_state {
    struct shadow_entry *top;
    struct child_entry *table;
    uint64_t mask_bytes;        /* (entries - 1) * sizeof(struct child_entry) */
    struct shadow_entry *limit; /* nothing is pushed from here on */
};

extern __thread struct exact_state exact_state __attribute__((tls_model("initial-exec")));

/* What the slow path saves, as exact_slow.S pushes it. */
struct slow_frame {
    uint64_t r15, r14, r13, r12, rbx, rbp, r11, r10, r9, r8, rdi, rsi;
    uint64_t back; /* into the common code */
    uint64_t site;
    uint64_t stub; /* where it goes on */
    uint64_t rdx, rcx, rax;
    uint64_t above[]; /* at an indirect site its target; at a call the return address */
};

/* --- records.c ------------------------------------------------------------------------------ */

struct records {
    struct child_entry *table;
    uint32_t room, count;
    struct arena_record_chunk *chunk;
    struct arena_record *root;
    struct arena_record *overflow; /* counts what there is no room for; NULL: there was always */
    struct arena_thread *thread;
};

/* How a function was entered. */
struct entered {
    uint32_t site;     /* its number, or UNKNOWN_SITE and part of the return address */
    bool by_callee;    /* the callee is part of the key: the site has several */
    uint64_t callee;   /* its address */
    uint64_t site_key; /* for the arena: of the return address, or of the tail jump */
    uint64_t callee_key;
    uint32_t flags; /* enum record_flags */
};

enum { UNKNOWN_SITE = INT32_MIN, RECORDS_BEYOND = 64 };

bool records_begin(struct records *r, struct arena_thread *thread);
void records_end(struct records *r);

/* The entry of a call from `parent`; made if it is new. Never NULL, unless there is no memory. */
const struct child_entry *records_child(struct records *r, struct arena_record *parent,
                                        const struct entered *how);

/* A record below the root for stacks whose outer frames are not known. */
struct arena_record *records_gap(struct records *r, uint32_t walk_end);

/* --- edit.c --------------------------------------------------------------------------------- */

/* Where the parts of a site's stub begin, from its start; see stubs.c. */
struct stub_layout {
    uint32_t start;                  /* from the start of the stubs */
    uint16_t saving, restoring, end; /* end: 0 where the site has none */
};

/* What the stubs of a module share, by the kind of site. */
enum { COMMON_SLOW = 4, COMMON_KINDS };

struct common_code {
    const uint8_t *start[COMMON_KINDS];
    const uint8_t *slow[COMMON_KINDS]; /* where the way to the slow path begins */
    const uint8_t *end;
};

/* One edited module; sites are numbered through all of them. */
struct edited_module {
    uint64_t base; /* 0: it has been unloaded */
    uint32_t first_site;
    uint32_t module_id;
    const struct plan_header *plan;
    const struct plan_site *sites;
    const uint8_t *code;
    uint8_t *stubs;
    uint64_t stub_bytes;
    struct common_code common;   /* at the start of the stubs */
    struct stub_layout *layouts; /* in the same piece of memory */
};

const struct edited_module *edited_by_site(uint32_t site);

/* The site whose return address this is, if its calls are counted; 0: none. */
uint32_t edited_site_behind(uint64_t address);

/* Is a function's module not edited, or one of its tail jumps? */
bool edited_has_gaps(uint64_t base, uint32_t function);

/* The site whose stub holds an address; 0: none. */
uint32_t edited_site_of_stub(uint64_t address);

/* The module whose stubs hold an address, or NULL. */
const struct edited_module *edited_by_stub(uint64_t address);

/* --- stubs.c -------------------------------------------------------------------------------- */

enum { STUB_POINTER_BYTES = 16, STUB_COMMON_BYTES = 2048 };

/* Writes what the stubs share; returns where it ends. */
uint8_t *stub_write_common(uint8_t *at, const uint8_t *slow_pointer, struct common_code *out);

/* Writes the stub of a site at `at` and points the site at it. Returns where the stub ends. */
uint8_t *stub_write(uint8_t *at, const struct edited_module *module, uint32_t index);

uint32_t stub_most_bytes(const struct plan_site *site);

/* Changes registers inside a stub to what they were at its site. */
void stub_leave(const struct edited_module *module, uint32_t index, struct walk_registers *r);

/* Changes registers inside the common code to those of the stub that called it. */
bool stub_leave_common(const struct edited_module *module, struct walk_registers *r);

#endif
