#include "map/entries.h"

#include "base/search.h"

#include <string.h>

struct finder {
    const struct elf_file *file;
    const struct cfi *cfi;
    struct entries *out;
};

/* Is the offset in code, and outside every FDE? They are sorted by start. */
static bool is_uncovered(const struct finder *f, uint64_t address)
{
    if (!elf_code_at(f->file, address))
        return false;
    uint32_t offset = (uint32_t)(address - f->file->base);
    size_t i;
    SEARCH(i, f->cfi->fdes.count, f->cfi->fdes.items[i].start <= offset);
    return !i || offset >= f->cfi->fdes.items[i - 1].end;
}

static void take(struct finder *f, uint64_t address)
{
    if (is_uncovered(f, address))
        vec_push(&f->out->offsets, (uint32_t)(address - f->file->base));
}

/* Functions whose address is taken: what relocations point at, and the arrays of constructors. */
static void take_addresses(struct finder *f)
{
    uint64_t at, size, address;
    static const int64_t tags[] = {DT_INIT, DT_FINI};
    for (unsigned i = 0; i < 2; i++)
        if (elf_dynamic_value(f->file, tags[i], &address))
            take(f, address);
    if (elf_dynamic_value(f->file, DT_RELA, &at) && elf_dynamic_value(f->file, DT_RELASZ, &size)) {
        const uint8_t *bytes = elf_bytes_at(f->file, at, size);
        for (uint64_t i = 0; bytes && i + sizeof(Elf64_Rela) <= size; i += sizeof(Elf64_Rela)) {
            Elf64_Rela r;
            memcpy(&r, bytes + i, sizeof r);
            if (ELF64_R_TYPE(r.r_info) == R_X86_64_RELATIVE)
                take(f, (uint64_t)r.r_addend);
        }
    }
    static const char *const arrays[] = {".init_array", ".fini_array", ".preinit_array"};
    for (unsigned k = 0; k < 3; k++) {
        Elf_Data *data = elf_section_data(elf_section(f->file, arrays[k], NULL));
        for (size_t i = 0; data && i + 8 <= data->d_size; i += 8) {
            memcpy(&address, (const uint8_t *)data->d_buf + i, sizeof address);
            take(f, address);
        }
    }
}

/* Bytes that only look like a reference rarely lead to the start of something: the code before it
 * must have ended. */
static void take_target(struct finder *f, uint64_t target)
{
    const struct code_range *there = elf_code_at(f->file, target);
    if (!there)
        return;
    uint8_t before = target > there->start ? there->bytes[target - there->start - 1] : 0x90;
    if (target % 16 == 0 || before == 0xc3 || before == 0x90 || before == 0xcc)
        take(f, target);
}

/* How many bytes the reference to code at `b` has before its 4 bytes of distance; 0: none there. */
static unsigned reference_prefix(const uint8_t *b, uint64_t size, bool *is_jump)
{
    *is_jump = b[0] == 0xe9 || (size > 6 && b[0] == 0x0f && (b[1] & 0xf0) == 0x80);
    if (b[0] == 0xe8 || b[0] == 0xe9)
        return 1;
    if (*is_jump)
        return 2;
    /* lea n(%rip), %reg */
    return size > 7 && (b[0] & 0xfb) == 0x48 && b[1] == 0x8d && (b[2] & 0xc7) == 0x05 ? 3 : 0;
}

/*
 * What direct calls lead to; tail calls, which are jumps from functions that are described; and
 * what `lea n(%rip), %reg` points at: that is how a program fills its tables of functions that
 * differ by processor, whose assembly is often not described. A place inside a function that is
 * taken for an entry does no harm: following it does not lead to a return with the stack as it
 * should be, and then nothing is said about it.
 */
static void take_references(struct finder *f, const struct code_range *code)
{
    uint64_t size = code->end - code->start;
    for (uint64_t i = 0; i + 5 <= size; i++) {
        bool is_jump;
        unsigned before = reference_prefix(code->bytes + i, size - i, &is_jump);
        if (!before || (is_jump && is_uncovered(f, code->start + i)))
            continue;
        int32_t relative;
        memcpy(&relative, code->bytes + i + before, sizeof relative);
        take_target(f, code->start + i + before + 4 + (uint64_t)(int64_t)relative);
    }
}

static int by_value(const void *a, const void *b)
{
    const uint32_t *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

void entries_find(const struct elf_file *file, const struct cfi *cfi,
                  const struct functions *functions, struct entries *out)
{
    struct finder f = {.file = file, .cfi = cfi, .out = out};
    for (size_t i = 0; i < functions->items.count; i++) {
        const struct map_function *fn = &functions->items.items[i];
        if (!(fn->flags & (FUNCTION_FRAGMENT | FUNCTION_LABEL)))
            take(&f, file->base + fn->start);
    }
    take_addresses(&f);
    for (size_t i = 0; i < file->code.count; i++)
        take_references(&f, &file->code.items[i]);
    if (!out->offsets.count)
        return;
    qsort(out->offsets.items, out->offsets.count, sizeof *out->offsets.items, by_value);
    size_t kept = 1;
    for (size_t i = 1; i < out->offsets.count; i++)
        if (out->offsets.items[i] != out->offsets.items[kept - 1])
            out->offsets.items[kept++] = out->offsets.items[i];
    out->offsets.count = kept;
}

void entries_free(struct entries *entries)
{
    vec_free(&entries->offsets);
}

size_t entries_from(const struct entries *entries, uint32_t offset)
{
    size_t i;
    SEARCH(i, entries->offsets.count, entries->offsets.items[i] < offset);
    return i;
}
