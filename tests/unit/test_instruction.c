/*
 * The plain forms of instructions against Zydis: every REX prefix, opcode and ModRM byte, with all
 * kinds of SIB bytes. Whatever is taken for plain must be so: the same length, the same operand at
 * rsp or rbp, the same target of a jump, and nothing of what the finders look for besides.
 */
#include "map/instruction.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { PC = 0x12345, LONGEST = 15 };

static ZydisDecoder decoder;
static unsigned plain_count;

/* Is there an operand, named by the ModRM byte, that makes the instruction write to rsp? */
static bool writes_rsp(const struct instruction *i)
{
    ZydisDecodedOperand o[ZYDIS_MAX_OPERAND_COUNT];
    assert_true(ZYAN_SUCCESS(ZydisDecoderDecodeOperands(&decoder, &i->context, &i->whole, o,
                                                        i->whole.operand_count_visible)));
    for (unsigned k = 0; k < i->whole.operand_count_visible; k++)
        if ((i->whole.attributes & ZYDIS_ATTRIB_HAS_MODRM) &&
            o[k].type == ZYDIS_OPERAND_TYPE_REGISTER &&
            (o[k].actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) &&
            ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, o[k].reg.value) ==
                ZYDIS_REGISTER_RSP)
            return true;
    return false;
}

static bool is_of_interest(const ZydisDecodedInstruction *i)
{
    switch (i->mnemonic) {
    case ZYDIS_MNEMONIC_PUSH:
    case ZYDIS_MNEMONIC_POP:
    case ZYDIS_MNEMONIC_PUSHFQ:
    case ZYDIS_MNEMONIC_POPFQ:
    case ZYDIS_MNEMONIC_ENTER:
    case ZYDIS_MNEMONIC_LEAVE:
    case ZYDIS_MNEMONIC_RET:
        return true;
    case ZYDIS_MNEMONIC_JMP: /* an indirect one */
        return i->attributes & ZYDIS_ATTRIB_HAS_MODRM;
    default:
        return false;
    }
}

static void check(const uint8_t *bytes)
{
    struct instruction plain, any;
    if (!instruction_read_plain(bytes, LONGEST, PC, &plain))
        return;
    plain_count++;
    bool good = instruction_read_any(&decoder, bytes, LONGEST, PC, &any);
    if (!good || plain.next != any.next || plain.base != any.base ||
        plain.displacement != any.displacement || plain.is_jump != any.is_jump ||
        (plain.is_jump && plain.target != any.target) || plain.pc != PC || plain.bytes != bytes ||
        is_of_interest(&any.whole) || writes_rsp(&any))
        fail_msg("%02x %02x %02x %02x %02x %02x %02x %02x: %s", bytes[0], bytes[1], bytes[2],
                 bytes[3], bytes[4], bytes[5], bytes[6], bytes[7],
                 good ? ZydisMnemonicGetString(any.whole.mnemonic) : "no instruction");
    for (uint32_t left = 0; left < plain.next - PC; left++)
        assert_false(instruction_read_plain(bytes, left, PC, &any));
}

/* All ModRM bytes behind `size` bytes of prefix and opcode, and numbers behind them. */
static void check_opcode(uint8_t *bytes, unsigned size)
{
    static const uint8_t sibs[] = {0x24, 0x64, 0x25, 0x65, 0x20, 0x2c, 0x04, 0xe5, 0x00, 0xff};
    static const uint8_t numbers[][8] = {{0x08, 0x01, 0x00, 0x00, 0x10, 0x02, 0x00, 0x00},
                                         {0xf8, 0xff, 0xff, 0xff, 0x80, 0xff, 0xff, 0xff}};
    for (unsigned modrm = 0; modrm < 256; modrm++) {
        bool has_sib = modrm < 0xc0 && (modrm & 7) == 4;
        for (unsigned s = 0; s < (has_sib ? sizeof sibs : 1); s++) {
            for (unsigned n = 0; n < 2; n++) {
                bytes[size] = (uint8_t)modrm;
                bytes[size + 1] = sibs[s];
                memcpy(bytes + size + 1 + has_sib, numbers[n], sizeof numbers[n]);
                check(bytes);
            }
        }
    }
}

static void plain_forms_are_read_as_zydis_reads_them(void **state)
{
    (void)state;
    ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    for (unsigned rex = 0x3f; rex < 0x50; rex++) { /* 3f: none */
        for (unsigned opcode = 0; opcode < 256; opcode++) {
            uint8_t bytes[LONGEST + 1] = {(uint8_t)rex};
            unsigned size = rex != 0x3f;
            bytes[size++] = (uint8_t)opcode;
            for (unsigned second = 0; opcode == 0x0f && second < 256; second++) {
                bytes[size] = (uint8_t)second;
                check_opcode(bytes, size + 1);
            }
            if (opcode != 0x0f)
                check_opcode(bytes, size);
        }
    }
    assert_true(plain_count > 100000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(plain_forms_are_read_as_zydis_reads_them)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
