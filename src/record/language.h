/*
 * Languages whose runtimes find the frames of their stacks by return address, which must be what
 * the compiler has made of them: no mark may be there.
 */
#ifndef RECORD_LANGUAGE_H
#define RECORD_LANGUAGE_H

#include <stdint.h>

/* What becomes of a process with such code (bits of enum arena_language), in words; NULL: all is as
 * with any other. */
const char *language_consequence(uint32_t languages);

#endif
