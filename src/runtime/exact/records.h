/* A thread's records, and how they are found. */
#ifndef RUNTIME_EXACT_RECORDS_H
#define RUNTIME_EXACT_RECORDS_H

#include "runtime/exact/exact_format.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena_thread;

/* What is known of the function at an address: for a context that is new. */
struct callee {
    uint64_t target;
    uint64_t function; /* its start; behind a stub of the PLT, of what that is bound to */
    uint64_t key;
    uint32_t first_site, site_count;
    bool is_untimed;     /* as of RECORD_UNTIMED */
    uint32_t generation; /* of the modules */
};

/* How a function was entered. */
struct entered {
    uint32_t site;    /* its number; 0: in no way that the parent's record has a place for */
    uint64_t target;  /* where it led */
    bool is_indirect; /* the site may have several callees */
    bool is_leaf;     /* what was entered calls nothing */
    uint64_t ret; /* its return address, if the code that puts that there writes the mirror, too */
    uint32_t flags;       /* enum record_flags */
    uint32_t slot;        /* low half of the address of its return address */
    uint64_t site_key;    /* for the arena: of the return address, or of the tail jump */
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

#endif
