#include "names/disassemble.h"

#include "elf/elf_file.h"

#include <Zydis/Zydis.h>
#include <stdio.h>
#include <string.h>

static void decode(const uint8_t *bytes, uint64_t offset, uint64_t size, struct instructions *out)
{
    ZydisDecoder decoder;
    ZydisFormatter formatter;
    ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    ZydisFormatterInit(&formatter, ZYDIS_FORMATTER_STYLE_INTEL);
    ZydisFormatterSetProperty(&formatter, ZYDIS_FORMATTER_PROP_ADDR_PADDING_ABSOLUTE,
                              ZYDIS_PADDING_DISABLED);
    ZydisFormatterSetProperty(&formatter, ZYDIS_FORMATTER_PROP_HEX_UPPERCASE, ZYAN_FALSE);
    for (uint64_t at = 0; at < size;) {
        ZydisDecodedInstruction decoded;
        ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
        struct instruction i = {.offset = offset + at, .size = 1};
        if (ZYAN_SUCCESS(
                ZydisDecoderDecodeFull(&decoder, bytes + at, size - at, &decoded, operands)) &&
            ZYAN_SUCCESS(ZydisFormatterFormatInstruction(&formatter, &decoded, operands,
                                                         decoded.operand_count_visible, i.text,
                                                         sizeof i.text, offset + at, ZYAN_NULL)))
            i.size = decoded.length;
        else
            snprintf(i.text, sizeof i.text, ".byte 0x%02x", bytes[at]);
        at += i.size;
        vec_push(&out->items, i);
    }
}

int disassemble(const struct debug_module *module, uint64_t offset, uint64_t size,
                struct instructions *out, struct ct_error *err)
{
    struct elf_file file;
    int status = CT_OK;
    *out = (struct instructions){0};
    CT_TRY(elf_open(module->path, &file, err));
    const uint8_t *bytes = elf_bytes_at(&file, file.base + offset, size);
    if (file.build_id_size != module->build_id_size ||
        memcmp(file.build_id, module->build_id, file.build_id_size) != 0)
        status = ct_fail(
            err, "%s: is not the build that was recorded, so its instructions would not fit",
            module->path);
    else if (!bytes)
        status = ct_fail(err, "%s: has no code at 0x%lx", module->path, (unsigned long)offset);
    else
        decode(bytes, offset, size, out);
    elf_close(&file);
    return status;
}
