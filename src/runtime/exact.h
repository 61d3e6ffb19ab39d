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
 *   stubs.c     the code that takes the place of a site
 *   counting.c  the part of it that counts: the fast path
 *   edit.c      which modules are edited; their sites
 *   pun.c       sites that are too short for a jump: where one leads all the same
 *   exact.c     the slow path: contexts that are new, stacks that must be walked
 *   records.c   a thread's records, and how they are found
 *   burst.c     counting for a short time now and then
 *   agrees.c    samples: out of the stubs, and --verify
 *   detach.c    the original code is put back at the end of --duration
 *   pause.c     and while the program says so
 */
#ifndef RUNTIME_EXACT_H
#define RUNTIME_EXACT_H

#include "edit/plan_format.h"
#include "runtime/process.h"

/*
 * Code of the slow path that runs with signals: no sample may come there, since nobody could walk
 * out of it. Such functions call only each other.
 */
#define SLOW_TEXT     __attribute__((section("exact_slow_text"), used, noinline))
#define ALWAYS_INLINE static inline __attribute__((always_inline))

/*
 * Slots lie at 8 of 16 bytes, as the ABI has the stack at a call. The tag tells those apart that
 * share an entry: it is the sum of the slot's address and of the return address in it. (That two
 * frames have the same entry and the same sum, two return addresses and two stacks would have to be
 * the same multiple of 8 MB apart.)
 */
struct mirror_entry {
    uint64_t tag;
    struct arena_record *record;
};

enum { MIRROR_BYTES = 8 << 20, MIRROR_MASK = MIRROR_BYTES - 16 };

/*
 * The mirror does not begin at a page's start: otherwise an entry would be at the same place of its
 * page as the slot, and the processor takes a load for one that must wait for a store before it, by
 * that place alone.
 */
enum { MIRROR_SHIFT = 2048 + 64, MIRROR_MAPPED = MIRROR_BYTES + 4096 };

static_assert(sizeof(struct mirror_entry) == 16, "a slot's address is its entry's, but for a mask");

#define BURST_NONE INT64_MIN

