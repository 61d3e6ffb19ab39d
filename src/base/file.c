#include "base/file.h"

#include "base/vec.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int map_fd(int fd, const char *name, struct mapped_file *out, struct ct_error *err)
{
    *out = (struct mapped_file){0};
    if (fstat(fd, &out->status) != 0)
        return ct_fail_errno(err, errno, "%s: cannot be examined", name);
    if (S_ISDIR(out->status.st_mode))
        return ct_fail(err, "%s: is a directory, not a file", name);
    if (!S_ISREG(out->status.st_mode))
        return ct_fail(err, "%s: is not a regular file", name);
    if (out->status.st_size == 0)
        return CT_OK;
    size_t size = (size_t)out->status.st_size;
    void *bytes = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (bytes == MAP_FAILED)
        return ct_fail_errno(err, errno, "%s: cannot be mapped", name);
    out->bytes = bytes;
    out->size = size;
    return CT_OK;
}

int file_map(const char *path, struct mapped_file *out, struct ct_error *err)
{
    *out = (struct mapped_file){0};
    /* O_NONBLOCK: opening a fifo must not hang; it is refused as not regular. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return ct_fail_errno(err, errno, "%s: cannot be opened", path);
    int status = map_fd(fd, path, out, err);
    close(fd);
    return status;
}

void file_unmap(struct mapped_file *file)
{
    if (file->bytes)
        munmap((void *)file->bytes, file->size);
    file->bytes = NULL;
    file->size = 0;
}

int make_folders(const char *path, struct ct_error *err)
{
    char *copy = must_strdup(path);
    int status = CT_OK;
    for (char *p = copy + 1;; p++) {
        if (*p != '/' && *p != '\0')
            continue;
        char kept = *p;
        *p = '\0';
        if (mkdir(copy, 0700) != 0 && errno != EEXIST) {
            status = ct_fail_errno(err, errno, "%s: the folder cannot be made", copy);
            break;
        }
        *p = kept;
        if (kept == '\0')
            break;
    }
    free(copy);
    return status;
}
