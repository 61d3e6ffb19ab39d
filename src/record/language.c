#include "record/language.h"

#include "elf/elf_file.h"
#include "runtime/arena_format.h"

#include <string.h>

/* The names of symbols lie one behind the other, each with a zero byte on either side: no need to
 * look at the symbols, of which there can be millions. */
static bool has_name(const struct elf_file *file, const char *section, const char *name,
                     size_t size)
{
    Elf_Scn *strings = elf_section(file, section, NULL);
    const Elf_Data *data = strings ? elf_section_data(strings) : NULL;
    return data && data->d_buf && memmem(data->d_buf, data->d_size, name, size);
}

/* Programs export theirs, so that stripped ones have it too. */
static bool is_ocaml(const struct elf_file *file)
{
    static const char name[] = "\0caml_frametable"; /* of versions 3 to 5 */
    return has_name(file, ".dynstr", name, sizeof name) ||
           has_name(file, ".strtab", name, sizeof name);
}

static bool is_go(const struct elf_file *file)
{
    static const char *const sections[] = {".gopclntab", ".data.rel.ro.gopclntab", ".go.buildinfo"};
    for (unsigned i = 0; i < sizeof sections / sizeof sections[0]; i++)
        if (elf_section(file, sections[i], NULL))
            return true;
    return false;
}

uint32_t language_of_file(const char *path)
{
    struct elf_file file;
    if (elf_open_identity(path, &file, NULL) != CT_OK)
        return 0;
    uint32_t found = (is_go(&file) ? LANGUAGE_GO : 0u) | (is_ocaml(&file) ? LANGUAGE_OCAML : 0u);
    elf_close(&file);
    return found;
}

const char *language_consequence(uint32_t languages)
{
    if (languages & LANGUAGE_GO)
        return "not sampled: the runtime of Go has signals and stacks of its own";
    if (languages & LANGUAGE_OCAML)
        return "sampled without the trampoline: OCaml finds its frames by return address";
    return NULL;
}
