/*
 * Makes the sizes and hashes of a profile right again after its bytes were changed, as far as the
 * bytes still have a table of contents. Tests need it to get past the hashes to what lies behind.
 */
#ifndef TESTS_CTP_REHASH_H
#define TESTS_CTP_REHASH_H

#include "profile/ctp_format.h"

#include <stddef.h>
#include <string.h>
#include <xxhash.h>

/* `bytes` is aligned to 8. */
static inline void ctp_rehash(void *bytes, size_t size)
{
    uint8_t *file = bytes;
    struct ctp_header *header = bytes;
    if (size < sizeof *header)
        return;
    memcpy(header->magic, CTP_MAGIC, sizeof header->magic);
    header->file_size = size;
    header->header_size = sizeof *header;
    header->toc_entry_size = sizeof(struct ctp_section);
    uint64_t toc_bytes = header->toc_count * sizeof(struct ctp_section);
    if (header->toc_offset % CTP_ALIGNMENT == 0 && header->toc_offset >= sizeof *header &&
        header->toc_offset <= size && size - header->toc_offset >= toc_bytes) {
        struct ctp_section *sections = (struct ctp_section *)(void *)(file + header->toc_offset);
        for (uint32_t i = 0; i < header->toc_count && i < CTP_SECTIONS_MAX; i++) {
            struct ctp_section *s = &sections[i];
            uint64_t length;
            if (!__builtin_mul_overflow((uint64_t)s->element_size, s->count, &length) &&
                s->offset <= size && size - s->offset >= length)
                s->hash = XXH3_64bits(file + s->offset, length);
        }
        header->toc_hash = XXH3_64bits(sections, toc_bytes);
    }
    header->hash = XXH3_64bits(header, offsetof(struct ctp_header, hash));
}

#endif
