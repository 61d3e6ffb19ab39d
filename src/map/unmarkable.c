#include "map/unmarkable.h"

#include <stdlib.h>
#include <string.h>

enum found { NOT_FOUND, JUMPS_AWAY, READS };
enum { MOST_ROUNDS = 16 };

struct jump {
    uint32_t from; /* index of the FDE */
    uint32_t to;   /* offset of the target */
};

struct finding {
    uint32_t fde; /* its index */
    enum found found;
};

struct unmarkable_finder {
    const struct elf_file *file;
    const struct fde *fde; /* the current one */
    uint32_t index;
    bool in_plt;
    VEC(struct finding) findings;
    VEC(struct jump) jumps; /* direct ones out of an FDE */
};

/* Is the slot of the return address, just below the CFA, an operand? */
static bool touches_slot(const struct instruction *i, const struct map_special *rule)
{
    if (rule->cfa_kind != CFA_REG)
        return false;
    if (!i->is_plain && i->whole.mnemonic == ZYDIS_MNEMONIC_POP && rule->reg == X86_RSP &&
        rule->offset == 8)
        return true;
    if (i->base != rule->reg)
        return false;
    int64_t from_cfa = (int64_t)i->displacement - rule->offset;
    return from_cfa >= -8 && from_cfa < 0;
}

/* Does this jump lead out of the module, as a PLT entry does: jmp *name@GOT(%rip)? */
static bool leaves_module(const struct instruction *i)
{
    return !i->is_plain && i->whole.mnemonic == ZYDIS_MNEMONIC_JMP &&
           (i->whole.attributes & ZYDIS_ATTRIB_HAS_MODRM) && i->whole.raw.modrm.mod == 0 &&
           i->whole.raw.modrm.rm == 5;
}

struct unmarkable_finder *unmarkable_begin(const struct elf_file *file)
{
    struct unmarkable_finder *f = must_calloc(1, sizeof *f);
    f->file = file;
    return f;
}

void unmarkable_fde(struct unmarkable_finder *f, size_t index, const struct fde *fde,
                    const struct code_range *code)
{
    f->fde = fde;
    f->index = (uint32_t)index;
    f->in_plt = elf_is_plt(code);
}

static void find(struct unmarkable_finder *f, enum found found)
{
    size_t n = f->findings.count;
    if (n && f->findings.items[n - 1].fde == f->index)
        f->findings.items[n - 1].found = found;
    else
        vec_push(&f->findings, (struct finding){.fde = f->index, .found = found});
}

bool unmarkable_take(struct unmarkable_finder *f, const struct instruction *i,
                     const struct map_special *rule)
{
    if (touches_slot(i, rule)) {
        find(f, READS);
        return false;
    }
    if (leaves_module(i))
        find(f, JUMPS_AWAY);
    if (i->is_jump) {
        bool inside = i->target >= f->fde->start && i->target < f->fde->end;
        if (inside ? f->in_plt : elf_is_plt(elf_code_at(f->file, f->file->base + i->target)))
            find(f, JUMPS_AWAY);
        else if (!inside)
            vec_push(&f->jumps, (struct jump){.from = f->index, .to = i->target});
    }
    return true;
}

/* Functions that end in a jump to one of them. `found` is for each FDE. */
static void follow_jumps(struct unmarkable_finder *const *finders, size_t count,
                         const struct cfi *cfi, uint8_t *found)
{
    bool changed = true;
    for (unsigned round = 0; changed && round < MOST_ROUNDS; round++) {
        changed = false;
        for (size_t k = 0; k < count; k++) {
            for (size_t i = 0; i < finders[k]->jumps.count; i++) {
                const struct jump *j = &finders[k]->jumps.items[i];
                const struct fde *to = found[j->from] ? NULL : cfi_fde_at(cfi, j->to);
                if (to && found[to - cfi->fdes.items]) {
                    found[j->from] = JUMPS_AWAY;
                    changed = true;
                }
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
             (struct map_range){.start = (uint32_t)start, .end = (uint32_t)end, .value = reads});
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
            last->value |= r.value;
        } else {
            out->items.items[n++] = r;
        }
    }
    out->items.count = n;
}

void unmarkable_end(struct unmarkable_finder *const *finders, size_t count,
                    const struct elf_file *file, const struct cfi *cfi,
                    const struct functions *functions, struct unmarkable *out)
{
    uint8_t *found = must_calloc(cfi->fdes.count + 1, 1);
    for (size_t k = 0; k < count; k++)
        for (size_t i = 0; i < finders[k]->findings.count; i++)
            found[finders[k]->findings.items[i].fde] = (uint8_t)finders[k]->findings.items[i].found;
    follow_jumps(finders, count, cfi, found);
    for (size_t i = 0; i < cfi->fdes.count; i++)
        if (found[i])
            add_range(out, cfi->fdes.items[i].start, cfi->fdes.items[i].end, found[i] == READS);
    for (size_t i = 0; i < file->code.count; i++)
        if (elf_is_plt(&file->code.items[i]))
            add_range(out, file->code.items[i].start - file->base,
                      file->code.items[i].end - file->base, false);
    add_known_names(functions, out);
    join_overlapping(out);
    free(found);
    for (size_t k = 0; k < count; k++) {
        vec_free(&finders[k]->findings);
        vec_free(&finders[k]->jumps);
        free(finders[k]);
    }
}
