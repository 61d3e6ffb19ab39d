/*
 * One instruction, as far as the finders of corrections and unmarkable functions want to know it.
 *
 * Zydis takes 100 ns and more for each. Eight of ten are of a few plain forms (moves, arithmetic,
 * jumps, calls) that leave rsp alone: those are read here. Of the others all is told.
 */
#ifndef MAP_INSTRUCTION_H
#define MAP_INSTRUCTION_H

#include "map/map_format.h"

#include <Zydis/Zydis.h>
#include <stdbool.h>

struct instruction {
    uint32_t pc;
    uint32_t next;
    const uint8_t *bytes;
    uint8_t base; /* its operand is at rsp or rbp + displacement, with no index; or X86_NONE */
    int32_t displacement;
    bool is_jump; /* a direct one, not a call */
    uint32_t target;
    bool is_plain; /* there is no more to know: it does not name rsp, and the rest is not filled */
    ZydisDecodedInstruction whole;
    ZydisDecoderContext context;
};

/* The instruction at `bytes`, of which `left` are there; false when there is none. */
bool instruction_read(const ZydisDecoder *decoder, const uint8_t *bytes, uint32_t left, uint32_t pc,
                      struct instruction *out);

/* Only reads those of a plain form; false for all others. */
bool instruction_read_plain(const uint8_t *bytes, uint32_t left, uint32_t pc,
                            struct instruction *out);

/* Only asks Zydis. */
bool instruction_read_any(const ZydisDecoder *decoder, const uint8_t *bytes, uint32_t left,
                          uint32_t pc, struct instruction *out);

#endif
