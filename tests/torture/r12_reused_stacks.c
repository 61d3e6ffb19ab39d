/* Row 12: coroutines one after the other on the same stack: the slots and the outermost return
 * address are those of the one before, the functions are not. Each also throws away what it has
 * begun. */
#include "truth.h"

#include <ucontext.h>

enum { TURNS = 600, ROOM = 32 << 10 };

static ucontext_t main_context, context;
static volatile long sink;

NOINLINE static long leaf(long n)
{
    TRUTH();
    sink += n;
    return n + 1;
}

NOINLINE static long middle(long n)
{
    TRUTH();
    return leaf(n) + leaf(n + 1);
}

NOINLINE static void leave(void)
{
    TRUTH();
    struct truth_node *here = truth_here;
    truth_here = NULL;
    swapcontext(&context, &main_context);
    truth_here = here;
}

/* Entered by a return, not by a call. */
#define BODY(NAME)                                                                                 \
    NOINLINE static void NAME(void)                                                                \
    {                                                                                              \
        truth_here = NULL;                                                                         \
        TRUTH_OF_THREAD();                                                                         \
        middle(1);                                                                                 \
        leave();                                                                                   \
        middle(2);                                                                                 \
        leaf(3);                                                                                   \
    }
BODY(red)
BODY(green)
BODY(blue)

static void (*const bodies[])(void) = {red, green, blue};

int main(void)
{
    TRUTH();
    struct truth_node *here = truth_here;
    char *stack = malloc(ROOM);
    for (int i = 0; i < TURNS; i++) {
        getcontext(&context);
        context.uc_stack.ss_sp = stack;
        context.uc_stack.ss_size = ROOM;
        context.uc_link = &main_context;
        makecontext(&context, bodies[i * 7 / 3 % 3], 0);
        swapcontext(&main_context, &context);
        truth_here = here;
        leaf(i);
        if (i % 4) { /* the others are left as they are */
            swapcontext(&main_context, &context);
            truth_here = here;
        }
    }
    free(stack);
    truth_print();
    return torture_end();
}
