/*
 * Languages whose runtimes find the frames of their stacks by return address, which must be what
 * the compiler has made of them: no mark may be there.
 */
#ifndef RECORD_LANGUAGE_H
#define RECORD_LANGUAGE_H

#include <stdint.h>

/* Bits of enum arena_language: those that have code in the ELF file. 0 where it cannot be read. */
uint32_t language_of_file(const char *path);

/* What becomes of a process with such code, in words; NULL: all is as with any other. */
const char *language_consequence(uint32_t languages);

#endif
