#include "names/package.h"

#include "base/file.h"
#include "base/vec.h"

#include <dirent.h>
#include <stdbool.h>
#include <string.h>

static bool has_line(const char *bytes, size_t size, const char *line)
{
    size_t length = strlen(line);
    for (const char *at = bytes, *end = bytes + size;
         (at = memmem(at, (size_t)(end - at), line, length)) != NULL; at++)
        if ((at == bytes || at[-1] == '\n') && (at + length == end || at[length] == '\n'))
            return true;
    return false;
}

static bool list_has(const char *list, const char *path)
{
    struct mapped_file file;
    if (file_map(list, &file, NULL) != CT_OK)
        return false;
    if (!file.bytes) {
        file_unmap(&file);
        return false;
    }
    /* Where /lib is a link to /usr/lib, lists have the one and maps the other. */
    bool found =
        has_line((const char *)file.bytes, file.size, path) ||
        (strncmp(path, "/usr/", 5) == 0 && has_line((const char *)file.bytes, file.size, path + 4));
    file_unmap(&file);
    return found;
}

char *package_of(const char *folder, const char *path)
{
    DIR *lists = opendir(folder);
    char *package = NULL;
    for (struct dirent *entry; lists && !package && (entry = readdir(lists)) != NULL;) {
        char *dot = strrchr(entry->d_name, '.');
        if (!dot || strcmp(dot, ".list") != 0)
            continue;
        char *list = must_format("%s/%s", folder, entry->d_name);
        if (list_has(list, path)) {
            package = must_strdup(entry->d_name);
            package[dot - entry->d_name] = '\0';
            package[strcspn(package, ":")] = '\0'; /* libfoo1:amd64 */
        }
        free(list);
    }
    if (lists)
        closedir(lists);
    return package;
}
