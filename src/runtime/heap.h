/* Memory in use (-e heap): what heap.c knows, for the calls of heap_maps.c and heap_new.c. */
#ifndef RUNTIME_HEAP_H
#define RUNTIME_HEAP_H

#include "runtime/charge.h"

struct heap_block {
    uint64_t address; /* 0: free */
    uint64_t bytes, calls;
    uint64_t node;
};

/* Counts memory that was got from `function`, and returns it. */
void *heap_count(void *memory, uint64_t bytes, const void *function);

/* Counts memory, and says in the block what is to be remembered of it, if anything: true. */
bool heap_charge(uint64_t address, uint64_t bytes, const void *function, struct heap_block *block);

/* The memory at this address is given back. */
void heap_give_back(void *memory);

/* Under the lock, with signals blocked: the bytes and calls of a node change. */
uint64_t heap_lock(void);
void heap_unlock(uint64_t mask);
void heap_change(uint64_t node, uint64_t bytes, uint64_t calls);

/* Is this address in the module that malloc is in? What an allocator asks the system for is not
 * what the program asks it for. */
bool heap_is_allocator(const void *address);

#endif
