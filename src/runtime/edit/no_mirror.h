/*
 * What threads begin with in place of a mirror of their stack (exact/mirror.h): nothing in it
 * matches, so the slow way is taken. That of exact and of those who read encode's is one, since no
 * process has both: it is address space of all that are recorded, and a program may have little.
 */
#ifndef RUNTIME_NO_MIRROR_H
#define RUNTIME_NO_MIRROR_H

enum { NO_MIRROR_BYTES = (8 << 20) + 4096 };

extern char no_mirror[NO_MIRROR_BYTES] __attribute__((visibility("hidden")));

#endif
