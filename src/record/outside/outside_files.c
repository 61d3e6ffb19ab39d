#include "record/outside/outside_files.h"

#include "elf/elf_file.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

void outside_files_end(struct outside_files *files)
{
    for (size_t i = 0; i < files->items.count; i++) {
        struct outside_file *f = files->items.items[i];
        file_unmap(&f->file);
        vec_free(&f->segments);
        free(f);
    }
    vec_free(&files->items);
}

/* Some file systems have another device number for stat than for mappings. */
static bool has_other_numbers(const char *path)
{
    struct statfs info;
    return statfs(path, &info) == 0 &&
           (info.f_type == BTRFS_SUPER_MAGIC || info.f_type == OVERLAYFS_SUPER_MAGIC);
}

/*
 * The number of a file that was removed is soon that of another one: file systems that use numbers
 * again tell the two apart by a generation. Others have none to ask for.
 */
static bool has_other_generation(const char *path, const struct outside_mapping *m)
{
    long version = 0; /* an int is written, whatever the request says */
    int fd = m->has_generation ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    bool is_known = fd >= 0 && ioctl(fd, FS_IOC_GETVERSION, &version) == 0;
    if (fd >= 0)
        close(fd);
    return is_known && (uint32_t)version != (uint32_t)m->generation;
}

static bool is_mapped_file(const char *path, const struct outside_mapping *m)
{
    struct stat file;
    return stat(path, &file) == 0 && S_ISREG(file.st_mode) && file.st_ino == m->inode &&
           (file.st_dev == makedev(m->major, m->minor) || has_other_numbers(path)) &&
           !has_other_generation(path, m);
}

/* A path by which the file can be opened; to be freed. NULL: there is none. */
static char *find_path(uint32_t pid, const struct outside_mapping *m)
{
    char *places[] = {must_format("/proc/%u/root%s", pid, m->path), must_strdup(m->path),
                      must_format("/proc/%u/map_files/%lx-%lx", pid, m->start, m->start + m->bytes),
                      must_format("/proc/%u/exe", pid)};
    char *found = NULL;
    for (unsigned i = 0; i < sizeof places / sizeof places[0]; i++) {
        if (!found && is_mapped_file(places[i], m))
            found = places[i];
        else
            free(places[i]);
    }
    return found;
}

static void list_segments(struct outside_file *f, const char *path)
{
    struct elf_file elf;
    size_t count = 0;
    GElf_Phdr p;
    if (elf_open_identity(path, &elf, NULL) != CT_OK)
        return;
    elf_getphdrnum(elf.elf, &count);
    for (size_t i = 0; i < count; i++)
        if (gelf_getphdr(elf.elf, (int)i, &p) && p.p_type == PT_LOAD)
            vec_push(&f->segments,
                     (struct outside_segment){p.p_vaddr, p.p_filesz, p.p_offset, p.p_flags & PF_X});
    elf_close(&elf);
}

static bool is_same(const struct outside_file *f, const struct outside_mapping *m)
{
    return f->inode == m->inode && f->major == m->major && f->minor == m->minor;
}

const struct outside_file *outside_file_of(struct outside_files *files, uint32_t pid,
                                           const struct outside_mapping *m)
{
    for (size_t i = 0; i < files->items.count; i++)
        if (is_same(files->items.items[i], m))
            return files->items.items[i];
    char *path = m->inode ? find_path(pid, m) : NULL;
    struct outside_file *f = path ? must_calloc(1, sizeof *f) : NULL;
    if (f && (file_map(path, &f->file, NULL) != CT_OK || f->file.status.st_ino != m->inode ||
              !is_mapped_file(path, m))) { /* asked again: its number is its own from now on */
        file_unmap(&f->file);
        free(f);
        f = NULL;
    }
    if (f) {
        const struct open_map *opened = open_maps_find(files->maps, path);
        f->major = m->major;
        f->minor = m->minor;
        f->inode = m->inode;
        f->device = f->file.status.st_dev;
        if (opened && is_mapped_file(path, m)) /* still; the map may be that of an equal file */
            f->map = &opened->map;
        list_segments(f, path);
        vec_push(&files->items, f);
    }
    free(path);
    return f;
}

bool outside_file_bias(const struct outside_file *f, const struct outside_mapping *m,
                       uint64_t *bias)
{
    const struct outside_segment *found = NULL;
    for (size_t i = 0; i < f->segments.count; i++) {
        const struct outside_segment *s = &f->segments.items[i];
        uint64_t first = page_start(s->file_offset);
        if (m->file_offset >= first && m->file_offset < s->file_offset + s->bytes &&
            (!found || s->is_code))
            found = s;
    }
    if (found)
        *bias = m->start - m->file_offset - found->address + found->file_offset;
    return found != NULL;
}

const void *outside_file_code(const struct outside_file *f, uint64_t address, uint64_t *start,
                              uint64_t *end)
{
    for (size_t i = 0; i < f->segments.count; i++) {
        const struct outside_segment *s = &f->segments.items[i];
        if (!s->is_code || address < s->address || address - s->address >= s->bytes ||
            s->file_offset > f->file.size || s->bytes > f->file.size - s->file_offset)
            continue;
        *start = s->address;
        *end = s->address + s->bytes;
        return f->file.bytes + s->file_offset;
    }
    return NULL;
}
