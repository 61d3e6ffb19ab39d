/*
 * Ways to leave a marked frame, or a marked stack, without returning: longjmp, with new frames over
 * the old slots; coroutines inside the same stack; a stack that goes on on another thread; a stack
 * that is copied away and brought back; children of every kind of fork, which return on their own.
 */
#include "marks.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <sys/wait.h>

static volatile int sink;

static long checks, bad;

static void check(int good)
{
    checks++;
    bad += !good;
}

/* --- longjmp -------------------------------------------------------------------------------- */

static jmp_buf target;

NOINLINE static int deep(int k, int level, int jump)
{
    volatile char room[64];
    room[k % 64] = 1;
    if (k == 0) {
        sample_level(level);
        if (jump)
            longjmp(target, 1);
        return 1;
    }
    int result = deep(k - 1, level, jump);
    sink = room[0];
    return result + 1;
}

NOINLINE static int jump_over(int depth, int level)
{
    if (setjmp(target) == 0)
        deep(depth, level, 1);
    return deep(depth + level % 3, level, 0); /* over the old slots */
}

static void test_longjmp(void)
{
    for (int round = 0; round < 3; round++)
        for (int level = 0; level < 12; level++)
            for (int depth = 1; depth < 12; depth++)
                check(jump_over(depth, level) == depth + level % 3 + 1);
}

/* --- coroutines: their stack is an array in a frame of ours ---------------------------------- */

static ucontext_t outside, inside;
static int coroutine_level;

static void coroutine(void)
{
    for (int i = 1; i <= 3; i++) {
        check(deep(4, coroutine_level, 0) == 5);
        swapcontext(&inside, &outside);
    }
}

NOINLINE static int host(int level)
{
    char stack[65536];
    coroutine_level = level;
    getcontext(&inside);
    inside.uc_stack.ss_sp = stack;
    inside.uc_stack.ss_size = sizeof stack;
    inside.uc_link = &outside;
    makecontext(&inside, coroutine, 0);
    for (int i = 0; i < 3; i++) {
        check(deep(3, level, 0) == 4);
        swapcontext(&outside, &inside);
        check(deep(5, 2, 0) == 6);
    }
    return level + 1; /* the coroutine is left where it is, marked or not */
}

static void test_coroutines(void)
{
    for (int level = 0; level < 10; level++)
        check(host(level) == level + 1);
}

/* --- a stack that goes on on another thread -------------------------------------------------- */

static ucontext_t first_context, thread_context;
static int stage;

NOINLINE static int moves(int k)
{
    if (k == 0) {
        sample_level(2);
        __atomic_store_n(&stage, 1, __ATOMIC_RELEASE);
        swapcontext(&first_context, &thread_context); /* from here on, by the other thread */
        sample_level(1);
        return 1;
    }
    return moves(k - 1) + 1;
}

static void *taker(void *context)
{
    static ucontext_t back;
    while (__atomic_load_n(&stage, __ATOMIC_ACQUIRE) != 2)
        sched_yield();
    swapcontext(&back, context);
    return NULL;
}

/* The thread's own stack waits in a function that does nothing, on a stack of its own. */
static void waits(void)
{
    __atomic_store_n(&stage, 2, __ATOMIC_RELEASE);
    while (__atomic_load_n(&stage, __ATOMIC_ACQUIRE) != 3)
        sched_yield();
    setcontext(&first_context);
}

static void *mover(void *unused)
{
    (void)unused;
    static char stack[65536];
    pthread_t me = pthread_self();
    getcontext(&thread_context);
    thread_context.uc_stack.ss_sp = stack;
    thread_context.uc_stack.ss_size = sizeof stack;
    makecontext(&thread_context, waits, 0);
    int result = moves(8);
    check(result == 9);
    if (!pthread_equal(me, pthread_self()) || stage == 2) {
        /* We are the taker, on the mover's stack: give it back at this point. */
        ucontext_t here;
        volatile int handed = 0;
        getcontext(&here);
        if (!handed) {
            handed = 1;
            first_context = here;
            __atomic_store_n(&stage, 3, __ATOMIC_RELEASE);
            for (;;)
                pause();
        }
    }
    return NULL;
}

