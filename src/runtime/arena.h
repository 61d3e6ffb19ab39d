/* Memory in the arena. */
#ifndef RUNTIME_ARENA_H
#define RUNTIME_ARENA_H

#include "runtime/arena_format.h"

#include <stddef.h>
#include <stdint.h>

/* Zeroed memory from the arena; NULL when there is none. Safe in a signal handler. */
void *arena_take(size_t bytes);
uint32_t arena_place(const void *memory);
void *arena_at(uint32_t place);
void arena_count_loss(enum arena_loss why);

#endif
