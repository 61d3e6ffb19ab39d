/*
 * Programs that are about to be started: whether the runtime can be in them is for the supervisor
 * to say, which reads the file; one that cannot have it there is recorded from outside.
 *
 * As in exec.c, nothing but the stack is written to: this may be a child of vfork.
 */
#include "runtime/process.h"

#include "arch/x86_64/syscall.h"
#include "runtime/thread.h"

#include <alloca.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_in_own_memory(void)
{
    const struct thread *t = thread_self();
    return t && t->tid == (uint32_t)raw_syscall3(SYS_gettid, 0, 0, 0);
}

bool program_may_host_fd(uint32_t kind, int fd)
{
    return channel_may_host(kind, fd, is_in_own_memory());
}

/* A descriptor of a file that can be run; negative: there is none. */
static long open_program(const char *path)
{
    struct stat status;
    long fd = raw_syscall4(SYS_openat, AT_FDCWD, (long)path, O_PATH | O_CLOEXEC, 0);
    if (fd < 0)
        return fd;
    if (raw_syscall3(SYS_fstat, fd, (long)&status, 0) == 0 && S_ISREG(status.st_mode) &&
        raw_syscall3(SYS_faccessat, AT_FDCWD, (long)path, X_OK) == 0)
        return fd;
    raw_syscall3(SYS_close, fd, 0, 0);
    return -1;
}

/* As libc looks for it; `candidate` has room for the longest. */
static long search_program(const char *file, const char *folders, char *candidate)
{
    long fd = -1;
    while (fd < 0) {
        const char *end = strchrnul(folders, ':');
        size_t length = (size_t)(end - folders);
        memcpy(candidate, folders, length);
        if (length)
            candidate[length++] = '/';
        strcpy(candidate + length, file);
        fd = open_program(candidate);
        if (!*end)
            break;
        folders = end + 1;
    }
    return fd;
}

bool program_may_host(uint32_t kind, const char *file, bool searches)
{
    const char *folders = getenv("PATH");
    if (!folders)
        folders = "/bin:/usr/bin";
    long fd = searches && !strchr(file, '/')
                  ? search_program(file, folders, alloca(strlen(folders) + strlen(file) + 2))
                  : open_program(file);
    if (fd < 0)
        return true; /* it will not run; or as ever, where there are no more descriptors */
    bool may = program_may_host_fd(kind, (int)fd);
    raw_syscall3(SYS_close, fd, 0, 0);
    return may;
}
