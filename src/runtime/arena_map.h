/* Where the arena lies in the program's address space, and how much of it is mapped. */
#ifndef RUNTIME_ARENA_MAP_H
#define RUNTIME_ARENA_MAP_H

#include "runtime/arena_format.h"

#include <stdbool.h>
#include <stdint.h>

/* Maps a file that may have so many bytes, and closes it. NULL: there is no room. */
struct arena_header *arena_map(int fd, uint64_t most, bool wants_low);

/* Maps so many bytes of it. False: not now, or never. Behind a filter for system calls that
 * cannot be done any more: so much is mapped before. */
enum { ARENA_WITH_FILTER_BYTES = 256 << 20 };
bool arena_map_more(uint64_t least);
bool arena_may_map(uint64_t least); /* false: never */

/* The program has changed its limit for its address space: no more than that leaves. */
void arena_limited(void);
uint64_t arena_limit(void); /* bytes */

/* Does an arena that is low lie in this range? And it moves to where the kernel has room. */
bool arena_has_low(uint64_t start, uint64_t end);
bool arena_move(uint64_t *by);

#endif
