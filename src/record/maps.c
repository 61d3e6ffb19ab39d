#include "record/maps.h"

#include "base/page.h"
#include "elf/elf_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

void open_maps_begin(struct open_maps *maps)
{
    *maps = (struct open_maps){0};
    map_cache_open(&maps->cache);
}

void open_maps_end(struct open_maps *maps)
{
    for (size_t i = 0; i < maps->items.count; i++) {
        struct open_map *m = maps->items.items[i];
        if (m->exists)
            map_close(&m->map);
        if (m->fd >= 0)
            close(m->fd);
        free(m);
    }
    vec_free(&maps->items);
    map_cache_close(&maps->cache);
}

static bool is_same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
           a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

bool open_maps_has(const struct open_maps *maps, const char *elf_path)
{
    struct stat file;
    if (stat(elf_path, &file) != 0)
        return true; /* or there is nothing to make it of */
    for (size_t i = 0; i < maps->items.count; i++)
        if (is_same_file(&maps->items.items[i]->file, &file))
            return true;
    return false;
}

struct open_map *open_maps_find(struct open_maps *maps, const char *elf_path)
{
    struct open_map found = {.fd = -1};
    if (stat(elf_path, &found.file) != 0)
        return NULL;
    for (size_t i = 0; i < maps->items.count; i++)
        if (is_same_file(&maps->items.items[i]->file, &found.file))
            return maps->items.items[i]->exists ? maps->items.items[i] : NULL;
    found.exists = map_for_file(&maps->cache, elf_path, &found.map, NULL, NULL) == CT_OK;
    /* The vdso's image is a new file for each process, and the same map. */
    for (size_t i = 0; found.exists && found.map.entry_path && i < maps->items.count; i++) {
        struct open_map *m = maps->items.items[i];
        if (m->exists && m->map.entry_path &&
            strcmp(m->map.entry_path, found.map.entry_path) == 0) {
            map_close(&found.map);
            return m;
        }
    }
    struct open_map *kept = must_calloc(1, sizeof *kept);
    *kept = found;
    vec_push(&maps->items, kept);
    return kept->exists ? kept : NULL;
}

const struct open_map *open_maps_known(struct open_maps *maps, const char *elf_path, uint64_t hash)
{
    for (size_t i = 0; hash && i < maps->items.count; i++) {
        const struct open_map *m = maps->items.items[i];
        if (m->exists && m->map.header->header_hash == hash)
            return m;
    }
    const struct open_map *m = open_maps_find(maps, elf_path);
    return m && (!hash || m->map.header->header_hash == hash) ? m : NULL;
}

const struct open_map *open_maps_of(struct open_maps *maps, const char *elf_path, dev_t device,
                                    ino_t inode)
{
    struct stat file;
    if (!inode)
        return NULL;
    for (size_t i = 0; i < maps->items.count; i++) {
        const struct open_map *m = maps->items.items[i];
        if (m->file.st_ino == inode && m->file.st_dev == device)
            return m->exists ? m : NULL;
    }
    bool is_it = stat(elf_path, &file) == 0 && file.st_ino == inode && file.st_dev == device;
    return is_it ? open_maps_find(maps, elf_path) : NULL;
}

/* The vdso of the kernel that runs is the recorded one, if it is of the same size; it has no file,
 * so its image is copied into one. */
struct open_map *open_maps_vdso(struct open_maps *maps, uint64_t size)
{
    const char *image = (const char *)getauxval(AT_SYSINFO_EHDR);
    int fd = image && !maps->vdso_tried ? memfd_create("vdso", MFD_CLOEXEC) : -1;
    if (fd >= 0) {
        char path[32];
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        if (write(fd, image, size) == (ssize_t)size)
            maps->vdso = open_maps_find(maps, path);
        close(fd);
    }
    maps->vdso_tried = true;
    uint64_t pages = maps->vdso ? (maps->vdso->map.header->span + PAGE_BYTES - 1) / PAGE_BYTES : 0;
    return pages * PAGE_BYTES == size ? maps->vdso : NULL;
}

int open_map_fd(struct open_map *m)
{
    if (m->fd >= 0)
        return m->fd;
    if (m->map.entry_path)
        m->fd = open(m->map.entry_path, O_RDONLY | O_CLOEXEC);
    if (m->fd >= 0)
        return m->fd;
    m->fd = memfd_create("map", MFD_CLOEXEC);
    if (m->fd >= 0 && write(m->fd, m->map.header, m->map.header->file_size) !=
                          (ssize_t)m->map.header->file_size) {
        close(m->fd);
        m->fd = -1;
    }
    return m->fd;
}
