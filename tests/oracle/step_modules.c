#include "step_modules.h"

#include "step_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct mapping {
    uint64_t start, end, file_offset, device, inode;
    bool executable;
    const char *path;
};

static bool parse_mapping(char *line, struct mapping *out)
{
    char permissions[5];
    unsigned major, minor;
    int path_at = 0;
    *out = (struct mapping){0};
    if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64 " %n", &out->start,
               &out->end, permissions, &out->file_offset, &major, &minor, &out->inode,
               &path_at) < 7 ||
        path_at == 0)
        return false;
    line[strcspn(line, "\n")] = '\0';
    out->device = (uint64_t)major << 32 | minor;
    out->executable = permissions[2] == 'x';
    out->path = line + path_at;
    return true;
}

static int read_loads(struct module_file *file, const char *path, struct ct_error *err)
{
    Elf64_Ehdr header;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return ct_fail_errno(err, errno, "%s: cannot be opened", file->path);
    bool good = pread(fd, &header, sizeof header, 0) == sizeof header &&
                memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 &&
                header.e_ident[EI_CLASS] == ELFCLASS64 && header.e_phentsize == sizeof(Elf64_Phdr);
    for (unsigned i = 0; good && i < header.e_phnum; i++) {
        Elf64_Phdr segment;
        good = pread(fd, &segment, sizeof segment, (off_t)(header.e_phoff + i * sizeof segment)) ==
               sizeof segment;
        if (good && segment.p_type == PT_LOAD)
            vec_push(&file->loads, segment);
    }
    close(fd);
    return good ? CT_OK : ct_fail(err, "%s: is not an ELF file for x86-64", file->path);
}

/* A map that other runs of the driver will find again: named by what identifies the file. */
static int map_through_folder(struct module_file *file, const char *path, const char *folder,
                              struct ct_error *err)
{
    struct stat status;
    if (stat(path, &status) != 0)
        return ct_fail_errno(err, errno, "%s: cannot be examined", file->path);
    char *kept = must_format("%s/%s-%lx-%lx-%lx-%lx.%lx.map", folder, file->name,
                             (unsigned long)status.st_dev, (unsigned long)status.st_ino,
                             (unsigned long)status.st_size, (unsigned long)status.st_mtim.tv_sec,
                             (unsigned long)status.st_mtim.tv_nsec);
    int result = map_open(kept, false, &file->map, NULL);
    if (result != CT_OK) {
        struct new_file made;
        result = file_begin(kept, &made, err);
        if (result == CT_OK) {
            result = map_build(path, made.stream, err);
            if (result == CT_OK)
                result = file_commit(&made, err);
            else
                file_abandon(&made);
        }
        if (result == CT_OK)
            result = map_open(kept, false, &file->map, err);
    }
    free(kept);
    return result;
}

static int map_in_memory(struct module_file *file, const char *path, struct ct_error *err)
{
    size_t size;
    FILE *stream = open_memstream(&file->map_bytes, &size);
    if (!stream)
        return ct_fail_errno(err, errno, "%s: no memory for its map", file->path);
    int result = map_build(path, stream, err);
    fclose(stream);
    CT_TRY(result);
    return map_from_bytes(file->map_bytes, size, false, &file->map, err);
}

static struct module_file *add_file(struct step_modules *modules, const struct mapping *mapping,
                                    const char *path, bool may_keep)
{
    struct module_file *file = must_calloc(1, sizeof *file);
    struct ct_error err;
    file->path = must_strdup(mapping->path);
    const char *slash = strrchr(file->path, '/');
    file->name = slash ? slash + 1 : file->path;
    file->device = mapping->device;
    file->inode = mapping->inode;
    vec_push(&modules->files, file);

    int result = read_loads(file, path, &err);
    if (result == CT_OK)
        result = may_keep && modules->cache_folder
                     ? map_through_folder(file, path, modules->cache_folder, &err)
                     : map_in_memory(file, path, &err);
    file->has_map = result == CT_OK;
    if (result != CT_OK)
        fprintf(stderr, "step: no map: %s\n", err.text);
    return file;
}

/* The vdso exists only in memory: it is copied to a file without a name, and mapped like any other.
 */
static struct module_file *add_vdso(struct step_modules *modules, const struct mapping *mapping,
                                    pid_t pid)
{
    size_t size = mapping->end - mapping->start;
    char *bytes = must_calloc(1, size);
    size = read_tracee(pid, mapping->start, bytes, size);
    int fd = memfd_create("vdso", MFD_CLOEXEC);
    bool written = fd >= 0 && write(fd, bytes, size) == (ssize_t)size;
    free(bytes);
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", written ? fd : -1);
    struct module_file *file = add_file(modules, mapping, path, false);
    if (fd >= 0)
        close(fd);
    return file;
}

static struct module_file *find_file(struct step_modules *modules, const struct mapping *mapping,
                                     pid_t pid)
{
    for (size_t i = 0; i < modules->files.count; i++) {
        struct module_file *file = modules->files.items[i];
        if (file->device == mapping->device && file->inode == mapping->inode &&
            strcmp(file->path, mapping->path) == 0)
            return file;
    }
    if (strcmp(mapping->path, "[vdso]") == 0)
        return add_vdso(modules, mapping, pid);
    return add_file(modules, mapping, mapping->path, true);
}

