/*
 * Row 3: original code is put back (record --duration) while threads load and unload a library. In
 * several processes, since each puts its code back once. They go on until the library is loaded as
 * it is in its file; whatever was under way when that happened, all come to their end.
 */
#include "torture.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/wait.h>

enum { PROCESSES = 8, MOST_ROUNDS = 20000, LAST_ROUNDS = 3, JUMP_AT = 6 };

static char path[4200];
static _Atomic int stop;

static void *burner(void *argument)
{
    while (!stop)
        spin(5000);
    return argument;
}

/* Is the library as it is in its file? */
static int load_and_unload(void)
{
    static const unsigned char jump[] = {0xeb, 0};
    void *library = dlopen(path, RTLD_NOW);
    int (*here)(int) = library ? (int (*)(int))dlsym(library, "hops_here") : NULL;
    const char *begin = library ? dlsym(library, "hops_begin") : NULL;
    CHECK(here && begin && here(1) == 2);
    int is_original = begin && memcmp(begin + JUMP_AT, jump, sizeof jump) == 0;
    CHECK(library && dlclose(library) == 0);
    return is_original;
}

static int run(void)
{
    pthread_t made;
    CHECK(pthread_create(&made, NULL, burner, NULL) == 0);
    int last = 0;
    for (int i = 0; i < MOST_ROUNDS && last < LAST_ROUNDS && !torture_failures; i++)
        last = load_and_unload() ? last + 1 : 0;
    CHECK(last == LAST_ROUNDS);
    stop = 1;
    pthread_join(made, NULL);
    return torture_failures != 0;
}

int main(int argc, char **argv)
{
    (void)argc;
    snprintf(path, sizeof path, "%.*s/hops.so", (int)(strrchr(argv[0], '/') - argv[0]), argv[0]);
    pid_t children[PROCESSES];
    for (int i = 0; i < PROCESSES; i++) {
        children[i] = fork();
        if (children[i] == 0)
            _exit(run());
    }
    for (int i = 0; i < PROCESSES; i++) {
        int status;
        CHECK(waitpid(children[i], &status, 0) == children[i] && status == 0);
    }
    return torture_end();
}
