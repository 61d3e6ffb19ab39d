/*
 * The function symbols of a module, from every table that has some: the dynamic one, the full one,
 * the compressed one in .gnu_debugdata, and a separate debug file. Go code is named by Go's own
 * table where none of them does.
 */
#ifndef ELF_SYMBOLS_H
#define ELF_SYMBOLS_H

#include "elf/elf_file.h"

/* Where names came from. Bits. */
enum symbol_source {
    SYMBOLS_DYNSYM = 1,
    SYMBOLS_SYMTAB = 2,
    SYMBOLS_DEBUG_FILE = 4,
    SYMBOLS_MINIDEBUG = 8, /* .gnu_debugdata */
    SYMBOLS_GO = 16,       /* Go's own table of functions */
};

enum symbol_kind { SYMBOL_FUNCTION, SYMBOL_IFUNC, SYMBOL_LABEL };

struct elf_symbol {
    uint64_t address;
    uint64_t size;
    const char *name; /* lives as long as the symbols */
    uint32_t scope;   /* local symbols of one source file share a number; 0: global */
    uint8_t kind;
    uint8_t rank; /* the better of two names for one address: global, then weak, then local */
};

struct elf_symbols {
    VEC(struct elf_symbol) items; /* in no order that callers may count on */
    uint32_t sources;             /* bits of enum symbol_source */
    struct elf_file debug_file;   /* names may point into it; path is NULL when there is none */
    void *inflated;               /* .gnu_debugdata, and libelf's view of it */
    Elf *inflated_elf;
};

void elf_read_symbols(const struct elf_file *file, struct elf_symbols *out);
void elf_free_symbols(struct elf_symbols *symbols);

/* FOLDER/.build-id/ab/cdef….debug, or the same without .build-id, if it exists. To be freed. */
char *elf_debug_file_of(const char *folder, const uint8_t *build_id, uint32_t size);

/* Does the debug file belong to the module? By build-id, or by the checksum of the link. */
bool elf_debug_file_belongs(const struct elf_file *debug, const struct elf_file *file);

/*
 * Where the separate debug file of a module should be: the first path that exists, by build-id,
 * then by .gnu_debuglink. To be freed; NULL when there is none. Whether it really belongs to the
 * module (build-id, checksum) is only checked when its symbols are read.
 */
char *elf_find_debug_file(const struct elf_file *file);

#endif
