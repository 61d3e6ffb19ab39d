/*
 * Files that appear when they are complete; see file.h for what becomes of links and devices.
 */
#include "base/file.h"

#include "base/vec.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/vfs.h>
#include <unistd.h>

enum {
    MOST_LINKS = 40, /* as in the kernel */
    NAMES_TRIED = 100,
};

static char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    if (!slash)
        return must_strdup(".");
    return must_format("%.*s", slash == path ? 1 : (int)(slash - path), path);
}

/* The links of /proc/PID/fd lead to open files, whatever has become of their paths. */
static bool is_descriptor(const char *path)
{
    struct stat link;
    struct statfs system;
    if (lstat(path, &link) != 0 || !S_ISLNK(link.st_mode))
        return false;
    char *folder = folder_of(path);
    bool is_proc = statfs(folder, &system) == 0 && system.f_type == PROC_SUPER_MAGIC;
    free(folder);
    return is_proc;
}

/* Where a path leads to, whether that exists or not; to be freed. Endless links end somewhere. */
static char *follow_links(const char *path)
{
    char *at = must_strdup(path);
    char room[4096];
    for (int i = 0; i < MOST_LINKS && !is_descriptor(at); i++) {
        ssize_t length = readlink(at, room, sizeof room - 1);
        if (length <= 0 || (size_t)length >= sizeof room - 1)
            break;
        room[length] = '\0';
        char *folder = folder_of(at);
        char *next = *room == '/' ? must_strdup(room) : must_format("%s/%s", folder, room);
        free(folder);
        free(at);
        at = next;
    }
    return at;
}

static bool is_stream(const char *target)
{
    struct stat status;
    return stat(target, &status) == 0 && !S_ISDIR(status.st_mode) &&
           (!S_ISREG(status.st_mode) || is_descriptor(target));
}

bool file_is_stream(const char *path)
{
    char *target = follow_links(path);
    bool result = is_stream(target);
    free(target);
    return result;
}

static void forget(struct new_file *file)
{
    free(file->path);
    free(file->target);
    free(file->temporary);
    *file = (struct new_file){0};
}

/* A file without a name in the folder of `path`, so that nothing is left if we are killed: it can
 * be given a name when it is complete. -1 where the file system has none, or there is no /proc. */
static int open_nameless(const char *path)
{
    char *folder = folder_of(path);
    int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    free(folder);
    if (fd >= 0 && access("/proc/self/fd", X_OK) != 0) {
        close(fd);
        fd = -1;
    }
    return fd;
}

/* `path` ends in XXXXXX, which is replaced, unless the file has no name: with `is_nameless` it may
 * have none, which is said there. */
static FILE *open_temporary(char *path, bool *is_nameless)
{
    int fd = is_nameless ? open_nameless(path) : -1;
    if (is_nameless)
        *is_nameless = fd >= 0;
    if (fd < 0)
        fd = mkostemp(path, O_CLOEXEC);
    FILE *stream = fd < 0 ? NULL : fdopen(fd, "w+");
    if (!stream && fd >= 0) {
        int why = errno;
        close(fd);
        if (!is_nameless || !*is_nameless)
            unlink(path);
        errno = why;
    }
    return stream;
}

/* What is written first: beside the target, or, to be copied, a file without a name. */
static FILE *open_stream(struct new_file *file)
{
    if (!is_stream(file->target)) {
        file->temporary = must_format("%s.XXXXXX", file->target);
        return open_temporary(file->temporary, &file->is_nameless);
    }
    if (access(file->target, W_OK) != 0)
        return NULL;
    const char *folder = getenv("TMPDIR");
    char *path = must_format("%s/calltrail-XXXXXX", folder && *folder ? folder : "/tmp");
    FILE *stream = open_temporary(path, NULL);
    if (stream)
        unlink(path);
    free(path);
    return stream;
}

int file_begin(const char *path, struct new_file *out, struct ct_error *err)
{
    struct stat status;
    int found = stat(path, &status);
    if (found == 0 && S_ISDIR(status.st_mode))
        return ct_fail(err, "%s: is a directory; name a file in it", path);
    if (found != 0 && errno == ELOOP) /* the links would be followed to one of themselves */
        return ct_fail_errno(err, errno, "%s: cannot be written", path);
    *out = (struct new_file){.path = must_strdup(path), .target = follow_links(path)};
    out->stream = open_stream(out);
    if (!out->stream) {
        int why = errno;
        forget(out);
        return ct_fail_errno(err, why, "%s: cannot be written", path);
    }
    return CT_OK;
}

void file_share(struct new_file *file)
{
    struct stat replaced;
    mode_t mask = umask(0);
    umask(mask);
    mode_t mode = stat(file->target, &replaced) == 0 ? replaced.st_mode & 0777 : 0666 & ~mask;
    if (file->temporary)
        fchmod(fileno(file->stream), mode); /* private otherwise, where modes are not supported */
}

