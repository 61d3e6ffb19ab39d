/*
 * Row 48: what programs do with alternate stacks besides handling a signal there: coroutines that
 * begin in a handler (as GNU Pth and QEMU make them), a handler that never returns, that forks,
 * that ends its thread, that switches to another context and back, threads that are made without
 * libc.
 */
#include "torture.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>

enum { STACK_BYTES = 64 * 1024, COROUTINES = 8, TURNS = 200, JUMPS = 2000 };

static char *map_stack(void)
{
    return mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static void set_stack(char *start)
{
    stack_t stack = {
        .ss_sp = start, .ss_size = start ? STACK_BYTES : 0, .ss_flags = start ? 0 : SS_DISABLE};
    CHECK(sigaltstack(&stack, NULL) == 0);
}

static void handle(int number, void (*handler)(int), int flags)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK | flags};
    CHECK(sigaction(number, &action, NULL) == 0);
}

static int is_on(const char *start, const void *address)
{
    return (const char *)address >= start && (const char *)address < start + STACK_BYTES;
}

/* --- coroutines whose stack is one that a signal was handled on ------------------------------- */

static struct {
    char *stack;
    sigjmp_buf here;
    int turns;
} coroutines[COROUTINES];
static volatile int current;
static sigjmp_buf scheduler;

static NOINLINE void in_coroutine(void)
{
    spin(3000);
}

static void run_coroutine(void)
{
    int self = current;
    char here;
    for (;;) {
        in_coroutine();
        CHECK(is_on(coroutines[self].stack, &here));
        coroutines[self].turns++;
        if (sigsetjmp(coroutines[self].here, 0) == 0)
            siglongjmp(scheduler, 1);
    }
}

static void begin_coroutine(int number)
{
    if (sigsetjmp(coroutines[current].here, 0) == 0)
        return; /* from the handler; it is gone on with later, outside of any */
    run_coroutine();
}

static void use_coroutines(void)
{
    handle(SIGUSR1, begin_coroutine, 0);
    for (current = 0; current < COROUTINES; current++) {
        coroutines[current].stack = map_stack();
        set_stack(coroutines[current].stack);
        raise(SIGUSR1);
        set_stack(NULL);
    }
    for (volatile int turn = 0; turn < TURNS; turn++)
        for (current = 0; current < COROUTINES; current++)
            if (sigsetjmp(scheduler, 0) == 0)
                siglongjmp(coroutines[current].here, 1);
    int sum = 0;
    for (int i = 0; i < COROUTINES; i++)
        sum += coroutines[i].turns;
    printf("coroutines: %d turns\n", sum);
}

/* --- handlers that are left by a jump --------------------------------------------------------- */

static sigjmp_buf out;
static volatile int inner;
static char *jump_stack;

static void on_inner(int number)
{
    char here;
    CHECK(is_on(jump_stack, &here));
    spin(200);
    if (++inner % 2)
        siglongjmp(out, 1);
}

static void on_outer(int number)
{
    raise(SIGUSR2);
    siglongjmp(out, 2);
}

static void jump_out(void)
{
    int from[3] = {0};
    stack_t now;
    handle(SIGUSR1, on_outer, 0);
    handle(SIGUSR2, on_inner, 0);
    set_stack(jump_stack = map_stack());
    for (volatile int i = 0; i < JUMPS; i++) {
        int place = sigsetjmp(out, 1);
        if (place == 0)
            raise(SIGUSR1);
        from[place]++;
        sigaltstack(NULL, &now);
        CHECK(now.ss_flags == 0 && now.ss_sp == jump_stack);
    }
    set_stack(NULL);
    printf("jumps: %d from the inner, %d from the outer handler\n", from[1], from[2]);
}

/* --- handlers that make processes, end threads, and switch -------------------------------------
 */

static volatile int status_of_child;

static void on_fork(int number)
{
    int status = 0;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) { /* goes on in its handler, and returns from it */
        burn_ms(20);
        status_of_child = -1;
        return;
    }
    CHECK(waitpid(child, &status, 0) == child);
    pid_t quick = vfork();
    if (quick == 0)
        _exit(5);
    int quick_status;
    CHECK(waitpid(quick, &quick_status, 0) == quick && WEXITSTATUS(quick_status) == 5);
    status_of_child = WEXITSTATUS(status);
}

