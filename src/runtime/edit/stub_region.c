/* Regions: where they lie, their ELF image, and the list of those that are there. */
#include "runtime/edit/stub_region.h"

#include "arch/x86_64/syscall.h"
#include "base/page.h"
#include "runtime/edit/jit_list.h"
#include "runtime/edit/stub_cfi.h"

#include <assert.h>
#include <elf.h>
#include <sys/mman.h>
#include <sys/resource.h>

enum { MOST_REGIONS = 4096, LARGE = 8 << 20 };

/* --- memory ----------------------------------------------------------------------------------- */

uint8_t *region_map_at(uint64_t place, uint64_t bytes)
{
    place = page_start(place);
    long got =
        raw_syscall6(SYS_mmap, (long)place, (long)bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (got > 0 && got != (long)place)
        raw_syscall3(SYS_munmap, got, (long)bytes, 0);
    return got == (long)place ? (uint8_t *)got : NULL;
}

/*
 * Memory that a rel32 of the module reaches: below it or, far enough above that the heap, which
 * begins behind the program, has room to grow.
 */
static uint8_t *map_near(uint64_t start, uint64_t end, uint64_t bytes)
{
    const uint64_t step = 1 << 20, reach = UINT64_C(1900) << 20, heap = UINT64_C(1) << 30;
    uint8_t *memory = NULL;
    for (uint64_t away = step; !memory && away + (end - start) + bytes < reach; away += step)
        if (start > bytes + away + (1 << 16))
            memory = region_map_at(start - bytes - away, bytes);
    for (uint64_t away = heap; !memory && away + (end - start) + bytes < reach; away += step)
        memory = region_map_at(end + away, bytes);
    return memory;
}

/* Where the program has a limit for its memory, a part of it is for stubs; the rest is its own. */
static _Atomic uint64_t all_bytes;

static bool is_room_for(uint64_t bytes)
{
    enum { PART = 4 };
    struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};
    raw_syscall4(SYS_prlimit64, 0, RLIMIT_AS, 0, (long)&limit);
    return all_bytes + bytes <= limit.rlim_cur / PART;
}

/* To make a file longer than the program allows would send it a signal. */
static bool may_have_file(uint64_t bytes)
{
    struct rlimit limit = {0};
    return raw_syscall4(SYS_prlimit64, 0, RLIMIT_FSIZE, 0, (long)&limit) == 0 &&
           limit.rlim_cur >= bytes;
}

/*
 * Head and tail become pages of a file of their own, which has no name and nothing in it: what is
 * written to the head stays in this process, and is in its core file. Without a file the pages stay
 * what they are, and only those miss the region who look for files in the list of mappings.
 */
static void map_file(const struct region *r)
{
    const uint64_t bytes = r->head_bytes + PAGE_BYTES;
    uint8_t *tail = r->start + r->bytes - PAGE_BYTES;
    if (!may_have_file(bytes))
        return;
    long fd = raw_syscall3(SYS_memfd_create, (long)"calltrail-stubs", MFD_CLOEXEC, 0);
    if (fd < 0)
        return;
    if (raw_syscall3(SYS_ftruncate, fd, (long)bytes, 0) == 0) {
        raw_syscall6(SYS_mmap, (long)r->start, (long)r->head_bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_FIXED, fd, 0);
        raw_syscall6(SYS_mmap, (long)tail, PAGE_BYTES, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd,
                     (long)r->head_bytes);
    }
    raw_syscall3(SYS_close, fd, 0, 0);
}

/* --- the image -------------------------------------------------------------------------------- */

enum { SEGMENT_LOAD, SEGMENT_EH_FRAME, SEGMENTS };
enum { SECTION_NONE, SECTION_TEXT, SECTION_HEADER, SECTION_FRAME, SECTION_SYMBOLS, SECTION_NAMES };
enum { SECTIONS = SECTION_NAMES + 1, SYMBOLS = 2 };

/* Names of sections and of the symbol, with where each begins. */
#define NAMES "\0.text\0.eh_frame_hdr\0.eh_frame\0.symtab\0.strtab\0calltrail_stubs"
enum { NAME_TEXT = 1, NAME_HEADER = 7, NAME_FRAME = 21, NAME_SYMBOLS = 31, NAME_NAMES = 39 };
enum { NAME_STUBS = 47 };

