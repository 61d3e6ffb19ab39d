#include "elf/symbols.h"

#include "base/search.h"
#include "elf/go_table.h"
#include "elf/start_code.h"

#include <lzma.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

enum { MINIDEBUG_MAX_BYTES = 1 << 28 };

static bool wanted(const GElf_Sym *sym, enum symbol_kind *kind)
{
    if (sym->st_shndx == SHN_UNDEF || sym->st_shndx == SHN_ABS || sym->st_shndx == SHN_COMMON)
        return false;
    switch (GELF_ST_TYPE(sym->st_info)) {
    case STT_FUNC:
        *kind = SYMBOL_FUNCTION;
        return true;
    case STT_GNU_IFUNC:
        *kind = SYMBOL_IFUNC;
        return true;
    case STT_NOTYPE: /* labels of hand-written assembly */
        *kind = SYMBOL_LABEL;
        return true;
    default:
        return false;
    }
}

static uint8_t rank_of(const GElf_Sym *sym)
{
    switch (GELF_ST_BIND(sym->st_info)) {
    case STB_GLOBAL:
    case STB_GNU_UNIQUE:
        return 0;
    case STB_WEAK:
        return 1;
    default:
        return 2;
    }
}

/* Reads all symbol tables of one type. Only addresses in the module's code are kept. */
static bool read_tables(const struct elf_file *module, Elf *elf, GElf_Word type,
                        struct elf_symbols *out)
{
    size_t before = out->items.count;
    uint32_t scope = 0;
    Elf_Scn *section = NULL;
    while ((section = elf_nextscn(elf, section))) {
        GElf_Shdr h;
        if (!gelf_getshdr(section, &h) || h.sh_type != type || h.sh_entsize != sizeof(Elf64_Sym))
            continue;
        Elf_Data *data = elf_section_data(section);
        size_t count = data ? data->d_size / sizeof(Elf64_Sym) : 0;
        for (size_t i = 1; i < count; i++) {
            GElf_Sym sym;
            enum symbol_kind kind;
            if (!gelf_getsym(data, (int)i, &sym))
                break;
            if (GELF_ST_TYPE(sym.st_info) == STT_FILE)
                scope++;
            if (!wanted(&sym, &kind) || !elf_code_at(module, sym.st_value))
                continue;
            const char *name = elf_strptr(elf, h.sh_link, sym.st_name);
            if (!name || !*name)
                continue;
            uint8_t rank = rank_of(&sym);
            vec_push(&out->items, (struct elf_symbol){.address = sym.st_value,
                                                      .size = sym.st_size,
                                                      .name = name,
                                                      .scope = rank == 2 ? scope : 0,
                                                      .kind = (uint8_t)kind,
                                                      .rank = rank});
        }
    }
    return out->items.count > before;
}

static void *inflate_xz(const Elf_Data *data, size_t *size)
{
    uint64_t memory_limit = UINT64_C(1) << 27;
    size_t room = data->d_size * 8 + 4096;
    for (;;) {
        if (room > MINIDEBUG_MAX_BYTES)
            room = MINIDEBUG_MAX_BYTES;
        uint8_t *bytes = must_realloc(NULL, room, 1);
        size_t in = 0, made = 0;
        lzma_ret status = lzma_stream_buffer_decode(&memory_limit, 0, NULL, data->d_buf, &in,
                                                    data->d_size, bytes, &made, room);
        if (status == LZMA_OK) {
            *size = made;
            return bytes;
        }
        free(bytes);
        if (status != LZMA_BUF_ERROR || room == MINIDEBUG_MAX_BYTES)
            return NULL;
        room *= 2;
    }
}

static void read_minidebug(const struct elf_file *file, struct elf_symbols *out)
{
    Elf_Data *packed = elf_section_data(elf_section(file, ".gnu_debugdata", NULL));
    size_t size = 0;
    if (!packed || !(out->inflated = inflate_xz(packed, &size)))
        return;
    out->inflated_elf = elf_memory(out->inflated, size);
    if (out->inflated_elf && elf_kind(out->inflated_elf) == ELF_K_ELF &&
        read_tables(file, out->inflated_elf, SHT_SYMTAB, out))
        out->sources |= SYMBOLS_MINIDEBUG;
}

static char *existing(char *path)
{
    if (access(path, R_OK) == 0)
        return path;
    free(path);
    return NULL;
}

static const char *debug_link(const struct elf_file *file, uint32_t *checksum)
{
    Elf_Data *data = elf_section_data(elf_section(file, ".gnu_debuglink", NULL));
    if (!data)
        return NULL;
    const char *name = data->d_buf;
    size_t length = strnlen(name, data->d_size);
    size_t at = (length + 4) & ~(size_t)3;
    /* A name with a slash could lead anywhere; the format knows file names only. */
    if (length == 0 || at + 4 > data->d_size || memchr(name, '/', length))
        return NULL;
    memcpy(checksum, (const char *)data->d_buf + at, sizeof *checksum);
    return name;
}

