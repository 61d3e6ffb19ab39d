#include "record/target.h"

#include "base/file.h"
#include "base/vec.h"
#include "elf/elf_file.h"

#include <errno.h>
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

static bool has_interpreter(const struct elf_file *file)
{
    size_t count = 0;
    GElf_Phdr p;
    elf_getphdrnum(file->elf, &count);
    for (size_t i = 0; i < count; i++)
        if (gelf_getphdr(file->elf, (int)i, &p) && p.p_type == PT_INTERP)
            return true;
    return false;
}

static int check_elf(const char *path, struct ct_error *err)
{
    struct elf_file file;
    CT_TRY(elf_open_identity(path, &file, err));
    int status = CT_OK;
    if (!has_interpreter(&file))
        status = ct_fail(err,
                         "%s: is statically linked; calltrail needs the dynamic linker to get into "
                         "the program",
                         path);
    else if ((file.file.status.st_mode & (S_ISUID | S_ISGID)) &&
             (file.file.status.st_uid != geteuid() || geteuid() != getuid()))
        status = ct_fail(err,
                         "%s: is a setuid or setgid program; the system keeps others' "
                         "libraries out of it",
                         path);
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

int target_find(const char *name, char **path, struct ct_error *err)
{
    *path = search_path(name);
    if (!*path)
        return ct_fail(err, "%s: there is no such program in PATH", name);
    int status = CT_OK;
    char *interpreter = NULL;
    struct stat info;
    if (stat(*path, &info) != 0)
        status = ct_fail_errno(err, errno, "%s: cannot be run", *path);
    else if (S_ISDIR(info.st_mode))
        status = ct_fail(err, "%s: is a directory, not a program", *path);
    else if (access(*path, X_OK) != 0)
        status = ct_fail_errno(err, errno, "%s: cannot be run", *path);
    else if ((interpreter = script_interpreter(*path)))
        status = check_elf(interpreter, err);
    else
        status = check_elf(*path, err);
    free(interpreter);
    if (status != CT_OK) {
        free(*path);
        *path = NULL;
    }
    return status;
}
