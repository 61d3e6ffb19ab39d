/*
 * Deep stacks to walk, of functions with frames of different sizes. They call each other in turn,
 * as a recursive-descent parser or an interpreter does (RECURSION), or each time another at random.
 */
#ifndef BENCH_WALK_STACK_H
#define BENCH_WALK_STACK_H

enum stack_shape { RECURSION, RANDOM };

/* Calls `at_bottom` with `depth` frames of these functions between it and the caller. */
typedef int grow_stack_fn(int depth, enum stack_shape shape, unsigned seed,
                          int (*at_bottom)(void *), void *argument);

grow_stack_fn grow_stack_with_frame_pointers, grow_stack_without_frame_pointers;

#endif
