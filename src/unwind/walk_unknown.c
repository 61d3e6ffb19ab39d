/*
 * Walking through code without unwind information: what run-time compilers have made, and what they
 * have put into a program beforehand; and where a stack ends without a word from the tables.
 */
#include "unwind/walk_inside.h"

bool walk_ends_in_call(uint64_t bytes)
{
    uint8_t at[8];
    memcpy(at, &bytes, sizeof at);
    if (at[3] == 0xe8)
        return true;
    for (unsigned i = 1; i <= 6; i++)
        if (at[i] == 0xff && (at[i + 1] >> 3 & 7) == 2)
            return true;
    return false;
}

/* Is this word of a stack a return address: into code of a module, or near `here`, behind a call?
 */
static bool may_be_return(const struct walk_modules *modules, const struct walk_memory *memory,
                          uint64_t word, uint64_t here)
{
    struct walk_memory code = *memory;
    uint64_t bytes;
    uint32_t index = walk_find_module(modules, word);
    if (index != UINT32_MAX) { /* the index ends where the code does */
        const struct walk_module *m = &modules->items[index];
        if (!m->tables || (word - m->base) >> MAP_BUCKET_SHIFT >= m->tables->bucket_count)
            return false;
        return walk_is_behind_call(modules, memory, word);
    }
    if (word >> 32 != here >> 32)
        return false;
    return walk_read_word(&code, word - 8, &bytes) && walk_ends_in_call(bytes);
}

/*
 * Does the function that `pc` is in set up rbp as its frame pointer? It is looked for backwards:
 * push %rbp; mov %rsp,%rbp (in either encoding), up to what fills the space between functions.
 */
static bool has_frame_pointer(const struct walk_memory *memory, uint64_t pc)
{
    enum { MOST_BYTES = 65536, FILL = 12 }; /* more than an instruction with a long zero has */
    struct walk_memory code = *memory;
    uint64_t first = pc > MOST_BYTES ? pc - MOST_BYTES : 0;
    uint32_t window = 0; /* the four bytes from `at` on */
    unsigned fill = 0;
    for (uint64_t at = pc; at-- > first;) {
        if (at < code.start || at >= code.end) {
            uint64_t word;
            if (!walk_read_word(&code, at & ~UINT64_C(7), &word))
                return false;
        }
        uint8_t byte = *(const uint8_t *)(uintptr_t)(at + code.bias);
        window = window << 8 | byte;
        if (window == 0xe5894855 || window == 0xec8b4855)
            return true;
        fill = byte == 0xcc || byte == 0xf4 || byte == 0 ? fill + 1 : 0;
        if (fill > FILL)
            return false;
    }
    return false;
}

enum frame_state { FRAME_UP, FRAME_DOWN, FRAME_UNCLEAR };

/*
 * Has the function at `pc` taken its frame down, as far as bytes tell? Then there is a pop %rbp or
 * leave among the last, and none among the next before it returns or jumps away. Compilers put
 * other instructions between the two.
 */
static enum frame_state frame_at(const struct walk_memory *memory, uint64_t pc)
{
    enum { NEAR = 64 };
    struct walk_memory code = *memory;
    uint8_t bytes[2 * NEAR], *here = bytes + NEAR;
    bool was_popped = false;
    for (unsigned i = 0; i < sizeof bytes; i += 8) {
        uint64_t word;
        if (!walk_read_word(&code, pc - NEAR + i, &word))
            return FRAME_UNCLEAR;
        memcpy(bytes + i, &word, sizeof word);
    }
    for (unsigned i = 0; i < NEAR; i++)
        was_popped |= bytes[i] == 0x5d || bytes[i] == 0xc9;
    if (!was_popped)
        return FRAME_UP;
    for (unsigned i = 0; i < NEAR; i++) {
        if (here[i] == 0x5d || here[i] == 0xc9)
            return FRAME_UP;
        if (here[i] == 0xc3 || here[i] == 0xe9 || here[i] == 0xeb || here[i] == 0xff)
            return FRAME_DOWN;
    }
    return FRAME_UNCLEAR;
}

/* Where the return address is, in a function that begins with push %rbp at `start`; 0: unclear. */
static uint64_t slot_in(const struct walk_modules *modules, struct walk_memory *memory,
                        const struct walk_position *at, bool is_pc, uint64_t start)
{
    uint64_t top;
    if (is_pc && at->pc < walk_find_frame(memory, start)) /* rbp is still its caller's */
        return at->sp + (at->pc == start ? 0 : 8);
    if (is_pc && walk_read_word(memory, at->sp, &top) &&
        may_be_return(modules, memory, top, at->pc)) {
        enum frame_state frame = frame_at(memory, at->pc);
        return frame == FRAME_UP ? at->bp + 8 : frame == FRAME_DOWN ? at->sp : 0;
    }
    return at->bp + 8;
}

