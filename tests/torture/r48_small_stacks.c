/*
 * Row 48: stacks with less room than a signal frame needs. Coroutines with stacks of 2 and 4 KB,
 * side by side, and threads that are down to the last KB of their stacks: what lies below must stay
 * as it is.
 */
#include "torture.h"

#include <limits.h>
#include <pthread.h>
#include <sys/mman.h>

enum { COUNT = 16, ROUNDS = 40, SMALLEST = 2048, MOST = 4096, ALL = COUNT * MOST };

/* Saves what a function keeps on the old stack, goes to the other one, and loads it from there. */
void switch_stack(void **from, void *to);
__asm__(".text\n"
        ".type switch_stack, @function\n"
        "switch_stack:\n"
        ".cfi_startproc\n"
        "push %rbx\n push %rbp\n push %r12\n push %r13\n push %r14\n push %r15\n"
        "mov %rsp, (%rdi)\n"
        "mov %rsi, %rsp\n"
        "pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbp\n pop %rbx\n"
        "ret\n"
        ".cfi_endproc\n"
        ".size switch_stack, . - switch_stack\n");

static void *here[COUNT], *scheduler;
static long steps[COUNT];
static unsigned current;

static NOINLINE void in_coroutine(void)
{
    spin(20000);
    steps[current]++;
}

static void body(void)
{
    for (;;) {
        in_coroutine();
        switch_stack(&here[current], scheduler);
    }
}

/* The low half of each stack is not used: it is filled, and looked at in the end. */
static NOINLINE void run_coroutines(size_t bytes)
{
    static unsigned char memory[ALL] __attribute__((aligned(64)));
    memset(memory, 0xa5, sizeof memory);
    memset(steps, 0, sizeof steps);
    for (unsigned i = 0; i < COUNT; i++) {
        void **top = (void **)(memory + (i + 1) * bytes);
        *--top = NULL;
        *--top = NULL;
        *--top = (void *)body;
        for (int k = 0; k < 6; k++)
            *--top = NULL;
        here[i] = top;
    }
    for (int round = 0; round < ROUNDS; round++)
        for (current = 0; current < COUNT; current++)
            switch_stack(&scheduler, here[current]);
    long total = 0, written = 0;
    for (unsigned i = 0; i < COUNT; i++) {
        total += steps[i];
        for (size_t k = 0; k < bytes / 2; k++)
            written += memory[i * bytes + k] != 0xa5;
    }
    CHECK(written == 0);
    printf("%zu bytes: %ld steps, %ld bytes written\n", bytes, total, written);
}

static unsigned char *last_page;

/* Goes down to where less than a KB of the stack is left. */
static NOINLINE long at_the_end(int depth)
{
    unsigned char here_[256];
    memset(here_, depth, sizeof here_);
    __asm__ volatile("" : : "r"(here_) : "memory");
    if (here_ - last_page > 1024)
        return at_the_end(depth + 1) + here_[7];
    for (int i = 0; i < 1000; i++)
        spin(100000);
    return here_[3];
}

static void *down_to_the_end(void *argument)
{
    at_the_end(0);
    return argument;
}

static NOINLINE void spin_below(void)
{
    spin(100000);
    __asm__ volatile(""); /* no tail jump */
}

/* The first call of its own is where some hundred bytes are left. */
static void *first_call_at_the_end(void *argument)
{
    unsigned char *here_ = __builtin_frame_address(0);
    unsigned char *rest = __builtin_alloca(here_ - last_page - 768);
    __asm__ volatile("" : : "r"(rest) : "memory");
    spin_below();
    return argument;
}

static void run_thread(void *(*work)(void *))
{
    enum { PAGE = 4096, BYTES = 64 * 1024 };
    unsigned char *memory =
        mmap(NULL, PAGE + BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(memory, PAGE, PROT_NONE);
    last_page = memory + PAGE;
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    CHECK(pthread_attr_setstack(&attributes, memory + PAGE, BYTES) == 0);
    CHECK(pthread_create(&thread, &attributes, work, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    printf("thread: back from the end of its stack\n");
}

int main(void)
{
    in_coroutine(); /* the lazy binder needs more than there is */
    run_coroutines(SMALLEST);
    run_coroutines(MOST);
    run_thread(down_to_the_end);
    run_thread(first_call_at_the_end);
    return torture_end();
}
