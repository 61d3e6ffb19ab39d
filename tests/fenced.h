/* Bytes that end where memory ends: what reads one too many does not live to say so. */
#ifndef FENCED_H
#define FENCED_H

#include "base/page.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct fenced {
    char *bytes;
    size_t size, mapped;
};

static inline struct fenced fence(const void *bytes, size_t size)
{
    size_t room = (size + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
    struct fenced f = {.size = size, .mapped = room + PAGE_BYTES};
    char *start = mmap(NULL, f.mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED || mprotect(start + room, PAGE_BYTES, PROT_NONE) != 0)
        abort();
    f.bytes = start + room - size;
    memcpy(f.bytes, bytes, size);
    return f;
}

static inline void unfence(struct fenced *f)
{
    munmap(f->bytes + f->size + PAGE_BYTES - f->mapped, f->mapped);
}

#endif
