/*
 * The file that is to be run, seen from outside: who may have our library preloaded. The kinds are
 * those that record/target.c tells apart before the first start; here only what glibc's dynamic
 * linker does not load by itself, or cannot bear, is looked for, with a few small reads.
 */
#include "runtime/exec.h"

#include "elf/sanitizers.h"

#include "arch/x86_64/syscall.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

/* The dynamic linker complains of what it cannot preload. */
bool exec_can_open(const char *path)
{
    long fd = raw_syscall4(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC, 0);
    if (fd >= 0)
        raw_syscall3(SYS_close, fd, 0, 0);
    return fd >= 0 || fd == -EMFILE || fd == -ENFILE;
}

/* --- ELF files ---------------------------------------------------------------------------------
 */

enum { MOST_SEGMENTS = 24, NAME_BYTES = 24 };

struct program_file {
    long fd;
    unsigned segment_count;
    Elf64_Phdr segments[MOST_SEGMENTS];
    uint64_t strings, hashes, symbols; /* addresses of tables; 0: there is none */
};

static bool read_offset(const struct program_file *f, uint64_t offset, void *out, size_t bytes)
{
    return raw_syscall4(SYS_pread64, f->fd, (long)out, (long)bytes, (long)offset) == (long)bytes;
}

/* What will be at an address. */
static bool read_address(const struct program_file *f, uint64_t address, void *out, size_t bytes)
{
    for (unsigned i = 0; i < f->segment_count; i++) {
        const Elf64_Phdr *p = &f->segments[i];
        if (p->p_type == PT_LOAD && address >= p->p_vaddr && address - p->p_vaddr < p->p_filesz)
            return read_offset(f, p->p_offset + (address - p->p_vaddr), out, bytes);
    }
    return false;
}

/* The beginning of a text of the dynamic section; it need not end here. */
static void read_name(const struct program_file *f, uint64_t at, char out[NAME_BYTES])
{
    memset(out, 0, NAME_BYTES);
    for (size_t bytes = NAME_BYTES; bytes && !read_address(f, at, out, bytes); bytes--)
        ; /* where it is the last in the file */
    out[NAME_BYTES - 1] = '\0';
}

static const Elf64_Phdr *find_segment(const struct program_file *f, uint32_t type)
{
    for (unsigned i = 0; i < f->segment_count; i++)
        if (f->segments[i].p_type == type)
            return &f->segments[i];
    return NULL;
}

static bool read_segments(struct program_file *f)
{
    Elf64_Ehdr h;
    if (!read_offset(f, 0, &h, sizeof h) || h.e_phentsize != sizeof f->segments[0])
        return false;
    f->segment_count = h.e_phnum < MOST_SEGMENTS ? h.e_phnum : MOST_SEGMENTS;
    return read_offset(f, h.e_phoff, f->segments, f->segment_count * sizeof f->segments[0]);
}

/* Another libc's linker has no use for our library. A file without one may be the linker itself. */
static bool has_other_linker(const struct program_file *f)
{
    static const char glibcs[] = "/ld-linux-x86-64.so.2";
    const Elf64_Phdr *p = find_segment(f, PT_INTERP);
    char path[256] = "";
    if (!p || p->p_filesz > sizeof path || !read_offset(f, p->p_offset, path, p->p_filesz))
        return p != NULL;
    size_t length = strnlen(path, sizeof path - 1);
    return length < sizeof glibcs - 1 ||
           memcmp(path + length - (sizeof glibcs - 1), glibcs, sizeof glibcs) != 0;
}

/* --- sanitizers ----------------------------------------------------------------------------------
 */

static const struct {
    const char *library, *function;
} sanitizers[] = {
#define SANITIZER(library, function, name) {library, function},
    SANITIZERS(SANITIZER)
#undef SANITIZER
};

enum { SANITIZER_COUNT = sizeof sanitizers / sizeof sanitizers[0] };

static bool is_sanitizers(const char *library)
{
    for (unsigned i = 0; i < SANITIZER_COUNT; i++)
        if (strncmp(library, sanitizers[i].library, strlen(sanitizers[i].library)) == 0)
            return true;
    return false;
}

static bool needs_sanitizer(struct program_file *f, bool only_tables)
{
    const Elf64_Phdr *p = find_segment(f, PT_DYNAMIC);
    Elf64_Dyn entries[16];
    char name[NAME_BYTES];
    for (uint64_t at = 0; p && at + sizeof entries[0] <= p->p_filesz; at += sizeof entries) {
        uint64_t bytes = p->p_filesz - at < sizeof entries ? p->p_filesz - at : sizeof entries;
        memset(entries, 0, sizeof entries);
        if (!read_offset(f, p->p_offset + at, entries, bytes))
            return false;
        for (unsigned i = 0; i < sizeof entries / sizeof entries[0]; i++) {
            uint64_t value = entries[i].d_un.d_val;
            switch (entries[i].d_tag) {
            case DT_NULL:
                return false;
            case DT_STRTAB:
                f->strings = value;
                break;
            case DT_SYMTAB:
                f->symbols = value;
                break;
            case DT_GNU_HASH:
                f->hashes = value;
                break;
            case DT_NEEDED:
                if (only_tables)
                    break;
                read_name(f, f->strings + value, name);
                if (is_sanitizers(name))
                    return true;
            }
        }
    }
    return false;
}

