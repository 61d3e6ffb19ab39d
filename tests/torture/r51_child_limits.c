/*
 * Row 51: children that start with a limit for their address space. Of 40 MB and more each needs
 * half, and less than 10 for itself.
 */
#include "torture.h"

#include <sys/resource.h>
#include <sys/wait.h>

static int in_child(const char *megabytes)
{
    size_t bytes = (size_t)atoi(megabytes) << 19;
    char *memory = malloc(bytes);
    if (!memory)
        return 1;
    for (size_t i = 0; i < bytes; i += 4096)
        memory[i] = (char)i;
    burn_ms(5);
    free(memory);
    return 7;
}

int main(int argc, char **argv)
{
    if (argc > 1)
        return in_child(argv[1]);
    burn_ms(50);
    for (int megabytes = 40; megabytes <= 240; megabytes += 10) {
        char text[16];
        int status = 0;
        snprintf(text, sizeof text, "%d", megabytes);
        pid_t child = fork();
        if (child == 0) {
            struct rlimit limit = {(rlim_t)megabytes << 20, (rlim_t)megabytes << 20};
            setrlimit(RLIMIT_AS, &limit);
            execl(argv[0], argv[0], text, (char *)NULL);
            _exit(2);
        }
        CHECK(waitpid(child, &status, 0) == child);
        printf("%d MB: %#x\n", megabytes, status);
    }
    return torture_end();
}
