#include "map/functions.h"

#include "base/search.h"

#include <string.h>

/* By address; at one address functions before labels, then the better name first. */
static int by_address(const void *a, const void *b)
{
    const struct elf_symbol *x = a, *y = b;
    if (x->address != y->address)
        return x->address < y->address ? -1 : 1;
    int xl = x->kind == SYMBOL_LABEL, yl = y->kind == SYMBOL_LABEL;
    if (xl != yl)
        return xl - yl;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    /* Fewer leading underscores first: memcpy rather than __memcpy; then by letters. */
    size_t xu = strspn(x->name, "_"), yu = strspn(y->name, "_");
    if (xu != yu)
        return xu < yu ? -1 : 1;
    return strcmp(x->name, y->name);
}

static int by_name(const void *a, const void *b)
{
    const struct elf_symbol *x = *(const struct elf_symbol *const *)a;
    const struct elf_symbol *y = *(const struct elf_symbol *const *)b;
    int order = strcmp(x->name, y->name);
    if (order)
        return order;
    return x->scope < y->scope ? -1 : x->scope > y->scope;
}

/* The same name in .dynsym and .symtab is no alias; sorting has put the two side by side. */
static bool already_named(const struct functions *f, const struct map_function *fn, uint32_t name)
{
    return fn->name == name || (fn->alias_count && f->aliases.items[f->aliases.count - 1] == name);
}

static void take_symbol(struct functions *f, const struct elf_file *file,
                        const struct elf_symbol *symbol)
{
    uint32_t start = (uint32_t)(symbol->address - file->base);
    const struct code_range *code = elf_code_at(file, symbol->address);
    uint64_t most = code->end - symbol->address;
    uint32_t size = (uint32_t)(symbol->size < most ? symbol->size : most);
    uint32_t name = strings_add(&f->strings, symbol->name);
    struct map_function *last = f->items.count ? &f->items.items[f->items.count - 1] : NULL;
    if (last && last->start == start) {
        if (size > last->size)
            last->size = size;
        if (symbol->kind == SYMBOL_IFUNC)
            last->flags |= FUNCTION_IFUNC;
        if (!already_named(f, last, name)) {
            vec_push(&f->aliases, name);
            last->alias_count++;
        }
        return;
    }
    vec_push(&f->items,
             (struct map_function){.start = start,
                                   .size = size,
                                   .name = name,
                                   .flags = FUNCTION_HAS_SYMBOL |
                                            (symbol->kind == SYMBOL_IFUNC ? FUNCTION_IFUNC : 0u) |
                                            (symbol->kind == SYMBOL_LABEL ? FUNCTION_LABEL : 0u),
                                   .parent = NO_PARENT,
                                   .alias_first = (uint32_t)f->aliases.count});
}

/*
 * Labels without a type name functions only where nothing else does: outside FDEs and outside
 * functions, or exactly at the start of an FDE (assembly that forgot .type).
 */
static bool label_counts(const struct functions *f, const struct cfi *cfi, uint32_t start)
{
    const struct map_function *last = f->items.count ? &f->items.items[f->items.count - 1] : NULL;
    if (last && start > last->start && start - last->start < last->size)
        return false;
    const struct fde *fde = cfi_fde_at(cfi, start);
    return !fde || fde->start == start;
}

static int by_start(const void *a, const void *b)
{
    const struct map_function *x = a, *y = b;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return (int)(y->flags & FUNCTION_HAS_SYMBOL) - (int)(x->flags & FUNCTION_HAS_SYMBOL);
}

/* Adds FDE ranges: a new function where no symbol starts, else what the symbol does not say. */
static void take_fdes(struct functions *f, const struct cfi *cfi)
{
    size_t named = f->items.count, at = 0;
    for (size_t i = 0; i < cfi->fdes.count; i++) {
        const struct fde *fde = &cfi->fdes.items[i];
        if (i && fde->start == cfi->fdes.items[i - 1].start)
            continue;
        while (at < named && f->items.items[at].start < fde->start)
            at++;
        if (at < named && f->items.items[at].start == fde->start) {
            f->items.items[at].flags |= FUNCTION_HAS_CFI;
            if (!f->items.items[at].size)
                f->items.items[at].size = fde->end - fde->start;
            continue;
        }
        vec_push(&f->items, (struct map_function){.start = fde->start,
                                                  .size = fde->end - fde->start,
                                                  .flags = FUNCTION_HAS_CFI,
                                                  .parent = NO_PARENT});
    }
    if (f->items.count)
        qsort(f->items.items, f->items.count, sizeof *f->items.items, by_start);
}

/* Sizes that no symbol gives: up to the next function, the end of the FDE or of the section. */
static void fill_sizes(struct functions *f, const struct elf_file *file, const struct cfi *cfi)
{
    for (size_t i = 0; i < f->items.count; i++) {
        struct map_function *fn = &f->items.items[i];
        const struct fde *fde = cfi_fde_at(cfi, fn->start);
        if (fde)
            fn->flags |= FUNCTION_HAS_CFI;
        if (fn->size)
            continue;
        const struct code_range *code = elf_code_at(file, file->base + fn->start);
        uint32_t end = (uint32_t)(code->end - file->base);
        if (i + 1 < f->items.count && f->items.items[i + 1].start < end)
            end = f->items.items[i + 1].start;
        if (fde && fde->end < end)
            end = fde->end;
        fn->size = end - fn->start;
    }
}

