#include "elf/program_kind.h"

#include "elf/go_table.h"
#include "elf/sanitizers.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

const char *const program_kind_names[PROGRAM_KINDS] = {
    [PROGRAM_SANITIZED] = "sanitized",
    [PROGRAM_GO] = "go",
    [PROGRAM_MUSL] = "musl",
    [PROGRAM_STATIC] = "static",
    [PROGRAM_OTHER_LOADER] = "other loader",
    [PROGRAM_OCAML] = "ocaml",
    [PROGRAM_HASKELL] = "haskell",
    [PROGRAM_ORDINARY] = "ordinary",
};

/* What gives a kind away: the beginning of a needed library's name, or a symbol that is defined. */
struct sign {
    enum program_kind kind;
    const char *library;
    const char *symbol;
    const char *what;
    uint32_t traits; /* enum code_traits */
};

static const struct sign signs[] = {
#define SANITIZER(library, function, name) {PROGRAM_SANITIZED, library, function, name, 0},
    SANITIZERS(SANITIZER)
#undef SANITIZER
    /* Only native code has these; an interpreter of OCaml is a C program. */
    {PROGRAM_OCAML, NULL, "caml_frametable", NULL, CODE_OF_OCAML},
    {PROGRAM_OCAML, NULL, "caml_system__frametable", NULL, CODE_OF_OCAML},
    {PROGRAM_OCAML, NULL, "caml_start_program", NULL, CODE_OF_OCAML},
    /* Code that mono has compiled ahead of time: it finds the calls of its PLT by their bytes. */
    {PROGRAM_ORDINARY, NULL, "mono_aot_file_info", NULL, CODE_READS_ITSELF},
    {PROGRAM_HASKELL, "libHSrts", "stg_upd_frame_info", NULL, 0},
    {PROGRAM_HASKELL, NULL, "stg_ap_v_info", NULL, 0},
};

enum { SIGN_COUNT = sizeof signs / sizeof signs[0] };

/* Signs that were seen, as bits. */
static_assert(SIGN_COUNT <= 32, "signs are bits");

static uint32_t signs_of_library(const char *name)
{
    uint32_t seen = 0;
    for (unsigned i = 0; i < SIGN_COUNT; i++)
        if (signs[i].library && strncmp(name, signs[i].library, strlen(signs[i].library)) == 0)
            seen |= 1u << i;
    return seen;
}

static uint32_t signs_of_symbol(const char *name)
{
    uint32_t seen = 0;
    for (unsigned i = 0; i < SIGN_COUNT; i++)
        if (signs[i].symbol && *name == *signs[i].symbol && strcmp(name, signs[i].symbol) == 0)
            seen |= 1u << i;
    return seen;
}

struct needs {
    uint32_t signs;
    bool gmp_or_ffi; /* Haskell's runtime needs one or both */
};

static struct needs needed_libraries(const struct elf_file *file)
{
    struct needs found = {0};
    uint64_t table, size;
    if (!elf_dynamic_value(file, DT_STRTAB, &table) || !elf_dynamic_value(file, DT_STRSZ, &size))
        return found;
    const char *strings = (const char *)elf_bytes_at(file, table, size);
    GElf_Phdr p;
    for (unsigned i = 0; strings && elf_program_header(file, i, &p); i++) {
        const uint8_t *bytes =
            p.p_type == PT_DYNAMIC ? elf_bytes_at(file, p.p_vaddr, p.p_filesz) : NULL;
        for (uint64_t at = 0; bytes && at + sizeof(Elf64_Dyn) <= p.p_filesz;
             at += sizeof(Elf64_Dyn)) {
            Elf64_Dyn d;
            memcpy(&d, bytes + at, sizeof d);
            if (d.d_tag == DT_NULL)
                break;
            uint64_t name = d.d_un.d_val;
            if (d.d_tag != DT_NEEDED || name >= size || !memchr(strings + name, '\0', size - name))
                continue;
            found.signs |= signs_of_library(strings + name);
            found.gmp_or_ffi |= strncmp(strings + name, "libgmp.so", 9) == 0 ||
                                strncmp(strings + name, "libffi.so", 9) == 0;
        }
    }
    return found;
}

