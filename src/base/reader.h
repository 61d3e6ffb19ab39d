/*
 * A bounded cursor over bytes that are not trusted.
 *
 * Every read is checked. The first read past the end sets `failed`; all reads from then on give
 * zero, so a parser can read a whole record and ask once.
 */
#ifndef BASE_READER_H
#define BASE_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct reader {
    const uint8_t *at;
    const uint8_t *end;
    bool failed;
};

struct reader reader_over(const void *bytes, size_t size);
size_t reader_left(const struct reader *r);

uint8_t read_u8(struct reader *r);
uint16_t read_u16(struct reader *r);
uint32_t read_u32(struct reader *r);
uint64_t read_u64(struct reader *r);
uint64_t read_uleb(struct reader *r);
int64_t read_sleb(struct reader *r);
void reader_skip(struct reader *r, uint64_t count);

#endif
