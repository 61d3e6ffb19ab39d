#include "map/instruction.h"

#include <string.h>

/* In ModRM and SIB bytes. */
enum { ESCAPES = 4 /* rm or base: rsp, or a SIB byte; index: none */, RBP = 5 };

/* What comes behind the opcode of a plain form; 0: not plain. */
enum form {
    NOTHING = 1,
    MODRM,
    MODRM_IMM8,
    MODRM_IMM32,
    MODRM_MEMORY, /* mod is not 3 */
    MODRM_UNARY,  /* reg, which says what it does, is 0 to 2: inc, dec, call */
    MODRM_NOP,
    IMM8, /* from here on: not with a REX prefix */
    IMM32,
    JUMP8,
    JUMP32
};

/* clang-format off */
#define ARITHMETIC(op) [op] = MODRM, [(op) + 1] = MODRM, [(op) + 2] = MODRM, [(op) + 3] = MODRM, \
                       [(op) + 4] = IMM8, [(op) + 5] = IMM32

static const uint8_t one_byte[256] = {
    ARITHMETIC(0x00), ARITHMETIC(0x08), ARITHMETIC(0x10), ARITHMETIC(0x18),
    ARITHMETIC(0x20), ARITHMETIC(0x28), ARITHMETIC(0x30), ARITHMETIC(0x38),
    [0x63] = MODRM,                                   /* movsxd */
    [0x69] = MODRM_IMM32, [0x6b] = MODRM_IMM8,        /* imul */
    [0x70 ... 0x7f] = JUMP8,
    [0x80] = MODRM_IMM8, [0x81] = MODRM_IMM32, [0x83] = MODRM_IMM8, /* arithmetic */
    [0x84 ... 0x8b] = MODRM,                          /* test, xchg, mov */
    [0x8d] = MODRM_MEMORY,                            /* lea */
    [0x90] = NOTHING, [0x98] = NOTHING, [0x99] = NOTHING, /* nop, cdqe, cqo */
    [0xa8] = IMM8, [0xa9] = IMM32,                    /* test */
    [0xb0 ... 0xb7] = IMM8, [0xb8 ... 0xbf] = IMM32,  /* mov */
    [0xc0 ... 0xc1] = MODRM_IMM8, [0xd0 ... 0xd3] = MODRM, /* shifts */
    [0xcc] = NOTHING,                                 /* int3 */
    [0xe8] = IMM32,                                   /* call */
    [0xe9] = JUMP32, [0xeb] = JUMP8,
    [0xff] = MODRM_UNARY,
};

static const uint8_t two_bytes[256] = { /* behind 0f */
    [0x10 ... 0x11] = MODRM, [0x28 ... 0x29] = MODRM, /* movups, movaps */
    [0x1f] = MODRM_NOP,
    [0x2e ... 0x2f] = MODRM,                          /* ucomiss, comiss */
    [0x40 ... 0x4f] = MODRM,                          /* cmov */
    [0x51] = MODRM, [0x54 ... 0x59] = MODRM, [0x5c ... 0x5f] = MODRM, /* on floats */
    [0x80 ... 0x8f] = JUMP32,
    [0x90 ... 0x9f] = MODRM,                          /* set */
    [0xa3] = MODRM,                                   /* bt */
    [0xaf] = MODRM,                                   /* imul */
    [0xb6 ... 0xb7] = MODRM, [0xbe ... 0xbf] = MODRM, /* movzx, movsx */
};
/* clang-format on */

static int32_t signed_at(const uint8_t *bytes, unsigned size)
{
    int32_t value;
    if (size == 1)
        return (int8_t)*bytes;
    memcpy(&value, bytes, sizeof value);
    return value;
}

/* Reads a ModRM byte and what belongs to it; returns how many bytes, 0 when rsp is named. */
static unsigned read_modrm(const uint8_t *bytes, uint8_t rex, struct instruction *out)
{
    unsigned mod = *bytes >> 6, reg = *bytes >> 3 & 7, rm = *bytes & 7;
    bool rex_r = rex & 4, rex_x = rex & 2, rex_b = rex & 1;
    if ((reg == ESCAPES && !rex_r) || (mod == 3 && rm == ESCAPES && !rex_b))
        return 0;
    if (mod == 3)
        return 1;
    unsigned size = 1, base = rm;
    bool has_index = false;
    if (rm == ESCAPES) {
        base = bytes[1] & 7;
        has_index = (bytes[1] >> 3 & 7) != ESCAPES || rex_x;
        size = 2;
    }
    unsigned displacement = mod == 1 ? 1 : mod == 2 || base == RBP ? 4 : 0;
    if (!rex_b && !has_index && (base == ESCAPES || (base == RBP && mod != 0))) {
        out->base = base == RBP ? X86_RBP : X86_RSP;
        out->displacement = displacement ? signed_at(bytes + size, displacement) : 0;
    }
    return size + displacement;
}

