/*
 * The memory that stubs are written to, as others see it: a module of its own, with unwind tables,
 * so that a walk of the stack from inside a stub goes on in the function that the stub is for.
 *
 *     [head: a file's pages] [code] [data] [tail: a page of the same file]
 *
 * The head has an ELF header, CFI and section headers. Debuggers learn of it by gdb's interface for
 * code that is made at run time (jit_list.c); tools that read /proc/PID/maps (eu-stack) see one
 * file, take the image from memory, and count what lies between its pages as part of it. Code and
 * data are anonymous memory, and may have huge pages. Unwinders in the process ask the dynamic
 * linker, which is made to know regions, too (find_object.c).
 */
#ifndef RUNTIME_EDIT_STUB_REGION_H
#define RUNTIME_EDIT_STUB_REGION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct plan_site;
struct stub_layout;
struct stub_row;
struct stub_shape;

struct region {
    uint8_t *start;
    uint64_t bytes;
    uint64_t head_bytes;
    uint8_t *code; /* in whole pages, as the data */
    uint64_t code_bytes;
    uint8_t *data;
    uint64_t data_bytes;
};

/* Code of a region that is a function as others are: what it does to the stack, in DW_CFA_*
 * instructions, from CFA = rsp + 8 on. */
struct region_code {
    const uint8_t *start;
    uint32_t bytes;
    uint32_t cfi_bytes;
    const uint8_t *cfi;
};

/* What the unwind tables of a region read, as long as it is there. Four bytes more than all shapes
 * and all offsets can be read. */
struct region_tables {
    uint64_t base; /* of the sites' module */
    const struct plan_site *sites;
    const uint32_t *offsets; /* instead of sites, if not NULL: where in the module they are */
    const struct stub_layout *layouts; /* of each site; they count from the start of the code */
    uint32_t site_count;
    const struct stub_shape *shapes;
    const struct stub_row *rows;
    const struct region_code *others; /* before the stubs, in order */
    uint32_t other_count;
};

/* What the CFI of other code may take up, for region_map. */
uint64_t region_cfi_bytes(const struct region_code *others, uint32_t count);

/* Memory at this address, or NULL if it is in use. */
uint8_t *region_map_at(uint64_t address, uint64_t bytes);

/*
 * Maps a region that a rel32 reaches from everywhere in [low, high), with room for so many bytes of
 * code, of tables, and of the CFI of other code. All of it can be written.
 */
bool region_map(struct region *region, uint64_t low, uint64_t high, uint64_t code_bytes,
                uint64_t data_bytes, uint64_t cfi_bytes);

/*
 * Its code and tables are written: the code becomes executable, and from now on the region is known
 * to unwinders and debuggers. One thread at a time publishes and unmaps regions: the dynamic linker
 * holds its lock.
 */
void region_publish(const struct region *region, const struct region_tables *tables);

/* No thread may be in its code any more. */
void region_unmap(struct region *region);

/*
 * For unwinders of this process: a region that holds an address. It is there as long as there is a
 * frame in it. Async-signal-safe.
 */
struct region_view {
    uint64_t start, end;
    const void *elf;              /* its header */
    const void *eh_frame_hdr;     /* the file's */
    const void *eh_frame_hdr_gcc; /* for libgcc: see stub_cfi.c */
};

bool region_find(uint64_t address, struct region_view *out);

/* Has there ever been one? */
bool region_any(void);

#endif
