/* The file that is to be run, seen from outside: who may have our library preloaded. */
#include "runtime/exec.h"

#include "arch/x86_64/syscall.h"

#include <elf.h>
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

/* Only a regular file is opened: others could notice that. */
static long read_start(int folder, const char *path, int flags, char *out, size_t bytes)
{
    struct stat status;
    if (raw_syscall4(SYS_newfstatat, folder, (long)path, (long)&status,
                     flags & (AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW)) < 0 ||
        !S_ISREG(status.st_mode))
        return -1;
    bool is_open = (flags & AT_EMPTY_PATH) && !*path;
    long fd = is_open ? folder
                      : raw_syscall4(SYS_openat, folder, (long)path,
                                     O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
    if (fd < 0)
        return fd;
    long count = raw_syscall4(SYS_pread64, fd, (long)out, (long)bytes, 0);
    if (!is_open)
        raw_syscall3(SYS_close, fd, 0, 0);
    return count;
}

/* The interpreter of a script; false: it is none. */
static bool find_interpreter(char *start, char **path)
{
    if (start[0] != '#' || start[1] != '!')
        return false;
    char *at = start + 2;
    at += strspn(at, " \t");
    *path = at;
    at[strcspn(at, " \t\n")] = '\0';
    return **path != '\0';
}

/* A library for 64 bits is an error that the linker of a 32-bit program prints. */
bool exec_is_host(int folder, const char *path, int flags)
{
    enum { START_BYTES = 256, MOST_SCRIPTS = 5 };
    char first[START_BYTES + 1], second[START_BYTES + 1], *here = first, *other = second;
    for (unsigned i = 0; i < MOST_SCRIPTS; i++) {
        long count = read_start(folder, path, flags, here, START_BYTES);
        if (count <= 0)
            return true;
        here[count] = '\0';
        if (count > EI_CLASS && memcmp(here, ELFMAG, SELFMAG) == 0)
            return here[EI_CLASS] == ELFCLASS64;
        char *interpreter;
        if (!find_interpreter(here, &interpreter))
            return true;
        path = interpreter;
        folder = AT_FDCWD;
        flags = 0;
        char *swap = here;
        here = other;
        other = swap;
    }
    return true;
}
