#include "unwind/stack.h"

/*
 * How many frames, from the outermost on, can be found again by the words that led to them. A
 * special rule reads other words than a return address and rbp; only the outermost frame's reads
 * none.
 */
static uint32_t count_rememberable(const struct thread_stack *stack)
{
    if (stack->end != WALK_COMPLETE)
        return 0;
    /* A mark can keep more frames than can be found again: then a special one is among them. */
    uint32_t i = stack->kept < stack->past_count ? stack->kept : stack->past_count;
    i = stack->kept ? i : 1;
    while (i < stack->count && !(stack->frames[i].flags & FRAME_SPECIAL))
        i++;
    return i;
}

void stack_walk(struct thread_stack *stack, const struct walk_modules *modules,
                const struct walk_registers *registers, struct walk_memory *memory,
                struct stack_mark mark)
{
    struct walk_past past = {.frames = stack->past,
                             .count = stack->past_count,
                             .mark = mark.word,
                             .mark_slot = mark.slot,
                             .mark_frame = mark.frame};
    struct walk_result fresh = walk_frames_joining(&past, &stack->cache, modules, registers, memory,
                                                   stack->fresh, stack->room);
    if (fresh.count > stack->room - past.kept) { /* deeper than there is room for */
        past = (struct walk_past){.frames = stack->past};
        fresh = walk_frames_joining(&past, &stack->cache, modules, registers, memory, stack->fresh,
                                    stack->room);
    }
    stack->serial++;
    stack->end = fresh.end;
    stack->kept = past.kept;
    stack->count = stack->kept + fresh.count;
    for (uint32_t i = 0; i < fresh.count; i++)
        stack->frames[stack->count - 1 - i] = stack->fresh[i];
    stack->past_count = count_rememberable(stack);
    for (uint32_t i = stack->kept; i < stack->past_count; i++) {
        const struct walk_frame *f = &stack->frames[i];
        stack->past[i] =
            (struct walk_past_frame){.pc = f->pc,
                                     .slot = f->slot,
                                     .rbp = f->rbp,
                                     .rbp_slot = i ? walk_rbp_slot(&stack->cache, modules, f) : 0};
    }
}
