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
 */
#ifndef RUNTIME_EXACT_H
#define RUNTIME_EXACT_H

#include "edit/plan_format.h"
#include "runtime/process.h"

struct shadow_entry {
    uint64_t slot; /* address of the return address */
    struct arena_record *record;
};

/* An entry of the table: parent and site are the key; `callee` too, at indirect sites. */
struct child_entry {
    uint32_t parent; /* low half of the address of the parent's record; 0: free */
    uint32_t site;
    struct arena_record *record;
    uint64_t callee;
    uint64_t unused;
};

/* What stubs reach through %fs. */
struct exact_state {
    struct shadow_entry *top;
    struct child_entry *table;
    uint64_t mask_bytes; /* (entries - 1) * sizeof(struct child_entry) */
};

extern __thread struct exact_state exact_state __attribute__((tls_model("initial-exec")));

/* What the slow path saves, as exact_slow.S pushes it. */
struct slow_frame {
    uint64_t r15, r14, r13, r12, rbx, rbp, r11, r10, r9, r8, rdi, rsi;
    uint64_t back; /* into the stub */
    uint64_t site;
    uint64_t rdx, rcx, rax;
    uint64_t above[]; /* at an indirect site its target; at a call the return address */
};

/* One edited module; sites are numbered through all of them. */
struct edited_module {
    uint64_t base;
    uint32_t first_site;
    uint32_t module_id;
    const struct plan_header *plan;
    const struct plan_site *sites;
    const uint8_t *code;
    uint8_t *stubs;
    uint64_t stub_bytes;
};

/* edit.c */
bool edit_module(uint64_t base, uint32_t module_id, const void *plan, size_t plan_bytes);
void edited_renumber(uint64_t base, uint32_t module_id); /* in a child's arena it has another */
const struct edited_module *edited_by_site(uint32_t site);
uint32_t edited_site_behind(uint64_t address); /* the site whose return address this is; 0: none */

#endif
