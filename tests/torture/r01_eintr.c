/*
 * Row 1: blocking calls in a loop, with work in between so that samples are due: none may fail with
 * EINTR. Each has a timeout or something to wait for, by a thread at the other end of a pipe.
 */
#include "torture.h"

#include <mqueue.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>

enum { ROUNDS = 60, WORK = 60000 };

static int interrupted, failed;

static void see(long result)
{
    if (result < 0 && errno == EINTR)
        interrupted++;
    else if (result < 0 && errno != EAGAIN && errno != ETIMEDOUT)
        failed++;
}

/* Sends one byte for each that it gets, so that the other end waits a little each time. */
static void *echo(void *argument)
{
    int fd = *(int *)argument;
    char byte;
    while (read(fd, &byte, 1) == 1) {
        spin(WORK);
        see(write(fd, &byte, 1));
    }
    return NULL;
}

static NOINLINE void timeouts(int epoll, int quiet)
{
    struct timespec short_time = {0, 200000};
    struct epoll_event event;
    fd_set set;
    for (int i = 0; i < ROUNDS; i++) {
        spin(WORK);
        see(poll(NULL, 0, 1));
        spin(WORK);
        see(epoll_wait(epoll, &event, 1, 1));
        spin(WORK);
        see(nanosleep(&short_time, NULL));
        spin(WORK);
        errno = clock_nanosleep(CLOCK_MONOTONIC, 0, &short_time, NULL);
        see(errno ? -1 : 0);
        spin(WORK);
        see(usleep(200));
        char byte;
        spin(WORK);
        see(recv(quiet, &byte, 1, 0)); /* SO_RCVTIMEO: restarts are not possible */
        struct timeval wait = {0, 200};
        FD_ZERO(&set);
        FD_SET(quiet, &set);
        spin(WORK);
        see(select(quiet + 1, &set, NULL, NULL, &wait));
        sem_t never;
        struct timespec until;
        sem_init(&never, 0, 0);
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 200000;
        if (until.tv_nsec >= 1000000000) {
            until.tv_sec++;
            until.tv_nsec -= 1000000000;
        }
        spin(WORK);
        see(sem_timedwait(&never, &until));
    }
}

static sem_t there, back;

static void *posts(void *argument)
{
    for (int i = 0; i < ROUNDS * 4; i++) {
        see(sem_wait(&there));
        spin(WORK);
        sem_post(&back);
    }
    return argument;
}

static NOINLINE void ping_pong(void)
{
    int ends[2];
    char byte = 'x';
    pthread_t thread;
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    pthread_create(&thread, NULL, echo, &ends[1]);
    for (int i = 0; i < ROUNDS * 4; i++) {
        spin(WORK);
        see(write(ends[0], &byte, 1));
        see(read(ends[0], &byte, 1));
    }
    shutdown(ends[0], SHUT_WR);
    pthread_join(thread, NULL);
    sem_init(&there, 0, 0);
    sem_init(&back, 0, 0);
    pthread_create(&thread, NULL, posts, NULL);
    for (int i = 0; i < ROUNDS * 4; i++) {
        sem_post(&there);
        spin(WORK);
        see(sem_wait(&back));
    }
    pthread_join(thread, NULL);
}

int main(void)
{
    int quiet[2];
    struct timeval wait = {0, 1000};
    CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, quiet) == 0);
    CHECK(setsockopt(quiet[0], SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait) == 0);
    timeouts(epoll_create1(0), quiet[0]);
    ping_pong();
    printf("EINTR %d, other failures %d\n", interrupted, failed);
    return torture_end();
}
