/*
 * Row 40: exec while other threads run and are sampled, from the main thread and from another one.
 */
#include "torture.h"

#include <pthread.h>
#include <sys/wait.h>

static const char *self;
static pthread_barrier_t running;

static void *busy(void *argument)
{
    pthread_barrier_wait(&running);
    for (;;)
        spin(100000);
    return argument;
}

static void *exec_from_here(void *argument)
{
    pthread_barrier_wait(&running);
    spin(3000000);
    execl(self, self, "ended", NULL);
    return argument;
}

int main(int argc, char **argv)
{
    self = argv[0];
    if (argc > 1 && strcmp(argv[1], "ended") == 0) {
        spin(1000000);
        return 7;
    }
    for (int i = 0; i < 10; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            pthread_t thread;
            pthread_barrier_init(&running, NULL, 4);
            for (int k = 0; k < 3 - i % 2; k++)
                pthread_create(&thread, NULL, busy, NULL);
            if (i % 2) {
                pthread_create(&thread, NULL, exec_from_here, NULL);
                busy(NULL);
            }
            exec_from_here(NULL);
            _exit(99);
        }
        int status = 0;
        CHECK(waitpid(pid, &status, 0) == pid);
        printf("%d: status %#x\n", i, status);
    }
    burn_ms(100);
    return torture_end();
}
