/* The code that counts: see counting.c. */
#ifndef RUNTIME_COUNTING_H
#define RUNTIME_COUNTING_H

#include "runtime/emit.h"
#include "runtime/exact.h"

/* Writes what the stubs of a module share; returns where it ends. */
uint8_t *counting_write_common(uint8_t *at, const uint8_t *slow_pointer, struct common_code *out);

/* Writes the code that counts and goes on to the callee. An indirect site's target is at the top of
 * the stack. `stub`: where the stub began, from which the layout counts. */
void counting_write(struct emitter *e, const struct edited_module *m, const struct plan_site *s,
                    struct stub_layout *layout, const uint8_t *stub);

/* How many of rax, rcx and rdx, in this order, it has on the stack at a place of the stub; and is
 * an indirect site's target above them? */
uint32_t counting_saved(const struct plan_site *s, const struct stub_layout *l, uint32_t at);
bool counting_has_target(const struct plan_site *s, const struct stub_layout *l, uint32_t at);

/* Changes registers inside the common code to those of the stub that called it. */
bool counting_leave_common(const struct common_code *c, struct walk_registers *r);

static inline bool site_is_indirect(const struct plan_site *s)
{
    return s->kind == SITE_CALL_INDIRECT || s->kind == SITE_TAIL_INDIRECT;
}

#endif
