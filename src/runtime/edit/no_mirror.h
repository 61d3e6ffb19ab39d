/*
 * What threads begin with in place of a mirror of their stack (exact/mirror.h): nothing in it
 * matches, so the slow way is taken. All engines have the same one, since no process has two of
 * them: it is address space of all that are recorded, and a program may have little. Engine paths
 * writes to it, where a thread is not known.
 */
#ifndef RUNTIME_NO_MIRROR_H
#define RUNTIME_NO_MIRROR_H

enum { NO_MIRROR_BYTES = 12 << 20 };

extern char no_mirror[NO_MIRROR_BYTES] __attribute__((visibility("hidden"), aligned(64)));

#endif
