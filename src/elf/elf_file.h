/*
 * One linked x86-64 ELF file, opened for reading: an executable, a shared object or a vdso image.
 *
 * libelf reads the structures; this file decides what is acceptable and says why it is not. Files
 * without section headers work through their program headers.
 */
#ifndef ELF_ELF_FILE_H
#define ELF_ELF_FILE_H

#include "base/error.h"
#include "base/file.h"
#include "base/page.h"
#include "base/vec.h"

#include <gelf.h>
#include <stdbool.h>
#include <stdint.h>

enum { BUILD_ID_MAX = 32 };

/* A piece of executable code: where it is in memory and where its bytes are. */
struct code_range {
    uint64_t start;
    uint64_t end;
    const uint8_t *bytes;
    const char *section; /* "" when the file has no section headers */
};

struct elf_file {
    char *path;
    struct mapped_file file;
    Elf *elf;
    GElf_Ehdr header;
    uint64_t base;               /* lowest load address, rounded down to a page */
    uint64_t span;               /* from base to the end of the highest segment */
    VEC(struct code_range) code; /* sorted, not overlapping */
    uint8_t build_id[BUILD_ID_MAX];
    uint32_t build_id_size; /* 0: none */
};

int elf_open(const char *path, struct elf_file *out, struct ct_error *err);
void elf_close(struct elf_file *file);

/* The rest of elf_open for a file that elf_open_identity has opened; on failure it is closed. */
int elf_complete(struct elf_file *file, struct ct_error *err);

/*
 * Where the kernel or the dynamic linker starts this file as a program: 0 for a library, whose
 * header may have an entry all the same (old linkers put the start of .text there).
 */
uint64_t elf_program_entry(const struct elf_file *file);

/*
 * Only what names a file: checks the header and finds the build-id. Cheaper than elf_open, and good
 * for separate debug files too, which have no code; base, span and code are not filled in.
 */
int elf_open_identity(const char *path, struct elf_file *out, struct ct_error *err);

/* A section by name; NULL when there is none. The header may be NULL. */
Elf_Scn *elf_section(const struct elf_file *file, const char *name, GElf_Shdr *header);

/* The bytes of a section, decompressed if need be; NULL when it has none. They live in `elf`. */
Elf_Data *elf_section_data(Elf_Scn *section);

/* The .eh_frame bytes and their address, found by section or by program header. */
struct eh_frame {
    Elf_Data data;
    uint64_t address;
};
bool elf_eh_frame(const struct elf_file *file, struct eh_frame *out);

/* The bytes of the file that are loaded at an address; NULL when fewer than `size` are. */
const uint8_t *elf_bytes_at(const struct elf_file *file, uint64_t address, uint64_t size);

/* Program header number `i`; false behind the last. */
bool elf_program_header(const struct elf_file *file, unsigned i, GElf_Phdr *out);

/* Is there a loaded note of this name and type? */
bool elf_has_note(const struct elf_file *file, const char *name, uint32_t type);

/*
 * The word at an address that the dynamic linker adds the load address to, as it is before that;
 * false when it does not. The other way round: the first word that is made to point at an address.
 */
bool elf_relocated_word(const struct elf_file *file, uint64_t address, uint64_t *value);
bool elf_relocation_to(const struct elf_file *file, uint64_t value, uint64_t *address);

/* The value of a dynamic tag (DT_INIT and so on). */
bool elf_dynamic_value(const struct elf_file *file, int64_t tag, uint64_t *value);

/* The code range that holds an address, or NULL. */
const struct code_range *elf_code_at(const struct elf_file *file, uint64_t address);

/* Is it a PLT: stubs through which other modules are called? NULL is none. */
bool elf_is_plt(const struct code_range *code);

#endif
