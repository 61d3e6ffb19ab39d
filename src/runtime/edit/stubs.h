/* The part of a stub that is the same whatever is done there; the site itself. */
#ifndef RUNTIME_EDIT_STUBS_H
#define RUNTIME_EDIT_STUBS_H

#include "runtime/edit/edited.h"

/*
 * Writes the stub of a site at `at` and points the site at it. Returns where the stub ends; NULL:
 * it could not be described, and the site is as it was.
 */
uint8_t *stub_write(uint8_t *at, const struct edited_module *module, uint32_t index,
                    const struct stub_writer *writer);

/* The most bytes that takes, but for what the writer writes. */
uint32_t stub_most_bytes(const struct plan_site *site);

/* The code that stubs share. */
uint8_t *stub_write_common(uint8_t *at, struct edited_module *module,
                           const struct stub_writer *writer);

#endif