/* As the linker looks it up; a filter of bits says of nearly all names that they are not there. */
static bool defines(const struct program_file *f, const char *wanted)
{
    uint32_t header[4], hash = 5381, at, chain; /* buckets, first symbol, filter words, shift */
    uint64_t filter;
    for (const char *c = wanted; *c; c++)
        hash = hash * 33 + (uint8_t)*c;
    if (!f->hashes || !read_address(f, f->hashes, header, sizeof header) || !header[0] ||
        !header[2])
        return false;
    uint64_t words = f->hashes + sizeof header, buckets = words + header[2] * UINT64_C(8);
    if (!read_address(f, words + (hash / 64 % header[2]) * UINT64_C(8), &filter, sizeof filter) ||
        !(filter >> (hash % 64) & filter >> ((hash >> (header[3] & 31)) % 64) & 1) ||
        !read_address(f, buckets + (hash % header[0]) * UINT64_C(4), &at, sizeof at) ||
        at < header[1])
        return false;
    for (unsigned most = 10000; most--; at++) {
        Elf64_Sym symbol;
        char name[NAME_BYTES];
        if (!read_address(f, buckets + (header[0] + (uint64_t)at - header[1]) * 4, &chain,
                          sizeof chain))
            return false;
        if ((chain | 1) == (hash | 1) &&
            read_address(f, f->symbols + at * sizeof symbol, &symbol, sizeof symbol)) {
            read_name(f, f->strings + symbol.st_name, name);
            if (strcmp(name, wanted) == 0)
                return true;
        }
        if (chain & 1)
            return false;
    }
    return false;
}

static bool has_sanitizer(struct program_file *f)
{
    needs_sanitizer(f, true); /* the texts may come behind those who name them */
    if (needs_sanitizer(f, false))
        return true;
    for (unsigned i = 0; i < SANITIZER_COUNT; i++)
        if (defines(f, sanitizers[i].function))
            return true;
    return false;
}

/* --- hosts ---------------------------------------------------------------------------------------
 */

/* Only a regular file is opened: others could notice that. */
static long open_file(int folder, const char *path, int flags)
{
    struct stat status;
    if (raw_syscall4(SYS_newfstatat, folder, (long)path, (long)&status,
                     flags & (AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW)) < 0 ||
        !S_ISREG(status.st_mode))
        return -1;
    if ((flags & AT_EMPTY_PATH) && !*path)
        return folder;
    return raw_syscall4(SYS_openat, folder, (long)path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
}

/* The interpreter of a script; false: it is none. */
static bool find_interpreter(char *start, char **path)
{
    if (start[0] != '#' || start[1] != '!')
        return false;
    char *at = start + 2;
    at += strspn(at, " \t");
    *path = at;
    at[strcspn(at, " \t\n")] = '\0';
    return **path != '\0';
}

/* A library for 64 bits is an error that the linker of a 32-bit program prints. */
static bool is_host(long fd, const char *start)
{
    struct program_file f = {.fd = fd};
    if (start[EI_CLASS] != ELFCLASS64)
        return false;
    return !read_segments(&f) || (!has_other_linker(&f) && !has_sanitizer(&f));
}

bool exec_is_host(int folder, const char *path, int flags)
{
    enum { START_BYTES = 256, MOST_SCRIPTS = 5 };
    char first[START_BYTES + 1], second[START_BYTES + 1], *here = first, *other = second;
    for (unsigned i = 0; i < MOST_SCRIPTS; i++) {
        long fd = open_file(folder, path, flags);
        if (fd < 0)
            return true;
        long count = raw_syscall4(SYS_pread64, fd, (long)here, START_BYTES, 0);
        here[count > 0 ? count : 0] = '\0';
        bool is_elf = count > EI_CLASS && memcmp(here, ELFMAG, SELFMAG) == 0;
        bool is = !is_elf || is_host(fd, here);
        if (fd != folder)
            raw_syscall3(SYS_close, fd, 0, 0);
        char *interpreter;
        if (is_elf || !find_interpreter(here, &interpreter))
            return is;
        path = interpreter;
        folder = AT_FDCWD;
        flags = 0;
        char *swap = here;
        here = other;
        other = swap;
    }
    return true;
}
