/*
 * Row 29: unwinding that begins where a stub may be: a thread that is cancelled while it does
 * nothing but call; an exception for a fault at the instruction before a call, which may have moved
 * with it; walks of the stack by the handler of a timer, while little is done but calls.
 */
#include "torture.h"

#include <execinfo.h>
#include <pthread.h>
#include <stdexcept>
#include <sys/time.h>

static volatile int sink;

/* --- cancellation ----------------------------------------------------------------------------- */

/* Not std::atomic: its functions must not throw, and a thread that is cancelled there ends all. */
static long rounds;
static int unwound;

struct Guard {
    ~Guard()
    {
        __atomic_add_fetch(&unwound, 1, __ATOMIC_SEQ_CST);
    }
};

NOINLINE static void inner(int x)
{
    sink = x;
}

NOINLINE static void middle(int x)
{
    inner(x);
    sink = x + 1;
}

NOINLINE static void calls_forever()
{
    for (;;) {
        middle(1);
        inner(2);
        __atomic_add_fetch(&rounds, 1, __ATOMIC_SEQ_CST);
    }
}

static void (*volatile forever)() = calls_forever; /* for all that the compiler knows, it throws */

static void *cancelled(void *)
{
    int before;
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &before);
    Guard guard;
    forever();
    return nullptr;
}

static void cancel_anywhere()
{
    enum { THREADS = 50 };
    for (int i = 0; i < THREADS; i++) {
        pthread_t thread;
        rounds = 0;
        pthread_create(&thread, nullptr, cancelled, nullptr);
        while (__atomic_load_n(&rounds, __ATOMIC_SEQ_CST) < 1000 + i)
            ;
        pthread_cancel(thread);
        pthread_join(thread, nullptr);
    }
    CHECK(unwound == THREADS);
}

/* --- a fault ---------------------------------------------------------------------------------- */

struct Base {
    virtual int get(int x);
};

int Base::get(int x)
{
    return x;
}

static void on_fault(int, siginfo_t *, void *)
{
    throw std::runtime_error("fault");
}

NOINLINE static int calls_virtual(Base *object, int x)
{
    Guard guard;
    return object->get(x) + 1;
}

static void throw_at_fault()
{
    enum { TIMES = 20 };
    static long zeros[4]; /* an object without a table of functions */
    Base good;
    int caught = 0;
    struct sigaction how;
    memset(&how, 0, sizeof how);
    how.sa_sigaction = on_fault;
    how.sa_flags = SA_SIGINFO | SA_NODEFER;
    sigaction(SIGSEGV, &how, nullptr);
    unwound = 0;
    for (int i = 0; i < 2 * TIMES; i++) {
        Base *volatile object = i % 2 ? &good : (Base *)zeros;
        try {
            sink = calls_virtual(object, i);
        } catch (std::runtime_error &) {
            caught++;
        }
    }
    CHECK(caught == TIMES && unwound == 2 * TIMES);
    signal(SIGSEGV, SIG_DFL);
}

/* --- walks ------------------------------------------------------------------------------------ */

static void *caller; /* of walk_at_any_time */
static volatile long walks, lost;

NOINLINE static int difference(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

NOINLINE static void some_calls()
{
    int numbers[] = {5, 2, 9, 1};
    middle(3);
    qsort(numbers, 4, sizeof numbers[0], difference);
    forever = numbers[0] == 1 ? calls_forever : nullptr;
    middle(4);
}

static void on_timer(int, siginfo_t *, void *)
{
    void *frames[64];
    int count = backtrace(frames, 64), i = 0;
    while (i < count && frames[i] != caller)
        i++;
    walks = walks + 1;
    lost = lost + (i == count);
}

NOINLINE static void walk_at_any_time()
{
    struct sigaction how;
    void *first_use[4];
    caller = __builtin_return_address(0);
    memset(&how, 0, sizeof how);
    how.sa_sigaction = on_timer;
    how.sa_flags = SA_SIGINFO;
    backtrace(first_use, 4);
    sigaction(SIGALRM, &how, nullptr);
    /* One at a time: a handler may take longer than any period. */
    struct itimerval soon = {{0, 0}, {0, 200}};
    for (long i = 0; i < 300; i++) {
        setitimer(ITIMER_REAL, &soon, nullptr);
        while (walks == i)
            some_calls();
    }
    CHECK(lost == 0);
}

int main()
{
    cancel_anywhere();
    throw_at_fault();
    walk_at_any_time();
    return torture_end();
}
