/* What the runtime has mapped gives way where the program wants that very place. */
#ifndef RUNTIME_GIVE_WAY_H
#define RUNTIME_GIVE_WAY_H

#include <stdbool.h>
#include <stddef.h>

/* Before a mapping at a place of the program's choice: false, with errno, if that cannot be. */
bool arena_give_way(const void *place, size_t bytes, int flags);

#endif