int file_keep_old(struct new_file *file, struct ct_error *err)
{
    struct stat there;
    char *kept = must_format("%s.old", file->target);
    int status = CT_OK;
    if (lstat(kept, &there) == 0 && !S_ISREG(there.st_mode))
        status =
            ct_fail(err, "%s: is where an older profile is kept, and not a regular file", kept);
    free(kept);
    file->keeps_old = true;
    return status;
}

/*
 * The old file gets a second name, so that there is one under the first at every moment. Where
 * files have one name only, it is moved. An empty file is not worth it.
 */
static int keep_old(const struct new_file *file)
{
    struct stat old;
    if (!file->keeps_old || stat(file->target, &old) != 0 || old.st_size == 0)
        return 0;
    char *kept = must_format("%s.old", file->target);
    unlink(kept);
    int status = link(file->target, kept);
    if (status != 0)
        status = rename(file->target, kept);
    free(kept);
    return status;
}

/* A descriptor of our own is written to where it stands; opening it again would begin anew. */
static int open_target(const char *target)
{
    struct stat there, own;
    char *end;
    const char *name = strrchr(target, '/');
    long number = name && is_descriptor(target) ? strtol(name + 1, &end, 10) : -1;
    if (number >= 0 && *end == '\0' && stat(target, &there) == 0 && fstat((int)number, &own) == 0 &&
        there.st_dev == own.st_dev && there.st_ino == own.st_ino)
        return fcntl((int)number, F_DUPFD_CLOEXEC, 0);
    return open(target, O_WRONLY | O_APPEND | O_NOCTTY | O_CLOEXEC);
}

static int write_all(int fd, const char *bytes, size_t size)
{
    while (size) {
        ssize_t n = write(fd, bytes, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        bytes += n;
        size -= (size_t)n;
    }
    return 0;
}

/* Writes the complete file to what cannot be replaced. 0, or -1 with errno. */
static int copy_to_target(const struct new_file *file)
{
    char room[1 << 16];
    int from = fileno(file->stream), status = 0;
    /* A reader that goes away is an error like others: record still has the program's status. */
    struct sigaction ignore = {.sa_handler = SIG_IGN}, before;
    sigaction(SIGPIPE, &ignore, &before);
    int to = open_target(file->target);
    if (to < 0 || lseek(from, 0, SEEK_SET) != 0)
        status = -1;
    for (ssize_t size; status == 0 && (size = read(from, room, sizeof room)) != 0;)
        status = size < 0 ? -1 : write_all(to, room, (size_t)size);
    int why = errno;
    if (to >= 0 && close(to) != 0 && status == 0) {
        status = -1;
        why = errno;
    }
    sigaction(SIGPIPE, &before, NULL);
    errno = why;
    return status;
}

/* A file without a name gets the temporary one. 0, or -1 with errno. */
static int give_name(struct new_file *file)
{
    char *own = must_format("/proc/self/fd/%d", fileno(file->stream));
    int status = -1;
    for (int i = 0; i < NAMES_TRIED && status != 0; i++) {
        uint32_t random = 0;
        if (getrandom(&random, sizeof random, GRND_NONBLOCK) < 0)
            random = (uint32_t)getpid() + (uint32_t)i;
        snprintf(file->temporary + strlen(file->temporary) - 6, 7, "%06x", random & 0xffffff);
        status = linkat(AT_FDCWD, own, AT_FDCWD, file->temporary, AT_SYMLINK_FOLLOW);
        if (status != 0 && errno != EEXIST)
            break;
    }
    int why = errno;
    free(own);
    errno = why;
    file->is_nameless = status != 0;
    return status;
}

static void remove_temporary(const struct new_file *file)
{
    if (file->temporary && !file->is_nameless)
        unlink(file->temporary);
}

int file_commit(struct new_file *file, struct ct_error *err)
{
    int status = CT_OK;
    bool written = fflush(file->stream) == 0 && !ferror(file->stream);
    if (written && file->is_nameless)
        written = give_name(file) == 0;
    if (written && !file->temporary)
        written = copy_to_target(file) == 0;
    int why = errno;
    if (fclose(file->stream) != 0 && written) {
        written = false;
        why = errno;
    }
    if (!written)
        status = ct_fail_errno(err, why, "%s: cannot be written", file->path);
    else if (file->temporary && keep_old(file) != 0)
        status = ct_fail_errno(err, errno, "%s: the old one cannot be kept as %s.old", file->path,
                               file->target);
    else if (file->temporary && rename(file->temporary, file->target) != 0)
        status = ct_fail_errno(err, errno, "%s: cannot be put in place", file->path);
    if (status != CT_OK)
        remove_temporary(file);
    forget(file);
    return status;
}

void file_abandon(struct new_file *file)
{
    fclose(file->stream);
    remove_temporary(file);
    forget(file);
}
