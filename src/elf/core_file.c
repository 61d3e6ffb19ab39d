#include "elf/core_file.h"

#include <string.h>
#include <sys/procfs.h>

enum { REG_BP_INDEX = 4, REG_PC_INDEX = 16, REG_SP_INDEX = 19 };

static void take_thread(struct core_file *c, const void *bytes, size_t size)
{
    struct elf_prstatus status;
    if (size < sizeof status)
        return;
    memcpy(&status, bytes, sizeof status);
    vec_push(&c->threads, (struct core_thread){.tid = (uint32_t)status.pr_pid,
                                               .pc = status.pr_reg[REG_PC_INDEX],
                                               .sp = status.pr_reg[REG_SP_INDEX],
                                               .bp = status.pr_reg[REG_BP_INDEX]});
}

/* A count, the size of a page, then three numbers for each mapping, then the paths. */
static void take_mappings(struct core_file *c, const char *bytes, size_t size)
{
    enum { WORD = 8, WORDS = 3 };
    uint64_t count = 0, page = 0;
    if (size < 2 * WORD)
        return;
    memcpy(&count, bytes, WORD);
    memcpy(&page, bytes + WORD, WORD);
    if (count > (size - 2 * WORD) / (WORDS * WORD))
        return;
    const char *path = bytes + 2 * WORD + count * WORDS * WORD, *end = bytes + size;
    for (uint64_t i = 0; i < count; i++) {
        const char *zero = memchr(path, 0, (size_t)(end - path));
        uint64_t words[WORDS];
        if (!zero)
            return;
        memcpy(words, bytes + 2 * WORD + i * sizeof words, sizeof words);
        vec_push(&c->mappings, (struct core_mapping){words[0], words[1], words[2] * page, path});
        path = zero + 1;
    }
}

static void take_notes(struct core_file *c, const GElf_Phdr *h)
{
    GElf_Nhdr note;
    size_t name, content, at = 0;
    if (h->p_offset > c->file.size || h->p_filesz > c->file.size - h->p_offset)
        return;
    Elf_Data *data = elf_getdata_rawchunk(c->elf, (int64_t)h->p_offset, h->p_filesz, ELF_T_NHDR);
    while (data && (at = gelf_getnote(data, at, &note, &name, &content)) != 0) {
        const char *bytes = (const char *)data->d_buf;
        if (note.n_type == NT_PRSTATUS)
            take_thread(c, bytes + content, note.n_descsz);
        else if (note.n_type == NT_FILE)
            take_mappings(c, bytes + content, note.n_descsz);
    }
}

int core_open(const char *path, struct core_file *out, struct ct_error *err)
{
    GElf_Ehdr header;
    GElf_Phdr h;
    size_t count = 0;
    *out = (struct core_file){0};
    CT_TRY(file_map(path, &out->file, err));
    elf_version(EV_CURRENT);
    if (out->file.bytes)
        out->elf = elf_memory((char *)(uintptr_t)out->file.bytes, out->file.size);
    if (!out->elf || !gelf_getehdr(out->elf, &header) || header.e_type != ET_CORE ||
        header.e_machine != EM_X86_64 || header.e_ident[EI_CLASS] != ELFCLASS64) {
        core_close(out);
        return ct_fail(err, "%s: is not a core file of an x86-64 program", path);
    }
    elf_getphdrnum(out->elf, &count);
    for (size_t i = 0; i < count; i++)
        if (gelf_getphdr(out->elf, (int)i, &h) && h.p_type == PT_NOTE)
            take_notes(out, &h);
    if (out->threads.count)
        return CT_OK;
    core_close(out);
    return ct_fail(err, "%s: has no registers of a thread", path);
}

void core_close(struct core_file *c)
{
    if (c->elf)
        elf_end(c->elf);
    vec_free(&c->threads);
    vec_free(&c->mappings);
    file_unmap(&c->file);
}

const uint8_t *core_memory(const struct core_file *c, uint64_t address, uint64_t *bytes)
{
    size_t count = 0;
    GElf_Phdr h;
    elf_getphdrnum(c->elf, &count);
    for (size_t i = 0; i < count; i++) {
        if (!gelf_getphdr(c->elf, (int)i, &h) || h.p_type != PT_LOAD || address < h.p_vaddr ||
            address - h.p_vaddr >= h.p_filesz || h.p_offset > c->file.size ||
            h.p_filesz > c->file.size - h.p_offset)
            continue;
        *bytes = h.p_filesz - (address - h.p_vaddr);
        return c->file.bytes + h.p_offset + (address - h.p_vaddr);
    }
    return NULL;
}
