/*
 * Writing machine code, and beside it the rows that say what the code does to the stack. No
 * function of libc is called: the text may be libc's own.
 */
#ifndef RUNTIME_EMIT_H
#define RUNTIME_EMIT_H

#include "runtime/edit/rows.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/*
 * A row without its place, in the order of struct stub_row, but in two words: half a million stubs
 * are written at the start of a large program, and these stay in registers.
 */
struct row_now {
    uint64_t low;  /* at, pc, words, flags, rax, rcx */
    uint32_t high; /* rdx */
};

enum { LOW_PC = 16, LOW_WORDS = 32, LOW_FLAGS = 40, LOW_RAX = 48, LOW_RCX = 56 };

static_assert(offsetof(struct stub_row, pc) == LOW_PC / 8 &&
                  offsetof(struct stub_row, words) == LOW_WORDS / 8 &&
                  offsetof(struct stub_row, flags) == LOW_FLAGS / 8 &&
                  offsetof(struct stub_row, rax) == LOW_RAX / 8 &&
                  offsetof(struct stub_row, rcx) == LOW_RCX / 8 &&
                  offsetof(struct stub_row, rdx) == 8,
              "one is copied to the other");

/* `now`: what holds behind the last instruction that was written. */
struct emitter {
    uint8_t *at;
    const uint8_t *start; /* of the stub */
    struct row_now now;
    uint32_t last_at;      /* where the last row holds from */
    struct stub_row *next; /* where the next one goes */
};

/* More than a stub ever has. */
enum { EMIT_MOST_ROWS = 64 };

ALWAYS_INLINE struct row_now row_of(unsigned words, int pc, unsigned flags)
{
    return (struct row_now){.low = (uint64_t)(uint16_t)pc << LOW_PC | (uint64_t)words << LOW_WORDS |
                                   (uint64_t)flags << LOW_FLAGS};
}

/* From here on, this holds. */
ALWAYS_INLINE void emit_row(struct emitter *e, struct row_now row)
{
    const uint32_t at = (uint32_t)(e->at - e->start);
    const uint64_t low = row.low | at;
    e->now = row;
    e->next -= e->last_at == at; /* nothing was written since the last one */
    e->last_at = at;
    __builtin_memcpy(e->next, &low, sizeof low);
    __builtin_memcpy(&e->next->rdx, &row.high, sizeof row.high);
    e->next++;
}

/* An instruction has been written that puts so many words on the stack, or takes them off. */
ALWAYS_INLINE void emit_words(struct emitter *e, int words)
{
    e->now.low += (uint64_t)words << LOW_WORDS;
    emit_row(e, e->now);
}

ALWAYS_INLINE uint64_t words_now(const struct emitter *e)
{
    return e->now.low >> LOW_WORDS & 255;
}

ALWAYS_INLINE void emit_push_rax(struct emitter *e)
{
    *e->at++ = 0x50;
    e->now.low += (words_now(e) + 1) << LOW_RAX;
    emit_words(e, 1);
}

ALWAYS_INLINE void emit_push_rcx(struct emitter *e)
{
    *e->at++ = 0x51;
    e->now.low += (words_now(e) + 1) << LOW_RCX;
    emit_words(e, 1);
}

ALWAYS_INLINE void emit_push_rdx(struct emitter *e)
{
    *e->at++ = 0x52;
    e->now.high = (uint32_t)words_now(e) + 1;
    emit_words(e, 1);
}

ALWAYS_INLINE void emit_pop_rax(struct emitter *e)
{
    *e->at++ = 0x58;
    e->now.low &= ~(UINT64_C(255) << LOW_RAX);
    emit_words(e, -1);
}

ALWAYS_INLINE void emit_pop_rcx(struct emitter *e)
{
    *e->at++ = 0x59;
    e->now.low &= ~(UINT64_C(255) << LOW_RCX);
    emit_words(e, -1);
}

ALWAYS_INLINE void emit_pop_rdx(struct emitter *e)
{
    *e->at++ = 0x5a;
    e->now.high = 0;
    emit_words(e, -1);
}

