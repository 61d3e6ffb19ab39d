/* Row 12: coroutines that share one piece of the stack: when one of them rests, its frames are
 * copied away, and those of the next are copied to the same addresses, return addresses and all (as
 * greenlets in Python do it). The functions are the same and so are their frames, but not what
 * called them: the contexts are compared with what each coroutine knows of itself. */
#include "truth.h"

#include <alloca.h>

enum { COROUTINES = 6, TURNS = 400, ROOM = 64 << 10 };

struct registers {
    void *rbx, *rbp, *r12, *r13, *r14, *r15, *rsp, *rip;
};

/* Like setjmp: 0 the first time, 1 when it is come back to. Only what the ABI keeps is saved. */
__attribute__((returns_twice)) int save(struct registers *r);
__attribute__((noreturn)) void come_back(struct registers *r);
__asm__(".text\n.type save, @function\nsave:\n.cfi_startproc\n"
        " mov %rbx, (%rdi)\n mov %rbp, 8(%rdi)\n mov %r12, 16(%rdi)\n mov %r13, 24(%rdi)\n"
        " mov %r14, 32(%rdi)\n mov %r15, 40(%rdi)\n lea 8(%rsp), %rax\n mov %rax, 48(%rdi)\n"
        " mov (%rsp), %rax\n mov %rax, 56(%rdi)\n xor %eax, %eax\n ret\n"
        ".cfi_endproc\n.size save, . - save\n"
        ".type come_back, @function\ncome_back:\n.cfi_startproc\n"
        ".cfi_def_cfa %rdi, 0\n.cfi_undefined %rip\n"
        " mov (%rdi), %rbx\n mov 8(%rdi), %rbp\n mov 16(%rdi), %r12\n mov 24(%rdi), %r13\n"
        " mov 32(%rdi), %r14\n mov 40(%rdi), %r15\n mov 48(%rdi), %rsp\n mov $1, %eax\n"
        " jmp *56(%rdi)\n"
        ".cfi_endproc\n.size come_back, . - come_back\n");

struct coroutine {
    struct registers at;
    struct truth_node *here;
    char *low;    /* its frames: from here to the base */
    size_t bytes; /* 0: not begun */
    long kept[ROOM / sizeof(long)];
};

static struct coroutine coroutines[COROUTINES];
static struct registers main_at;
static struct truth_node *main_here;
static char *base; /* of the part that is copied */
static int current, done;
static volatile long sink;

NOINLINE static long leaf(long n)
{
    TRUTH();
    sink += n;
    return n + 1;
}

/* Copies the frames away, and goes on in main; comes back here when they have been put back. */
NOINLINE static void rest(void)
{
    TRUTH();
    struct coroutine *c = &coroutines[current];
    if (save(&c->at) == 0) {
        c->low = (char *)c->at.rsp;
        c->bytes = (size_t)(base - c->low);
        if (c->bytes > ROOM)
            abort();
        for (size_t i = 0; i < c->bytes / sizeof(long); i++) /* whole words, as memcpy does it */
            c->kept[i] = ((volatile long *)c->low)[i];
        c->here = truth_here;
        truth_here = main_here;
        come_back(&main_at);
    }
    truth_here = coroutines[current].here;
}

NOINLINE static void body(void)
{
    TRUTH();
    for (int i = 0; i < TURNS; i++) {
        leaf(i);
        rest();
        leaf(-i);
    }
}

/* Two frames that are the same in all of them, return addresses and all. */
NOINLINE static void middle(void)
{
    TRUTH();
    leaf(3);
    body();
    leaf(4);
}

/* The same code three times: the frames have the same size, their return addresses lie in others.
 */
#define OUTER(NAME)                                                                                \
    NOINLINE static void NAME(void)                                                                \
    {                                                                                              \
        TRUTH();                                                                                   \
        leaf(1);                                                                                   \
        middle();                                                                                  \
        leaf(2);                                                                                   \
    }
OUTER(red)
OUTER(green)
OUTER(blue)

static void (*volatile bodies[])(void) = {red, green, blue};

NOINLINE static void put_back(struct coroutine *c)
{
    for (size_t i = 0; i < c->bytes / sizeof(long); i++)
        ((volatile long *)c->low)[i] = c->kept[i];
    come_back(&c->at);
}

/* What puts the frames back must itself be below them. */
NOINLINE static void go_on(void)
{
    volatile char *below = alloca(ROOM * 2);
    below[0] = 0;
    put_back(&coroutines[current]);
}

NOINLINE static void run(void)
{
    TRUTH();
    main_here = truth_here;
    volatile char *below = alloca(4096); /* main's own frames are not copied */
    below[0] = 0;
    base = (char *)below;
    for (volatile int turn = 0; done < COROUTINES; turn++) {
        current = turn % COROUTINES;
        if (save(&main_at) == 0) {
            if (coroutines[current].bytes) {
                go_on();
            } else {
                bodies[current % 3]();
                done++;
                truth_here = main_here;
                come_back(&main_at);
            }
        }
    }
}

int main(void)
{
    TRUTH();
    run();
    truth_print();
    return torture_end();
}