/*
 * A step out of a function of a module that has a frame pointer, but no unwind information:
 * programs are built so to be smaller (Chromium), and so are builtins of run-time compilers.
 */
static bool step_by_prologue(const struct walk_modules *modules, struct walk_memory *memory,
                             struct walk_position *at, bool is_pc, uint64_t *slot)
{
    enum { MOST_FRAME = 1 << 20 };
    uint64_t start = walk_find_prologue(modules, memory, at->pc, is_pc), ra, rbp = at->bp;
    if (!start)
        return false;
    uint64_t place = slot_in(modules, memory, at, is_pc, start);
    if (place < at->sp || place % 8 || place - at->sp > MOST_FRAME ||
        !walk_read_word(memory, place, &ra) || !may_be_return(modules, memory, ra, at->pc) ||
        (place == at->bp + 8 && !walk_read_word(memory, at->bp, &rbp)))
        return false;
    *slot = place;
    at->pc = ra;
    at->sp = place + 8;
    at->bp = rbp;
    return true;
}

/*
 * A step out of code without unwind information. Run-time compilers keep a frame pointer in rbp. It
 * is believed where nothing speaks against it: if rbp is that of a frame further out, the return
 * address that would be skipped lies between rsp and rbp, and is found there. It may also be left
 * from an earlier call; in code outside every module, which has no functions of others in it, a
 * function that is seen to set up its frame pointer is believed all the same. Otherwise the walk
 * ends, except where the very top of the stack at an interrupted instruction is a return address:
 * that is a function without a frame, a stub.
 */
bool walk_step_unknown(const struct walk_modules *modules, struct walk_memory *memory,
                       struct walk_position *at, bool is_pc, uint64_t *slot)
{
    enum { MOST_WORDS = 1024 };
    uint64_t word, ra, bp = at->bp;
    if (walk_find_module(modules, at->pc - !is_pc) != UINT32_MAX &&
        step_by_prologue(modules, memory, at, is_pc, slot))
        return true;
    if (is_pc && walk_read_word(memory, at->sp, &word) &&
        may_be_return(modules, memory, word, at->pc)) {
        *slot = at->sp;
        at->pc = word;
        at->sp += 8;
        return true;
    }
    if (bp < at->sp || bp % 8 || bp - at->sp > MOST_WORDS * 8 ||
        !walk_read_word(memory, bp, &word) || !walk_read_word(memory, bp + 8, &ra) ||
        !may_be_return(modules, memory, ra, at->pc))
        return false;
    bool is_proven = false; /* what lies between is looked at only as long as it is not */
    for (uint64_t p = at->sp; p < bp && !is_proven; p += 8) {
        uint64_t between;
        if (!walk_read_word(memory, p, &between))
            return false;
        if (may_be_return(modules, memory, between, at->pc) &&
            !(is_proven = walk_find_module(modules, at->pc) == UINT32_MAX &&
                          has_frame_pointer(memory, at->pc)))
            return false;
    }
    *slot = bp + 8;
    at->pc = ra;
    at->sp = bp + 16;
    at->bp = word;
    return true;
}

/*
 * Coroutines (Ruby's fibers) begin on a stack whose top is 0, with all registers 0: the first
 * function has no caller, and its CFI cannot say so. But zeros are what memory is full of, and a
 * walk that went astray finds them. So all must hold: no frame was a guess, this one is at a call
 * and was found by a row of the compiler's, and its caller's frame pointer is 0 as well, as the ABI
 * has it for the outermost frame.
 */
bool walk_ends_at_zero(const struct walk_memory *memory, const struct walk_position *at,
                       struct walk_frame *frames, uint32_t count)
{
    struct walk_memory code = *memory;
    struct walk_frame *last = frames + count - 1;
    uint64_t bytes;
    if (at->bp != 0 || (last->flags & FRAME_SPECIAL))
        return false;
    for (uint32_t i = 0; i < count; i++)
        if (frames[i].flags & (FRAME_GUESSED | FRAME_UNKNOWN))
            return false;
    bool is_at_call = last->flags & FRAME_IS_PC
                          ? count == 1 && memory->is_at_call
                          : walk_read_word(&code, last->pc - 8, &bytes) && walk_ends_in_call(bytes);
    if (!is_at_call)
        return false;
    last->slot = 0;
    last->flags |= FRAME_SPECIAL;
    return true;
}
