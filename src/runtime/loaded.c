#include "runtime/loaded.h"

#include "base/page.h"
#include "runtime/arena_format.h"
#include "unwind/memory.h"

#include "arch/x86_64/syscall.h"

#include <elf.h>
#include <fcntl.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>

const struct r_debug *loaded_linker = &_r_debug;

/* A program that names _r_debug has a copy, which is then ours, too, and stays as it was. */
void loaded_find_linker(void)
{
    for (const ElfW(Dyn) *d = _r_debug.r_map ? _r_debug.r_map->l_ld : NULL; d && d->d_tag; d++)
        if (d->d_tag == DT_DEBUG && d->d_un.d_ptr)
            loaded_linker = (const struct r_debug *)d->d_un.d_ptr;
}

/* Since version 2 (glibc 2.35) a list is followed by the pointer to that of the next namespace. */
static const struct r_debug *next_list(const struct r_debug *list)
{
    struct with_next {
        struct r_debug list;
        const struct r_debug *next;
    };
    return loaded_linker->r_version >= 2 ? ((const struct with_next *)list)->next : NULL;
}

bool loaded_is_settled(void)
{
    for (const struct r_debug *list = loaded_linker; list; list = next_list(list))
        if (list->r_state != RT_CONSISTENT)
            return false;
    return true;
}

/* --- where a module lies ------------------------------------------------------------------------
 */

/* Where the segments of a loaded module lie, from its program headers. */
static bool find_range(struct loaded *m)
{
    m->start = UINT64_MAX;
    m->end = 0;
    for (unsigned i = 0; i < m->header_count; i++) {
        if (m->headers[i].p_type != PT_LOAD)
            continue;
        uint64_t low = m->bias + m->headers[i].p_vaddr, high = low + m->headers[i].p_memsz;
        m->start = low < m->start ? low : m->start;
        m->end = high > m->end ? high : m->end;
    }
    m->start = page_start(m->start);
    return m->start < m->end;
}

/* Is the ELF header of a module there? Its dynamic section says that it is this module's. */
static bool try_header(struct loaded *m, uint64_t at, const ElfW(Dyn) * dynamic)
{
    const ElfW(Ehdr) *h = (const void *)at;
    if (!at || !memory_can_be_read(at) || memcmp(h->e_ident, ELFMAG, SELFMAG) != 0 ||
        h->e_phentsize != sizeof *m->headers)
        return false;
    m->headers = (const void *)(at + h->e_phoff);
    m->header_count = h->e_phnum;
    if (!memory_can_be_read((uint64_t)m->headers) ||
        !memory_can_be_read((uint64_t)(m->headers + m->header_count) - 8))
        return false;
    for (unsigned i = 0; i < m->header_count; i++)
        if (m->headers[i].p_type == PT_DYNAMIC)
            return m->bias + m->headers[i].p_vaddr == (uint64_t)dynamic && find_range(m);
    return false;
}

/* A module need not be linked to begin at 0. Where its header is, its file says. */
static uint64_t header_by_file(const struct loaded *m)
{
    enum { MOST_HEADERS = 32 };
    ElfW(Ehdr) h = {0};
    ElfW(Phdr) headers[MOST_HEADERS];
    uint64_t at = 0;
    long fd = raw_syscall4(SYS_openat, AT_FDCWD, (long)m->path, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0)
        return 0;
    raw_syscall4(SYS_pread64, fd, (long)&h, sizeof h, 0);
    long bytes = raw_syscall4(SYS_pread64, fd, (long)headers, sizeof headers, (long)h.e_phoff);
    raw_syscall3(SYS_close, fd, 0, 0);
    for (unsigned i = 0; i < h.e_phnum && (long)((i + 1) * sizeof headers[0]) <= bytes; i++)
        if (headers[i].p_type == PT_LOAD && headers[i].p_offset == 0)
            at = m->bias + headers[i].p_vaddr;
    return at;
}

static bool read_headers(struct loaded *m, const ElfW(Dyn) * dynamic)
{
    return try_header(m, m->bias, dynamic) || try_header(m, header_by_file(m), dynamic);
}