/* What the first bytes of a region are. */
struct head {
    Elf64_Ehdr elf;
    Elf64_Phdr segments[SEGMENTS];
    Elf64_Shdr sections[SECTIONS];
    Elf64_Sym symbols[SYMBOLS];
    char names[sizeof NAMES + 1]; /* 64: what follows is aligned */
    struct jit_code_entry debugger;
    uint8_t cfi[];
};

static_assert(offsetof(struct head, cfi) % 8 == 0, "the unwind tables are aligned");

static void write_elf_header(Elf64_Ehdr *h)
{
    static const unsigned char identity[] = {0x7f,       'E',         'L',       'F',
                                             ELFCLASS64, ELFDATA2LSB, EV_CURRENT};
    for (unsigned i = 0; i < sizeof identity; i++)
        h->e_ident[i] = identity[i];
    h->e_type = ET_EXEC;
    h->e_machine = EM_X86_64;
    h->e_version = EV_CURRENT;
    h->e_phoff = offsetof(struct head, segments);
    h->e_shoff = offsetof(struct head, sections);
    h->e_ehsize = sizeof(Elf64_Ehdr);
    h->e_phentsize = sizeof(Elf64_Phdr);
    h->e_phnum = SEGMENTS;
    h->e_shentsize = sizeof(Elf64_Shdr);
    h->e_shnum = SECTIONS;
    h->e_shstrndx = SECTION_NAMES;
}

static void write_section(struct head *h, unsigned index, uint32_t name, uint32_t type,
                          uint64_t flags, const void *start, uint64_t bytes)
{
    Elf64_Shdr *s = &h->sections[index];
    s->sh_name = name;
    s->sh_type = type;
    s->sh_flags = flags;
    s->sh_addr = flags & SHF_ALLOC ? (uint64_t)start : 0;
    s->sh_offset = (uint64_t)((const uint8_t *)start - (const uint8_t *)h);
    s->sh_size = bytes;
    s->sh_addralign = 8;
}

/* The code has no bytes in the image: tools that copy the image need not copy all of the stubs. */
static void write_sections(struct head *h, const struct region *r, const struct stub_cfi *cfi)
{
    write_section(h, SECTION_TEXT, NAME_TEXT, SHT_NOBITS, SHF_ALLOC | SHF_EXECINSTR, r->code,
                  r->code_bytes);
    write_section(h, SECTION_HEADER, NAME_HEADER, SHT_PROGBITS, SHF_ALLOC, cfi->eh_frame_hdr,
                  (uint64_t)(cfi->eh_frame - cfi->eh_frame_hdr));
    write_section(h, SECTION_FRAME, NAME_FRAME, SHT_PROGBITS, SHF_ALLOC, cfi->eh_frame,
                  (uint64_t)(cfi->eh_frame_end - cfi->eh_frame));
    write_section(h, SECTION_SYMBOLS, NAME_SYMBOLS, SHT_SYMTAB, 0, h->symbols, sizeof h->symbols);
    h->sections[SECTION_SYMBOLS].sh_link = SECTION_NAMES;
    h->sections[SECTION_SYMBOLS].sh_info = 1; /* the first global one */
    h->sections[SECTION_SYMBOLS].sh_entsize = sizeof(Elf64_Sym);
    write_section(h, SECTION_NAMES, NAME_NAMES, SHT_STRTAB, 0, h->names, sizeof NAMES);
    for (unsigned i = 0; i < sizeof NAMES; i++)
        h->names[i] = NAMES[i];
    Elf64_Sym *stubs = &h->symbols[1];
    stubs->st_name = NAME_STUBS;
    stubs->st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC);
    stubs->st_shndx = SECTION_TEXT;
    stubs->st_value = (uint64_t)r->code;
    stubs->st_size = r->code_bytes;
}

static void write_segments(struct head *h, const struct region *r, const struct stub_cfi *cfi)
{
    Elf64_Phdr *load = &h->segments[SEGMENT_LOAD], *frame = &h->segments[SEGMENT_EH_FRAME];
    load->p_type = PT_LOAD;
    load->p_flags = PF_R | PF_X;
    load->p_vaddr = load->p_paddr = (uint64_t)r->start;
    load->p_filesz = r->head_bytes;
    load->p_memsz = r->bytes;
    load->p_align = PAGE_BYTES;
    frame->p_type = PT_GNU_EH_FRAME;
    frame->p_flags = PF_R;
    frame->p_offset = (uint64_t)(cfi->eh_frame_hdr - r->start);
    frame->p_vaddr = frame->p_paddr = (uint64_t)cfi->eh_frame_hdr;
    frame->p_filesz = frame->p_memsz = (uint64_t)(cfi->eh_frame - cfi->eh_frame_hdr);
    frame->p_align = 4;
}

