#include "map/unmarkable.h"

#include "map/map.h"

#include <Zydis/Zydis.h>
#include <stdlib.h>
#include <string.h>

enum found { NOT_FOUND, JUMPS_AWAY, READS };
enum { MOST_ROUNDS = 16, ESCAPES = 4 /* modrm.rm or sib.base: rsp, or a SIB byte */, RBP = 5 };

struct jump {
    uint32_t from; /* index of the FDE */
    uint32_t to;   /* offset of the target */
};

struct finder {
    const struct elf_file *file;
    const struct cfi *cfi;
    const struct map_tables *tables;
    ZydisDecoder decoder;
    uint8_t *found;         /* for each FDE */
    VEC(struct jump) jumps; /* direct ones out of an FDE */
};

static bool is_plt(const struct code_range *code)
{
    return code && strncmp(code->section, ".plt", 4) == 0;
}

/* The register that a memory operand of the instruction is counted from, with nothing added. */
static uint8_t base_of(const ZydisDecodedInstruction *i)
{
    if (!(i->attributes & ZYDIS_ATTRIB_HAS_MODRM) || i->raw.modrm.mod == 3 || i->raw.rex.B)
        return X86_NONE;
    unsigned base = i->raw.modrm.rm;
    if (base == ESCAPES) {
        if (i->raw.sib.index != 4 || i->raw.rex.X) /* 4: no index */
            return X86_NONE;
        base = i->raw.sib.base;
    }
    if (base == ESCAPES)
        return X86_RSP;
    return base == RBP && i->raw.modrm.mod != 0 ? X86_RBP : X86_NONE;
}

/* Is the slot of the return address, just below the CFA, an operand? */
static bool touches_slot(const ZydisDecodedInstruction *i, const struct map_special *rule)
{
    if (rule->cfa_kind != CFA_REG || i->mnemonic == ZYDIS_MNEMONIC_NOP)
        return false;
    if (i->mnemonic == ZYDIS_MNEMONIC_POP && rule->reg == X86_RSP && rule->offset == 8)
        return true;
    if (base_of(i) != rule->reg)
        return false;
    int64_t from_cfa = i->raw.disp.value - rule->offset;
    return from_cfa >= -8 && from_cfa < 0;
}

/* Does this jump lead out of the module, as a PLT entry does: jmp *name@GOT(%rip)? */
static bool leaves_module(const ZydisDecodedInstruction *i)
{
    return i->mnemonic == ZYDIS_MNEMONIC_JMP && (i->attributes & ZYDIS_ATTRIB_HAS_MODRM) &&
           i->raw.modrm.mod == 0 && i->raw.modrm.rm == RBP;
}

static bool is_direct_jump(const ZydisDecodedInstruction *i)
{
    return i->meta.branch_type != ZYDIS_BRANCH_TYPE_NONE && i->mnemonic != ZYDIS_MNEMONIC_CALL &&
           i->raw.imm[0].is_relative;
}

static void look_at_fde(struct finder *f, size_t index)
{
    const struct fde *fde = &f->cfi->fdes.items[index];
    uint64_t base = f->file->base;
    const struct code_range *code = elf_code_at(f->file, base + fde->start);
    if (!code || fde->end - fde->start > code->end - (base + fde->start))
        return;
    const uint8_t *bytes = code->bytes + (base + fde->start - code->start);
    uint32_t row_end = 0;
    struct map_special rule = {0};
    for (uint32_t pc = fde->start; pc < fde->end;) {
        ZydisDecodedInstruction i;
        if (!ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(
                &f->decoder, NULL, bytes + (pc - fde->start), fde->end - pc, &i)))
            return;
        if (pc >= row_end) { /* rows are long: look each up once */
            int64_t row = map_find_row(f->tables, pc);
            rule = map_spell_rule(f->tables, row < 0 ? UINT32_MAX : (uint32_t)row);
            row_end = row >= 0 && (uint32_t)row + 1 < f->tables->row_count
                          ? f->tables->rows[row + 1].pc
                          : fde->end;
        }
        pc += i.length;
        if (touches_slot(&i, &rule)) {
            f->found[index] = READS;
            return;
        }
        if (leaves_module(&i))
            f->found[index] = JUMPS_AWAY;
        if (is_direct_jump(&i)) {
            uint32_t to = pc + (uint32_t)i.raw.imm[0].value.s;
            if (is_plt(elf_code_at(f->file, base + to)))
                f->found[index] = JUMPS_AWAY;
            else if (to < fde->start || to >= fde->end)
                vec_push(&f->jumps, (struct jump){.from = (uint32_t)index, .to = to});
        }
    }
}

