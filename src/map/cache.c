#include "map/cache.h"

#include "base/vec.h"
#include "elf/elf_file.h"
#include "elf/symbols.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

static char *folder_name(const char *kind)
{
    const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (xdg && xdg[0] == '/') /* a relative one is to be ignored, says the standard */
        return must_format("%s/calltrail/%s", xdg, kind);
    if (home && home[0] == '/')
        return must_format("%s/.cache/calltrail/%s", home, kind);
    return NULL;
}

/* Only a folder that no other user can write to may hold what is mapped into other programs. */
static int check_folder(const char *folder, struct ct_error *err)
{
    struct stat status;
    CT_TRY(make_folders(folder, err));
    if (stat(folder, &status) != 0)
        return ct_fail_errno(err, errno, "%s: cannot be examined", folder);
    if (status.st_uid != geteuid() || (status.st_mode & (S_IWGRP | S_IWOTH)))
        return ct_fail(err, "%s: is not private to this user", folder);
    if (access(folder, W_OK | X_OK) != 0)
        return ct_fail_errno(err, errno, "%s: cannot be written", folder);
    return CT_OK;
}

static void give_up(struct map_cache *cache, const char *reason)
{
    ct_fail(&cache->warning, "%s; maps of modules are kept in memory for this run only", reason);
    free(cache->folder);
    cache->folder = NULL;
}

char *cache_folder(const char *kind, struct ct_error *why)
{
    char *folder = folder_name(kind);
    if (folder && check_folder(folder, why) == CT_OK)
        return folder;
    if (!folder)
        ct_fail(why, "neither XDG_CACHE_HOME nor HOME names a cache folder");
    free(folder);
    return NULL;
}

void map_cache_open(struct map_cache *cache)
{
    struct ct_error why;
    char kind[32];
    snprintf(kind, sizeof kind, "maps-%d", MAP_VERSION);
    *cache = (struct map_cache){.folder = cache_folder(kind, &why)};
    if (!cache->folder)
        give_up(cache, why.text);
}

void map_cache_close(struct map_cache *cache)
{
    free(cache->folder);
    *cache = (struct map_cache){0};
}

struct identity {
    uint64_t size;
    uint64_t device, inode, seconds, nanoseconds; /* of a file without a build-id */
    uint64_t debug_size, debug_seconds, debug_nanoseconds;
    uint64_t debug_path_hash;
    uint64_t eh_frame_hash; /* a build-id is only what a tool wrote into the file */
};

static char *entry_name(const struct map_cache *cache, const struct elf_file *file)
{
    struct identity id = {.size = file->file.size};
    char hex[2 * CACHE_BUILD_ID_MAX + 1];
    if (!file->build_id_size) {
        const struct stat *s = &file->file.status;
        id.device = s->st_dev;
        id.inode = s->st_ino;
        id.seconds = (uint64_t)s->st_mtim.tv_sec;
        id.nanoseconds = (uint64_t)s->st_mtim.tv_nsec;
    }
    char *debug = elf_find_debug_file(file);
    struct stat status;
    if (debug && stat(debug, &status) == 0) {
        id.debug_size = (uint64_t)status.st_size;
        id.debug_seconds = (uint64_t)status.st_mtim.tv_sec;
        id.debug_nanoseconds = (uint64_t)status.st_mtim.tv_nsec;
        id.debug_path_hash = XXH3_64bits(debug, strlen(debug));
    }
    free(debug);
    struct eh_frame frames;
    if (elf_eh_frame(file, &frames))
        id.eh_frame_hash = XXH3_64bits(frames.data.d_buf, frames.data.d_size);
    return must_format("%s/%s-%016lx.map", cache->folder,
                       build_id_hex(file->build_id, file->build_id_size, hex),
                       (unsigned long)XXH3_64bits(&id, sizeof id));
}

/* On the heap, not in a memfd: those count against a limit on file sizes. */
static int build_in_memory(struct elf_file *file, struct map *out, struct ct_error *err)
{
    char *bytes = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&bytes, &size);
    if (!stream)
        return ct_fail_errno(err, errno, "%s: no memory for its map", file->path);
    int status = map_build_elf(file, stream, err);
    if (fclose(stream) != 0 && status == CT_OK)
        status = ct_fail_errno(err, errno, "%s: no memory for its map", file->path);
    if (status == CT_OK)
        status = map_from_bytes(bytes, size, false, out, err);
    if (status == CT_OK)
        out->owned = bytes;
    else
        free(bytes);
    return status;
}

