/* Sites that are too short for a jump: where one leads all the same. */
#ifndef RUNTIME_EDIT_PUN_H
#define RUNTIME_EDIT_PUN_H

#include "runtime/edit/edited_module.h"

/*
 * Makes the puns of a module that has `sites` of them, after all its other edits. Those for which
 * there is no place lose their stub; returns their number.
 */
uint32_t pun_sites(struct edited_module *module, uint32_t sites);
uint64_t pun_table_bytes(uint32_t sites); /* what pun_pages may take up */

void pun_forget(struct edited_module *module);

/* Where a jump on one of the module's pages leads; 0: it is none. */
uint64_t pun_leads_to(const struct edited_module *module, uint64_t pc);

#endif
