#include "elf/elf_file.h"

#include "base/search.h"

#include <errno.h>
#include <string.h>

static int check_header(struct elf_file *f, struct ct_error *err)
{
    const uint8_t *b = f->file.bytes;
    if (f->file.size < SELFMAG || memcmp(b, ELFMAG, SELFMAG) != 0)
        return ct_fail(err, "%s: is not an ELF file", f->path);
    if (f->file.size < sizeof(Elf64_Ehdr))
        return ct_fail(err, "%s: is truncated: %zu bytes do not hold an ELF header", f->path,
                       f->file.size);
    if (b[EI_CLASS] == ELFCLASS32)
        return ct_fail(err, "%s: is a 32-bit program; calltrail handles 64-bit x86-64 only",
                       f->path);
    if (b[EI_CLASS] != ELFCLASS64 || b[EI_DATA] != ELFDATA2LSB || b[EI_VERSION] != EV_CURRENT)
        return ct_fail(err, "%s: is not a 64-bit little-endian ELF file", f->path);
    const Elf64_Ehdr *h = (const Elf64_Ehdr *)b;
    if (h->e_machine != EM_X86_64)
        return ct_fail(err, "%s: is for another machine (ELF machine %u); calltrail handles x86-64",
                       f->path, h->e_machine);
    if (h->e_type == ET_REL)
        return ct_fail(err, "%s: is an object file that is not linked yet", f->path);
    if (h->e_type == ET_CORE)
        return ct_fail(err, "%s: is a core dump, not a program or a library", f->path);
    if (h->e_type != ET_EXEC && h->e_type != ET_DYN)
        return ct_fail(err, "%s: is neither a program nor a shared object (ELF type %u)", f->path,
                       h->e_type);
    if (h->e_phentsize != sizeof(Elf64_Phdr) || h->e_phnum == 0)
        return ct_fail(err, "%s: has no usable program headers", f->path);
    if (h->e_phoff > f->file.size ||
        (uint64_t)h->e_phnum * sizeof(Elf64_Phdr) > f->file.size - h->e_phoff)
        return ct_fail(err, "%s: is truncated: the program headers lie past its end", f->path);
    return CT_OK;
}

/* Program headers are copied out: in a hostile file they need not be aligned. */
bool elf_program_header(const struct elf_file *f, unsigned i, GElf_Phdr *out)
{
    if (i >= f->header.e_phnum)
        return false;
    memcpy(out, f->file.bytes + f->header.e_phoff + (size_t)i * sizeof *out, sizeof *out);
    return true;
}

/* What a segment has both in the file and in memory: a hostile one may say anything. */
static uint64_t loaded_bytes(const GElf_Phdr *p)
{
    if (p->p_type != PT_LOAD)
        return 0;
    return p->p_filesz < p->p_memsz ? p->p_filesz : p->p_memsz;
}

const uint8_t *elf_bytes_at(const struct elf_file *f, uint64_t address, uint64_t size)
{
    GElf_Phdr p;
    for (unsigned i = 0; elf_program_header(f, i, &p); i++) {
        uint64_t loaded = loaded_bytes(&p);
        if (address < p.p_vaddr || address - p.p_vaddr >= loaded)
            continue;
        uint64_t in = address - p.p_vaddr;
        if (size > loaded - in || p.p_offset > f->file.size || in > f->file.size - p.p_offset ||
            size > f->file.size - p.p_offset - in)
            return NULL;
        return f->file.bytes + p.p_offset + in;
    }
    return NULL;
}

static int measure_segments(struct elf_file *f, struct ct_error *err)
{
    uint64_t low = UINT64_MAX, high = 0;
    bool has_code = false;
    GElf_Phdr p;
    for (unsigned i = 0; elf_program_header(f, i, &p); i++) {
        if (p.p_type != PT_LOAD || p.p_memsz == 0)
            continue;
        if (p.p_vaddr + p.p_memsz < p.p_vaddr)
            return ct_fail(err, "%s: is damaged: segment %u wraps around", f->path, i);
        if (p.p_vaddr < low)
            low = p.p_vaddr;
        if (p.p_vaddr + p.p_memsz > high)
            high = p.p_vaddr + p.p_memsz;
        if (!(p.p_flags & PF_X))
            continue;
        has_code = true;
        if (p.p_offset > f->file.size || p.p_filesz > f->file.size - p.p_offset)
            return ct_fail(err,
                           "%s: is truncated: its code lies past its end (is it a separate debug "
                           "file?)",
                           f->path);
    }
    if (!has_code)
        return ct_fail(err, "%s: has no executable code", f->path);
    f->base = page_start(low);
    f->span = high - f->base;
    if (f->span > UINT32_MAX)
        return ct_fail(err, "%s: spans more than 4 GB of addresses", f->path);
    return CT_OK;
}

