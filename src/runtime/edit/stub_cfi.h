/* The unwind tables of a region: see stub_cfi.c. */
#ifndef RUNTIME_EDIT_STUB_CFI_H
#define RUNTIME_EDIT_STUB_CFI_H

#include "runtime/edit/stub_region.h"

/* Without other code. */
enum { STUB_CFI_BYTES = 2400 };

struct stub_cfi {
    uint8_t *eh_frame_hdr; /* 4-byte aligned, as all of them */
    uint8_t *eh_frame;
    uint8_t *eh_frame_end;
    uint8_t *eh_frame_hdr_gcc;
    uint8_t *end;
};

/* Writes them to `at`, which is 8-byte aligned. */
void stub_cfi_write(uint8_t *at, const struct region_tables *tables, const uint8_t *code,
                    struct stub_cfi *out);

#endif