static struct map_function *function_at(struct functions *f, uint32_t start)
{
    struct map_function key = {.start = start, .flags = FUNCTION_HAS_SYMBOL};
    size_t i;
    SEARCH(i, f->items.count, f->items.items[i].start < key.start);
    return i < f->items.count && f->items.items[i].start == start ? &f->items.items[i] : NULL;
}

/* The first of the symbols, sorted by name and scope, that is not before (name, scope). */
static size_t lower_bound(const struct elf_symbol **sorted, size_t count, const char *name,
                          uint32_t scope)
{
    struct elf_symbol key = {.name = name, .scope = scope};
    const struct elf_symbol *wanted = &key;
    size_t i;
    SEARCH(i, count, by_name(&sorted[i], &wanted) < 0);
    return i;
}

/* The only symbol of that name in a scope; NULL when there is none, or more than one address. */
static const struct elf_symbol *only_one(const struct elf_symbol **sorted, size_t count,
                                         const char *name, uint32_t scope)
{
    size_t first = lower_bound(sorted, count, name, scope), i = first;
    while (i < count && sorted[i]->scope == scope && strcmp(sorted[i]->name, name) == 0 &&
           sorted[i]->address == sorted[first]->address)
        i++;
    bool several = i < count && sorted[i]->scope == scope && strcmp(sorted[i]->name, name) == 0;
    return i == first || several ? NULL : sorted[first];
}

/*
 * The function that a part belongs to: of the same source file, or the global one, or (hidden
 * symbols are written as locals behind those of the last file) the only one of that name at all.
 * Where that leaves a choice, names cannot tell, and NULL is the answer.
 */
static const struct elf_symbol *find_symbol(const struct elf_symbol **sorted, size_t count,
                                            const char *name, uint32_t scope)
{
    size_t first = lower_bound(sorted, count, name, scope);
    bool in_scope =
        first < count && sorted[first]->scope == scope && strcmp(sorted[first]->name, name) == 0;
    if (in_scope)
        return only_one(sorted, count, name, scope);
    const struct elf_symbol *global = only_one(sorted, count, name, 0);
    if (global)
        return global;
    first = lower_bound(sorted, count, name, 0);
    size_t last = lower_bound(sorted, count, name, UINT32_MAX);
    bool one = first < last && sorted[first]->address == sorted[last - 1]->address;
    return one ? sorted[first] : NULL;
}

/*
 * What compilers and BOLT append to the name of a part that they moved away: f.cold (older ones
 * f.cold.N), BOLT's f.warm, and with a section for every block f.__part.N, with f.eh for landing
 * pads. gcc's f.part.N is a function of its own, which is called.
 */
const char *functions_part_suffix(const char *name)
{
    static const char *const suffixes[] = {".cold", ".warm", ".__part.", ".eh"};
    const char *first = NULL;
    for (unsigned i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        const char *at = strstr(name, suffixes[i]);
        size_t length = strlen(suffixes[i]);
        bool ends = at && (at[length] == '\0' || at[length] == '.' || at[length - 1] == '.');
        if (ends && at > name && (!first || at < first))
            first = at;
    }
    return first;
}

static void join_part(struct functions *f, const struct elf_file *file,
                      const struct elf_symbol **sorted, size_t count, const struct elf_symbol *part)
{
    const char *suffix = functions_part_suffix(part->name);
    if (!suffix)
        return;
    char *name = must_strdup(part->name);
    name[suffix - part->name] = '\0';
    const struct elf_symbol *whole = find_symbol(sorted, count, name, part->scope);
    free(name);
    if (!whole || whole->address == part->address)
        return;
    struct map_function *parent = function_at(f, (uint32_t)(whole->address - file->base));
    struct map_function *child = function_at(f, (uint32_t)(part->address - file->base));
    if (parent && child) {
        child->flags |= FUNCTION_FRAGMENT;
        child->parent = (uint32_t)(parent - f->items.items);
    }
}

static void join_parts(struct functions *f, const struct elf_file *file,
                       const struct elf_symbols *symbols)
{
    VEC(const struct elf_symbol *) sorted = {0};
    size_t parts = 0;
    for (size_t i = 0; i < symbols->items.count; i++) {
        vec_push(&sorted, &symbols->items.items[i]);
        parts += functions_part_suffix(symbols->items.items[i].name) != NULL;
    }
    if (parts)
        qsort(sorted.items, sorted.count, sizeof *sorted.items, by_name);
    for (size_t i = 0; parts && i < symbols->items.count; i++)
        join_part(f, file, sorted.items, sorted.count, &symbols->items.items[i]);
    vec_free(&sorted);
}

void functions_collect(const struct elf_file *file, const struct elf_symbols *symbols,
                       const struct cfi *cfi, struct functions *out)
{
    *out = (struct functions){0};
    strings_init(&out->strings);
    struct elf_symbol *sorted = must_calloc(symbols->items.count, sizeof *sorted);
    size_t count = symbols->items.count;
    if (count) {
        memcpy(sorted, symbols->items.items, count * sizeof *sorted);
        qsort(sorted, count, sizeof *sorted, by_address);
    }
    for (size_t i = 0; i < count; i++) {
        uint32_t start = (uint32_t)(sorted[i].address - file->base);
        if (sorted[i].kind != SYMBOL_LABEL || label_counts(out, cfi, start))
            take_symbol(out, file, &sorted[i]);
    }
    free(sorted);
    take_fdes(out, cfi);
    fill_sizes(out, file, cfi);
    join_parts(out, file, symbols);
}

void functions_free(struct functions *f)
{
    vec_free(&f->items);
    vec_free(&f->aliases);
    strings_free(&f->strings);
}
