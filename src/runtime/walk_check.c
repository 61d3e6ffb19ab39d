#include "runtime/walk_check.h"

#include "runtime/walk_inside.h"

static const struct map_function *function_of(const struct map_tables *t, uint64_t offset)
{
    uint32_t after;
    SEARCH(after, t->function_count, t->functions[after].start <= offset);
    const struct map_function *f = after ? &t->functions[after - 1] : NULL;
    if (!f || offset - f->start >= f->size)
        return NULL;
    if (!(f->flags & FUNCTION_FRAGMENT))
        return f;
    return f->parent < t->function_count ? &t->functions[f->parent] : NULL;
}

/* [endbr64;] push %rbp; mov %rsp,%rbp in either encoding. */
static bool begins_with_frame_pointer(struct walk_memory *memory, uint64_t start)
{
    uint64_t word;
    if (!walk_read_word(memory, start, &word))
        return false;
    if ((uint32_t)word == 0xfa1e0ff3)
        word >>= 32;
    return (uint32_t)word == 0xe5894855 || (uint32_t)word == 0xec8b4855;
}

static bool has_frame_pointer(const struct walk_modules *modules, struct walk_memory *memory,
                              const struct walk_frame *frame)
{
    const struct walk_module *m =
        frame->module < modules->count ? &modules->items[frame->module] : NULL;
    if (!m || !m->tables || !m->tables->functions)
        return false;
    uint64_t offset = frame->pc - 1 - m->base;
    int64_t row = map_find_row(m->tables, offset);
    if (row >= 0 && RULE_KIND(m->tables->rows[row].rule) == RULE_RBP)
        return false; /* it knows rbp, and means another place: libgcc's __morestack */
    const struct map_function *f = function_of(m->tables, offset);
    return f && begins_with_frame_pointer(memory, m->base + f->start);
}

bool walk_agrees_with_frame_pointers(const struct walk_modules *modules, struct walk_memory memory,
                                     const struct walk_frame *frames, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const struct walk_frame *f = &frames[i];
        bool is_known = !(f->flags & (FRAME_IS_PC | FRAME_UNKNOWN)) && f->slot;
        if (is_known && f->slot != f->rbp + 8 && has_frame_pointer(modules, &memory, f))
            return false;
    }
    return true;
}

bool walk_was_corrected(const struct walk_modules *modules, const struct walk_frame *frames,
                        uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const struct walk_frame *f = &frames[i];
        if (!(f->flags & FRAME_IS_PC) || f->module >= modules->count)
            continue;
        const struct walk_module *m = &modules->items[f->module];
        if (m->tables && map_find_correction(m->tables, f->pc - m->base))
            return true;
    }
    return false;
}

/* Frames that were interrupted, and return addresses behind calls: nothing that looks made up. */
static bool is_plausible(struct walk_memory memory, const struct walk_frame *frames, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        uint64_t bytes;
        if (!(frames[i].flags & FRAME_IS_PC) &&
            (!walk_read_word(&memory, frames[i].pc - 8, &bytes) || !walk_ends_in_call(bytes)))
            return false;
    }
    return true;
}

bool walk_is_refuted(struct walk_memory memory, struct walk_result first,
                     const struct walk_frame *first_frames, struct walk_result second,
                     const struct walk_frame *second_frames)
{
    return second.end == WALK_COMPLETE && is_plausible(memory, second_frames, second.count) &&
           (first.end != WALK_COMPLETE || !is_plausible(memory, first_frames, first.count));
}