static void on_plain(int number)
{
    spin(1000);
}

static void fork_inside(void)
{
    handle(SIGUSR1, on_fork, 0);
    handle(SIGUSR2, on_plain, 0);
    for (int i = 0; i < 2; i++) {
        set_stack(i ? map_stack() : NULL);
        raise(SIGUSR1);
        raise(SIGUSR2);
        if (status_of_child < 0)
            _exit(7);
        printf("forked: %d\n", status_of_child);
    }
    set_stack(NULL);
}

static int destroyed;

static void destroy(void *argument)
{
    destroyed++;
    spin(1000);
}

static void on_exit_thread(int number)
{
    pthread_exit((void *)9);
}

static void *exits(void *argument)
{
    pthread_key_t key = *(pthread_key_t *)argument;
    pthread_setspecific(key, &destroyed);
    set_stack(map_stack());
    raise(SIGUSR1);
    return NULL;
}

static void exit_inside(void)
{
    pthread_key_t key;
    pthread_key_create(&key, destroy);
    handle(SIGUSR1, on_exit_thread, 0);
    for (int i = 0; i < 50; i++) {
        pthread_t thread;
        void *result;
        CHECK(pthread_create(&thread, NULL, exits, &key) == 0);
        CHECK(pthread_join(thread, &result) == 0 && result == (void *)9);
    }
    printf("threads that ended in handlers: %d\n", destroyed);
}

static ucontext_t in_handler, in_other;
static char other_stack[STACK_BYTES];
static volatile int switches;

static void other(void)
{
    for (;;) {
        switches++;
        spin(500);
        raise(SIGUSR2);
        swapcontext(&in_other, &in_handler);
    }
}

static void on_switch(int number)
{
    swapcontext(&in_handler, &in_other);
}

static void switch_inside(void)
{
    getcontext(&in_other);
    in_other.uc_stack.ss_sp = other_stack;
    in_other.uc_stack.ss_size = sizeof other_stack;
    makecontext(&in_other, other, 0);
    handle(SIGUSR1, on_switch, 0);
    signal(SIGUSR2, on_plain); /* one for the alternate stack would begin at its top again */
    for (int i = 0; i < 400; i++) {
        if (i == 200)
            set_stack(map_stack());
        raise(SIGUSR1);
    }
    set_stack(NULL);
    printf("switches: %d\n", switches);
}

/* --- a thread that libc does not know -----------------------------------------------------------
 */

static char *bare_stack;
static volatile int bare_place, bare_is_done;

static void on_bare(int number)
{
    char here;
    bare_place = is_on(bare_stack, &here) ? 1 : 2;
}

/* Shares the thread-local variables of who has made it: nothing of libc's that uses them. */
static int bare(void *argument)
{
    stack_t stack = {.ss_sp = bare_stack, .ss_size = STACK_BYTES};
    if (argument)
        syscall(SYS_sigaltstack, &stack, NULL);
    spin(200000);
    syscall(SYS_tgkill, syscall(SYS_getpid), syscall(SYS_gettid), SIGUSR1);
    spin(200000);
    bare_is_done = 1;
    syscall(SYS_exit, 0);
    return 0;
}

static void be_bare(void)
{
    handle(SIGUSR1, on_bare, 0);
    bare_stack = map_stack();
    for (int i = 0; i < 2; i++) {
        volatile pid_t tid = 1;
        bare_is_done = bare_place = 0;
        clone(bare, map_stack() + STACK_BYTES,
              CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM |
                  CLONE_CHILD_CLEARTID,
              i ? bare_stack : NULL, NULL, NULL, &tid);
        while (tid) /* no calls: they would use the same variables at the same time */
            __asm__ volatile("pause" ::: "memory");
        printf("bare: %d %d\n", bare_is_done, bare_place);
    }
}

int main(void)
{
    use_coroutines();
    jump_out();
    fork_inside();
    exit_inside();
    switch_inside();
    be_bare();
    burn_ms(20);
    return torture_end();
}
