/*
 * Row 17: a program that has used 32 KB of static TLS itself, and one that clears LD_PRELOAD, sets
 * it to its own library, and starts children with it.
 */
#include "torture.h"

#include <pthread.h>
#include <sys/wait.h>

static __thread char large[32768] __attribute__((tls_model("initial-exec")));

static NOINLINE void *thread(void *argument)
{
    memset(large, 3, sizeof large);
    burn_ms(100);
    long sum = 0;
    for (unsigned i = 0; i < sizeof large; i++)
        sum += large[i];
    printf("sum %ld\n", sum);
    return argument;
}

static void run(const char *what, char *self)
{
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        execl(self, self, "child", NULL);
        _exit(99);
    }
    int status;
    waitpid(pid, &status, 0);
    printf("%s: %#x\n", what, status);
}

int main(int argc, char **argv)
{
    char own[4200];
    if (argc > 1) {
        burn_ms(30);
        /* Set by the constructor of the library that the program preloads. */
        printf("LD_PRELOAD: %s, library: %s\n", getenv("LD_PRELOAD") ? "set" : "not set",
               getenv("PRELOADED_HERE") ? "loaded" : "not loaded");
        return 0;
    }
    pthread_t made;
    CHECK(pthread_create(&made, NULL, thread, NULL) == 0 && pthread_join(made, NULL) == 0);
    thread(NULL);
    unsetenv("LD_PRELOAD");
    run("without LD_PRELOAD", argv[0]);
    snprintf(own, sizeof own, "%.*s/preloaded.so", (int)(strrchr(argv[0], '/') - argv[0]), argv[0]);
    setenv("LD_PRELOAD", own, 1);
    run("with its own", argv[0]);
    setenv("LD_PRELOAD", "", 1);
    run("with an empty one", argv[0]);
    return torture_end();
}