char *elf_debug_file_of(const char *folder, const uint8_t *build_id, uint32_t size)
{
    if (size < 2 || size > BUILD_ID_MAX)
        return NULL;
    char hex[2 * BUILD_ID_MAX + 1];
    for (uint32_t i = 0; i < size; i++)
        snprintf(hex + 2 * i, 3, "%02x", build_id[i]);
    char *path = existing(must_format("%s/.build-id/%.2s/%s.debug", folder, hex, hex + 2));
    return path ? path : existing(must_format("%s/%.2s/%s.debug", folder, hex, hex + 2));
}

char *elf_find_debug_file(const struct elf_file *file)
{
    char *path = elf_debug_file_of("/usr/lib/debug", file->build_id, file->build_id_size);
    if (path)
        return path;
    uint32_t checksum;
    const char *name = debug_link(file, &checksum);
    char *real = name ? realpath(file->path, NULL) : NULL;
    char *slash = real ? strrchr(real, '/') : NULL;
    char *found = NULL;
    if (slash) {
        *slash = '\0';
        /* The link may name the file itself; that is no separate debug file. */
        if (strcmp(slash + 1, name) != 0)
            found = existing(must_format("%s/%s", real, name));
        if (!found)
            found = existing(must_format("%s/.debug/%s", real, name));
        if (!found)
            found = existing(must_format("/usr/lib/debug%s/%s", real, name));
    }
    free(real);
    return found;
}

bool elf_debug_file_belongs(const struct elf_file *debug, const struct elf_file *file)
{
    if (file->build_id_size && debug->build_id_size)
        return file->build_id_size == debug->build_id_size &&
               memcmp(file->build_id, debug->build_id, file->build_id_size) == 0;
    uint32_t expected;
    if (!debug_link(file, &expected))
        return false;
    uLong checksum = crc32_z(0, debug->file.bytes, debug->file.size);
    return checksum == expected;
}

static void read_debug_file(const struct elf_file *file, struct elf_symbols *out)
{
    char *path = elf_find_debug_file(file);
    if (!path)
        return;
    if (elf_open_identity(path, &out->debug_file, NULL) == CT_OK) {
        if (elf_debug_file_belongs(&out->debug_file, file) &&
            read_tables(file, out->debug_file.elf, SHT_SYMTAB, out))
            out->sources |= SYMBOLS_DEBUG_FILE;
    }
    free(path);
}

static int by_value(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

/* What Go calls its functions, where no symbol does. */
static void read_go_table(const struct elf_file *file, struct elf_symbols *out)
{
    struct go_table table;
    if (!go_table_find(file, &table))
        return;
    size_t count = out->items.count, before = count;
    uint64_t *named = must_calloc(count + 1, sizeof *named);
    for (size_t i = 0; i < count; i++)
        named[i] = out->items.items[i].address;
    qsort(named, count, sizeof *named, by_value);
    for (uint32_t i = 0; i < table.function_count; i++) {
        struct go_function f;
        size_t at;
        if (!go_function_at(&table, i, &f) || !f.name[0] || !elf_code_at(file, f.start))
            continue;
        SEARCH(at, count, named[at] < f.start);
        if (at < count && named[at] == f.start) /* a symbol has named it */
            continue;
        vec_push(&out->items, (struct elf_symbol){.address = f.start,
                                                  .size = go_code_end(&table, &f) - f.start,
                                                  .name = f.name,
                                                  .kind = SYMBOL_FUNCTION});
    }
    free(named);
    if (out->items.count > before)
        out->sources |= SYMBOLS_GO;
}

static void read_symbol_tables(const struct elf_file *file, struct elf_symbols *out)
{
    if (read_tables(file, file->elf, SHT_DYNSYM, out))
        out->sources |= SYMBOLS_DYNSYM;
    if (read_tables(file, file->elf, SHT_SYMTAB, out)) {
        out->sources |= SYMBOLS_SYMTAB;
        return;
    }
    read_debug_file(file, out);
    if (!(out->sources & SYMBOLS_DEBUG_FILE))
        read_minidebug(file, out);
}

/* Where no table names them: the two functions of which a program's own start says what they are.
 * Labels yield to whatever else is known. */
static void name_start(const struct elf_file *file, struct elf_symbols *out)
{
    uint64_t main_address = elf_main_address(file);
    bool start_named = !main_address, main_named = !main_address;
    for (size_t i = 0; i < out->items.count; i++) {
        start_named |= out->items.items[i].address == file->header.e_entry;
        main_named |= out->items.items[i].address == main_address;
    }
    if (!start_named)
        vec_push(&out->items, (struct elf_symbol){.address = file->header.e_entry,
                                                  .name = "_start",
                                                  .kind = SYMBOL_LABEL,
                                                  .rank = 2});
    if (!main_named)
        vec_push(&out->items,
                 (struct elf_symbol){
                     .address = main_address, .name = "main", .kind = SYMBOL_LABEL, .rank = 2});
}

void elf_read_symbols(const struct elf_file *file, struct elf_symbols *out)
{
    *out = (struct elf_symbols){0};
    read_symbol_tables(file, out);
    read_go_table(file, out);
    name_start(file, out);
}

void elf_free_symbols(struct elf_symbols *symbols)
{
    vec_free(&symbols->items);
    if (symbols->inflated_elf)
        elf_end(symbols->inflated_elf);
    free(symbols->inflated);
    if (symbols->debug_file.path)
        elf_close(&symbols->debug_file);
    *symbols = (struct elf_symbols){0};
}
