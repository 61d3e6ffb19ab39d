/*
 * Functions of modules that have no unwind information, but a frame pointer: where they begin. What
 * was found is remembered, since code of modules does not change, and the same return addresses are
 * met again and again.
 */
#include "unwind/walk_inside.h"

static bool is_prologue(uint64_t bytes)
{
    return (uint32_t)bytes == 0xe5894855 || (uint32_t)bytes == 0xec8b4855;
}

/* pop %rbp or leave, and ret. */
static bool is_end(uint64_t bytes)
{
    return (uint16_t)bytes == 0xc35d || (uint16_t)bytes == 0xc3c9;
}

/* Not libc's: that may use vector registers, which a walk on the slow path of a call must leave
 * alone (pitfall 23). */
static bool are_same(const uint8_t *a, const uint8_t *b, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        if (a[i] != b[i])
            return false;
    return true;
}

/* How many of the last bytes before an address are one nop; 0: none. */
static unsigned nop_before(const uint8_t *end)
{
    static const struct {
        uint8_t size, bytes[8];
    } nops[] = {{8, {0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0}},
                {7, {0x0f, 0x1f, 0x80, 0, 0, 0, 0}},
                {5, {0x0f, 0x1f, 0x44, 0, 0}},
                {4, {0x0f, 0x1f, 0x40, 0}},
                {3, {0x0f, 0x1f, 0}},
                {1, {0x90}},
                {1, {0x66}}, /* prefixes, seen from behind */
                {1, {0x2e}}};
    for (unsigned i = 0; i < sizeof nops / sizeof *nops; i++)
        if (are_same(end - nops[i].size, nops[i].bytes, nops[i].size))
            return nops[i].size;
    return 0;
}

/* Do the bytes before `end`, of which there are 16, lead nowhere: ret, jmp, ud2, a call? */
static bool is_way_out(const uint8_t *end)
{
    return end[-1] == 0xc3 || end[-5] == 0xe9 || end[-5] == 0xe8 || end[-2] == 0xeb ||
           (end[-2] == 0x0f && end[-1] == 0x0b) || (end[-2] == 0xff && end[-1] >> 3 == 0x1c);
}

enum boundary { NO_BOUNDARY, NOPS, BOUNDARY };

/*
 * Does another function begin at `at`? Functions begin at multiples of 16. The space before them is
 * filled with int3, or with nops, which also stand before loops. Where there is no such space, the
 * one before must be seen to take down its frame.
 */
static enum boundary boundary_at(struct walk_memory *code, uint64_t at)
{
    uint8_t bytes[48], *end = bytes + sizeof bytes;
    uint64_t word;
    if (at % 16)
        return NO_BOUNDARY;
    for (unsigned i = 0; i < sizeof bytes; i += 8) {
        if (!walk_read_word(code, at - sizeof bytes + i, &word))
            return BOUNDARY;
        memcpy(bytes + i, &word, sizeof word);
    }
    if (end[-1] == 0xcc)
        return end[-2] == 0xcc || is_way_out(end - 1) ? BOUNDARY : NO_BOUNDARY;
    unsigned size, all = 0;
    while (all < 16 && (size = nop_before(end - all)))
        all += size;
    if (all >= 16 || (all && end[-1 - (int)all] == 0xc3))
        return BOUNDARY;
    if (all)
        return is_way_out(end - all) ? NOPS : NO_BOUNDARY;
    return is_end((uint64_t)end[-2] | (uint64_t)end[-1] << 8) ||
                   (end[-6] == 0x5d && end[-5] == 0xe9) || (end[-3] == 0x5d && end[-2] == 0xeb)
               ? BOUNDARY
               : NO_BOUNDARY;
}

/* Is the space between functions filled with int3 here? Then nops are not between functions. */
static bool is_filled_with_int3(struct walk_memory *code, uint64_t start)
{
    uint64_t before;
    return start % 16 == 0 && walk_read_word(code, start - 8, &before) && before >> 56 == 0xcc;
}

/* The mov %rsp,%rbp that belongs to the push %rbp at `push`, a few instructions behind it; or 0. */
static uint64_t find_mov(struct walk_memory *code, uint64_t push)
{
    enum { MOST_BETWEEN = 16 };
    for (uint64_t at = push + 1; at <= push + MOST_BETWEEN; at++) {
        uint64_t bytes;
        if (!walk_read_word(code, at, &bytes))
            return 0;
        if ((bytes & 0xffffff) == 0xe58948 || (bytes & 0xffffff) == 0xec8b48)
            return at;
    }
    return 0;
}

