#include "names/debug_info.h"

#include "base/vec.h"
#include "elf/symbols.h"
#include "map/cache.h"
#include "names/debuginfod.h"

#include <elfutils/libdwelf.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum contents { HAS_NOTHING, HAS_SYMBOLS, HAS_DWARF };

static bool has_section(const struct elf_file *file, const char *name)
{
    GElf_Shdr header;
    return elf_section(file, name, &header) && header.sh_type != SHT_NOBITS && header.sh_size > 0;
}

static enum contents contents_of(const struct elf_file *file)
{
    if (has_section(file, ".debug_info") || has_section(file, ".zdebug_info"))
        return HAS_DWARF;
    return has_section(file, ".symtab") ? HAS_SYMBOLS : HAS_NOTHING;
}

static bool has_build_id(const struct elf_file *file, const struct debug_module *module)
{
    return file->build_id_size == module->build_id_size &&
           memcmp(file->build_id, module->build_id, module->build_id_size) == 0;
}

/* The best file so far. */
struct search {
    const struct debug_module *module;
    enum contents best;
    char *path;
    struct ct_error *wrong; /* says which file is of another build */
    bool any_wrong;
};

/* Takes the path, and frees it if it is not better. `named`: found by the user's folder and a name.
 */
static void offer(struct search *s, char *path, bool named)
{
    struct elf_file file;
    if (!path || elf_open_identity(path, &file, NULL) != CT_OK) {
        free(path);
        return;
    }
    if (has_build_id(&file, s->module)) {
        enum contents contents = contents_of(&file);
        if (contents > s->best) {
            free(s->path);
            s->path = path;
            s->best = contents;
            path = NULL;
        }
    } else if (named && !s->any_wrong) {
        char is[2 * CACHE_BUILD_ID_MAX + 1], was[2 * CACHE_BUILD_ID_MAX + 1];
        s->any_wrong = true;
        ct_fail(s->wrong,
                "%s: is of another build than the %s that was recorded: build-id %s, not %s", path,
                s->module->path, build_id_hex(file.build_id, file.build_id_size, is),
                build_id_hex(s->module->build_id, s->module->build_id_size, was));
    }
    elf_close(&file);
    free(path);
}

static void look_in_folder(struct search *s, const char *folder)
{
    const struct debug_module *m = s->module;
    const char *slash = strrchr(m->path, '/'), *name = slash ? slash + 1 : m->path;
    offer(s, elf_debug_file_of(folder, m->build_id, m->build_id_size), false);
    if (s->best == HAS_DWARF)
        return;
    offer(s, must_format("%s/%s.debug", folder, name), true);
    offer(s, must_format("%s/%s", folder, name), true);
    offer(s, must_format("%s/%s.debug", folder, m->path), true);
    offer(s, must_format("%s/%s", folder, m->path), true);
}

static void look_at_home(struct search *s)
{
    const struct debug_module *m = s->module;
    struct elf_file file;
    offer(s, elf_debug_file_of("/usr/lib/debug", m->build_id, m->build_id_size), false);
    if (s->best == HAS_DWARF || elf_open_identity(m->path, &file, NULL) != CT_OK)
        return;
    if (has_build_id(&file, m)) {
        struct elf_file debug;
        char *path = elf_find_debug_file(&file);
        if (path && elf_open_identity(path, &debug, NULL) == CT_OK) {
            enum contents contents = contents_of(&debug);
            if (contents > s->best && elf_debug_file_belongs(&debug, &file)) {
                free(s->path);
                s->path = must_strdup(path);
                s->best = contents;
            }
            elf_close(&debug);
        }
        free(path);
    }
    elf_close(&file);
}

int debug_info_find(const struct debug_module *module, const struct debug_folders *folders,
                    char **path, struct ct_error *err)
{
    struct ct_error wrong;
    struct search s = {.module = module, .wrong = &wrong};
    offer(&s, must_strdup(module->path), false);
    for (size_t i = 0; i < folders->count && s.best < HAS_DWARF && module->build_id_size; i++)
        look_in_folder(&s, folders->paths[i]);
    if (s.best < HAS_DWARF)
        look_at_home(&s);
    if (s.best < HAS_DWARF && s.any_wrong) {
        free(s.path);
        return ct_fail(err, "%s", wrong.text);
    }
    if (s.best < HAS_DWARF && module->build_id_size)
        offer(&s, debuginfod_fetch(module->build_id, module->build_id_size), false);
    *path = s.path;
    return CT_OK;
}

/* The file that dwz moved shared parts to: libdw looks beside this one and in /usr/lib/debug. */
static void find_shared_part(struct debug_info *info, const struct debug_folders *folders)
{
    const char *name;
    const void *id;
    ssize_t size = dwelf_dwarf_gnu_debugaltlink(info->dwarf, &name, &id);
    if (size <= 0 || dwarf_getalt(info->dwarf))
        return;
    for (size_t i = 0; i < folders->count; i++) {
        char *path = elf_debug_file_of(folders->paths[i], id, (uint32_t)size);
        int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
        free(path);
        Dwarf *shared = fd >= 0 ? dwarf_begin(fd, DWARF_C_READ) : NULL;
        if (!shared)
            continue;
        dwarf_setalt(info->dwarf, shared);
        info->shared = shared;
        info->shared_fd = fd;
        return;
    }
}

int debug_info_open(const char *path, struct debug_info *out, struct ct_error *err)
{
    *out = (struct debug_info){.fd = open(path, O_RDONLY | O_CLOEXEC)};
    if (out->fd < 0)
        return ct_fail_errno(err, errno, "%s: cannot be read", path);
    out->elf = elf_begin(out->fd, ELF_C_READ_MMAP, NULL);
    if (!out->elf) {
        close(out->fd);
        return ct_fail(err, "%s: cannot be read: %s", path, elf_errmsg(-1));
    }
    return CT_OK;
}

Dwarf *debug_info_dwarf(struct debug_info *info, const struct debug_folders *folders)
{
    info->dwarf = dwarf_begin_elf(info->elf, DWARF_C_READ, NULL);
    if (info->dwarf)
        find_shared_part(info, folders);
    return info->dwarf;
}

void debug_info_close(struct debug_info *info)
{
    dwarf_end(info->dwarf);
    if (info->shared) {
        dwarf_end(info->shared);
        close(info->shared_fd);
    }
    elf_end(info->elf);
    close(info->fd);
}
