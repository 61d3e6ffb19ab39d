/*
 * Stand-ins for the functions of libc that may wait: for time to pass, for files and sockets, for
 * children. locks.c has those that wait for other threads, io.c those that move bytes, waits.c
 * those with a signal mask.
 *
 * Each does what libc's does: it is called with the same arguments, errno stays, and a thread that
 * is cancelled in it unwinds through a frame that has nothing to clean up.
 */
#include "runtime/blocking.h"
#include "runtime/standins.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WAITS(type, name, parameters, arguments)                                                   \
    STANDS_IN_FOR(type, name, parameters)                                                          \
    EXPORTED type name parameters                                                                  \
    {                                                                                              \
        struct wait w;                                                                             \
        wait_begin(&w, (const void *)REAL(name), EVENT_WALL);                                      \
        type result = real_##name arguments;                                                       \
        wait_end(&w);                                                                              \
        return result;                                                                             \
    }

WAITS(unsigned, sleep, (unsigned s), (s))
WAITS(int, usleep, (useconds_t us), (us))
WAITS(int, nanosleep, (const struct timespec *time, struct timespec *left), (time, left))
WAITS(int, clock_nanosleep,
      (clockid_t clock, int flags, const struct timespec *time, struct timespec *left),
      (clock, flags, time, left))
WAITS(int, pause, (void), ())
WAITS(int, poll, (struct pollfd * fds, nfds_t count, int timeout), (fds, count, timeout))
WAITS(int, select, (int n, fd_set *r, fd_set *w_, fd_set *e, struct timeval *time),
      (n, r, w_, e, time))
WAITS(int, epoll_wait, (int epoll, struct epoll_event *events, int most, int timeout),
      (epoll, events, most, timeout))
WAITS(int, accept, (int fd, struct sockaddr *restrict address, socklen_t *restrict size),
      (fd, address, size))
WAITS(int, accept4,
      (int fd, struct sockaddr *restrict address, socklen_t *restrict size, int flags),
      (fd, address, size, flags))
WAITS(int, connect, (int fd, const struct sockaddr *address, socklen_t size), (fd, address, size))
WAITS(pid_t, wait, (int *status), (status))
WAITS(pid_t, waitpid, (pid_t pid, int *status, int options), (pid, status, options))
WAITS(pid_t, wait3, (int *status, int options, struct rusage *usage), (status, options, usage))
WAITS(pid_t, wait4, (pid_t pid, int *status, int options, struct rusage *usage),
      (pid, status, options, usage))
WAITS(int, system, (const char *command), (command))
WAITS(int, pclose, (FILE * stream), (stream))
WAITS(int, waitid, (idtype_t type, id_t id, siginfo_t *info, int options),
      (type, id, info, options))
WAITS(int, sigwait, (const sigset_t *restrict set, int *restrict number), (set, number))
WAITS(int, sigwaitinfo, (const sigset_t *restrict set, siginfo_t *restrict info), (set, info))
WAITS(int, sigtimedwait,
      (const sigset_t *restrict set, siginfo_t *restrict info,
       const struct timespec *restrict time),
      (set, info, time))
WAITS(int, fsync, (int fd), (fd))
WAITS(int, fdatasync, (int fd), (fd))
WAITS(int, flock, (int fd, int operation), (fd, operation))