static int by_start(const void *a, const void *b)
{
    const struct code_range *x = a, *y = b;
    return x->start < y->start ? -1 : x->start > y->start;
}

/* Executable sections or, in a file without section headers, executable segments. */
static int collect_code(struct elf_file *f, struct ct_error *err)
{
    size_t names = 0;
    bool nobits = false;
    Elf_Scn *section = NULL;
    if (elf_getshdrstrndx(f->elf, &names) == 0) {
        while ((section = elf_nextscn(f->elf, section))) {
            GElf_Shdr h;
            if (!gelf_getshdr(section, &h) || !(h.sh_flags & SHF_EXECINSTR) || !h.sh_size)
                continue;
            if (h.sh_type == SHT_NOBITS) {
                nobits = true;
                continue;
            }
            const uint8_t *bytes = elf_bytes_at(f, h.sh_addr, h.sh_size);
            const char *name = elf_strptr(f->elf, names, h.sh_name);
            if (bytes)
                vec_push(&f->code, (struct code_range){h.sh_addr, h.sh_addr + h.sh_size, bytes,
                                                       name ? name : ""});
        }
    }
    if (!f->code.count && nobits)
        return ct_fail(err, "%s: is a separate debug file: it holds no code", f->path);
    GElf_Phdr p;
    for (unsigned i = 0; !f->header.e_shnum && elf_program_header(f, i, &p); i++) {
        if ((p.p_flags & PF_X) && loaded_bytes(&p))
            vec_push(&f->code, (struct code_range){p.p_vaddr, p.p_vaddr + loaded_bytes(&p),
                                                   f->file.bytes + p.p_offset, ""});
    }
    if (!f->code.count)
        return ct_fail(err, "%s: has no executable code in its file", f->path);
    qsort(f->code.items, f->code.count, sizeof *f->code.items, by_start);
    size_t kept = 1;
    for (size_t i = 1; i < f->code.count; i++) {
        struct code_range r = f->code.items[i];
        uint64_t taken = f->code.items[kept - 1].end;
        if (r.end <= taken)
            continue;
        if (r.start < taken) {
            r.bytes += taken - r.start;
            r.start = taken;
        }
        f->code.items[kept++] = r;
    }
    f->code.count = kept;
    return CT_OK;
}

/* A note by name and type, of those that are loaded: these survive strip and need no section
   headers. NULL when there is none. */
static const uint8_t *find_note(const struct elf_file *f, const char *name, uint32_t type,
                                uint32_t *size)
{
    GElf_Phdr p;
    for (unsigned i = 0; elf_program_header(f, i, &p); i++) {
        if (p.p_type != PT_NOTE || p.p_offset > f->file.size ||
            p.p_filesz > f->file.size - p.p_offset)
            continue;
        const uint8_t *at = f->file.bytes + p.p_offset, *end = at + p.p_filesz;
        uint64_t align = p.p_align == 8 ? 8 : 4;
        while ((size_t)(end - at) >= sizeof(Elf64_Nhdr)) {
            Elf64_Nhdr note;
            memcpy(&note, at, sizeof note);
            uint64_t name_at = sizeof note;
            uint64_t desc = (name_at + note.n_namesz + align - 1) & ~(align - 1);
            uint64_t next = (desc + note.n_descsz + align - 1) & ~(align - 1);
            if (desc + note.n_descsz > (uint64_t)(end - at))
                break;
            if (note.n_type == type && note.n_namesz >= strlen(name) + 1 &&
                memcmp(at + name_at, name, strlen(name) + 1) == 0) {
                *size = note.n_descsz;
                return at + desc;
            }
            if (next >= (uint64_t)(end - at))
                break;
            at += next;
        }
    }
    return NULL;
}

bool elf_has_note(const struct elf_file *f, const char *name, uint32_t type)
{
    uint32_t size;
    return find_note(f, name, type, &size) != NULL;
}

