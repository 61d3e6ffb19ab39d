/*
 * A program that uses all that the runtime asks the supervisor for: it starts threads and children,
 * and loads and unloads libraries, round after round; and prints what it did. It ends as it should,
 * whatever becomes of the supervisor.
 */
#include "torture.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/wait.h>

static NOINLINE void *work(void *argument)
{
    burn_ms(3);
    return argument;
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 10;
    for (int i = 0; i < rounds; i++) {
        pthread_t thread;
        int status = 0;
        CHECK(pthread_create(&thread, NULL, work, NULL) == 0);
        burn_ms(10);
        pid_t pid = fork();
        if (pid == 0) {
            burn_ms(2);
            _exit(i);
        }
        CHECK(waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == i);
        CHECK(pthread_join(thread, NULL) == 0);
        void *library = dlopen("libm.so.6", RTLD_NOW);
        CHECK(library && dlclose(library) == 0);
        if (i % 10 == 0)
            CHECK(system("exit 3") == 3 << 8);
        printf("round %d\n", i);
        fflush(stdout);
    }
    return torture_end() ? 1 : 9;
}
