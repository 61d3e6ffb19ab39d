/*
 * Writing machine code, and beside it the rows that say what the code does to the stack. No
 * function of libc is called: the text may be libc's own.
 */
#ifndef RUNTIME_EMIT_H
#define RUNTIME_EMIT_H

#include "runtime/edit/rows.h"

#include <stdbool.h>
#include <stdint.h>

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* `now`: the row that holds behind what has been written; its `at` means nothing. */
struct emitter {
    uint8_t *at;
    const uint8_t *start; /* of the stub */
    struct stub_row now;
    struct stub_row *next; /* where the next row goes */
};

/* More than a stub ever has; one before the first, which is none. */
enum { EMIT_MOST_ROWS = 64 };

/* From here on, `now` holds. */
ALWAYS_INLINE void emit_row(struct emitter *e)
{
    e->now.at = (uint16_t)(e->at - e->start);
    e->next -= e->next[-1].at == e->now.at; /* nothing was written since the last one */
    *e->next++ = e->now;
}

/* The code that begins here is jumped to from where this was the row. */
ALWAYS_INLINE void emit_continue(struct emitter *e, struct stub_row row)
{
    e->now = row;
    emit_row(e);
}

/* An instruction has been written that puts so many words on the stack, or takes them off. */
ALWAYS_INLINE void emit_words(struct emitter *e, int words)
{
    e->now.words = (uint8_t)(e->now.words + words);
    emit_row(e);
}

#define EMIT_PUSH(e, reg, opcode)                                                                  \
    do {                                                                                           \
        *(e)->at++ = (opcode);                                                                     \
        (e)->now.reg = ++(e)->now.words;                                                           \
        emit_row(e);                                                                               \
    } while (0)

#define EMIT_POP(e, reg, opcode)                                                                   \
    do {                                                                                           \
        *(e)->at++ = (opcode);                                                                     \
        (e)->now.reg = 0;                                                                          \
        (e)->now.words--;                                                                          \
        emit_row(e);                                                                               \
    } while (0)

ALWAYS_INLINE void emit_push_rax(struct emitter *e)
{
    EMIT_PUSH(e, rax, 0x50);
}

ALWAYS_INLINE void emit_push_rcx(struct emitter *e)
{
    EMIT_PUSH(e, rcx, 0x51);
}

ALWAYS_INLINE void emit_push_rdx(struct emitter *e)
{
    EMIT_PUSH(e, rdx, 0x52);
}

ALWAYS_INLINE void emit_pop_rax(struct emitter *e)
{
    EMIT_POP(e, rax, 0x58);
}

ALWAYS_INLINE void emit_pop_rcx(struct emitter *e)
{
    EMIT_POP(e, rcx, 0x59);
}

ALWAYS_INLINE void emit_pop_rdx(struct emitter *e)
{
    EMIT_POP(e, rdx, 0x5a);
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
