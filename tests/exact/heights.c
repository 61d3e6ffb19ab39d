/* Prints the stack height of its contexts, from main's return address on, and which of them vary.
 */
#include <alloca.h>
#include <stdio.h>
#include <string.h>

#define ALONE __attribute__((noinline, noclone))
#define SLOT  ((unsigned long)__builtin_frame_address(0) + 8)

static unsigned long mains, leafs, smalls, bigs[3];

ALONE static void leaf(void)
{
    leafs = SLOT;
}

ALONE static void small(void)
{
    smalls = SLOT;
    leaf();
    __asm__ volatile("");
}

ALONE static void big(int bytes) /* what it calls has another height each time */
{
    char *memory = alloca((size_t)bytes);
    memset(memory, 1, (size_t)bytes);
    __asm__ volatile("" : : "r"(memory) : "memory");
    bigs[0] = SLOT;
    small();
    __asm__ volatile("");
}

int main(void)
{
    mains = SLOT;
    small();
    unsigned long straight_small = smalls, straight_leaf = leafs;
    unsigned long first_small = 0, first_leaf = 0;
#pragma GCC unroll 1
    for (int i = 0; i < 3; i++) {
        big(16 + 64 * i);
        if (!i) {
            first_small = smalls;
            first_leaf = leafs;
        }
    }
    printf("main;big %lu\n", mains - bigs[0]);
    printf("main;big;small %lu varies\n", mains - first_small);
    printf("main;big;small;leaf %lu varies\n", mains - first_leaf);
    printf("main;small %lu\n", mains - straight_small);
    printf("main;small;leaf %lu\n", mains - straight_leaf);
    return 0;
}
