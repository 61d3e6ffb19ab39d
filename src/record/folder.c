#include "record/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <time.h>
#include <unistd.h>

enum { PLACES = 4 };

/* Where a folder may lie, best first; NULL: there is no such place. */
static const char *place(unsigned i)
{
    static const char *const names[PLACES] = {"/dev/shm", NULL, "/tmp", "/var/tmp"};
    return i == 1 ? getenv("TMPDIR") : names[i];
}

bool folder_is_in_memory(const char *path)
{
    struct statfs system;
    return statfs(path, &system) == 0 && (unsigned long)system.f_type == TMPFS_MAGIC;
}

static char *supervisor_file(const char *folder)
{
    return must_format("%s/supervisor", folder);
}

static bool lock(int fd)
{
    struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    return fcntl(fd, F_OFD_SETLK, &all) == 0;
}

/* Asks without taking: a look must not be in the way of a process that wants the lock. */
static bool is_locked(int fd)
{
    struct flock all = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
    return fcntl(fd, F_OFD_GETLK, &all) != 0 || all.l_type != F_UNLCK;
}

/* Names this process as the supervisor, and locks the name. */
static bool sign(struct folder *f)
{
    char *path = supervisor_file(f->path);
    f->lock = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    bool good = f->lock >= 0 && lock(f->lock);
    good = good && dprintf(f->lock, "%d\n", getpid()) > 0;
    free(path);
    return good;
}

static int make(struct folder *f, bool on_disk, struct ct_error *err)
{
    int why = ENOENT;
    *f = (struct folder){.lock = -1};
    for (unsigned i = 0; i < PLACES; i++) {
        if (!place(i) || (on_disk && folder_is_in_memory(place(i))))
            continue;
        f->path = must_format("%s/calltrail-XXXXXX", place(i));
        if (mkdtemp(f->path)) {
            if (sign(f))
                return CT_OK;
            why = errno;
            folder_remove(f);
            continue;
        }
        why = errno;
        free(f->path);
        f->path = NULL;
    }
    return ct_fail_errno(err, why, "no folder for what is measured (tried /dev/shm and /tmp)");
}

int folder_make(struct folder *f, struct ct_error *err)
{
    return make(f, false, err);
}

int folder_make_on_disk(struct folder *f, struct ct_error *err)
{
    return make(f, true, err);
}

double folder_age_s(const char *path)
{
    char *supervisor = supervisor_file(path);
    struct stat status;
    double age_s = stat(supervisor, &status) == 0 ? difftime(time(NULL), status.st_mtime) : 0;
    free(supervisor);
    return age_s;
}

static int supervisor_of(int fd)
{
    char text[32] = "";
    return pread(fd, text, sizeof text - 1, 0) > 0 ? atoi(text) : 0;
}

int folder_take(struct folder *f, const char *path, struct ct_error *err)
{
    char *supervisor = supervisor_file(path);
    *f = (struct folder){.lock = open(supervisor, O_RDWR | O_CLOEXEC | O_NOFOLLOW)};
    int why = errno;
    free(supervisor);
    if (f->lock < 0)
        return why == ENOENT || why == ENOTDIR
                   ? ct_fail(err, "%s: no recording found", path)
                   : ct_fail_errno(err, why, "%s: cannot be opened", path);
    if (!lock(f->lock)) {
        int pid = supervisor_of(f->lock);
        close(f->lock);
        f->lock = -1;
        return ct_fail(err,
                       "%s: calltrail (process %d) is still at work there; 'kill -USR2 %d' has it "
                       "write what there is",
                       path, pid, pid);
    }
    f->path = must_strdup(path);
    return CT_OK;
}

void folder_leave(struct folder *f)
{
    if (f->lock >= 0)
        close(f->lock);
    free(f->path);
    *f = (struct folder){.lock = -1};
}

void folder_remove_files(const char *path, const char *prefix)
{
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder && (entry = readdir(folder)) != NULL;)
        if (strncmp(entry->d_name, prefix, strlen(prefix)) == 0)
            unlinkat(dirfd(folder), entry->d_name, 0);
    if (folder)
        closedir(folder);
}

void folder_remove(struct folder *f)
{
    if (f->path) {
        char *supervisor = supervisor_file(f->path);
        unlink(supervisor);
        rmdir(f->path);
        free(supervisor);
    }
    folder_leave(f);
}

static bool is_left(const char *path)
{
    char *supervisor = supervisor_file(path);
    int fd = open(supervisor, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    struct stat status;
    free(supervisor);
    if (fd < 0)
        return false;
    bool left = fstat(fd, &status) == 0 && status.st_uid == geteuid() && supervisor_of(fd) &&
                !is_locked(fd);
    close(fd);
    return left;
}

void folder_list_left(struct folder_list *out)
{
    for (unsigned i = 0; i < PLACES; i++) {
        if (!place(i))
            continue;
        char *pattern = must_format("%s/calltrail-??????", place(i));
        glob_t found;
        if (glob(pattern, GLOB_NOSORT, NULL, &found) == 0) {
            for (size_t k = 0; k < found.gl_pathc; k++)
                if (is_left(found.gl_pathv[k]))
                    vec_push(&out->paths, must_strdup(found.gl_pathv[k]));
            globfree(&found);
        }
        free(pattern);
    }
}
