/* Moves known numbers of bytes through a file, a pipe and a socket, by most of the calls there are.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

static char room[5000];

__attribute__((noinline)) static long move_file(void)
{
    int fd = open(".", O_TMPFILE | O_RDWR, 0600);
    struct iovec parts[] = {{room, 700}, {room, 300}};
    long moved = write(fd, room, 1000) + pwrite(fd, room, 2000, 1000) + writev(fd, parts, 2);
    lseek(fd, 0, SEEK_SET);
    long back = read(fd, room, 1500) + pread(fd, room, 1500, 1500) + readv(fd, parts, 2);
    close(fd);
    return moved == back ? moved : -1;
}

__attribute__((noinline)) static long move_pipe(void)
{
    int ends[2];
    long moved = 0, back = 0;
    if (pipe(ends))
        return -1;
    for (int i = 1; i <= 50; i++) {
        moved += write(ends[1], room, (size_t)i);
        back += read(ends[0], room, sizeof room);
    }
    return moved == back ? moved : -1;
}

__attribute__((noinline)) static long move_socket(void)
{
    int ends[2];
    struct iovec part = {room, 400};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends))
        return -1;
    long moved = send(ends[0], room, 100, 0) + sendto(ends[0], room, 200, 0, NULL, 0) +
                 sendmsg(ends[0], &message, 0) + write(ends[0], room, 50);
    part.iov_len = 100;
    long back = recv(ends[1], room, 300, 0) + recvfrom(ends[1], room, 300, 0, NULL, NULL);
    back += recvmsg(ends[1], &message, 0) + read(ends[1], room, sizeof room);
    return moved == back ? moved : -1;
}

int main(void)
{
    long file = move_file(), pipes = move_pipe(), sockets = move_socket();
    printf("file %ld\npipe %ld\nsocket %ld\n", file, pipes, sockets);
    return 0;
}
