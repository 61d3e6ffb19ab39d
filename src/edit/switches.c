/* Indirect jumps that are switches, and lead to places in their own function. */
#include "edit/finder.h"

#include "elf/elf_file.h"

#include <string.h>

static unsigned register_of(unsigned low, unsigned extension)
{
    return low | extension << 3;
}

/* disp32(, index, 8): a word of a table at an address that code knows without its own. */
static bool is_word_of_table(const ZydisDecodedInstruction *d)
{
    return d->raw.modrm.mod == 0 && d->raw.modrm.rm == 4 && d->raw.sib.base == 5 &&
           d->raw.sib.scale == 3;
}

/*
 * Such a table is a switch's, or one of functions. A switch leads into its own function, behind its
 * start; that of a switch whose first case is not 0 may be said to begin before it does.
 */
static bool leads_into_own(const struct finder *f, const ZydisDecodedInstruction *d)
{
    enum { MOST_ENTRIES = 64 };
    uint64_t table = (uint64_t)(int64_t)(int32_t)d->raw.disp.value, address;
    for (unsigned k = 0; k < MOST_ENTRIES; k++) {
        const uint8_t *at = elf_bytes_at(f->file, table + k * sizeof address, sizeof address);
        if (!at)
            break;
        memcpy(&address, at, sizeof address);
        uint64_t offset = address - f->file->base;
        const struct map_function *there = map_find_function(f->map, offset);
        if (!there || offset == f->whole)
            continue;
        if (map_whole_of(f->map, there)->start == f->whole)
            return true;
        if (k == 0 && there->start == offset && !(there->flags & FUNCTION_FRAGMENT))
            break; /* a table of functions, with who knows what behind it */
    }
    return false;
}

/*
 * Compilers make switches of four forms: marked as such (notrack), from a table of distances, to
 * which the table's address is added just before, through a table of addresses, and to a word that
 * was taken from one just before.
 */
bool is_jump_of_switch(const struct finder *f, const struct instruction *jump)
{
    const ZydisDecodedInstruction *d = &jump->decoded;
    if (d->attributes & ZYDIS_ATTRIB_HAS_NOTRACK)
        return true;
    if (d->raw.modrm.mod != 3)
        return is_word_of_table(d) && leads_into_own(f, d);
    const struct instruction *before = f->before_count ? &f->before[f->before_count - 1] : NULL;
    if (!before)
        return false;
    const ZydisDecodedInstruction *b = &before->decoded;
    unsigned to, jumps_to = register_of(d->raw.modrm.rm, d->raw.rex.B);
    if (b->mnemonic == ZYDIS_MNEMONIC_MOV && b->opcode == 0x8b && is_word_of_table(b))
        return register_of(b->raw.modrm.reg, b->raw.rex.R) == jumps_to && leads_into_own(f, b);
    if (b->mnemonic != ZYDIS_MNEMONIC_ADD || b->raw.modrm.mod != 3)
        return false;
    /* add register, register: 01 /r has its destination in rm, 03 /r in reg */
    to = b->opcode == 0x03 ? register_of(b->raw.modrm.reg, b->raw.rex.R)
                           : register_of(b->raw.modrm.rm, b->raw.rex.B);
    return to == jumps_to;
}
