/*
 * A client of a server on a Unix socket that asks the same again and again, and looks at each
 * answer's length only: so that it takes little time itself. For each line on stdin, a number, it
 * asks so often and prints the CPU time that it has taken meanwhile, in nanoseconds.
 *
 *   outside_ask SOCKET GREETING BYTES REQUEST BYTES
 *
 * GREETING and REQUEST are files, what is sent first (it may be empty) and then for each request;
 * after each, so many bytes of the answer follow.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { MOST_BYTES = 1 << 16 };

struct words {
    char bytes[MOST_BYTES];
    size_t count;  /* that are sent */
    size_t answer; /* that come back */
};

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static void read_words(struct words *w, const char *path, const char *answer)
{
    FILE *file = fopen(path, "re");
    if (!file)
        fail(path);
    w->count = fread(w->bytes, 1, sizeof w->bytes, file);
    w->answer = strtoul(answer, NULL, 10);
    fclose(file);
}

static void ask(int server, const struct words *w)
{
    static char answer[MOST_BYTES];
    if (w->count && write(server, w->bytes, w->count) != (ssize_t)w->count)
        fail("the server does not listen");
    for (size_t left = w->answer; left;) {
        ssize_t got = read(server, answer, left < sizeof answer ? left : sizeof answer);
        if (got <= 0)
            fail("the server does not answer");
        left -= (size_t)got;
    }
}

static long long own_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

int main(int argc, char **argv)
{
    static struct words greeting, request;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char line[32];
    if (argc != 6 || strlen(argv[1]) >= sizeof address.sun_path)
        return 2;
    strcpy(address.sun_path, argv[1]);
    read_words(&greeting, argv[2], argv[3]);
    read_words(&request, argv[4], argv[5]);
    int server = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (server < 0 || connect(server, (const struct sockaddr *)&address, sizeof address) != 0)
        fail(argv[1]);
    ask(server, &greeting);
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        long long before = own_ns();
        for (long i = atol(line); i > 0; i--)
            ask(server, &request);
        printf("%lld\n", own_ns() - before);
        fflush(stdout);
    }
    return 0;
}
