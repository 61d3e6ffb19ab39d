/*
 * Answers requests on a socket, with four threads; a request is a number, and the answer a sum that
 * depends on it. Any call that fails ends it, and so does one that was interrupted.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static int listener;

static void must(int holds, const char *what)
{
    if (!holds) {
        perror(what);
        _exit(1);
    }
}

__attribute__((noinline)) unsigned answer(unsigned x)
{
    for (int i = 0; i < 20000; i++)
        x = x * 1103515245u + 12345u;
    return x;
}

static void *serve(void *unused)
{
    for (;;) {
        int fd = accept(listener, NULL, NULL);
        must(fd >= 0, "accept");
        unsigned x;
        ssize_t size;
        while ((size = recv(fd, &x, sizeof x, MSG_WAITALL)) == sizeof x) {
            x = answer(x);
            must(send(fd, &x, sizeof x, 0) == sizeof x, "send");
        }
        must(size == 0, "recv");
        close(fd);
    }
    return unused;
}

int main(int argc, char **argv)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    pthread_t others[3];
    if (argc < 2)
        return 2;
    strncpy(address.sun_path, argv[1], sizeof address.sun_path - 1);
    listener = socket(AF_UNIX, SOCK_STREAM, 0);
    must(listener >= 0, "socket");
    must(bind(listener, (struct sockaddr *)&address, sizeof address) == 0, "bind");
    must(listen(listener, 16) == 0, "listen");
    for (int i = 0; i < 3; i++)
        must(pthread_create(&others[i], NULL, serve, NULL) == 0, "pthread_create");
    puts("ready");
    fflush(stdout);
    serve(NULL);
}