/* The push %rbp of a function that begins at `start`, [endbr64;] push %rbp; … mov; or 0. */
static uint64_t find_push(struct walk_memory *code, uint64_t start)
{
    uint64_t bytes;
    if (!walk_read_word(code, start, &bytes))
        return 0;
    uint64_t push = (uint32_t)bytes == 0xfa1e0ff3 ? start + 4 : start;
    return (uint8_t)(bytes >> 8 * (push - start)) == 0x55 && find_mov(code, push) ? push : 0;
}

/*
 * The function of a module that `pc` is in, if it begins with a frame pointer: push %rbp; mov
 * %rsp,%rbp. It is looked for backwards, up to where another may begin. Where functions are not
 * aligned that cannot be seen, so one that is not aligned itself must not have ended before.
 * 0: there is none.
 */
static uint64_t find_prologue(const struct walk_memory *memory, uint64_t pc)
{
    enum { MOST_BYTES = 16384 };
    struct walk_memory code = *memory;
    bool has_ended = false, has_nops = false;
    for (uint64_t at = pc; at > MOST_BYTES && pc - at < MOST_BYTES; at--) {
        uint64_t bytes;
        if (!walk_read_word(&code, at, &bytes))
            return 0;
        if (is_prologue(bytes)) {
            bool is_proven =
                (!has_ended || at % 16 == 0) && (!has_nops || is_filled_with_int3(&code, at));
            return is_proven ? at : 0;
        }
        enum boundary boundary = boundary_at(&code, at);
        uint64_t push = boundary == NO_BOUNDARY ? 0 : find_push(&code, at);
        if (push && (!has_nops || is_filled_with_int3(&code, at)))
            return pc >= push ? push : 0;
        if (boundary == BOUNDARY || push)
            return 0;
        has_nops |= boundary == NOPS;
        has_ended |= at + 2 <= pc && is_end(bytes);
    }
    return 0;
}

/*
 * One word for a return address, shared by all threads: the address (47 bits, as all of user space
 * has), whether it is behind a call, and its distance from the start of its function.
 */
enum { KNOWN = 4096, NO_START = 0, NOT_SOUGHT = 0xffff };

static _Atomic uint64_t known[KNOWN];
static _Atomic uint32_t known_generation;

static void forget_other_modules(const struct walk_modules *modules)
{
    if (known_generation == modules->generation)
        return;
    for (unsigned i = 0; i < KNOWN; i++)
        known[i] = 0;
    known_generation = modules->generation;
}

static _Atomic uint64_t *place_of(uint64_t pc)
{
    return &known[(pc ^ pc >> 12) % KNOWN];
}

static uint64_t pack(uint64_t pc, bool is_behind_call, uint64_t distance)
{
    return pc << 17 | (uint64_t)is_behind_call << 16 | distance;
}

static bool is_behind_call(const struct walk_memory *memory, uint64_t pc)
{
    struct walk_memory code = *memory;
    uint64_t bytes;
    return walk_read_word(&code, pc - 8, &bytes) && walk_ends_in_call(bytes);
}

static uint64_t look_up(const struct walk_modules *modules, const struct walk_memory *memory,
                        uint64_t pc)
{
    forget_other_modules(modules);
    uint64_t word = *place_of(pc);
    if (word >> 17 != pc) {
        word = pack(pc, is_behind_call(memory, pc), NOT_SOUGHT);
        *place_of(pc) = word;
    }
    return word;
}

bool walk_is_behind_call(const struct walk_modules *modules, const struct walk_memory *memory,
                         uint64_t pc)
{
    return look_up(modules, memory, pc) >> 16 & 1;
}

uint64_t walk_find_prologue(const struct walk_modules *modules, const struct walk_memory *memory,
                            uint64_t pc, bool is_pc)
{
    if (is_pc)
        return find_prologue(memory, pc);
    uint64_t word = look_up(modules, memory, pc);
    if ((word & 0xffff) == NOT_SOUGHT) {
        uint64_t start = find_prologue(memory, pc - 1);
        word = pack(pc, word >> 16 & 1, start ? pc - start : NO_START);
        *place_of(pc) = word;
    }
    return (word & 0xffff) == NO_START ? 0 : pc - (word & 0xffff);
}

uint64_t walk_find_frame(const struct walk_memory *memory, uint64_t push)
{
    struct walk_memory code = *memory;
    uint64_t mov = find_mov(&code, push);
    return mov ? mov + 3 : push;
}
