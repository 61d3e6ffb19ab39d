/*
 * Calling contexts, each with a number: equal contexts have equal numbers, whether they were seen
 * by the driver or read from the engine's records. A context is its caller's context, the place
 * that it was entered from, and the function.
 */
#ifndef EXACT_CONTEXTS_H
#define EXACT_CONTEXTS_H

#include "base/vec.h"

#include <stdbool.h>
#include <stdint.h>

/* Number 0: outside of everything. */
struct context {
    uint64_t site;     /* return address of the call, or address of the tail jump; 0: none */
    uint64_t function; /* its start */
    uint32_t parent;
    bool is_tail;
    uint64_t seen;      /* calls that the driver saw in the window and the engine had to count */
    uint64_t counted;   /* calls that the engine counted in the window */
    uint32_t as_walked; /* see struct frame: where else the engine may have counted these */
};

struct contexts {
    VEC(struct context) items;
    uint32_t *slots; /* open addressing; 0 is free */
    uint32_t slot_count;
};

void contexts_begin(struct contexts *contexts);
void contexts_free(struct contexts *contexts);

uint32_t context_of(struct contexts *contexts, uint32_t parent, uint64_t site, uint64_t function,
                    bool is_tail);

/* Where the frame of a context was entered by a call: the context before all its tail jumps. */
uint32_t context_called(const struct contexts *contexts, uint32_t number);

/*
 * The context after a tail jump that was counted in `counted`: a function that is at this frame
 * already is gone back to.
 */
uint32_t context_after_tail(const struct contexts *contexts, uint32_t counted);

#endif
