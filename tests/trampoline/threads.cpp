/* pthread_cancel and pthread_exit through marked frames: clean-ups of C and C++ run as they must.
 */
#include "marks.h"

#include <cxxabi.h>
#include <pthread.h>
#include <string>

enum { CANCEL_AT_A_POINT, EXIT, CANCEL_ANYWHERE, MODES, LEVELS = 9 };

static std::string trace;
static int mode, level;
static volatile int sink;
static int ready;

struct Noisy {
    const char *name;
    NOINLINE ~Noisy()
    {
        trace += name;
    }
};

static void clean_up(void *)
{
    trace += "C";
}

NOINLINE static void leaf()
{
    if (level >= 0)
        sample_level(level);
    if (mode == EXIT)
        pthread_exit((void *)7);
    if (mode == CANCEL_ANYWHERE)
        pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    __atomic_store_n(&ready, 1, __ATOMIC_RELEASE);
    for (;;) {
        if (mode == CANCEL_AT_A_POINT)
            pause();
        sink = sink + 1;
    }
}

NOINLINE static void one()
{
    Noisy d{"1"};
    leaf();
    sink = 1;
}

NOINLINE static void two()
{
    pthread_cleanup_push(clean_up, NULL);
    one();
    pthread_cleanup_pop(0);
    sink = 2;
}

NOINLINE static void three()
{
    Noisy d{"3"};
    try {
        two();
    } catch (abi::__forced_unwind &) {
        trace += "f";
        throw;
    }
    sink = 3;
}

NOINLINE static void *body(void *)
{
    Noisy d{"t"};
    three();
    return NULL;
}

static bool run()
{
    pthread_t thread;
    void *result;
    trace.clear();
    ready = 0;
    if (pthread_create(&thread, NULL, body, NULL) != 0)
        return false;
    while (mode != EXIT && !__atomic_load_n(&ready, __ATOMIC_ACQUIRE))
        sched_yield();
    if (mode != EXIT)
        pthread_cancel(thread);
    pthread_join(thread, &result);
    return result == (mode == EXIT ? (void *)7 : PTHREAD_CANCELED) && trace == "1Cf3t";
}

int main()
{
    marks_begin();
    int bad = 0, total = 0;
    for (mode = 0; mode < MODES; mode++)
        for (level = -1; level < LEVELS; level++)
            for (int round = 0; round < 8; round++, total++)
                bad += !run();
    printf("%d of %d as without marks\n", total - bad, total);
    return bad != 0;
}
