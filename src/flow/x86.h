/*
 * The few instructions that are put into copies, as bytes. `r` and the like are numbers of
 * registers; distances are of four bytes.
 */
#ifndef FLOW_X86_H
#define FLOW_X86_H

#include "base/vec.h"

#include <stdint.h>
#include <string.h>

struct code {
    VEC(uint8_t) bytes;
};

static inline uint32_t code_here(const struct code *c)
{
    return (uint32_t)c->bytes.count;
}

static inline void code_u8(struct code *c, unsigned byte)
{
    vec_push(&c->bytes, (uint8_t)byte);
}

static inline void code_u32(struct code *c, uint32_t value)
{
    for (unsigned k = 0; k < 4; k++)
        code_u8(c, value >> 8 * k & 255);
}

static inline void code_set_u32(struct code *c, uint32_t at, uint32_t value)
{
    for (unsigned k = 0; k < 4; k++)
        c->bytes.items[at + k] = (uint8_t)(value >> 8 * k);
}

static inline void code_bytes(struct code *c, const void *bytes, uint32_t count)
{
    for (uint32_t k = 0; k < count; k++)
        code_u8(c, ((const uint8_t *)bytes)[k]);
}

enum { REX_B = 1, REX_R = 4, REX_W = 8 };

static inline void code_rex(struct code *c, unsigned w, unsigned reg, unsigned base)
{
    unsigned rex = w | (reg > 7 ? REX_R : 0u) | (base > 7 ? REX_B : 0u);
    if (rex)
        code_u8(c, 0x40 | rex);
}

/* What stands behind the opcode: a register, and a place in memory or a second register. */
static inline void code_memory(struct code *c, unsigned reg, unsigned base, uint32_t distance)
{
    code_u8(c, 0x80 | (reg & 7) << 3 | (base & 7));
    if ((base & 7) == 4)
        code_u8(c, 0x24);
    code_u32(c, distance);
}

static inline void code_both(struct code *c, unsigned reg, unsigned other)
{
    code_u8(c, 0xc0 | (reg & 7) << 3 | (other & 7));
}

/* opcode r64, [base + distance]: 8b loads, 89 stores, 8d has the address, 39 compares. */
static inline void code_rm(struct code *c, unsigned opcode, unsigned r, unsigned base,
                           uint32_t distance)
{
    code_rex(c, REX_W, r, base);
    code_u8(c, opcode);
    code_memory(c, r, base, distance);
}

/* opcode r64, fs:[…]: 8b loads, 03 adds. Returns where the distance lies. */
static inline uint32_t code_fs(struct code *c, unsigned opcode, unsigned r)
{
    code_u8(c, 0x64);
    code_rex(c, REX_W, r, 0);
    code_u8(c, opcode);
    code_u8(c, 0x04 | (r & 7) << 3);
    code_u8(c, 0x25);
    code_u32(c, 0);
    return code_here(c) - 4;
}

/* inc qword [base + distance] */
static inline void code_inc(struct code *c, unsigned base, uint32_t distance)
{
    code_rex(c, REX_W, 0, base);
    code_u8(c, 0xff);
    code_memory(c, 0, base, distance);
}

/* opcode dword [base + distance], value: c7 stores (extension 0), 81 compares (7). Returns where
 * the value lies. */
static inline uint32_t code_store32(struct code *c, unsigned opcode, unsigned extension,
                                    unsigned base, uint32_t distance, uint32_t value)
{
    code_rex(c, 0, 0, base);
    code_u8(c, opcode);
    code_memory(c, extension, base, distance);
    code_u32(c, value);
    return code_here(c) - 4;
}

/* mov r32, esp; and r32, mask */
static inline void code_stack_place(struct code *c, unsigned r, uint32_t mask)
{
    code_rex(c, 0, 4, r);
    code_u8(c, 0x89);
    code_both(c, 4, r);
    code_rex(c, 0, 0, r);
    code_u8(c, 0x81);
    code_both(c, 4, r);
    code_u32(c, mask);
}

/* movq between a vector register and a general one: 6e to the vector register, 7e from it. */
static inline void code_movq(struct code *c, unsigned opcode, unsigned xmm, unsigned r)
{
    code_u8(c, 0x66);
    code_rex(c, REX_W, xmm, r);
    code_u8(c, 0x0f);
    code_u8(c, opcode);
    code_both(c, xmm, r);
}

/* movq between a vector register and memory. */
static inline void code_movq_store(struct code *c, unsigned xmm, unsigned base, uint32_t distance)
{
    code_u8(c, 0x66);
    code_rex(c, 0, xmm, base);
    code_bytes(c, "\x0f\xd6", 2);
    code_memory(c, xmm, base, distance);
}

static inline void code_movq_load(struct code *c, unsigned xmm, unsigned base, uint32_t distance)
{
    code_u8(c, 0xf3);
    code_rex(c, 0, xmm, base);
    code_bytes(c, "\x0f\x7e", 2);
    code_memory(c, xmm, base, distance);
}

/* paddq xmm, [rip + …]. Returns where the distance lies. */
static inline uint32_t code_paddq(struct code *c, unsigned xmm)
{
    code_u8(c, 0x66);
    code_rex(c, 0, xmm, 0);
    code_bytes(c, "\x0f\xd4", 2);
    code_u8(c, 0x05 | (xmm & 7) << 3);
    code_u32(c, 0);
    return code_here(c) - 4;
}

/* jmp rel32, or jcc with its condition (0 to 15). Returns where the distance lies. */
enum { ALWAYS = 16, NOT_EQUAL = 5 };

static inline uint32_t code_jump(struct code *c, unsigned condition)
{
    if (condition == ALWAYS) {
        code_u8(c, 0xe9);
    } else {
        code_u8(c, 0x0f);
        code_u8(c, 0x80 | condition);
    }
    code_u32(c, 0);
    return code_here(c) - 4;
}

static inline void code_land(struct code *c, uint32_t jump, uint32_t target)
{
    code_set_u32(c, jump, target - (jump + 4));
}

#endif