/* --- those that are there --------------------------------------------------------------------- */

/*
 * Unwinders look for addresses of frames, at any moment, in any thread. A region with a frame in it
 * stays; so all that must not happen is that an address outside is found in one that comes or goes.
 */
static struct served {
    _Atomic uint64_t start; /* 0: a free place; set last and cleared first */
    _Atomic uint64_t end;
    const void *_Atomic eh_frame_hdr;
    const void *_Atomic eh_frame_hdr_gcc;
} served[MOST_REGIONS];

static _Atomic uint32_t served_count; /* the places that were ever in use */

static void serve(const struct region *r, const struct stub_cfi *cfi)
{
    uint32_t i = 0;
    while (i < served_count && served[i].start)
        i++;
    if (i == MOST_REGIONS)
        return;
    served[i].end = (uint64_t)(r->start + r->bytes);
    served[i].eh_frame_hdr = cfi->eh_frame_hdr;
    served[i].eh_frame_hdr_gcc = cfi->eh_frame_hdr_gcc;
    served[i].start = (uint64_t)r->start;
    if (i == served_count)
        served_count = i + 1;
}

static bool withdraw(const struct region *r)
{
    for (uint32_t i = 0; i < served_count; i++)
        if (served[i].start == (uint64_t)r->start) {
            served[i].start = 0;
            return true;
        }
    return false;
}

bool region_any(void)
{
    return served_count != 0;
}

bool region_find(uint64_t address, struct region_view *out)
{
    for (uint32_t i = 0; i < served_count; i++) {
        const uint64_t start = served[i].start;
        if (!start || address < start || address >= served[i].end)
            continue;
        *out = (struct region_view){.start = start,
                                    .end = served[i].end,
                                    .elf = (const void *)start,
                                    .eh_frame_hdr = served[i].eh_frame_hdr,
                                    .eh_frame_hdr_gcc = served[i].eh_frame_hdr_gcc};
        if (served[i].start == start)
            return true;
    }
    return false;
}

/* --- a region --------------------------------------------------------------------------------- */

bool region_map(struct region *r, uint64_t low, uint64_t high, uint64_t code_bytes,
                uint64_t data_bytes, uint64_t cfi_bytes)
{
    r->head_bytes = page_round_up(sizeof(struct head) + STUB_CFI_BYTES + cfi_bytes);
    r->code_bytes = page_round_up(code_bytes);
    r->data_bytes = page_round_up(data_bytes);
    r->bytes = r->head_bytes + r->code_bytes + r->data_bytes + PAGE_BYTES;
    r->start = is_room_for(r->bytes) ? map_near(low, high, r->bytes) : NULL;
    if (!r->start)
        return false;
    all_bytes += r->bytes;
    r->code = r->start + r->head_bytes;
    r->data = r->code + r->code_bytes;
    map_file(r);
    if (r->bytes >= LARGE) /* a fault for each small page would take longer than to write it */
        raw_syscall3(SYS_madvise, (long)r->code, (long)(r->code_bytes + r->data_bytes),
                     MADV_HUGEPAGE);
    return true;
}

void region_publish(const struct region *r, const struct region_tables *tables)
{
    struct head *h = (struct head *)r->start;
    struct stub_cfi cfi;
    stub_cfi_write(h->cfi, tables, r->code, &cfi);
    write_elf_header(&h->elf);
    write_segments(h, r, &cfi);
    write_sections(h, r, &cfi);
    h->debugger.image = h;
    h->debugger.image_bytes = r->head_bytes;
    raw_syscall3(SYS_mprotect, (long)r->code, (long)r->code_bytes, PROT_READ | PROT_EXEC);
    serve(r, &cfi);
    jit_list_add(&h->debugger);
}

void region_unmap(struct region *r)
{
    if (withdraw(r))
        jit_list_remove(&((struct head *)r->start)->debugger);
    raw_syscall3(SYS_munmap, (long)r->start, (long)r->bytes, 0);
    all_bytes -= r->bytes;
    *r = (struct region){0};
}
