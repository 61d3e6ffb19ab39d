/*
 * Unwinders of the process ask the dynamic linker where the unwind tables of an address are; for
 * an address in a region, they get the region's. Two functions are asked:
 *
 *   _dl_find_object   by libgcc, of gcc 12 and later
 *   dl_iterate_phdr   by all others. Programs list their modules with it, too, and must not see
 *                     more than they have. But an unwinder's callback looks for one address, which
 *                     it finds where its argument leads to: libgcc and libunwind have it first
 *                     there, LLVM third; on the stack, since an unwinder has no other memory.
 *
 * The linker is asked first: nearly all addresses are those of its modules.
 */
#include "base/page.h"
#include "runtime/edit/stub_region.h"

#include "runtime/standins.h"
#include "unwind/memory.h"

#include <elf.h>
#include <link.h>

#ifdef DLFO_STRUCT_HAS_EH_DBASE

STANDS_IN_FOR(int, _dl_find_object, (void *, struct dl_find_object *))

EXPORTED int _dl_find_object(void *address, struct dl_find_object *out)
{
    struct region_view view;
    if (!REAL(_dl_find_object))
        return -1;
    int result = REAL(_dl_find_object)(address, out);
    /* For the rest, a region belongs to this library. */
    if (result == 0 || !region_find((uint64_t)address, &view) ||
        REAL(_dl_find_object)((void *)region_find, out) != 0)
        return result;
    out->dlfo_map_start = (void *)view.start;
    out->dlfo_map_end = (void *)view.end;
    out->dlfo_eh_frame = (void *)view.eh_frame_hdr_gcc;
    return 0;
}

#endif

typedef int phdr_callback(struct dl_phdr_info *, size_t, void *);

STANDS_IN_FOR(int, dl_iterate_phdr, (phdr_callback *, void *))

/* The first module's information; of interest is how often modules have come and gone. */
static int take_first(struct dl_phdr_info *info, size_t bytes, void *out)
{
    (void)bytes;
    *(struct dl_phdr_info *)out = *info;
    return 1;
}

/* Is it an unwinder's argument, and does it look for an address in a region? */
static bool asks_for_region(const void *argument, struct region_view *out)
{
    enum { WORDS = 3, NEAR = 64 << 10 };
    const uint64_t *words = argument, at = (uint64_t)argument, last = at + 8ul * (WORDS - 1);
    if (!region_any() || at % 8 || at - (uint64_t)__builtin_frame_address(0) > NEAR ||
        (at / PAGE_BYTES != last / PAGE_BYTES && !memory_can_be_read(last)))
        return false;
    for (unsigned i = 0; i < WORDS; i++)
        if (region_find(words[i], out))
            return true;
    return false;
}

EXPORTED int dl_iterate_phdr(phdr_callback *callback, void *argument)
{
    struct region_view view;
    struct dl_phdr_info info = {0};
    if (!REAL(dl_iterate_phdr))
        return 0;
    int result = REAL(dl_iterate_phdr)(callback, argument);
    if (result || !asks_for_region(argument, &view))
        return result;
    REAL(dl_iterate_phdr)(take_first, &info);
    const Elf64_Ehdr *elf = view.elf;
    info.dlpi_addr = 0;
    info.dlpi_name = "calltrail-stubs";
    info.dlpi_phdr = (const void *)((const uint8_t *)elf + elf->e_phoff);
    info.dlpi_phnum = elf->e_phnum;
    info.dlpi_tls_modid = 0;
    info.dlpi_tls_data = NULL;
    return callback(&info, sizeof info, argument);
}