static void find_build_id(struct elf_file *f)
{
    uint32_t size;
    const uint8_t *id = find_note(f, "GNU", NT_GNU_BUILD_ID, &size);
    if (!id || !size || size > BUILD_ID_MAX)
        return;
    f->build_id_size = size;
    memcpy(f->build_id, id, size);
}

int elf_open_identity(const char *path, struct elf_file *f, struct ct_error *err)
{
    *f = (struct elf_file){0};
    CT_TRY(file_map(path, &f->file, err));
    f->path = must_strdup(path);
    if (check_header(f, err) != CT_OK) {
        elf_close(f);
        return CT_ERROR;
    }
    memcpy(&f->header, f->file.bytes, sizeof f->header);
    elf_version(EV_CURRENT);
    f->elf = elf_memory((char *)f->file.bytes, f->file.size);
    if (!f->elf || elf_kind(f->elf) != ELF_K_ELF || !gelf_getehdr(f->elf, &f->header)) {
        int status = ct_fail(err, "%s: is damaged: %s", path, elf_errmsg(-1));
        elf_close(f);
        return status;
    }
    find_build_id(f);
    return CT_OK;
}

int elf_open(const char *path, struct elf_file *f, struct ct_error *err)
{
    CT_TRY(elf_open_identity(path, f, err));
    return elf_complete(f, err);
}

int elf_complete(struct elf_file *f, struct ct_error *err)
{
    int status = measure_segments(f, err);
    if (status == CT_OK)
        status = collect_code(f, err);
    if (status != CT_OK)
        elf_close(f);
    return status;
}

void elf_close(struct elf_file *f)
{
    if (f->elf)
        elf_end(f->elf);
    vec_free(&f->code);
    file_unmap(&f->file);
    free(f->path);
    *f = (struct elf_file){0};
}

Elf_Scn *elf_section(const struct elf_file *f, const char *name, GElf_Shdr *header)
{
    size_t names = 0;
    Elf_Scn *section = NULL;
    GElf_Shdr h;
    if (elf_getshdrstrndx(f->elf, &names) != 0)
        return NULL;
    while ((section = elf_nextscn(f->elf, section))) {
        if (!gelf_getshdr(section, &h))
            continue;
        const char *found = elf_strptr(f->elf, names, h.sh_name);
        if (found && strcmp(found, name) == 0) {
            if (header)
                *header = h;
            return section;
        }
    }
    return NULL;
}

/* A compressed section claims its size; more than this per byte is not compression but an attack.
 */
enum { MOST_INFLATION = 1100 };

Elf_Data *elf_section_data(Elf_Scn *section)
{
    GElf_Shdr h;
    if (!section || !gelf_getshdr(section, &h) || h.sh_type == SHT_NOBITS)
        return NULL;
    if (h.sh_flags & SHF_COMPRESSED) {
        GElf_Chdr c;
        if (!gelf_getchdr(section, &c) || c.ch_size / MOST_INFLATION > h.sh_size ||
            elf_compress(section, 0, 0) < 0)
            return NULL;
    }
    Elf_Data *data = elf_getdata(section, NULL);
    return data && data->d_buf && data->d_size ? data : NULL;
}

/*
 * Without section headers: .eh_frame_hdr says where .eh_frame begins; it runs to a zero length or
 * to the end of its segment.
 */
static bool eh_frame_by_segment(const struct elf_file *f, struct eh_frame *out)
{
    GElf_Phdr p;
    for (unsigned i = 0; elf_program_header(f, i, &p); i++) {
        if (p.p_type != PT_GNU_EH_FRAME)
            continue;
        const uint8_t *header = elf_bytes_at(f, p.p_vaddr, 8);
        int32_t relative;
        if (!header || header[0] != 1 || header[1] != 0x1b) /* DW_EH_PE_pcrel | DW_EH_PE_sdata4 */
            return false;
        memcpy(&relative, header + 4, sizeof relative);
        out->address = p.p_vaddr + 4 + (uint64_t)(int64_t)relative;
        GElf_Phdr load;
        for (unsigned k = 0; elf_program_header(f, k, &load); k++) {
            if (load.p_type != PT_LOAD || out->address < load.p_vaddr ||
                out->address - load.p_vaddr >= load.p_filesz)
                continue;
            uint64_t size = load.p_filesz - (out->address - load.p_vaddr);
            const uint8_t *bytes = elf_bytes_at(f, out->address, size);
            if (!bytes)
                return false;
            out->data = (Elf_Data){.d_buf = (void *)bytes,
                                   .d_size = size,
                                   .d_type = ELF_T_BYTE,
                                   .d_version = EV_CURRENT};
            return true;
        }
    }
    return false;
}