static void test_threads(void)
{
    pthread_t one, two;
    stage = 0;
    pthread_create(&one, NULL, mover, NULL);
    pthread_create(&two, NULL, taker, &first_context);
    pthread_join(one, NULL);
}

/* --- a stack that is put aside and brought back ---------------------------------------------- */

static char *aside;
static size_t aside_bytes;
static char *aside_from;
static jmp_buf resume_at, base;

/* Called far below what is copied, so that its own frame survives. */
NOINLINE static void bring_back(void)
{
    char *room = __builtin_alloca(16384);
    room[0] = 1;
    __asm__ volatile("" : : "r"(room) : "memory");
    memcpy(aside_from, aside, aside_bytes);
    longjmp(resume_at, 1);
}

NOINLINE static int put_aside(int k, int level, char *top)
{
    if (k == 0) {
        sample_level(level);
        if (setjmp(resume_at) == 0) {
            aside_from = (char *)__builtin_frame_address(0) - 1024;
            aside_bytes = (size_t)(top - aside_from);
            memcpy(aside, aside_from, aside_bytes);
            longjmp(base, 1);
        }
        return 1;
    }
    int result = put_aside(k - 1, level, top);
    sink = result;
    return result + 1;
}

NOINLINE static int deeper(int words, int level)
{
    char *room = __builtin_alloca((size_t)words * 16 + 16);
    __asm__ volatile("" : : "r"(room) : "memory");
    return deep(2, level, 0);
}

NOINLINE static int copies(int level)
{
    char *top = __builtin_frame_address(0);
    if (setjmp(base) == 0)
        return put_aside(10, level, top);
    for (int i = 0; i < 20; i++) /* others use the place, and are marked there */
        check(deep(i, i % 7, 0) == i + 1);
    for (int i = 0; level == 3 && i < 3000; i++) /* more than there are entries for marks */
        check(deeper(i, 1) == 3);
    bring_back();
    return 0;
}

static void test_copies(void)
{
    aside = malloc(1 << 20);
    for (int round = 0; round < 3; round++)
        for (int level = 0; level < 10; level++)
            check(copies(level) == 11);
    free(aside);
}

/* --- forks ----------------------------------------------------------------------------------- */

enum { FORK, LOW_FORK, RAW_FORK, VFORK, WAYS };

NOINLINE static int forks(int k, int level, int way, pid_t *child)
{
    if (k == 0) {
        sample_level(level);
        if (way == VFORK) {
            *child = vfork();
            if (*child == 0)
                _exit(10);
        } else {
            *child = way == FORK ? fork() : way == LOW_FORK ? _Fork() : (pid_t)syscall(SYS_fork);
        }
        if (*child == 0)
            sample_level(level);
        return 1;
    }
    int result = forks(k - 1, level, way, child);
    sink = result;
    return result + 1;
}

static void test_forks(void)
{
    for (int way = 0; way < WAYS; way++)
        for (int level = 0; level < 8; level += 2) {
            pid_t child = -1;
            int status = 0, result = forks(9, level, way, &child);
            if (child == 0)
                _exit(result);
            waitpid(child, &status, 0);
            check(result == 10 && WIFEXITED(status) && WEXITSTATUS(status) == 10);
        }
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } tests[] = {{"longjmp", test_longjmp},
                 {"coroutines", test_coroutines},
                 {"threads", test_threads},
                 {"copies", test_copies},
                 {"forks", test_forks}};
    marks_begin();
    for (unsigned i = 0; i < sizeof tests / sizeof tests[0]; i++) {
        if (argc > 1 && strcmp(argv[1], tests[i].name) != 0)
            continue;
        checks = bad = 0;
        tests[i].run();
        printf("%s: %ld of %ld as without marks\n", tests[i].name, checks - bad, checks);
        fflush(stdout);
        if (bad)
            return 1;
    }
    return 0;
}
