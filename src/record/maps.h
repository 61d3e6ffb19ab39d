/*
 * The maps that a recording uses, each opened once: for the processes that ask for them, and for
 * the names in the profile.
 */
#ifndef RECORD_MAPS_H
#define RECORD_MAPS_H

#include "base/vec.h"
#include "map/cache.h"

#include <sys/stat.h>

struct open_map {
    struct stat file; /* what the map was made of */
    struct map map;
    bool exists; /* false: there is none, and there is no need to try again */
    int fd;      /* of the map's bytes, for a process to map; -1: not made yet */
};

struct open_maps {
    struct map_cache cache;
    VEC(struct open_map *) items;
    struct open_map *vdso; /* or NULL */
    bool vdso_tried;
};

void open_maps_begin(struct open_maps *maps);
void open_maps_end(struct open_maps *maps);

/* Is it known whether there is a map of the file? */
bool open_maps_has(const struct open_maps *maps, const char *elf_path);

/* The map of an ELF file, or NULL. It stays open until the end. */
struct open_map *open_maps_find(struct open_maps *maps, const char *elf_path);

/*
 * The map with this header_hash: one that is open, or else that of the path, if it is the same.
 * With hash 0 that of the path, whatever it is. NULL: there is none.
 */
const struct open_map *open_maps_known(struct open_maps *maps, const char *elf_path, uint64_t hash);

/*
 * The map of the file that has this inode: one that is open, or else of the path, if that is the
 * one. NULL: there is none.
 */
const struct open_map *open_maps_of(struct open_maps *maps, const char *elf_path, dev_t device,
                                    ino_t inode);

/* The map of the kernel's vdso, if it is of that size; or NULL. */
struct open_map *open_maps_vdso(struct open_maps *maps, uint64_t size);

/* A descriptor of the map's bytes, which stays ours; -1 when there is none. */
int open_map_fd(struct open_map *map);

#endif
