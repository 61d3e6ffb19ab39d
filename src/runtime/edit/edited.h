/*
 * Modules that have been edited: their sites, their stubs, and how they are found by addresses.
 *
 *   edit.c      applies the plan of a module
 *   edited.c    the modules that are, and their sites
 *   stubs.c     the part of a stub that is the same whatever is done there; the site itself
 *   rows.c      leaving a stub
 *   pun.c       sites that are too short for a jump: where one leads all the same
 *   pristine.c  the code as it is in the file, for
 *   detach.c    the end of --duration, and
 *   pause.c     the pauses of a program
 */
#ifndef RUNTIME_EDITED_H
#define RUNTIME_EDITED_H

#include "edit/plan_format.h"
#include "runtime/edit/edit.h"
#include "runtime/edit/rows.h"
#include "runtime/edit/stub_region.h"

/* An executable segment of a module: two mappings of the file as it is. */
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
    const struct plan_header *plan; /* NULL: not in use */
    const struct plan_site *sites;
    uint32_t site_count;
    const uint32_t *by_rank; /* a site's number is its rank, from first_site on */
    const uint8_t *code;
    struct region region; /* of the stubs, and of what is known of them */
    uint8_t *stubs;       /* its code: what they share, then those of the sites */
    struct stub_layout common;
    struct stub_layout *layouts;
    struct pristine pristine[MOST_PRISTINE];
    unsigned pristine_count;
    struct edit_request from; /* its plan and its descriptor are not there any more */
    uint64_t device, inode;   /* of its file */
    uint64_t *pun_pages;      /* addresses of the pages that puns lead to, sorted */
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
 * All that follows, but for edited_by_site, is for handlers and the slow paths of engines, while
 * their thread is busy: what they find is there until they are over.
 */
const struct edited_list *edited_loaded(void);

/* This one is STUB_TEXT. */
const struct edited_module *edited_by_site(uint32_t site);

/* The site of that number in its module. */
static inline const struct plan_site *edited_site(const struct edited_module *m, uint32_t site)
{
    return &m->sites[m->by_rank[site - m->first_site]];
}

/* The numbers of a function's sites; false: it has none that is edited. */
bool edited_sites_of(uint64_t function, uint32_t *first, uint32_t *count);

/* The site whose return address this is, if it is edited; 0: none. */
uint32_t edited_site_behind(uint64_t address);

/* Is a function's module not edited, or one of its tail jumps? */
bool edited_has_gaps(uint64_t base, uint32_t function);

/* The site of a key, of a return address or a tail jump; 0: none that is edited. */
uint32_t edited_site_of_key(uint64_t site_key);

/*
 * Changes registers inside a stub to those at its site, which is returned; NULL: they are not in
 * one. `is_lost`: they are where nobody knows the way out.
 */
const struct plan_site *edited_leave(struct walk_registers *registers, bool *is_lost);

/* Changes registers at an instruction of the program's to those at the same one in a stub, if it
 * has moved there, and its place is inside of the way to that. */
void edited_enter(struct walk_registers *registers);

/* A new one: loaded, and to be forgotten when it is not any more. NULL: there are too many. */
struct edited_module *edited_add(const struct edited_module *module);

/* They have been unloaded: nobody finds them any more, and when nobody uses them, they can go. */
void edit_hide_modules(const uint64_t *bases, uint32_t count);
void edit_forget_hidden(void);
void edited_renumber(uint64_t base, uint32_t module_id); /* in a child's arena it has another */

#endif
