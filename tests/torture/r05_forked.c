/*
 * Row 5: a thread has an alternate stack that is too small for two signal frames; handlers are
 * sampled all the same, with the action that the program has given them, also in a child that
 * another thread forks, or the thread with the small stack itself.
 */
#include "torture.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { SMALL = 8192 };

static pthread_barrier_t has_stack, is_over;

static NOINLINE void in_handler(void)
{
    burn_ms(100);
}

static void on_user(int number)
{
    (void)number;
    in_handler();
}

/* As the kernel has it: does the handler run with this signal blocked? */
static int blocks(int number)
{
    struct {
        void *handler;
        unsigned long flags;
        void *restorer;
        uint64_t mask;
    } action;
    CHECK(syscall(SYS_rt_sigaction, SIGUSR1, NULL, &action, sizeof action.mask) == 0);
    return (int)(action.mask >> (number - 1) & 1);
}

static void set_stack(void *memory)
{
    stack_t stack = {.ss_sp = memory, .ss_size = SMALL, .ss_flags = memory ? 0 : SS_DISABLE};
    CHECK(sigaltstack(&stack, NULL) == 0);
}

static void *with_small_stack(void *memory)
{
    set_stack(memory);
    pthread_barrier_wait(&has_stack);
    pthread_barrier_wait(&is_over);
    set_stack(NULL);
    return memory;
}

static void fork_and_print(const char *when)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        raise(SIGUSR1);
        set_stack(NULL);
        _exit(blocks(SIGVTALRM) ? 8 : 7);
    }
    CHECK(waitpid(child, &status, 0) == child);
    printf("%s: %#x\n", when, status);
}

int main(void)
{
    static char of_thread[SMALL], of_main[SMALL];
    struct sigaction action = {.sa_handler = on_user, .sa_flags = SA_ONSTACK};
    pthread_t thread;
    sigaction(SIGUSR1, &action, NULL);
    burn_ms(50);
    pthread_barrier_init(&has_stack, NULL, 2);
    pthread_barrier_init(&is_over, NULL, 2);
    CHECK(pthread_create(&thread, NULL, with_small_stack, of_thread) == 0);
    pthread_barrier_wait(&has_stack);
    fork_and_print("another thread's");
    set_stack(of_main);
    fork_and_print("its own, too");
    set_stack(NULL);
    pthread_barrier_wait(&is_over);
    CHECK(pthread_join(thread, NULL) == 0);
    return torture_end();
}
