#include "base/reader.h"

#include <string.h>

struct reader reader_over(const void *bytes, size_t size)
{
    const uint8_t *start = bytes;
    return (struct reader){.at = start, .end = size ? start + size : start};
}

size_t reader_left(const struct reader *r)
{
    return (size_t)(r->end - r->at);
}

static void fail(struct reader *r)
{
    r->failed = true;
    r->at = r->end;
}

static void read_bytes(struct reader *r, void *out, size_t size)
{
    if (reader_left(r) < size) {
        fail(r);
        memset(out, 0, size);
        return;
    }
    memcpy(out, r->at, size);
    r->at += size;
}

uint8_t read_u8(struct reader *r)
{
    uint8_t v;
    read_bytes(r, &v, sizeof v);
    return v;
}

uint16_t read_u16(struct reader *r)
{
    uint16_t v;
    read_bytes(r, &v, sizeof v);
    return v;
}

uint32_t read_u32(struct reader *r)
{
    uint32_t v;
    read_bytes(r, &v, sizeof v);
    return v;
}

uint64_t read_u64(struct reader *r)
{
    uint64_t v;
    read_bytes(r, &v, sizeof v);
    return v;
}

/* Bits past 64 are dropped, as every DWARF consumer does; the end of the number is still found. */
uint64_t read_uleb(struct reader *r)
{
    uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
        uint8_t byte = read_u8(r);
        if (shift < 64)
            value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return value;
    }
}

int64_t read_sleb(struct reader *r)
{
    uint64_t value = 0;
    unsigned shift = 0;
    uint8_t byte;
    do {
        byte = read_u8(r);
        if (shift < 64)
            value |= (uint64_t)(byte & 0x7f) << shift;
        shift += 7;
    } while (byte & 0x80);
    if (shift < 64 && (byte & 0x40))
        value |= ~UINT64_C(0) << shift;
    return (int64_t)value;
}

void reader_skip(struct reader *r, uint64_t count)
{
    if (count > reader_left(r))
        fail(r);
    else
        r->at += count;
}
