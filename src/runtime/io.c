/*
 * Stand-ins for the calls that move bytes (-e io), which may also wait (-e wall). Below the call is
 * a word for the kind of file, so that one context shows what goes where.
 */
#undef _FILE_OFFSET_BITS /* or pread and pread64 were one */
#include "runtime/blocking.h"
#include "runtime/standins.h"

#include "runtime/arch/x86_64/syscall.h"

#include <asm/ioctls.h>
#include <asm/termbits.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>

static enum arena_label kind_of(int fd)
{
    struct stat status;
    struct termios settings;
    if (is_confined() || raw_syscall3(SYS_fstat, fd, (long)&status, 0) < 0)
        return LABEL_OTHER;
    if (S_ISREG(status.st_mode))
        return LABEL_FILE;
    if (S_ISSOCK(status.st_mode))
        return LABEL_SOCKET;
    if (S_ISFIFO(status.st_mode))
        return LABEL_PIPE;
    if (S_ISCHR(status.st_mode) && raw_syscall3(SYS_ioctl, fd, TCGETS, (long)&settings) == 0)
        return LABEL_TERMINAL;
    return LABEL_OTHER;
}

static void charge_bytes(uint32_t node, int fd, enum arena_value value, ssize_t bytes)
{
    if (!node || bytes <= 0 || !charge_wanted(EVENT_IO))
        return;
    charge_add(charge_label(node, kind_of(fd)), value, (uint64_t)bytes);
}

#define MOVES(value, type, name, parameters, arguments)                                            \
    STANDS_IN_FOR(type, name, parameters)                                                          \
    EXPORTED type name parameters                                                                  \
    {                                                                                              \
        struct wait w;                                                                             \
        wait_begin(&w, (const void *)REAL(name), EVENT_WALL | EVENT_IO);                           \
        type result = real_##name arguments;                                                       \
        uint32_t node = w.node;                                                                    \
        wait_end(&w);                                                                              \
        charge_bytes(node, fd, value, result);                                                     \
        return result;                                                                             \
    }

#define READS(name, parameters, arguments)                                                         \
    MOVES(VALUE_READ_BYTES, ssize_t, name, parameters, arguments)
#define WRITES(name, parameters, arguments)                                                        \
    MOVES(VALUE_WRITTEN_BYTES, ssize_t, name, parameters, arguments)

READS(read, (int fd, void *to, size_t size), (fd, to, size))
READS(__read_chk, (int fd, void *to, size_t size, size_t room), (fd, to, size, room))
READS(pread, (int fd, void *to, size_t size, off_t at), (fd, to, size, at))
READS(pread64, (int fd, void *to, size_t size, off64_t at), (fd, to, size, at))
READS(readv, (int fd, const struct iovec *parts, int count), (fd, parts, count))
READS(preadv, (int fd, const struct iovec *parts, int count, off_t at), (fd, parts, count, at))
READS(recv, (int fd, void *to, size_t size, int flags), (fd, to, size, flags))
READS(recvfrom,
      (int fd, void *restrict to, size_t size, int flags, struct sockaddr *restrict from,
       socklen_t *restrict from_size),
      (fd, to, size, flags, from, from_size))
READS(recvmsg, (int fd, struct msghdr *message, int flags), (fd, message, flags))
WRITES(write, (int fd, const void *from, size_t size), (fd, from, size))
WRITES(pwrite, (int fd, const void *from, size_t size, off_t at), (fd, from, size, at))
WRITES(pwrite64, (int fd, const void *from, size_t size, off64_t at), (fd, from, size, at))
WRITES(writev, (int fd, const struct iovec *parts, int count), (fd, parts, count))
WRITES(pwritev, (int fd, const struct iovec *parts, int count, off_t at), (fd, parts, count, at))
WRITES(send, (int fd, const void *from, size_t size, int flags), (fd, from, size, flags))
WRITES(sendto,
       (int fd, const void *from, size_t size, int flags, const struct sockaddr *to,
        socklen_t to_size),
       (fd, from, size, flags, to, to_size))
WRITES(sendmsg, (int fd, const struct msghdr *message, int flags), (fd, message, flags))
WRITES(sendfile, (int fd, int from, off_t *at, size_t size), (fd, from, at, size))
