/*
 * Row 55: starts the programs that it is given, one after the other, and says how they ended: such
 * as no library of others may get into. "linker" and "valgrind" run this program once more, by the
 * dynamic linker, called as a program, and by that emulator.
 */
#include "torture.h"

#include <spawn.h>
#include <sys/wait.h>

extern char **environ;

static void run(char *const arguments[])
{
    pid_t child;
    int status = -1;
    fflush(stdout);
    CHECK(posix_spawn(&child, arguments[0], NULL, NULL, arguments, environ) == 0);
    CHECK(waitpid(child, &status, 0) == child);
    printf("%s: %#x\n", strrchr(arguments[0], '/') + 1, (unsigned)status);
}

static NOINLINE void burn_in_parent(void)
{
    burn_ms(100);
}

static NOINLINE void burn_in_child(void)
{
    burn_ms(100);
}

int main(int argc, char **argv)
{
    char path[4200];
    const char *folder = argv[0];
    if (argc > 1 && strcmp(argv[1], "child") == 0) {
        burn_in_child();
        printf("child: '%s'\n", getenv("LD_PRELOAD") ? "preloaded" : "");
        return 7;
    }
    burn_in_parent();
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "linker") == 0) {
            char *linker[] = {"/lib64/ld-linux-x86-64.so.2", argv[0], "child", NULL};
            run(linker);
            continue;
        }
        if (strcmp(argv[i], "valgrind") == 0) {
            char *valgrind[] = {"/usr/bin/valgrind", "-q", "--tool=none", argv[0], "child", NULL};
            run(valgrind);
            continue;
        }
        snprintf(path, sizeof path, "%.*s/%s", (int)(strrchr(folder, '/') - folder), folder,
                 argv[i]);
        char *program[] = {path, "child", NULL};
        run(program);
    }
    return torture_end();
}