bool elf_eh_frame(const struct elf_file *f, struct eh_frame *out)
{
    GElf_Shdr h;
    Elf_Scn *section = elf_section(f, ".eh_frame", &h);
    if (!section)
        return eh_frame_by_segment(f, out);
    Elf_Data *data = elf_section_data(section);
    if (!data)
        return false;
    out->data = *data;
    out->address = h.sh_addr;
    return true;
}

bool elf_dynamic_value(const struct elf_file *f, int64_t tag, uint64_t *value)
{
    GElf_Phdr p;
    for (unsigned i = 0; elf_program_header(f, i, &p); i++) {
        if (p.p_type != PT_DYNAMIC)
            continue;
        for (uint64_t at = 0; at + sizeof(Elf64_Dyn) <= p.p_filesz; at += sizeof(Elf64_Dyn)) {
            const uint8_t *bytes = elf_bytes_at(f, p.p_vaddr + at, sizeof(Elf64_Dyn));
            if (!bytes)
                return false;
            Elf64_Dyn d;
            memcpy(&d, bytes, sizeof d);
            if (d.d_tag == DT_NULL)
                return false;
            if (d.d_tag == tag) {
                *value = d.d_un.d_val;
                return true;
            }
        }
    }
    return false;
}

/* The first relative relocation of a place, or to a place. */
static bool find_relative(const struct elf_file *f, bool by_place, uint64_t wanted,
                          Elf64_Rela *found)
{
    uint64_t table, size;
    if (!elf_dynamic_value(f, DT_RELA, &table) || !elf_dynamic_value(f, DT_RELASZ, &size))
        return false;
    const uint8_t *bytes = elf_bytes_at(f, table, size);
    for (uint64_t at = 0; bytes && at + sizeof *found <= size; at += sizeof *found) {
        memcpy(found, bytes + at, sizeof *found);
        if (ELF64_R_TYPE(found->r_info) == R_X86_64_RELATIVE &&
            (by_place ? found->r_offset : (uint64_t)found->r_addend) == wanted)
            return true;
    }
    return false;
}

bool elf_relocated_word(const struct elf_file *f, uint64_t address, uint64_t *value)
{
    Elf64_Rela r;
    bool found = find_relative(f, true, address, &r);
    if (found)
        *value = (uint64_t)r.r_addend;
    return found;
}

bool elf_relocation_to(const struct elf_file *f, uint64_t value, uint64_t *address)
{
    Elf64_Rela r;
    bool found = find_relative(f, false, value, &r);
    if (found)
        *address = r.r_offset;
    return found;
}

uint64_t elf_program_entry(const struct elf_file *f)
{
    enum { FLAG_PIE = 0x08000000 }; /* DF_1_PIE */
    GElf_Phdr p;
    uint64_t flags, name, strings;
    if (f->header.e_type == ET_EXEC)
        return f->header.e_entry;
    for (unsigned i = 0; elf_program_header(f, i, &p); i++)
        if (p.p_type == PT_INTERP)
            return f->header.e_entry;
    if (elf_dynamic_value(f, DT_FLAGS_1, &flags) && (flags & FLAG_PIE))
        return f->header.e_entry;
    /* The dynamic linker is started by the kernel, and looks like a library otherwise. */
    if (elf_dynamic_value(f, DT_SONAME, &name) && elf_dynamic_value(f, DT_STRTAB, &strings)) {
        const uint8_t *text = elf_bytes_at(f, strings + name, 3);
        if (text && memcmp(text, "ld-", 3) == 0)
            return f->header.e_entry;
    }
    return 0;
}

bool elf_is_plt(const struct code_range *code)
{
    return code && strncmp(code->section, ".plt", 4) == 0;
}

const struct code_range *elf_code_at(const struct elf_file *f, uint64_t address)
{
    size_t i;
    SEARCH(i, f->code.count, f->code.items[i].end <= address);
    if (i < f->code.count && address >= f->code.items[i].start)
        return &f->code.items[i];
    return NULL;
}
