/* The mirror of a thread's stack: which record the frame has whose return address is in a slot. */
#ifndef RUNTIME_EXACT_MIRROR_H
#define RUNTIME_EXACT_MIRROR_H

#include "base/page.h"
#include "runtime/exact/exact.h"

/*
 * The mirror has a tag and a record for each slot, in two arrays: a slot's address, but for a mask,
 * leads to its tag, and so much further lies its record. (The ABI has slots 16 bytes apart at
 * least, but compilers keep to it only where others call: a function of their own may have its slot
 * 8 bytes below its caller's.)
 *
 * The tag tells those apart that share an entry: it is the sum of the slot's address and of the
 * return address in it. (That two frames have the same entry and the same sum, two return addresses
 * and two stacks would have to be the same multiple of 4 MB apart.)
 *
 * Neither array begins at a page's start: otherwise an entry would be at the same place of its page
 * as the slot, and the processor takes a load for one that must wait for a store before it, by that
 * place alone.
 */
enum {
    MIRROR_SPAN = 4 << 20, /* of the stack */
    MIRROR_MASK = MIRROR_SPAN - 8,
    MIRROR_SHIFT = 2048 + 64,
    MIRROR_RECORDS = MIRROR_SPAN + 1024 + 64,
    MIRROR_MAPPED = 2 * MIRROR_SPAN + PAGE_BYTES
};

static_assert(MIRROR_SHIFT + MIRROR_RECORDS + MIRROR_SPAN <= MIRROR_MAPPED, "they fit");

ALWAYS_INLINE uint64_t *tag_of(uint64_t slot)
{
    return (void *)(exact_state.mirror + (slot & MIRROR_MASK));
}

ALWAYS_INLINE struct arena_record **record_of(uint64_t slot)
{
    return (void *)(exact_state.mirror + MIRROR_RECORDS + (slot & MIRROR_MASK));
}

ALWAYS_INLINE struct arena_record *find_in_mirror(uint64_t slot)
{
    bool is_its = slot && *tag_of(slot) == slot + *(const uint64_t *)slot + exact_state.epoch;
    return is_its ? *record_of(slot) : NULL;
}

/* The record first, as the stubs do: a handler may come in between, and believes the tag. */
ALWAYS_INLINE void put_in_mirror(uint64_t slot, struct arena_record *record, uint64_t ret)
{
    *record_of(slot) = record;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    *tag_of(slot) = slot + ret + exact_state.epoch;
}

/* `ret`: as in struct entered. */
static inline void mirror_put(uint64_t slot, struct arena_record *record, uint64_t ret)
{
    if (slot && ret)
        put_in_mirror(slot, record, ret);
}

/* The record that the mirror has for a slot, if it is that of the frame which is there now. */
struct arena_record *mirror_find(uint64_t slot); /* exact.c */

#endif