static uint32_t defined_symbols(const struct elf_file *file)
{
    uint32_t seen = 0;
    Elf_Scn *section = NULL;
    while ((section = elf_nextscn(file->elf, section))) {
        GElf_Shdr h;
        if (!gelf_getshdr(section, &h) || h.sh_entsize != sizeof(Elf64_Sym) ||
            (h.sh_type != SHT_DYNSYM && h.sh_type != SHT_SYMTAB))
            continue;
        Elf_Data *data = elf_section_data(section);
        size_t count = data ? data->d_size / sizeof(Elf64_Sym) : 0;
        for (size_t i = 1; i < count; i++) {
            GElf_Sym symbol;
            const char *name = gelf_getsym(data, (int)i, &symbol) && symbol.st_shndx != SHN_UNDEF
                                   ? elf_strptr(file->elf, h.sh_link, symbol.st_name)
                                   : NULL;
            if (name)
                seen |= signs_of_symbol(name);
        }
    }
    return seen;
}

static bool is_haskell_text_in(const struct elf_file *file, uint64_t address, uint64_t size)
{
    static const char text[] = "haskell.org/ghc/reportabug";
    const uint8_t *bytes = elf_bytes_at(file, address, size);
    return bytes && memmem(bytes, size, text, sizeof text - 1);
}

/* A Haskell program that was stripped has only its texts: its runtime says where to report bugs.
 * They are in .rodata, where there are sections: to look at all of cc1 would take 8 ms. */
static bool has_haskell_text(const struct elf_file *file)
{
    GElf_Shdr rodata;
    if (elf_section(file, ".rodata", &rodata))
        return is_haskell_text_in(file, rodata.sh_addr, rodata.sh_size);
    GElf_Phdr p;
    for (unsigned i = 0; elf_program_header(file, i, &p); i++)
        if (p.p_type == PT_LOAD && is_haskell_text_in(file, p.p_vaddr, p.p_filesz))
            return true;
    return false;
}

/* The path of the dynamic linker; "" for a program without. */
static const char *loader_of(const struct elf_file *file)
{
    GElf_Phdr p;
    for (unsigned i = 0; elf_program_header(file, i, &p); i++) {
        const uint8_t *bytes =
            p.p_type == PT_INTERP ? elf_bytes_at(file, p.p_vaddr, p.p_filesz) : NULL;
        if (bytes && memchr(bytes, '\0', p.p_filesz))
            return (const char *)bytes;
    }
    return "";
}

static const struct sign *first_sign(uint32_t seen, enum program_kind kind)
{
    for (unsigned i = 0; i < SIGN_COUNT; i++)
        if ((seen >> i & 1) && signs[i].kind == kind)
            return &signs[i];
    return NULL;
}

uint32_t program_traits(const struct elf_file *file)
{
    uint32_t seen = defined_symbols(file), traits = 0;
    for (unsigned i = 0; i < SIGN_COUNT; i++)
        if (seen >> i & 1)
            traits |= signs[i].traits;
    return traits;
}

#define ANSWER(KIND, ...)                                                                          \
    do {                                                                                           \
        struct program answer_ = {.kind = (KIND), .is_loaded_by_glibc = is_glibcs};                \
        snprintf(answer_.reason, sizeof answer_.reason, __VA_ARGS__);                              \
        return answer_;                                                                            \
    } while (0)

struct program program_of(const struct elf_file *file)
{
    const char *loader = loader_of(file);
    const char *name = strrchr(loader, '/') ? strrchr(loader, '/') + 1 : loader;
    bool is_glibcs = strcmp(name, "ld-linux-x86-64.so.2") == 0;
    struct needs needs = needed_libraries(file);
    uint32_t seen = needs.signs | defined_symbols(file);
    const struct sign *sanitizer = first_sign(seen, PROGRAM_SANITIZED);
    if (sanitizer)
        ANSWER(PROGRAM_SANITIZED, "is built with %s, which takes over memory and signals",
               sanitizer->what);
    if (go_is_go(file))
        ANSWER(PROGRAM_GO, "is a Go program: Go moves its stacks, and walks them itself");
    if (strncmp(name, "ld-musl", 7) == 0)
        ANSWER(PROGRAM_MUSL, "is linked with musl, not with glibc");
    if (!*name)
        ANSWER(PROGRAM_STATIC, "is statically linked: nothing can be loaded into it");
    if (!is_glibcs)
        ANSWER(PROGRAM_OTHER_LOADER, "is loaded by %.80s, which is not glibc's", name);
    if (first_sign(seen, PROGRAM_OCAML))
        ANSWER(PROGRAM_OCAML, "is a native OCaml program: OCaml walks its stacks itself");
    if (first_sign(seen, PROGRAM_HASKELL) || (needs.gmp_or_ffi && has_haskell_text(file)))
        ANSWER(PROGRAM_HASKELL, "is a Haskell program: its calls are not on the machine's stack");
    ANSWER(PROGRAM_ORDINARY, "is dynamically linked, with glibc");
}
