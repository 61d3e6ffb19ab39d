#include "record/target.h"

#include "base/file.h"
#include "base/vec.h"
#include "elf/elf_file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

static char *search_path(const char *name)
{
    if (strchr(name, '/'))
        return must_strdup(name);
    const char *folders = getenv("PATH");
    char *list = must_strdup(folders ? folders : "/bin:/usr/bin"), *rest = list, *folder;
    char *found = NULL;
    while (!found && (folder = strsep(&rest, ":"))) {
        found = must_format("%s/%s", *folder ? folder : ".", name);
        struct stat status;
        if (access(found, X_OK) != 0 || stat(found, &status) != 0 || !S_ISREG(status.st_mode)) {
            free(found);
            found = NULL;
        }
    }
    free(list);
    return found;
}

static bool is_elf(const char *path)
{
    struct mapped_file file;
    if (file_map(path, &file, NULL) != CT_OK)
        return false;
    bool is = file.size > SELFMAG && memcmp(file.bytes, ELFMAG, SELFMAG) == 0;
    file_unmap(&file);
    return is;
}

/* Others' setuid programs lose their events with their privileges, but for root's. */
static bool is_anothers(const struct elf_file *file)
{
    return (file->file.status.st_mode & (S_ISUID | S_ISGID)) &&
           (file->file.status.st_uid != geteuid() || geteuid() != getuid());
}

/* glibc's dynamic linker, called as a program: by the name that it has in itself. */
static bool is_linker(const struct elf_file *file)
{
    static const char name[] = "ld-linux-x86-64.so.2";
    uint64_t texts, own_name;
    if (!elf_dynamic_value(file, DT_STRTAB, &texts) ||
        !elf_dynamic_value(file, DT_SONAME, &own_name))
        return false;
    const uint8_t *bytes = elf_bytes_at(file, texts + own_name, sizeof name);
    return bytes && memcmp(bytes, name, sizeof name) == 0;
}

static int check_elf(const char *path, struct target_ways *ways, struct ct_error *err)
{
    struct elf_file file;
    *ways = (struct target_ways){0};
    if (elf_open_identity(path, &file, err) != CT_OK) {
        ways->outside = is_elf(path); /* of 32 bits */
        return CT_ERROR;
    }
    struct program program = program_of(&file);
    ways->kind = program.kind;
    ways->outside = true;
    int status = CT_OK;
    if (is_anothers(&file)) {
        status = ct_fail(err,
                         "%s: is a setuid or setgid program; the system keeps others' "
                         "libraries out of it",
                         path);
        ways->outside = geteuid() == 0;
    } else if (is_linker(&file)) { /* what it loads is the program */
        ways->inside = true;
    } else {
        /* Go's runtime gets on with a guest that takes no samples. */
        ways->inside = program.is_loaded_by_glibc && program.kind != PROGRAM_SANITIZED;
        if (!ways->inside || program.kind == PROGRAM_GO)
            status = ct_fail(err, "%s: %s", path, program.reason);
    }
    elf_close(&file);
    return status;
}

/* The interpreter of a script, to be freed; NULL when the file is no script. */
static char *script_interpreter(const char *path)
{
    struct mapped_file file;
    char *interpreter = NULL;
    if (file_map(path, &file, NULL) != CT_OK)
        return NULL;
    if (file.size > 2 && memcmp(file.bytes, "#!", 2) == 0) {
        size_t most = file.size - 2 < 255 ? file.size - 2 : 255;
        char line[256] = "";
        memcpy(line, file.bytes + 2, most);
        line[strcspn(line, "\n")] = '\0';
        char *start = line + strspn(line, " \t");
        start[strcspn(start, " \t")] = '\0';
        interpreter = must_strdup(start);
    }
    file_unmap(&file);
    return interpreter;
}

char *target_elf(const char *path)
{
    char *interpreter = script_interpreter(path);
    return interpreter ? interpreter : must_strdup(path);
}

int target_locate(const char *name, char **path, struct ct_error *err)
{
    *path = search_path(name);
    if (!*path)
        return ct_fail(err, "%s: there is no such program in PATH", name);
    int status = CT_OK;
    struct stat info;
    if (stat(*path, &info) != 0)
        status = ct_fail_errno(err, errno, "%s: cannot be run", *path);
    else if (S_ISDIR(info.st_mode))
        status = ct_fail(err, "%s: is a directory, not a program", *path);
    else if (access(*path, X_OK) != 0)
        status = ct_fail_errno(err, errno, "%s: cannot be run", *path);
    if (status != CT_OK) {
        free(*path);
        *path = NULL;
    }
    return status;
}

int target_check_host(const char *path, struct target_ways *ways, struct ct_error *err)
{
    char *elf = target_elf(path);
    int status = check_elf(elf, ways, err);
    free(elf);
    return status;
}

int target_find(const char *name, char **path, struct ct_error *err)
{
    struct target_ways ways;
    CT_TRY(target_locate(name, path, err));
    int status = target_check_host(*path, &ways, err);
    if (status != CT_OK && ways.inside)
        status = CT_OK;
    if (status != CT_OK) {
        free(*path);
        *path = NULL;
    }
    return status;
}
