/* Joining what an earlier walk of the same stack has found. */
#include "unwind/walk_inside.h"

static bool holds(const struct walk_memory *memory, uint64_t address, uint64_t value)
{
    uint64_t word;
    memcpy(&word, (const void *)(uintptr_t)(address + memory->bias), sizeof word);
    return word == value;
}

/* Does a slot that is not what it was have a mark now, which stands for that? */
static __attribute__((noinline, cold)) bool is_marked(const struct walk_memory *memory,
                                                      uint64_t slot, uint64_t value)
{
    struct walk_marks *marks = memory->marks;
    uint64_t word;
    memcpy(&word, (const void *)(uintptr_t)(slot + memory->bias), sizeof word);
    return marks && marks->join && word >= marks->start && word < marks->end &&
           marks->real(marks, word, slot) == value;
}

/*
 * Are the frames [0, count) of the past still there? The words that led from each to the next must
 * be what they were. Nothing here waits for anything: the addresses are all known beforehand.
 */
static bool past_is_unchanged(const struct walk_past_frame *frames, uint32_t count,
                              const struct walk_memory *memory, uint64_t sp)
{
    /* The slots go up, and saved registers are less than WALK_MOST_BACK below a slot above rsp. */
    if (sp < memory->start || sp - memory->start < WALK_MOST_BACK ||
        memory->end - 8 < frames[1].slot)
        return false;
    for (uint32_t i = count - 1; i > 0; i--) {
        const struct walk_past_frame *f = &frames[i];
        if (unlikely(!holds(memory, f->slot, f[-1].pc)) && !is_marked(memory, f->slot, f[-1].pc))
            return false;
        if (f->rbp_slot && unlikely(!holds(memory, f->rbp_slot, f[-1].rbp)))
            return false;
    }
    return true;
}

bool walk_joins(struct walk_past *past, const struct walk_position *at,
                const struct walk_memory *memory)
{
    const struct walk_past_frame *frames = past->frames;
    uint32_t i = past->look;
    while (i > 0 && frames[i].slot + 8 < at->sp)
        i--;
    if (i > 1 && frames[i].slot + 8 == at->sp) {
        if (frames[i - 1].pc == at->pc && frames[i - 1].rbp == at->bp) {
            if (past_is_unchanged(frames, i, memory, at->sp)) {
                past->kept = i;
                return true;
            }
            i = 0; /* changed further up: walk all of it */
        } else {
            i--;
        }
    }
    past->look = i;
    past->until = i > 1 ? frames[i].slot + 8 : UINT64_MAX;
    return false;
}