/* Makes the map in the cache. Only what is wrong with the module is an error. */
static int build_in_cache(struct map_cache *cache, struct elf_file *file, const char *entry,
                          struct map *out, struct ct_error *err)
{
    struct new_file made;
    struct ct_error why;
    if (file_begin(entry, &made, &why) != CT_OK) {
        give_up(cache, why.text);
        return build_in_memory(file, out, err);
    }
    int status = map_build_elf(file, made.stream, err);
    if (status != CT_OK && !ferror(made.stream)) {
        file_abandon(&made);
        return status;
    }
    if (file_commit(&made, &why) == CT_OK && map_open(entry, false, out, &why) == CT_OK)
        return CT_OK;
    give_up(cache, why.text);
    return build_in_memory(file, out, err);
}

struct entry {
    char *name;
    uint64_t bytes;
    time_t used;
};

static int oldest_first(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    return (x->used > y->used) - (x->used < y->used);
}

void cache_tidy(const char *folder_path, const char *suffix, uint64_t most_bytes)
{
    enum { DAY_S = 86400, ENTRY_DAYS = 60 };
    DIR *folder = opendir(folder_path);
    time_t now = time(NULL);
    uint64_t sum = 0;
    VEC(struct entry) entries = {0};
    for (struct dirent *e; folder && (e = readdir(folder));) {
        struct stat status;
        const char *found = strstr(e->d_name, suffix);
        if (!found || fstatat(dirfd(folder), e->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        bool temporary = found[strlen(suffix)] != '\0';
        if (now - status.st_mtime > (temporary ? 1 : ENTRY_DAYS) * DAY_S) {
            unlinkat(dirfd(folder), e->d_name, 0);
        } else if (!temporary) {
            vec_push(&entries, (struct entry){must_strdup(e->d_name), (uint64_t)status.st_size,
                                              status.st_mtime});
            sum += (uint64_t)status.st_size;
        }
    }
    if (entries.count)
        qsort(entries.items, entries.count, sizeof *entries.items, oldest_first);
    for (size_t i = 0; i < entries.count; i++) {
        if (sum > most_bytes && unlinkat(dirfd(folder), entries.items[i].name, 0) == 0)
            sum -= entries.items[i].bytes;
        free(entries.items[i].name);
    }
    vec_free(&entries);
    if (folder)
        closedir(folder);
}

void cache_mark_used(const char *entry, const struct stat *status)
{
    if (time(NULL) - status->st_mtime > 86400)
        utimensat(AT_FDCWD, entry, NULL, 0);
}

const char *build_id_hex(const uint8_t *id, uint32_t size, char text[2 * CACHE_BUILD_ID_MAX + 1])
{
    strcpy(text, "no-build-id");
    for (uint32_t i = 0; i < size && i < CACHE_BUILD_ID_MAX; i++)
        snprintf(text + 2 * i, 3, "%02x", id[i]);
    return text;
}

static bool is_of(const struct map *map, const struct elf_file *file)
{
    return map->header->build_id_size == file->build_id_size &&
           memcmp(map->header->build_id, file->build_id, file->build_id_size) == 0;
}

char *map_cached_path(const struct map_cache *cache, const char *elf_path)
{
    struct elf_file file;
    if (!cache->folder || elf_open_identity(elf_path, &file, NULL) != CT_OK)
        return NULL;
    char *entry = entry_name(cache, &file);
    elf_close(&file);
    if (access(entry, R_OK) == 0)
        return entry;
    free(entry);
    return NULL;
}

bool map_is_cached(const struct map_cache *cache, const char *elf_path)
{
    char *entry = map_cached_path(cache, elf_path);
    free(entry);
    return entry != NULL;
}

int map_for_file(struct map_cache *cache, const char *elf_path, struct map *out, bool *was_cached,
                 struct ct_error *err)
{
    struct elf_file file;
    char *entry = NULL;
    CT_TRY(elf_open_identity(elf_path, &file, err));
    if (was_cached)
        *was_cached = false;
    if (cache->folder) {
        entry = entry_name(cache, &file);
        if (map_open(entry, true, out, NULL) == CT_OK) {
            if (is_of(out, &file)) {
                cache_mark_used(entry, &out->file.status);
                out->entry_path = entry;
                elf_close(&file);
                if (was_cached)
                    *was_cached = true;
                return CT_OK;
            }
            map_close(out);
        }
    }
    /* A missing, damaged or outdated entry is simply made anew, from the file as it is open here.
     */
    int status = elf_complete(&file, err);
    if (status == CT_OK) {
        status = entry ? build_in_cache(cache, &file, entry, out, err)
                       : build_in_memory(&file, out, err);
        elf_close(&file);
    }
    if (status == CT_OK && cache->folder) {
        out->entry_path = entry;
        if (!cache->is_tidy)
            cache_tidy(cache->folder, ".map", UINT64_MAX);
        cache->is_tidy = true;
        return CT_OK;
    }
    free(entry);
    return status;
}
