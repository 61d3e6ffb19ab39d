/*
 * The file that is to be run. Whether our library can be preloaded into it is for the supervisor to
 * say, which reads the file; a program that cannot have it there is recorded from outside.
 *
 * As in exec.c, nothing but the stack is written to: this may be a child of vfork.
 */
#include "runtime/exec_target.h"

#include "arch/x86_64/syscall.h"
#include "runtime/channel.h"
#include "runtime/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

/* The dynamic linker complains of what it cannot preload. */
bool exec_can_open(const char *path)
{
    long fd = raw_syscall4(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC, 0);
    if (fd >= 0)
        raw_syscall3(SYS_close, fd, 0, 0);
    return fd >= 0 || fd == -EMFILE || fd == -ENFILE;
}

static bool is_in_own_memory(void)
{
    const struct thread *t = thread_self();
    return t && t->tid == (uint32_t)raw_syscall3(SYS_gettid, 0, 0, 0);
}

bool exec_is_host(int folder, const char *path, int flags)
{
    struct stat status;
    bool is_open = (flags & AT_EMPTY_PATH) && !*path;
    int open_flags = O_PATH | O_CLOEXEC | (flags & AT_SYMLINK_NOFOLLOW ? O_NOFOLLOW : 0);
    long fd = is_open ? folder : raw_syscall4(SYS_openat, folder, (long)path, open_flags, 0);
    if (fd < 0)
        return true; /* it will not run; or as ever, where there are no more descriptors */
    bool is_host = true;
    if (raw_syscall3(SYS_fstat, fd, (long)&status, 0) == 0 && S_ISREG(status.st_mode))
        is_host = channel_may_host((int)fd, is_in_own_memory());
    if (!is_open)
        raw_syscall3(SYS_close, fd, 0, 0);
    return is_host;
}