/* --- the program -------------------------------------------------------------------------------
 */

static uint64_t read_number(const char **at)
{
    uint64_t number = 0;
    for (;; ++*at) {
        unsigned digit = **at >= '0' && **at <= '9'   ? (unsigned)(**at - '0')
                         : **at >= 'a' && **at <= 'f' ? (unsigned)(**at - 'a' + 10)
                                                      : 16;
        if (digit == 16)
            return number;
        number = number << 4 | digit;
    }
}

/* Of a line of /proc/self/maps: "from-to access offset device inode      path". */
static const char *path_of_line(const char *line, uint64_t address)
{
    uint64_t from = read_number(&line), to = *line == '-' ? (line++, read_number(&line)) : 0;
    const char *path = strchr(line, '/');
    return address >= from && address < to ? path : NULL;
}

/* The file that is mapped at an address. */
static bool find_file_at(uint64_t address, char *out, size_t room)
{
    static char line[4400];
    char part[512];
    size_t length = 0;
    bool is_found = false;
    long size,
        fd = raw_syscall4(SYS_openat, AT_FDCWD, (long)"/proc/self/maps", O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0)
        return false;
    while (!is_found && (size = raw_syscall3(SYS_read, fd, (long)part, sizeof part)) > 0) {
        for (long i = 0; i < size && !is_found; i++) {
            if (part[i] != '\n') {
                length += length < sizeof line - 1;
                line[length - 1] = part[i];
                continue;
            }
            line[length] = '\0';
            length = 0;
            const char *path = path_of_line(line, address);
            is_found = path && strlen(path) < room;
            if (is_found)
                strcpy(out, path);
        }
    }
    raw_syscall3(SYS_close, fd, 0, 0);
    return is_found;
}

/*
 * The list has no name for the program. It is the file that the process runs, unless that is the
 * linker itself ("ld-linux-x86-64.so.2 PROGRAM"), which the kernel then has given no linker.
 */
static const char *program_path(void)
{
    static char path[4200];
    if (getauxval(AT_BASE))
        return "/proc/self/exe";
    if (!*path && !find_file_at(getauxval(AT_PHDR), path, sizeof path))
        return "/proc/self/exe";
    return path;
}

/* --- the lists ---------------------------------------------------------------------------------
 */

static bool take_program(struct loaded *m)
{
    m->headers = (const void *)getauxval(AT_PHDR);
    m->header_count = (unsigned)getauxval(AT_PHNUM);
    m->path = program_path();
    return find_range(m);
}

static bool take_vdso(struct loaded *m, const ElfW(Dyn) * dynamic)
{
    m->path = "[vdso]";
    m->kind = MODULE_VDSO;
    bool is_there = try_header(m, m->bias, dynamic);
    m->end = page_round_up(m->end); /* the kernel maps whole pages */
    return is_there;
}

/* The linker is in every list. */
static bool is_in_first(const struct link_map *l)
{
    for (const struct link_map *other = loaded_linker->r_map; other; other = other->l_next)
        if (other->l_ld == l->l_ld)
            return true;
    return false;
}

uint32_t loaded_list(struct loaded *out, uint32_t most, bool (*was_known)(struct loaded *))
{
    uint32_t n = 0;
    for (const struct r_debug *list = loaded_linker; list; list = next_list(list)) {
        for (const struct link_map *l = list->r_map; l && n < most; l = l->l_next) {
            struct loaded *m = &out[n];
            *m = (struct loaded){.bias = l->l_addr, .path = l->l_name, .kind = MODULE_FILE};
            if (l == loaded_linker->r_map)
                n += take_program(m);
            else if (l->l_addr && l->l_addr == getauxval(AT_SYSINFO_EHDR))
                n += take_vdso(m, l->l_ld);
            else if (list == loaded_linker || !is_in_first(l))
                n += was_known ? was_known(m) : read_headers(m, l->l_ld);
        }
    }
    return n;
}