/* The FDE that holds an offset; count when there is none. */
static size_t fde_at(const struct cfi *cfi, uint32_t offset)
{
    size_t low = 0, high = cfi->fdes.count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (cfi->fdes.items[middle].start <= offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low && offset < cfi->fdes.items[low - 1].end ? low - 1 : cfi->fdes.count;
}

/* Whoever ends in a jump to one of them. */
static void follow_jumps(struct finder *f)
{
    bool changed = true;
    for (unsigned round = 0; changed && round < MOST_ROUNDS; round++) {
        changed = false;
        for (size_t i = 0; i < f->jumps.count; i++) {
            const struct jump *j = &f->jumps.items[i];
            size_t to = f->found[j->from] ? f->cfi->fdes.count : fde_at(f->cfi, j->to);
            if (to < f->cfi->fdes.count && f->found[to]) {
                f->found[j->from] = JUMPS_AWAY;
                changed = true;
            }
        }
    }
}

static bool is_known_name(const char *name)
{
    static const char *const names[] = {
        "setjmp",      "_setjmp",     "sigsetjmp", "__sigsetjmp", "getcontext", "setcontext",
        "swapcontext", "makecontext", "vfork",     "__vfork",     "dlopen",     "dlmopen",
        "dlsym",       "dlvsym",      "mcount",    "_mcount",     "__fentry__"};
    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

static void add_range(struct unmarkable *out, uint64_t start, uint64_t end, bool reads)
{
    vec_push(&out->items,
             (struct map_range){.start = (uint32_t)start, .end = (uint32_t)end, .reads = reads});
}

static void add_known_names(const struct functions *functions, struct unmarkable *out)
{
    for (size_t i = 0; i < functions->items.count; i++) {
        const struct map_function *f = &functions->items.items[i];
        bool known = is_known_name(functions->strings.bytes.items + f->name);
        for (uint32_t a = 0; a < f->alias_count && !known; a++)
            known = is_known_name(functions->strings.bytes.items +
                                  functions->aliases.items[f->alias_first + a]);
        if (known)
            add_range(out, f->start, f->start + (f->size ? f->size : 1), true);
    }
}

static int by_start(const void *a, const void *b)
{
    const struct map_range *x = a, *y = b;
    return x->start < y->start ? -1 : x->start > y->start;
}

static void join_overlapping(struct unmarkable *out)
{
    size_t n = 0;
    if (out->items.count)
        qsort(out->items.items, out->items.count, sizeof *out->items.items, by_start);
    for (size_t i = 0; i < out->items.count; i++) {
        struct map_range r = out->items.items[i];
        struct map_range *last = n ? &out->items.items[n - 1] : NULL;
        if (last && r.start < last->end) { /* two descriptions of one */
            last->end = r.end > last->end ? r.end : last->end;
            last->reads |= r.reads;
        } else {
            out->items.items[n++] = r;
        }
    }
    out->items.count = n;
}

void unmarkable_find(const struct elf_file *file, const struct cfi *cfi,
                     const struct functions *functions, const struct map_tables *tables,
                     struct unmarkable *out)
{
    struct finder f = {.file = file, .cfi = cfi, .tables = tables};
    size_t count = cfi->fdes.count;
    f.found = must_calloc(count + 1, 1);
    ZydisDecoderInit(&f.decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    for (size_t i = 0; i < count; i++)
        look_at_fde(&f, i);
    follow_jumps(&f);
    for (size_t i = 0; i < count; i++)
        if (f.found[i])
            add_range(out, cfi->fdes.items[i].start, cfi->fdes.items[i].end, f.found[i] == READS);
    for (size_t i = 0; i < file->code.count; i++)
        if (is_plt(&file->code.items[i]))
            add_range(out, file->code.items[i].start - file->base,
                      file->code.items[i].end - file->base, false);
    add_known_names(functions, out);
    join_overlapping(out);
    free(f.found);
    vec_free(&f.jumps);
}
