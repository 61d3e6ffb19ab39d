#include "step_decode.h"

#include "step_memory.h"

#include "base/vec.h"

#include <Zydis/Zydis.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const ZydisDecoder *decoder(void)
{
    static ZydisDecoder instance;
    static bool ready;
    if (!ready) {
        ZydisDecoderInit(&instance, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
        ready = true;
    }
    return &instance;
}

static enum insn_class class_of(const ZydisDecodedInstruction *insn)
{
    switch (insn->mnemonic) {
    case ZYDIS_MNEMONIC_CALL:
        return INSN_CALL;
    case ZYDIS_MNEMONIC_RET:
        return INSN_RET;
    case ZYDIS_MNEMONIC_PUSH:
        return INSN_PUSH;
    case ZYDIS_MNEMONIC_SYSCALL:
        return INSN_SYSCALL;
    case ZYDIS_MNEMONIC_INT3:
        return INSN_INT3;
    case ZYDIS_MNEMONIC_POP: /* 58 to 5f: into a register; 8f may be into memory */
        return insn->opcode >= 0x58 && insn->opcode <= 0x5f ? INSN_POP_REG : INSN_OTHER;
    default:
        return INSN_OTHER;
    }
}

static struct insn decode_now(pid_t pid, uint64_t pc)
{
    uint8_t bytes[ZYDIS_MAX_INSTRUCTION_LENGTH];
    size_t size = read_tracee(pid, pc, bytes, sizeof bytes);
    ZydisDecodedInstruction insn;
    if (!ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(decoder(), NULL, bytes, size, &insn)))
        return (struct insn){.pc = pc, .class = INSN_UNREADABLE};
    return (struct insn){.pc = pc, .class = (uint8_t)class_of(&insn), .length = insn.length};
}

static struct insn *find_slot(const struct decode_cache *cache, uint64_t pc)
{
    size_t mask = cache->slot_count - 1;
    size_t at = (pc * UINT64_C(0x9e3779b97f4a7c15)) >> 20 & mask;
    while (cache->slots[at].pc != pc && cache->slots[at].pc != 0)
        at = (at + 1) & mask;
    return &cache->slots[at];
}

static void grow(struct decode_cache *cache)
{
    struct decode_cache bigger = {.slot_count = cache->slot_count ? cache->slot_count * 2 : 1 << 14,
                                  .used = cache->used};
    bigger.slots = must_calloc(bigger.slot_count, sizeof *bigger.slots);
    for (size_t i = 0; i < cache->slot_count; i++) {
        if (cache->slots[i].pc != 0)
            *find_slot(&bigger, cache->slots[i].pc) = cache->slots[i];
    }
    free(cache->slots);
    *cache = bigger;
}

struct insn decode_at(struct decode_cache *cache, pid_t pid, uint64_t pc)
{
    if (pc == 0)
        return (struct insn){.class = INSN_UNREADABLE};
    if (cache->used * 2 >= cache->slot_count)
        grow(cache);
    struct insn *slot = find_slot(cache, pc);
    if (slot->pc == 0) {
        *slot = decode_now(pid, pc);
        cache->used++;
    }
    return *slot;
}

void decode_forget(struct decode_cache *cache)
{
    if (cache->used > 0)
        memset(cache->slots, 0, cache->slot_count * sizeof *cache->slots);
    cache->used = 0;
}

void decode_free(struct decode_cache *cache)
{
    free(cache->slots);
    *cache = (struct decode_cache){0};
}

void decode_text(pid_t pid, uint64_t pc, char *text, size_t room)
{
    uint8_t bytes[ZYDIS_MAX_INSTRUCTION_LENGTH];
    size_t size = read_tracee(pid, pc, bytes, sizeof bytes);
    ZydisDecodedInstruction insn;
    ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
    ZydisFormatter formatter;
    snprintf(text, room, "(no instruction)");
    if (ZYAN_SUCCESS(ZydisDecoderDecodeFull(decoder(), bytes, size, &insn, operands)) &&
        ZYAN_SUCCESS(ZydisFormatterInit(&formatter, ZYDIS_FORMATTER_STYLE_ATT)))
        ZydisFormatterFormatInstruction(&formatter, &insn, operands, insn.operand_count_visible,
                                        text, room, pc, NULL);
}