/* What stubs reach through %fs. */
struct exact_state {
    struct mirror_entry *mirror;
    struct arena_header *arena; /* NULL: this thread does not count */
    struct other_entry *others;
    uint64_t others_mask; /* (entries - 1) * sizeof(struct other_entry) */
    int64_t calls;  /* with --burst: those since it began, or, between bursts, BURST_NONE more */
    uint64_t epoch; /* with --burst: another number for each; part of the tags */
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

/* A record below the root for stacks whose outer frames are not known. */
struct arena_record *records_gap(struct records *r, uint32_t walk_end);

/* --- edit.c --------------------------------------------------------------------------------- */

/* Where the parts of a site's stub begin, from its start; see stubs.c. */
struct stub_layout {
    uint32_t start; /* from the start of the stubs */
    /* From its own start: where it saves registers, where its first part ends, where the slow one
     * begins (0: it is the first), and the end (0: the site has none). */
    uint16_t saving, first_end, slow, end;
};

/* What the stubs of a module share: the way to the slow path. */
struct common_code {
    const uint8_t *start;
    const uint8_t *end;
};

/* An executable segment of a module: two mappings of the file as it is, for detach.c. */
enum { MOST_PRISTINE = 4 };

struct pristine {
    uint64_t start, bytes, offset; /* the last: in the file */
    uint8_t *copies[2];            /* NULL: could not be had, or has been used */
    uint8_t *edited;               /* while the program pauses its measurement: the edited code */
    bool has_rooms;
};

/* One edited module; sites are numbered through all of them. */
struct edited_module {
    uint64_t base;
    uint32_t first_site;
    uint32_t module_id;
    const struct plan_header *plan;
    const struct plan_site *sites;
    const uint32_t *by_rank; /* a site's number is its rank, from first_site on */
    const uint8_t *code;
    uint8_t *stubs;
    uint64_t stub_bytes;
    struct common_code common;   /* at the start of the stubs */
    struct stub_layout *layouts; /* in the same piece of memory */
    struct pristine pristine[MOST_PRISTINE];
    unsigned pristine_count;
    struct edit_request from; /* its plan and its descriptor are not there any more */
    uint64_t device, inode;   /* of its file */
    uint64_t *pun_pages;      /* there, too: addresses of the pages that puns lead to, sorted */
    uint32_t pun_page_count;
};

/*
 * Those that are loaded, by first_site. A module that is loaded again has new numbers: another may
 * lie there now.
 */
enum { EDITED_MOST = 4096 };

struct edited_list {
    _Atomic uint32_t count;
    struct edited_module *items[EDITED_MOST];
};

/*
 * All that follows, but for edited_by_site, is for handlers and the slow path, while their thread
 * is busy: what they find is there until they are over.
 */
const struct edited_list *edited_loaded(void);

const struct edited_module *edited_by_site(uint32_t site);

/* The numbers of a function's sites; false: it has none that is edited. */
bool edited_sites_of(uint64_t function, uint32_t *first, uint32_t *count);

/* The site whose return address this is, if its calls are counted; 0: none. */
uint32_t edited_site_behind(uint64_t address);

/* Is a function's module not edited, or one of its tail jumps? */
bool edited_has_gaps(uint64_t base, uint32_t function);

/* The site whose stub holds an address; 0: none. */
uint32_t edited_site_of_stub(uint64_t address);

/* The site that a record was entered by, from its key; 0: none whose calls are counted. */
uint32_t edited_site_of_key(uint64_t site_key);

/* The module whose stubs hold an address, or NULL. */
const struct edited_module *edited_by_stub(uint64_t address);

/* Is this the way from a site to its stub? Then the stub's address, otherwise the same. */
uint64_t edited_behind_pun(uint64_t address);

/* Memory at this address, or NULL if it is in use. */
uint8_t *edit_map_at(uint64_t address, uint64_t bytes);

/* --- pun.c ---------------------------------------------------------------------------------- */

/*
 * Makes the puns of a module that has `sites` of them, after all its other edits. Those for which
 * there is no place lose their stub; returns their number.
 */
uint32_t pun_sites(struct edited_module *module, uint32_t sites);
uint64_t pun_table_bytes(uint32_t sites); /* what pun_pages may take up */

void pun_forget(struct edited_module *module);

/* Where a jump on one of the module's pages leads; 0: it is none. */
uint64_t pun_leads_to(const struct edited_module *module, uint64_t pc);

/* --- detach.c -------------------------------------------------------------------------------- */

void pristine_map(struct edited_module *m, const struct edit_request *r);
void pristine_unmap(struct edited_module *m);

/* A mapping of the file as it is; NULL: could not be had. */
uint8_t *pristine_copy(const struct pristine *p, int file);

/* One of the copies takes the place of the code. */
bool pristine_put_back(struct pristine *p, unsigned copy);

/* The rooms of short sites, as they are now, go into the first copy. Is there any? */
bool pristine_keep_rooms(const struct edited_module *m, struct pristine *p);

/* Does a thread of this process wait in the kernel? */
bool thread_sleeps(uint32_t tid);

/* --- stubs.c -------------------------------------------------------------------------------- */

enum { STUB_POINTER_BYTES = 16, STUB_COMMON_BYTES = 48 };

/* Writes the stub of a site at `at` and points the site at it. Returns where the stub ends. */
uint8_t *stub_write(uint8_t *at, const struct edited_module *module, uint32_t index);

uint32_t stub_most_bytes(const struct plan_site *site);

/* Changes registers inside a stub to what they were at its site. */
void stub_leave(const struct edited_module *module, uint32_t index, struct walk_registers *r);

/* --- exact.c, for agrees.c ----------------------------------------------------------------------
 */

/* The record that the mirror has for a slot, if it is that of the frame which is there now. */
struct arena_record *mirror_find(uint64_t slot);

/* The calling thread's records; NULL: nothing is counted now. */
struct records *exact_records(void);

/* Functions that were not bound when they were called first are known by now, perhaps. */
void exact_resolve_unbound(void);

/* What the mirror of the calling thread says holds no more. */
void exact_forget_stack(void);

uint64_t exact_key(const struct walk_modules *modules, uint64_t address, uint32_t flags);
uint64_t exact_function_key(const struct walk_modules *modules, uint64_t address);
const uint8_t *skip_endbr64(const uint8_t *code);

#endif
