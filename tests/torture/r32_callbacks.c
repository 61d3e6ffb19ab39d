/* Row 32: calls from code that is not edited (libc, with --modules): qsort, bsearch, atexit,
 * constructors, the start of threads. What they call has its own calls counted in whole contexts.
 */
#include "truth.h"

#include <pthread.h>
#include <search.h>

static volatile long sink;

NOINLINE static int difference(int a, int b)
{
    TRUTH();
    return (a > b) - (a < b);
}

NOINLINE static int by_value(const void *a, const void *b)
{
    TRUTH();
    return difference(*(const int *)a, *(const int *)b);
}

NOINLINE static int nested(const void *a, const void *b)
{
    TRUTH();
    int few[4] = {*(const int *)b, 3, *(const int *)a, 1};
    qsort(few, 4, sizeof *few, by_value);
    return difference(*(const int *)a, *(const int *)b);
}

NOINLINE static void visit(const void *node, VISIT which, int level)
{
    TRUTH();
    sink += difference(**(int *const *)node, level) + (int)which;
}

NOINLINE static void sorts(int turn)
{
    TRUTH();
    int many[64], key = 40;
    for (int i = 0; i < 64; i++)
        many[i] = i * 37 % 64 + turn;
    qsort(many, 64, sizeof *many, turn % 3 ? by_value : nested);
    CHECK(many[0] == turn && many[63] == 63 + turn);
    CHECK((bsearch(&key, many, 64, sizeof *many, by_value) != NULL) == (turn <= 40));
    void *tree = NULL;
    for (int i = 0; i < 8; i++)
        tsearch(&many[i * 5 % 8], &tree, by_value);
    twalk(tree, visit);
    for (int i = 0; i < 8; i++)
        tdelete(&many[i], &tree, by_value);
}

/* The same frames and the same return addresses below, with another caller above. */
#define SIDE(NAME)                                                                                 \
    NOINLINE static void NAME(int turn)                                                            \
    {                                                                                              \
        TRUTH();                                                                                   \
        sorts(turn);                                                                               \
        sink++;                                                                                    \
    }
SIDE(left)
SIDE(right)

NOINLINE static void *in_thread(void *argument)
{
    TRUTH_OF_THREAD();
    for (int i = 0; i < 20; i++)
        sorts(i);
    return argument;
}

__attribute__((constructor)) NOINLINE static void before_main(void)
{
    TRUTH();
    sorts(1);
}

NOINLINE static void at_exit(void)
{
    TRUTH();
    sorts(2);
    sorts(3);
    truth_print();
    fflush(stdout);
}

NOINLINE static void once(void)
{
    TRUTH();
    sorts(4);
}

int main(void)
{
    TRUTH();
    pthread_t threads[3];
    static pthread_once_t first = PTHREAD_ONCE_INIT;
    atexit(at_exit);
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, in_thread, NULL);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 3; i++)
        pthread_once(&first, once);
    for (int i = 0; i < 30; i++) {
        sorts(i);
        (i % 3 ? left : right)(i);
        left(i);
        right(i);
    }
    truth_here = NULL; /* what runs at exit has not been called by main */
    return torture_end();
}
