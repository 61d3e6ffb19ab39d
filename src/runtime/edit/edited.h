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

#include "runtime/edit/edited_module.h"

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

/* The numbers of a function's sites; false: it has none that is edited. */
bool edited_sites_of(uint64_t function, uint32_t *first, uint32_t *count);

/* The site whose return address this is, if it is edited; 0: none. */
uint32_t edited_site_behind(uint64_t address);

/* Is a function's module not edited, or one of its tail jumps? */
bool edited_has_gaps(uint64_t base, uint32_t function);

/* The site of a key, of a return address or a tail jump; 0: none that is edited. */
uint32_t edited_site_of_key(uint64_t site_key);

/* How registers have left a stub. */
struct edited_left {
    const struct plan_site *site; /* NULL: they were in none */
    bool is_lost;                 /* they are where the way out is not known */
    bool by_return;               /* they were where a call comes back to */
};

/* Changes registers inside a stub to those at its site. */
struct edited_left edited_leave(struct walk_registers *registers);

/* Where what is called at a site of a module comes back to, in its stub; 0: not to the stub. */
uint64_t edited_return_of(const struct edited_module *module, const struct plan_site *site);

/* What a return address into a stub stands for; the same if it is none. */
uint64_t edited_real_return(uint64_t address);

/* Changes registers at an instruction of the program's to those at the same one in a stub, if it
 * has moved there, and its place is inside of the way to that. */
void edited_enter(struct walk_registers *registers);

/* A new one: loaded, and to be forgotten when it is not any more. NULL: there are too many. */
struct edited_module *edited_add(const struct edited_module *module);

/* They have been unloaded: no lookup finds them any more, and when no thread uses them, they can
 * go. */
void edit_hide_modules(const uint64_t *bases, uint32_t count);
void edit_forget_hidden(void);
void edited_renumber(uint64_t base, uint32_t module_id); /* in a child's arena it has another */

#endif
