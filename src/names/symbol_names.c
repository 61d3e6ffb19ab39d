#include "names/symbol_names.h"

#include "base/search.h"

static int by_offset(const void *a, const void *b)
{
    const struct symbol_name *x = a, *y = b;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    return (x->name > y->name) - (x->name < y->name); /* as they come: the first one stays */
}

static void read_table(struct symbol_names *names, Elf *elf, Elf_Scn *section, uint64_t base)
{
    GElf_Shdr h;
    Elf_Data *data =
        gelf_getshdr(section, &h) && h.sh_type == SHT_SYMTAB && h.sh_entsize == sizeof(Elf64_Sym)
            ? elf_getdata(section, NULL)
            : NULL;
    size_t count = data ? data->d_size / sizeof(Elf64_Sym) : 0;
    for (size_t i = 1; i < count; i++) {
        GElf_Sym sym;
        if (!gelf_getsym(data, (int)i, &sym) || sym.st_shndx == SHN_UNDEF || !sym.st_size ||
            (GELF_ST_TYPE(sym.st_info) != STT_FUNC && GELF_ST_TYPE(sym.st_info) != STT_GNU_IFUNC))
            continue;
        const char *name = elf_strptr(elf, h.sh_link, sym.st_name);
        if (name && *name && sym.st_value >= base)
            vec_push(&names->items, (struct symbol_name){sym.st_value - base, sym.st_size,
                                                         strings_add(&names->strings, name)});
    }
}

void symbol_names_read(struct symbol_names *names, Elf *elf, uint64_t base)
{
    Elf_Scn *section = NULL;
    strings_init(&names->strings);
    while ((section = elf_nextscn(elf, section)))
        read_table(names, elf, section, base);
    if (names->items.count)
        qsort(names->items.items, names->items.count, sizeof *names->items.items, by_offset);
    size_t kept = 0;
    for (size_t i = 0; i < names->items.count; i++)
        if (!kept || names->items.items[kept - 1].offset != names->items.items[i].offset)
            names->items.items[kept++] = names->items.items[i];
    names->items.count = kept;
}

void symbol_names_free(struct symbol_names *names)
{
    vec_free(&names->items);
    strings_free(&names->strings);
}

int64_t symbol_names_find(const struct symbol_names *names, uint64_t offset)
{
    size_t i;
    SEARCH(i, names->items.count, names->items.items[i].offset <= offset);
    const struct symbol_name *found = i ? &names->items.items[i - 1] : NULL;
    return found && offset - found->offset < found->size ? (int64_t)i - 1 : -1;
}
