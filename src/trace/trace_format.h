/* The layout of a trace file: docs/trace.md in C. */
#ifndef TRACE_TRACE_FORMAT_H
#define TRACE_TRACE_FORMAT_H

#include <assert.h>
#include <stdint.h>

#define TRACE_MAGIC "calltrc\n"

enum { TRACE_VERSION = 1, TRACE_RECENT = 9, TRACE_NAME_MAX = 65535 };

struct trace_header {
    char magic[8];
    uint32_t version;
    uint32_t header_bytes;
    uint64_t event_count;  /* calls and returns */
    uint64_t stream_bytes; /* behind the header, to the end of the file */
    uint64_t stream_hash;  /* XXH3, 64 bits, of the stream */
};

static_assert(sizeof(struct trace_header) == 40, "layout");

/* Codes, first bit lowest: 0; 10; 110 and 3 bits; 1110 and the label; 1111 and 2 bits. */
enum trace_escape {
    TRACE_ESCAPE_FUNCTION,
    TRACE_ESCAPE_LABEL,
    TRACE_ESCAPE_THREAD,
    TRACE_ESCAPE_END,
};

#endif
