/* The way out of stubs, and --verify. */
#ifndef RUNTIME_EXACT_AGREES_H
#define RUNTIME_EXACT_AGREES_H

#include "unwind/walk.h"

#include <stdbool.h>
#include <stdint.h>

/* As in struct engine. */
enum walk_left exact_leave_code(struct walk_registers *registers, uint64_t *restored_below);
bool exact_agrees(const struct walk_modules *modules, const struct walk_frame *frames,
                  uint32_t count);

#endif
