/*
 * Compiled twice: GROW_STACK names the entry, with and without frame pointers. Sixteen functions
 * with frames of different sizes and different numbers of saved registers.
 */
#include "walk_stack.h"

typedef int link_fn(int depth, enum stack_shape shape, unsigned seed, int (*at_bottom)(void *),
                    void *argument);

static link_fn *const links[16];

static inline __attribute__((always_inline)) int
next(int depth, enum stack_shape shape, unsigned seed, int (*at_bottom)(void *), void *argument)
{
    seed = shape == RANDOM ? seed * 1664525u + 1013904223u : seed + (1u << 28);
    return depth <= 1 ? at_bottom(argument)
                      : links[seed >> 28](depth - 1, shape, seed, at_bottom, argument);
}

/* Values that live across the call make the compiler save registers; the array makes the frame. */
#define LINK(n, bytes)                                                                             \
    static                                                                                         \
        __attribute__((noinline)) int link_##n(int depth, enum stack_shape shape, unsigned seed,   \
                                               int (*at_bottom)(void *), void *argument)           \
    {                                                                                              \
        volatile char room[bytes];                                                                 \
        room[seed % (bytes)] = (char)depth;                                                        \
        int below = next(depth, shape, seed, at_bottom, argument);                                 \
        return below + room[seed % (bytes)] + ((n)&1 ? depth : 0) + ((n)&2 ? (int)seed : 0) +      \
               ((n)&4 ? (int)(long)argument : 0) + ((n)&8 ? (int)(long)at_bottom : 0);             \
    }

LINK(0, 8)
LINK(1, 16)
LINK(2, 24)
LINK(3, 40)
LINK(4, 8)
LINK(5, 64)
LINK(6, 96)
LINK(7, 128)
LINK(8, 8)
LINK(9, 16)
LINK(10, 32)
LINK(11, 48)
LINK(12, 200)
LINK(13, 8)
LINK(14, 16)
LINK(15, 24)

static link_fn *const links[16] = {link_0,  link_1,  link_2,  link_3, link_4,  link_5,
                                   link_6,  link_7,  link_8,  link_9, link_10, link_11,
                                   link_12, link_13, link_14, link_15};

int GROW_STACK(int depth, enum stack_shape shape, unsigned seed, int (*at_bottom)(void *),
               void *argument)
{
    return next(depth, shape, seed, at_bottom, argument) + 1;
}
