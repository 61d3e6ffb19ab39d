/*
 * Not a row: a program that behaves otherwise when BROKEN is set, as it is for the recorded run
 * only. The suite must notice each of these.
 */
#include "torture.h"

#include <sys/stat.h>

static NOINLINE void expected_function(void)
{
    burn_ms(40);
}

/* A folder as `record`, the parent, would have left it. */
static void leave_folder(void)
{
    mkdir("/dev/shm/calltrail-suite", 0700);
    FILE *file = fopen("/dev/shm/calltrail-suite/supervisor", "w");
    if (file) {
        fprintf(file, "%d\n", (int)getppid());
        fclose(file);
    }
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 && getenv("BROKEN") ? argv[1] : "";
    if (strcmp(what, "samples") == 0)
        return 0;
    if (strcmp(what, "function") != 0)
        expected_function();
    else
        burn_ms(40);
    if (strcmp(what, "stdout") == 0)
        printf("more\n");
    if (strcmp(what, "stderr") == 0)
        fprintf(stderr, "more\n");
    if (strcmp(what, "status") == 0)
        return 1;
    if (strcmp(what, "signal") == 0)
        raise(SIGKILL);
    if (strcmp(what, "hang") == 0)
        for (;;)
            pause();
    if (strcmp(what, "left") == 0)
        leave_folder();
    return 0;
}
