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
#include "runtime/edit/find_object.h"

#include "arch/x86_64/code_bytes.h"
#include "base/page.h"
#include "runtime/edit/stub_region.h"

#include "runtime/standins.h"
#include "unwind/memory.h"

#include <elf.h>
#include <link.h>
#include <string.h>

#ifdef DLFO_STRUCT_HAS_EH_DBASE

STANDS_IN_FOR(int, _dl_find_object, (void *, struct dl_find_object *))

/*
 * libc's function only jumps to the linker's. Called from here, where no site is edited, its own
 * would have engines find the context by a walk each time: a backtrace() asks for each frame.
 */
void find_object_prepare(void)
{
    enum { SLOT_AT = 3, SLOT_END = 7, FIELD_AT = 9 };
    const uint8_t *code = (const uint8_t *)(uintptr_t)real__dl_find_object;
    if (!code || !code_is_field_jump(code = code_skip_endbr64(code)))
        return;
    int32_t away, field;
    memcpy(&away, code + SLOT_AT, sizeof away);
    memcpy(&field, code + FIELD_AT, sizeof field);
    const char *fields = *(const char *const *)(const void *)(code + SLOT_END + away);
    void *linkers = *(void *const *)(const void *)(fields + field);
    if (linkers)
        *(void **)&real__dl_find_object = linkers;
}

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

#else

void find_object_prepare(void)
{
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
