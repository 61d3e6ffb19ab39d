/*
 * What kind of program a file is, from the file alone: whether calltrail's runtime can live in it,
 * or why it had better be recorded from outside.
 */
#ifndef ELF_PROGRAM_KIND_H
#define ELF_PROGRAM_KIND_H

#include "elf/elf_file.h"

/* If several are true, the first counts. */
enum program_kind {
    PROGRAM_SANITIZED, /* with AddressSanitizer or its like, which takes over what the runtime does
                        */
    PROGRAM_GO,
    PROGRAM_MUSL,
    PROGRAM_STATIC,       /* nothing can be loaded into it */
    PROGRAM_OTHER_LOADER, /* not that of glibc */
    PROGRAM_OCAML,        /* native code; loaded by glibc, as those that follow */
    PROGRAM_HASKELL,
    PROGRAM_ORDINARY,
    PROGRAM_KINDS
};

extern const char *const program_kind_names[PROGRAM_KINDS];

struct program {
    enum program_kind kind;
    bool is_loaded_by_glibc; /* a Go program may be, or be static */
    char
        reason[160]; /* one line, to stand behind the name of the program: "is a Go program: ..." */
};

/* What its code is, a library's, too. Bits. */
enum code_traits {
    CODE_OF_OCAML = 1,    /* native code of OCaml */
    CODE_READS_ITSELF = 2 /* its runtime reads its instructions */
};

/* For both, elf_open_identity is enough to have opened it. */
uint32_t program_traits(const struct elf_file *file);
struct program program_of(const struct elf_file *file);

#endif
