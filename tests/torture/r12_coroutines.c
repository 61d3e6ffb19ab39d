/*
 * Row 12: coroutines on malloc'd stacks by makecontext and swapcontext, resumed from another thread
 * than the one that began them, and freed in the middle of a call.
 */
#include "torture.h"

#include <pthread.h>
#include <ucontext.h>

enum { COUNT = 8, STACK_BYTES = 32 * 1024 };

struct coroutine {
    ucontext_t here, caller;
    void *stack;
    int steps;
};

static struct coroutine coroutines[COUNT];
static pthread_barrier_t turn;
static long total;

static NOINLINE void in_coroutine(struct coroutine *c, int depth)
{
    spin(5000);
    if (depth) {
        in_coroutine(c, depth - 1);
        __asm__ volatile("");
        return;
    }
    c->steps++;
    swapcontext(&c->here, &c->caller);
    spin(5000);
}

static void body(unsigned index)
{
    for (int i = 0; i < 100000; i++)
        in_coroutine(&coroutines[index], i % 12);
}

static void begin(unsigned i)
{
    struct coroutine *c = &coroutines[i];
    c->stack = malloc(STACK_BYTES);
    c->steps = 0;
    getcontext(&c->here);
    c->here.uc_stack.ss_sp = c->stack;
    c->here.uc_stack.ss_size = STACK_BYTES;
    c->here.uc_link = NULL;
    makecontext(&c->here, (void (*)(void))body, 1, i);
}

static NOINLINE void resume_all(void)
{
    for (int round = 0; round < 60; round++)
        for (unsigned i = 0; i < COUNT; i++)
            swapcontext(&coroutines[i].caller, &coroutines[i].here);
}

/* Freed in the middle of a call; the memory is used for something else, and must stay intact. */
static void restart(unsigned i)
{
    total += coroutines[i].steps;
    memset(coroutines[i].stack, 0x5a, STACK_BYTES);
    unsigned char *old = coroutines[i].stack;
    burn_ms(3);
    int changed = 0;
    for (int k = 0; k < STACK_BYTES; k++)
        changed += old[k] != 0x5a;
    CHECK(changed == 0);
    free(old);
    begin(i);
}

static void *other_thread(void *argument)
{
    for (int round = 0; round < 5; round++) {
        pthread_barrier_wait(&turn);
        resume_all();
        pthread_barrier_wait(&turn);
    }
    return argument;
}

int main(void)
{
    pthread_t thread;
    pthread_barrier_init(&turn, NULL, 2);
    for (unsigned i = 0; i < COUNT; i++)
        begin(i);
    pthread_create(&thread, NULL, other_thread, NULL);
    for (int round = 0; round < 5; round++) {
        resume_all();
        pthread_barrier_wait(&turn);
        pthread_barrier_wait(&turn);
        for (unsigned i = 0; i < COUNT; i += 2)
            restart(i);
    }
    pthread_join(thread, NULL);
    for (unsigned i = 0; i < COUNT; i++)
        total += coroutines[i].steps;
    printf("steps %ld\n", total);
    return torture_end();
}
