/*
 * A program for the clients of contexts (examples/): asks for memory, writes log lines, opens files
 * and crashes, from places that are known.
 *
 *     client malloc | log | open [ATTACKED] | crash
 */
#include "context_log.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef __clang__
#define NOINLINE __attribute__((noinline))
#else
#define NOINLINE __attribute__((noipa))
#endif

static void *volatile kept;

static NOINLINE void small(void)
{
    kept = malloc(100);
}

static NOINLINE void large(void)
{
    kept = calloc(10, 1000);
    small();
}

static NOINLINE void asks(void)
{
    for (int i = 0; i < 1000; i++)
        small();
    for (int i = 0; i < 50; i++)
        large();
}

static NOINLINE void request(int number)
{
    LOG("request %d failed", number);
}

static NOINLINE void serves(void)
{
    request(1);
    request(2);
}

static NOINLINE void reads(const char *path)
{
    int file = open(path, O_RDONLY);
    if (file >= 0)
        close(file);
}

static NOINLINE void usual(void)
{
    reads("/dev/null");
}

static NOINLINE void attacked(void)
{
    reads("/etc/passwd");
    kept = NULL;
}

static NOINLINE int fails(int *nowhere)
{
    *nowhere = 5;
    return 1;
}

static NOINLINE int descends(int depth)
{
    return depth ? descends(depth - 1) + 1 : fails(NULL) + 1;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "malloc") == 0)
        asks();
    if (strcmp(what, "log") == 0)
        serves();
    if (strcmp(what, "open") == 0) {
        usual();
        if (argc > 2)
            attacked();
    }
    if (strcmp(what, "crash") == 0)
        return descends(3);
    return 0;
}
