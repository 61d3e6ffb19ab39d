/*
 * Keys of contexts: 64 bits that are the same for the same calls, in every thread, whatever numbers
 * it has, and in every run of the same programs and libraries. Calls are added from the thread's
 * first one on. Modules are known by the names of their files, code by its offset.
 */
#ifndef ENCODING_CONTEXT_KEY_H
#define ENCODING_CONTEXT_KEY_H

#include <stdint.h>

enum { CONTEXT_KEY_THREAD = 1, CONTEXT_KEY_NO_MODULE = 1, CONTEXT_KEY_GAP = 2 };

/* A path, of which the file's name counts. */
static inline uint64_t context_key_module(const char *path)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (const char *c = path; *c; c++)
        hash = *c == '/' ? UINT64_C(0xcbf29ce484222325)
                         : (hash ^ (uint8_t)*c) * UINT64_C(0x100000001b3);
    return hash >> 24;
}

static inline uint64_t context_key_add(uint64_t key, uint64_t module, uint64_t offset)
{
    key = key * UINT64_C(0x9e3779b97f4a7c15) + module;
    key ^= key >> 32;
    key = key * UINT64_C(0xff51afd7ed558ccd) + offset;
    key ^= key >> 29;
    key *= UINT64_C(0xc4ceb9fe1a85ec53);
    key ^= key >> 32;
    return key ? key : 1;
}

#endif
