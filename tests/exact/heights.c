/*
 * Prints the stack height of its contexts, and which of them vary: of main from the outermost
 * return address on, that of _start's call, and of the others from main's on. There are direct
 * calls, calls through a pointer to one function and to another, a call of a library that is bound
 * when it is called first and calls back, and tail jumps, each with a height that stays and with
 * one that does not.
 */
#include <alloca.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALONE   __attribute__((noinline, noclone))
#define SLOT    ((unsigned long)__builtin_frame_address(0) + 8)
#define NO_JUMP __asm__ volatile("")

extern void *__libc_stack_end; /* rsp at _start, which pops a word, aligns, and pushes two */

enum { DIRECT, LEAF, ONE, OTHER, BOUND, COMPARE, COMPARED, JUMPS, JUMPED_TO, KINDS };

static const char *const names[KINDS] = {"direct",
                                         "direct;leaf",
                                         "through;one",
                                         "through;other",
                                         "qsort",
                                         "qsort;compare",
                                         "qsort;compare;compared",
                                         "jumps",
                                         "jumps;jumped_to"};
static unsigned long slots[KINDS], holder;

ALONE static void leaf(void)
{
    slots[LEAF] = SLOT;
}

ALONE static void direct(void)
{
    slots[DIRECT] = SLOT;
    leaf();
    NO_JUMP;
}

ALONE static void one(void)
{
    slots[ONE] = SLOT;
}

ALONE static void other(void)
{
    slots[OTHER] = SLOT;
}

ALONE static void jumped_to(void)
{
    slots[JUMPED_TO] = SLOT;
}

ALONE static void jumps(void)
{
    slots[JUMPS] = SLOT;
    jumped_to(); /* the last thing it does */
}

ALONE static void compared(void)
{
    slots[COMPARED] = SLOT;
}

ALONE static int compare(const void *a, const void *b)
{
    slots[COMPARE] = SLOT;
    compared();
    return *(const int *)a - *(const int *)b;
}

ALONE static void through(void (*const *functions)(void), int count) /* all by one site */
{
    for (int i = 0; i < count; i++)
        functions[i]();
}

/* All that it calls has another height when it needs more memory. */
ALONE static void holds(int bytes)
{
    char *memory = alloca((size_t)bytes);
    __asm__ volatile("" : : "r"(memory) : "memory");
    holder = SLOT;
    direct();
    through((void (*const[])(void)){one, other}, 2);
    int numbers[] = {bytes, 1};
    qsort(numbers, 2, sizeof *numbers, compare);
    slots[BOUND] = slots[DIRECT]; /* called by the same function */
    jumps();
    NO_JUMP;
}

ALONE static void steady(int bytes)
{
    holds(bytes);
    NO_JUMP;
}

ALONE static void varied(int bytes)
{
    holds(bytes);
    NO_JUMP;
}

static void print(const char *caller, unsigned long mains, unsigned long held,
                  const unsigned long *first, const char *varies)
{
    printf("main;%s;holds %lu\n", caller, mains - held);
    for (int i = 0; i < KINDS; i++)
        printf("main;%s;holds;%s %lu%s\n", caller, names[i], mains - first[i], varies);
}

int main(void)
{
    /* When it changes, all is known, and calls go the fast way. */
    static const volatile int sizes[] = {16, 16, 16, 192, 256};
    unsigned long mains = SLOT, held[2], first[2][KINDS];
    unsigned long start = (((unsigned long)__libc_stack_end + 8) & ~15ul) - 24;
#pragma GCC unroll 1
    for (int i = 0; i < 5; i++) {
        varied(sizes[i]);
        if (!i) {
            held[1] = holder;
            memcpy(first[1], slots, sizeof slots);
        }
    }
#pragma GCC unroll 1
    for (int i = 0; i < 5; i++) {
        steady(64);
        held[0] = holder;
        memcpy(first[0], slots, sizeof slots);
    }
    printf("main %lu\n", start - mains);
    print("steady", mains, held[0], first[0], "");
    print("varied", mains, held[1], first[1], " varies");
    return 0;
}
