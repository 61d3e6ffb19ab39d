/*
 * Stand-ins for the calls that move bytes (-e io), which may also wait (-e wall). Below the call is
 * a word for the kind of file, so that one context shows what goes where.
 */
#undef _FILE_OFFSET_BITS /* or pread and pread64 were one */
#include "runtime/io.h"

#include "arch/x86_64/syscall.h"
#include "runtime/blocking.h"
#include "runtime/confined.h"
#include "runtime/standins.h"

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

void io_charge(uint32_t node, int fd, enum arena_value value, ssize_t bytes, bool kernel_counts)
{
    if (!node || bytes <= 0 || !charge_wanted(EVENT_IO))
        return;
    charge_add(charge_label(node, kind_of(fd)), value, (uint64_t)bytes);
    struct arena_header *a = guest->arena;
    if (kernel_counts)
        __atomic_fetch_add(value == VALUE_READ_BYTES ? &a->io_read : &a->io_written,
                           (uint64_t)bytes, __ATOMIC_RELAXED);
}

/* The last argument is what is charged, of `result` bytes, to `node`. */
#define MOVES(name, parameters, arguments, ...)                                                    \
    STANDS_IN_FOR(ssize_t, name, parameters)                                                       \
    EXPORTED ssize_t name parameters                                                               \
    {                                                                                              \
        struct wait w;                                                                             \
        wait_begin(&w, (const void *)REAL(name), EVENT_WALL | EVENT_IO);                           \
        ssize_t result = real_##name arguments;                                                    \
        uint32_t node = w.node;                                                                    \
        wait_end(&w);                                                                              \
        __VA_ARGS__;                                                                               \
        return result;                                                                             \
    }

#define READS(name, parameters, arguments)                                                         \
    MOVES(name, parameters, arguments, io_charge(node, fd, VALUE_READ_BYTES, result, true))
#define RECEIVES(name, parameters, arguments)                                                      \
    MOVES(name, parameters, arguments, io_charge(node, fd, VALUE_READ_BYTES, result, false))
#define WRITES(name, parameters, arguments)                                                        \
    MOVES(name, parameters, arguments, io_charge(node, fd, VALUE_WRITTEN_BYTES, result, true))
#define SENDS(name, parameters, arguments)                                                         \
    MOVES(name, parameters, arguments, io_charge(node, fd, VALUE_WRITTEN_BYTES, result, false))

/* These read from one file and write to another. */
#define COPIES(name, parameters, arguments)                                                        \
    MOVES(name, parameters, arguments, io_charge(node, from, VALUE_READ_BYTES, result, true),      \
          io_charge(node, to, VALUE_WRITTEN_BYTES, result, true))

READS(read, (int fd, void *to, size_t size), (fd, to, size))
READS(__read_chk, (int fd, void *to, size_t size, size_t room), (fd, to, size, room))
READS(pread, (int fd, void *to, size_t size, off_t at), (fd, to, size, at))
READS(pread64, (int fd, void *to, size_t size, off64_t at), (fd, to, size, at))
READS(readv, (int fd, const struct iovec *parts, int count), (fd, parts, count))
READS(preadv, (int fd, const struct iovec *parts, int count, off_t at), (fd, parts, count, at))
READS(preadv64, (int fd, const struct iovec *parts, int count, off64_t at), (fd, parts, count, at))
READS(preadv2, (int fd, const struct iovec *parts, int count, off_t at, int flags),
      (fd, parts, count, at, flags))
READS(preadv64v2, (int fd, const struct iovec *parts, int count, off64_t at, int flags),
      (fd, parts, count, at, flags))
READS(__pread_chk, (int fd, void *to, size_t size, off_t at, size_t room), (fd, to, size, at, room))
READS(__pread64_chk, (int fd, void *to, size_t size, off64_t at, size_t room),
      (fd, to, size, at, room))
RECEIVES(recv, (int fd, void *to, size_t size, int flags), (fd, to, size, flags))
RECEIVES(__recv_chk, (int fd, void *to, size_t size, size_t room, int flags),
         (fd, to, size, room, flags))
RECEIVES(recvfrom,
         (int fd, void *restrict to, size_t size, int flags, struct sockaddr *restrict from,
          socklen_t *restrict from_size),
         (fd, to, size, flags, from, from_size))
RECEIVES(recvmsg, (int fd, struct msghdr *message, int flags), (fd, message, flags))
WRITES(write, (int fd, const void *from, size_t size), (fd, from, size))
WRITES(pwrite, (int fd, const void *from, size_t size, off_t at), (fd, from, size, at))
WRITES(pwrite64, (int fd, const void *from, size_t size, off64_t at), (fd, from, size, at))
WRITES(writev, (int fd, const struct iovec *parts, int count), (fd, parts, count))
WRITES(pwritev, (int fd, const struct iovec *parts, int count, off_t at), (fd, parts, count, at))
WRITES(pwritev64, (int fd, const struct iovec *parts, int count, off64_t at),
       (fd, parts, count, at))
WRITES(pwritev2, (int fd, const struct iovec *parts, int count, off_t at, int flags),
       (fd, parts, count, at, flags))
WRITES(pwritev64v2, (int fd, const struct iovec *parts, int count, off64_t at, int flags),
       (fd, parts, count, at, flags))
SENDS(send, (int fd, const void *from, size_t size, int flags), (fd, from, size, flags))
SENDS(sendto,
      (int fd, const void *from, size_t size, int flags, const struct sockaddr *to,
       socklen_t to_size),
      (fd, from, size, flags, to, to_size))
SENDS(sendmsg, (int fd, const struct msghdr *message, int flags), (fd, message, flags))

COPIES(sendfile, (int to, int from, off_t *at, size_t size), (to, from, at, size))
COPIES(sendfile64, (int to, int from, off64_t *at, size_t size), (to, from, at, size))
COPIES(copy_file_range,
       (int from, off64_t *from_at, int to, off64_t *to_at, size_t size, unsigned flags),
       (from, from_at, to, to_at, size, flags))
