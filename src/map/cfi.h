/*
 * Call frame information: what .eh_frame says about each function, as rows. This is the only place
 * that interprets DWARF's unwind programs; libdw splits the section into entries.
 */
#ifndef MAP_CFI_H
#define MAP_CFI_H

#include "base/vec.h"
#include "elf/elf_file.h"
#include "map/map_format.h"

/* One FDE: the code it is about, as offsets from the module's base. */
struct fde {
    uint32_t start;
    uint32_t end;
    uint64_t offset; /* in .eh_frame */
    uint32_t cie;    /* index in cfi.cies */
};

/* What one row says. Expressions are spans of the section's bytes. */
enum rule_kind {
    R_UNSET,
    R_SAME,
    R_UNDEFINED,
    R_OFFSET,
    R_VAL_OFFSET,
    R_REGISTER,
    R_EXPRESSION,
    R_VAL_EXPRESSION
};

struct cfi_rule {
    uint8_t kind;
    uint8_t reg;
    uint32_t size;
    int64_t offset;
    const uint8_t *expression;
};

struct cfi_row {
    bool cfa_is_expression;
    uint8_t cfa_reg;
    int64_t cfa_offset;
    const uint8_t *cfa_expression;
    uint32_t cfa_size;
    struct cfi_rule reg[X86_COUNT];
};

struct cfi {
    const struct elf_file *file;
    struct eh_frame section;
    VEC(struct fde) fdes; /* sorted by start */
    VEC(struct cie) cies; /* in the order of the section */
    uint64_t bad_fdes;
};

/* Finds all FDEs. A damaged section is an error that names the file and the place. */
int cfi_read(const struct elf_file *file, struct cfi *out, struct ct_error *err);
void cfi_free(struct cfi *cfi);

/* The address of the language's own data about a function (landing pads and so on); 0: none. */
uint64_t cfi_language_data(const struct cfi *cfi, const struct fde *fde);

/*
 * Runs the program of an FDE and calls `row` with each row and the offset where it begins. The rows
 * come in order and stay within the FDE. Returns false when the program is damaged; the rows given
 * until then are good, and `stopped` says where nothing is known any more.
 */
typedef void cfi_row_fn(void *context, uint32_t pc, const struct cfi_row *row, bool signal_frame);
bool cfi_run(const struct cfi *cfi, const struct fde *fde, cfi_row_fn *row, void *context,
             uint32_t *stopped);

/* The FDE that holds an offset, or NULL. They are sorted by start. */
const struct fde *cfi_fde_at(const struct cfi *cfi, uint32_t offset);

#endif
