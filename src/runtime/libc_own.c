/*
 * A function of libc's own, in whatever order libraries stand in for it. dlsym finds the next one,
 * not libc's; and dlopen, which would give a handle, begins libc before its time. So its table of
 * symbols is read, by the hash that every library has.
 */
#include "runtime/libc_own.h"

#include <elf.h>
#include <link.h>
#include <string.h>

static const struct link_map *find_libc(void)
{
    static const char libc[] = "/libc.so.6";
    const size_t end = sizeof libc - 1;
    for (const struct link_map *l = _r_debug.r_map; l; l = l->l_next) {
        size_t length = strlen(l->l_name);
        if (length > end && strcmp(l->l_name + length - end, libc) == 0)
            return l;
    }
    return NULL;
}

/* The dynamic linker has made addresses of these. */
static const void *table(const struct link_map *l, int64_t tag)
{
    for (const ElfW(Dyn) *d = l->l_ld; d->d_tag != DT_NULL; d++)
        if (d->d_tag == tag)
            return (const void *)d->d_un.d_ptr;
    return NULL;
}

static uint32_t hash_of(const char *name)
{
    uint32_t h = 5381;
    for (; *name; name++)
        h = h * 33 + (uint8_t)*name;
    return h;
}

void *libc_own(const char *name)
{
    const struct link_map *l = find_libc();
    const uint32_t *header = l ? table(l, DT_GNU_HASH) : NULL;
    const ElfW(Sym) *symbols = l ? table(l, DT_SYMTAB) : NULL;
    const char *names = l ? table(l, DT_STRTAB) : NULL;
    if (!header || !symbols || !names || !header[0])
        return NULL;
    const uint32_t bucket_count = header[0], first = header[1], filter_words = header[2];
    const uint32_t *buckets = header + 4 + 2 * filter_words, *chain = buckets + bucket_count;
    const uint32_t wanted = hash_of(name);
    uint32_t i = buckets[wanted % bucket_count];
    if (i < first)
        return NULL;
    for (;; i++) { /* the lowest bit says that it is the last */
        if ((chain[i - first] | 1) == (wanted | 1) && strcmp(names + symbols[i].st_name, name) == 0)
            return (void *)(l->l_addr + symbols[i].st_value);
        if (chain[i - first] & 1)
            return NULL;
    }
}