/* Where the file's virtual address 0 would lie, from the segment that the mapping shows. */
static bool find_bias(const struct module_file *file, const struct mapping *mapping, uint64_t *bias)
{
    for (size_t i = 0; i < file->loads.count; i++) {
        const Elf64_Phdr *load = &file->loads.items[i];
        uint64_t first_page = load->p_offset & ~UINT64_C(0xfff);
        if ((load->p_flags & PF_X) && mapping->file_offset >= first_page &&
            mapping->file_offset < load->p_offset + load->p_filesz) {
            *bias = mapping->start - (load->p_vaddr + mapping->file_offset - load->p_offset);
            return true;
        }
    }
    return false;
}

static void add_loaded(struct step_modules *modules, struct module_file *file, uint64_t bias)
{
    struct walk_module module = {0};
    uint64_t low = UINT64_MAX, high = 0;
    for (size_t i = 0; i < file->loads.count; i++) {
        const Elf64_Phdr *load = &file->loads.items[i];
        low = load->p_vaddr < low ? load->p_vaddr : low;
        high = load->p_vaddr + load->p_memsz > high ? load->p_vaddr + load->p_memsz : high;
    }
    module.start = bias + (low & ~UINT64_C(0xfff));
    module.end = bias + ((high + 0xfff) & ~UINT64_C(0xfff));
    module.base = file->has_map ? bias + file->map.header->base : module.start;
    module.tables = file->has_map ? &file->map.tables : NULL;

    size_t at = modules->loaded.count;
    while (at > 0 && modules->loaded.items[at - 1].start > module.start)
        at--;
    if (at > 0 && modules->loaded.items[at - 1].end > module.start)
        return; /* another executable mapping of the same module */
    vec_push(&modules->loaded, module);
    vec_push(&modules->loaded_files, file);
    size_t behind = modules->loaded.count - 1 - at;
    memmove(&modules->loaded.items[at + 1], &modules->loaded.items[at], behind * sizeof module);
    memmove(&modules->loaded_files.items[at + 1], &modules->loaded_files.items[at],
            behind * sizeof file);
    modules->loaded.items[at] = module;
    modules->loaded_files.items[at] = file;
}

int modules_refresh(struct step_modules *modules, pid_t pid, struct ct_error *err)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
    FILE *maps = fopen(path, "re");
    if (!maps)
        return ct_fail_errno(err, errno, "%s: cannot be opened", path);
    modules->loaded.count = 0;
    modules->loaded_files.count = 0;
    modules->generation++;
    char *line = NULL;
    size_t room = 0;
    while (getline(&line, &room, maps) > 0) {
        struct mapping mapping;
        uint64_t bias;
        if (!parse_mapping(line, &mapping) || !mapping.executable ||
            (mapping.path[0] != '/' && strcmp(mapping.path, "[vdso]") != 0))
            continue;
        struct module_file *file = find_file(modules, &mapping, pid);
        if (find_bias(file, &mapping, &bias))
            add_loaded(modules, file, bias);
    }
    free(line);
    fclose(maps);
    return CT_OK;
}

void modules_free(struct step_modules *modules)
{
    for (size_t i = 0; i < modules->files.count; i++) {
        struct module_file *file = modules->files.items[i];
        if (file->has_map)
            map_close(&file->map);
        vec_free(&file->loads);
        free(file->map_bytes);
        free(file->path);
        free(file);
    }
    vec_free(&modules->files);
    vec_free(&modules->loaded);
    vec_free(&modules->loaded_files);
}

struct walk_modules modules_table(const struct step_modules *modules)
{
    return (struct walk_modules){.count = (uint32_t)modules->loaded.count,
                                 .generation = modules->generation,
                                 .items = modules->loaded.items};
}

bool modules_overlap(const struct step_modules *modules, uint64_t start, uint64_t size)
{
    for (size_t i = 0; i < modules->loaded.count; i++) {
        const struct walk_module *module = &modules->loaded.items[i];
        if (start < module->end && module->start < start + size)
            return true;
    }
    return false;
}

uint64_t modules_find(const struct step_modules *modules, pid_t pid, const char *function)
{
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/%d/exe", (int)pid);
    ssize_t length = readlink(link, path, sizeof path - 1);
    path[length > 0 ? length : 0] = '\0';
    for (size_t i = 0; i < modules->loaded.count; i++) {
        const struct module_file *file = modules->loaded_files.items[i];
        if (!file->has_map || strcmp(file->path, path) != 0)
            continue;
        for (uint32_t j = 0; j < file->map.function_count; j++) {
            const struct map_function *candidate = &file->map.functions[j];
            if (strcmp(map_string(&file->map, candidate->name), function) == 0)
                return modules->loaded.items[i].base + candidate->start;
        }
    }
    return 0;
}

struct module_place modules_place(const struct step_modules *modules, uint64_t pc, bool is_return)
{
    struct module_place place = {.module = "?", .offset = pc, .function = ""};
    for (size_t i = 0; i < modules->loaded.count; i++) {
        const struct walk_module *module = &modules->loaded.items[i];
        if (pc < module->start || pc >= module->end)
            continue;
        const struct module_file *file = modules->loaded_files.items[i];
        place.module = file->name;
        place.offset = pc - module->base;
        if (!file->has_map)
            return place;
        const struct map_function *function =
            map_find_function(&file->map, place.offset - (is_return ? 1 : 0));
        if (function) {
            place.function = map_string(&file->map, function->name);
            place.function_offset = place.offset - function->start;
        }
        place.offset += file->map.header->base;
        return place;
    }
    return place;
}