bool instruction_read_plain(const uint8_t *bytes, uint32_t left, uint32_t pc,
                            struct instruction *out)
{
    enum { LONGEST = 16 };
    uint8_t copy[LONGEST] = {0};
    const uint8_t *b = left < LONGEST ? memcpy(copy, bytes, left) : bytes;
    uint8_t rex = (*b & 0xf0) == 0x40 ? *b : 0;
    unsigned at = rex != 0;
    uint8_t opcode = b[at++];
    uint8_t form = opcode == 0x0f ? two_bytes[b[at++]] : one_byte[opcode];
    out->base = X86_NONE;
    out->displacement = 0;
    out->is_jump = form == JUMP8 || form == JUMP32;
    out->is_plain = true;
    out->pc = pc;
    out->bytes = bytes;
    if (!form || (rex && form >= IMM8))
        return false;
    if (form >= MODRM && form <= MODRM_NOP) {
        uint8_t modrm = b[at];
        if ((form == MODRM_MEMORY && modrm >= 0xc0) ||
            (form == MODRM_UNARY && (modrm & 0x38) > 0x10))
            return false;
        unsigned size = read_modrm(b + at, rex, out);
        if (!size)
            return false;
        if (form == MODRM_NOP) { /* its operand is none */
            out->base = X86_NONE;
            out->displacement = 0;
        }
        at += size;
    }
    unsigned number = form == IMM8 || form == MODRM_IMM8 || form == JUMP8      ? 1
                      : form == IMM32 || form == MODRM_IMM32 || form == JUMP32 ? 4
                                                                               : 0;
    if (at + number > left)
        return false;
    out->next = pc + at + number;
    if (out->is_jump)
        out->target = out->next + (uint32_t)signed_at(b + at, number);
    return true;
}

/* The register that a memory operand of the instruction is counted from, with nothing added. */
static uint8_t base_of(const ZydisDecodedInstruction *i)
{
    if (!(i->attributes & ZYDIS_ATTRIB_HAS_MODRM) || i->raw.modrm.mod == 3 || i->raw.rex.B ||
        i->mnemonic == ZYDIS_MNEMONIC_NOP)
        return X86_NONE;
    unsigned base = i->raw.modrm.rm;
    if (base == ESCAPES) {
        if (i->raw.sib.index != ESCAPES || i->raw.rex.X)
            return X86_NONE;
        base = i->raw.sib.base;
    }
    if (base == ESCAPES)
        return X86_RSP;
    return base == RBP && i->raw.modrm.mod != 0 ? X86_RBP : X86_NONE;
}

bool instruction_read_any(const ZydisDecoder *decoder, const uint8_t *bytes, uint32_t left,
                          uint32_t pc, struct instruction *out)
{
    const ZydisDecodedInstruction *i = &out->whole;
    if (!ZYAN_SUCCESS(
            ZydisDecoderDecodeInstruction(decoder, &out->context, bytes, left, &out->whole)))
        return false;
    out->pc = pc;
    out->next = pc + i->length;
    out->bytes = bytes;
    out->base = base_of(i);
    out->displacement = out->base == X86_NONE ? 0 : (int32_t)i->raw.disp.value;
    out->is_jump = i->meta.branch_type != ZYDIS_BRANCH_TYPE_NONE &&
                   i->mnemonic != ZYDIS_MNEMONIC_CALL && i->raw.imm[0].is_relative;
    out->target = out->is_jump ? out->next + (uint32_t)i->raw.imm[0].value.s : 0;
    out->is_plain = false;
    return true;
}

bool instruction_read(const ZydisDecoder *decoder, const uint8_t *bytes, uint32_t left, uint32_t pc,
                      struct instruction *out)
{
    return instruction_read_plain(bytes, left, pc, out) ||
           instruction_read_any(decoder, bytes, left, pc, out);
}