/* A copy of so few bytes, whose number the compiler knows, is a few stores and no call. */
#define EMIT(e, text)                                                                              \
    do {                                                                                           \
        __builtin_memcpy((e)->at, text, sizeof(text) - 1);                                         \
        (e)->at += sizeof(text) - 1;                                                               \
    } while (0)

static inline void emit_u8(struct emitter *e, unsigned byte)
{
    *e->at++ = (uint8_t)byte;
}

static inline void emit_u32(struct emitter *e, uint32_t value)
{
    __builtin_memcpy(e->at, &value, sizeof value);
    e->at += sizeof value;
}

/*
 * Leads from all stubs of a module to an engine's slow path and back; the site's number is in rcx.
 * The pointer is aligned: a program may have set the flag by which all that is not is a fault.
 */
static inline void emit_way_to(struct emitter *e, void (*slow)(void))
{
    *e->at++ = 0x51; /* push rcx */
    emit_words(e, 1);
    EMIT(e, "\xff\x15"); /* call [the pointer behind this] */
    uint32_t pad = -(uint32_t)((uintptr_t)e->at + 4 + 6) % sizeof slow;
    emit_u32(e, 6 + pad);
    EMIT(e, "\x48\x8d\x64\x24\x08"); /* lea rsp, [rsp + 8] */
    emit_words(e, -1);
    EMIT(e, "\xc3"); /* ret */
    for (; pad; pad--)
        emit_u8(e, 0xcc);
    __builtin_memcpy(e->at, &slow, sizeof slow);
    e->at += sizeof slow;
}

static inline void emit_relative(struct emitter *e, const uint8_t *target)
{
    emit_u32(e, (uint32_t)(target - (e->at + 4)));
}

static inline void emit_jump(struct emitter *e, const uint8_t *target)
{
    EMIT(e, "\xe9");
    emit_relative(e, target);
}

/* A forward jump of at most 127 bytes whose distance is filled in later. */
static inline uint8_t *emit_short(struct emitter *e, uint8_t opcode)
{
    emit_u8(e, opcode);
    emit_u8(e, 0);
    return e->at;
}

static inline void land(struct emitter *e, uint8_t *jump)
{
    jump[-1] = (uint8_t)(e->at - jump);
}

/* The same with a distance of 32 bits; `condition` is the second byte of its opcode. */
static inline uint8_t *emit_near(struct emitter *e, uint8_t condition)
{
    emit_u8(e, 0x0f);
    emit_u8(e, condition);
    emit_u32(e, 0);
    return e->at;
}

static inline void land_near(struct emitter *e, uint8_t *jump)
{
    struct emitter distance = {.at = jump - 4};
    emit_u32(&distance, (uint32_t)(e->at - jump));
}

/* Either of them; `condition` is that of the short one. */
static inline uint8_t *emit_away(struct emitter *e, uint8_t condition, bool is_near)
{
    return is_near ? emit_near(e, (uint8_t)(condition + 0x10)) : emit_short(e, condition);
}

static inline void land_away(struct emitter *e, uint8_t *jump, bool is_near)
{
    if (is_near)
        land_near(e, jump);
    else
        land(e, jump);
}

/* A distance behind a ModRM byte without it (and, for rsp, the SIB byte), as short as it can be:
 * `modrm` is the form with no distance. */
static inline void emit_distance(struct emitter *e, unsigned modrm, int sib, int32_t distance)
{
    bool is_short = distance >= INT8_MIN && distance <= INT8_MAX;
    emit_u8(e, modrm | (is_short ? 0x40u : 0x80u));
    if (sib >= 0)
        emit_u8(e, (unsigned)sib);
    if (is_short)
        emit_u8(e, (unsigned)distance);
    else
        emit_u32(e, (uint32_t)distance);
}

/* A variable of this thread: the offset from %fs is the same in all of them. */
static inline void emit_fs(struct emitter *e, const void *variable)
{
    uint64_t fs;
    __asm__("mov %%fs:0, %0" : "=r"(fs));
    emit_u32(e, (uint32_t)((uint64_t)(uintptr_t)variable - fs));
}

#endif
