/*
 * Row 9: threads that are cancelled anywhere (asynchronously) while they call functions, in all the
 * ways in which a function can be called: clean-up handlers and destructors run, each once.
 *
 * What the cancelled code calls has neither destructors nor handlers of its own: those need
 * synchronous unwinding. They stand further out.
 */
#include "torture.h"

#include <pthread.h>

enum { THREADS = 100, DEPTH = 5 };

static int cleaned, destroyed, unwound;
static pthread_barrier_t ready;
static pthread_key_t key;

struct Guard {
    ~Guard()
    {
        unwound++;
    }
};

static void clean(void *)
{
    cleaned++;
}

static void destroy(void *)
{
    destroyed++;
}

typedef unsigned step(unsigned);

/* In no register that a caller keeps, so that every call is one. */
extern "C" NOINLINE unsigned leaf(unsigned x)
{
    __asm__ volatile("" : "+r"(x));
    return x * 1664525u + 1013904223u;
}

extern "C" NOINLINE unsigned other_leaf(unsigned x)
{
    __asm__ volatile("" : "+r"(x));
    return x ^ x >> 7;
}

static NOINLINE unsigned deeper(unsigned x)
{
    x = leaf(x);
    __asm__ volatile("" : "+r"(x));
    return other_leaf(x) + 1;
}

static NOINLINE unsigned goes_on(unsigned x)
{
    __asm__ volatile("" : "+r"(x));
    return deeper(x); /* a tail jump */
}

static NOINLINE unsigned recurses(unsigned x)
{
    unsigned y = x & 7 ? recurses(x - 1) : leaf(x);
    __asm__ volatile("" : "+r"(y));
    return y;
}

static step *const volatile steps[] = {leaf, other_leaf, deeper, goes_on, recurses};

static NOINLINE void calls_directly()
{
    for (unsigned x = 1;;)
        x = leaf(deeper(x));
}

static NOINLINE void calls_by_pointer()
{
    for (unsigned x = 1;;)
        x = steps[x % 5](x) * 3;
}

static NOINLINE void jumps()
{
    for (unsigned x = 1;;)
        x = goes_on(x);
}

static NOINLINE void recursion()
{
    for (unsigned x = 1;; x++)
        recurses(x);
}

static NOINLINE void calls_a_library()
{
    for (unsigned x = 1;; x++) /* through the PLT; async-signal-safe */
        x += (unsigned)(uintptr_t)memchr("abcdefgh", 'a' + (int)(x % 8), 8);
}

typedef void body();

static NOINLINE int guarded(int depth, body *run)
{
    Guard guard;
    int result = depth ? guarded(depth - 1, run) + 1 : (run(), 0);
    __asm__ volatile("" : "+r"(result));
    return result;
}

static NOINLINE void from_now_on(body *run)
{
    pthread_barrier_wait(&ready);
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    run();
}

static body *chosen;

static void *thread(void *)
{
    pthread_setspecific(key, &key);
    pthread_cleanup_push(clean, NULL);
    guarded(DEPTH, [] { from_now_on(chosen); });
    pthread_cleanup_pop(0);
    return NULL;
}

static void run(const char *name, body *what)
{
    cleaned = destroyed = unwound = 0;
    chosen = what;
    for (int i = 0; i < THREADS; i++) {
        pthread_t made;
        void *result;
        CHECK(pthread_create(&made, NULL, thread, NULL) == 0);
        pthread_barrier_wait(&ready);
        spin(20000 + 997u * (unsigned)i);
        CHECK(pthread_cancel(made) == 0);
        CHECK(pthread_join(made, &result) == 0);
        CHECK(result == PTHREAD_CANCELED);
    }
    printf("%s: %d cleaned, %d destroyed, %d unwound\n", name, cleaned, destroyed,
           unwound / (DEPTH + 1));
}

int main()
{
    pthread_key_create(&key, destroy);
    pthread_barrier_init(&ready, NULL, 2);
    run("direct calls", calls_directly);
    run("calls by pointer", calls_by_pointer);
    run("tail jumps", jumps);
    run("recursion", recursion);
    run("calls of a library", calls_a_library);
    return torture_end();
}
