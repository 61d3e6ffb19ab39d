/*
 * Throws and returns through a marked frame, at every level, with another mark set while the
 * destructors run, between the two phases of the unwinder. Whatever is marked, the trace of
 * destructors, handlers and preserved registers is the same.
 */
#include "marks.h"

#include <exception>
#include <stdexcept>
#include <string>

static std::string trace;
static int mark_first, mark_in_destructor; /* levels; -1: no mark */
static volatile int sink;

struct Noisy {
    const char *name;
    NOINLINE ~Noisy()
    {
        if (mark_in_destructor >= 0)
            sample_level(mark_in_destructor);
        trace += name;
        trace += ' ';
    }
};

/* Values that must survive in registers. */
#define KEEP(k)                                                                                    \
    long keep_a = (k) + 11, keep_b = (k) + 22, keep_c = (k) + 33, keep_d = (k) + 44;               \
    __asm__ volatile("" : "+r"(keep_a), "+r"(keep_b), "+r"(keep_c), "+r"(keep_d))
#define CHECK(k)                                                                                   \
    __asm__ volatile("" : "+r"(keep_a), "+r"(keep_b), "+r"(keep_c), "+r"(keep_d));                 \
    if (keep_a != (k) + 11 || keep_b != (k) + 22 || keep_c != (k) + 33 || keep_d != (k) + 44)      \
    trace += "REGISTERS "

NOINLINE static void leaf(int k)
{
    if (mark_first >= 0)
        sample_level(mark_first);
    if (k)
        throw std::runtime_error("thrown");
    sink = 0;
}

NOINLINE static void with_destructor(int k)
{
    Noisy d{"one"};
    leaf(k);
    sink = 1;
}

NOINLINE static void plain(int k)
{
    with_destructor(k);
    sink = 2;
}

NOINLINE static void with_alloca(int k)
{
    Noisy d{"three"};
    char *room = (char *)__builtin_alloca((size_t)(100 + k));
    room[0] = 1;
    __asm__ volatile("" : : "r"(room));
    plain(k);
    sink = 3;
}

NOINLINE static long other_handler(int k)
{
    KEEP(k);
    try {
        with_alloca(k);
    } catch (std::logic_error &) {
        trace += "WRONG ";
    }
    CHECK(k);
    return keep_a;
}

NOINLINE static int rethrows(int k)
{
    Noisy d{"five"};
    KEEP(k);
    try {
        Noisy inner{"inner"};
        sink = (int)other_handler(k);
    } catch (std::runtime_error &) {
        trace += "rethrow ";
        CHECK(k);
        throw;
    }
    CHECK(k);
    return 5;
}

NOINLINE static int catches(int k)
{
    KEEP(k);
    int result = 0;
    try {
        result = rethrows(k);
    } catch (std::exception &e) {
        trace += "caught ";
        trace += e.what();
        trace += ' ';
        result = 66;
    }
    CHECK(k);
    return result;
}

NOINLINE static int through_callback(int k)
{
    int values[] = {3, 1, 2};
    static int argument;
    argument = k;
    qsort(values, 3, sizeof values[0], [](const void *a, const void *b) {
        try { /* an exception may not leave through C, but may pass over marks within */
            catches(argument);
        } catch (...) {
            trace += "WRONG ";
        }
        return *(const int *)a - *(const int *)b;
    });
    return values[0];
}

NOINLINE static int top(int k)
{
    Noisy d{"top"};
    int result = catches(k) + through_callback(k);
    sink = result;
    return result + 1;
}

static std::string run(int k, int first, int in_destructor)
{
    trace.clear();
    mark_first = first;
    mark_in_destructor = in_destructor;
    int result = top(k);
    return trace + std::to_string(result);
}

int main()
{
    marks_begin();
    int bad = 0, total = 0;
    std::string expected[2] = {run(0, -1, -1), run(1, -1, -1)};
    for (int round = 0; round < 2; round++)
        for (int first = -1; first < 14; first++)
            for (int second = -1; second < 14; second++)
                for (int k = 0; k < 2; k++, total++)
                    bad += run(k, first, second) != expected[k];
    printf("%d of %d as without marks\n", total - bad, total);
    return bad != 0;
}
