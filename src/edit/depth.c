#include "edit/depth.h"

#include <Zydis/Zydis.h>
#include <string.h>

enum { WORD = 8, BYTES_AT_ENTRY = 8, MOST_INSTRUCTIONS = 1 << 16 };

struct following {
    struct depths *out;
    ZydisDecoder decoder;
    uint32_t frame;     /* how deep the frame pointer is; DEPTH_UNKNOWN */
    VEC(uint32_t) open; /* numbers of places to go on from */
    ZydisDecodedInstruction decoded;
    ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
};

void depths_begin(struct depths *d, const struct elf_file *file, const struct map *map)
{
    *d = (struct depths){.file = file, .map = map, .function = NO_PARENT};
    key_set_init(&d->reached, sizeof(uint32_t));
}

void depths_end(struct depths *d)
{
    key_set_free(&d->reached);
    vec_free(&d->bytes);
}

/* Control comes to a place. Where the stack may be of two depths, it is of none that is known. */
static void reach(struct following *f, uint64_t offset, uint32_t bytes)
{
    const struct map_function *there =
        offset <= UINT32_MAX ? map_find_function(f->out->map, offset) : NULL;
    uint32_t key = (uint32_t)offset, before = f->out->reached.count;
    if (!there || map_whole_of(f->out->map, there)->start != f->out->function ||
        before >= MOST_INSTRUCTIONS)
        return;
    uint32_t number = key_set_add(&f->out->reached, &key);
    if (number == before)
        vec_push(&f->out->bytes, bytes);
    else if (f->out->bytes.items[number] == bytes || f->out->bytes.items[number] == DEPTH_UNKNOWN)
        return;
    else
        f->out->bytes.items[number] = DEPTH_UNKNOWN;
    vec_push(&f->open, number);
}

static bool is_register(const ZydisDecodedOperand *o, ZydisRegister reg)
{
    return o->type == ZYDIS_OPERAND_TYPE_REGISTER && o->reg.value == reg;
}

static bool writes_rsp(const struct following *f)
{
    for (unsigned i = 0; i < f->decoded.operand_count; i++) {
        const ZydisDecodedOperand *o = &f->operands[i];
        if (o->type == ZYDIS_OPERAND_TYPE_REGISTER &&
            (o->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) &&
            ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, o->reg.value) ==
                ZYDIS_REGISTER_RSP)
            return true;
    }
    return false;
}

/* lea DISTANCE(BASE),%rsp; mov BASE,%rsp; add and sub of a number. */
static uint32_t depth_of_change(const struct following *f, uint32_t bytes)
{
    const ZydisDecodedOperand *to = &f->operands[0], *from = &f->operands[1];
    if (f->decoded.operand_count < 2 || !is_register(to, ZYDIS_REGISTER_RSP))
        return DEPTH_UNKNOWN;
    bool is_number = from->type == ZYDIS_OPERAND_TYPE_IMMEDIATE;
    if (f->decoded.mnemonic == ZYDIS_MNEMONIC_SUB && is_number && bytes != DEPTH_UNKNOWN)
        return bytes + (uint32_t)from->imm.value.s;
    if (f->decoded.mnemonic == ZYDIS_MNEMONIC_ADD && is_number && bytes != DEPTH_UNKNOWN)
        return bytes - (uint32_t)from->imm.value.s;
    if (f->decoded.mnemonic == ZYDIS_MNEMONIC_MOV && is_register(from, ZYDIS_REGISTER_RBP))
        return f->frame;
    if (f->decoded.mnemonic != ZYDIS_MNEMONIC_LEA || from->mem.index != ZYDIS_REGISTER_NONE)
        return DEPTH_UNKNOWN;
    if (from->mem.base == ZYDIS_REGISTER_RSP && bytes != DEPTH_UNKNOWN)
        return bytes - (uint32_t)from->mem.disp.value;
    return from->mem.base == ZYDIS_REGISTER_RBP && f->frame != DEPTH_UNKNOWN
               ? f->frame - (uint32_t)from->mem.disp.value
               : DEPTH_UNKNOWN;
}

/* How deep the stack is behind an instruction. */
static uint32_t depth_behind(struct following *f, uint32_t bytes)
{
    bool is_word = f->decoded.operand_width == 64;
    if (f->decoded.mnemonic == ZYDIS_MNEMONIC_MOV &&
        is_register(&f->operands[0], ZYDIS_REGISTER_RBP) &&
        is_register(&f->operands[1], ZYDIS_REGISTER_RSP))
        f->frame = bytes;
    if (f->decoded.meta.category == ZYDIS_CATEGORY_CALL || !writes_rsp(f))
        return bytes;
    if (f->decoded.mnemonic == ZYDIS_MNEMONIC_LEAVE)
        return f->frame == DEPTH_UNKNOWN ? DEPTH_UNKNOWN : f->frame - WORD;
    if (f->decoded.mnemonic == ZYDIS_MNEMONIC_PUSH && is_word && bytes != DEPTH_UNKNOWN)
        return bytes + WORD;
    if (f->decoded.mnemonic == ZYDIS_MNEMONIC_POP && is_word && bytes != DEPTH_UNKNOWN &&
        !is_register(&f->operands[0], ZYDIS_REGISTER_RSP))
        return bytes - WORD;
    return depth_of_change(f, bytes);
}

/* From a place up to where control does not go on, or has been. */
static void follow(struct following *f, uint32_t number)
{
    uint32_t offset, bytes = f->out->bytes.items[number];
    memcpy(&offset, key_set_get(&f->out->reached, number), sizeof offset);
    uint64_t address = f->out->file->base + offset;
    const struct code_range *code = elf_code_at(f->out->file, address);
    if (!code ||
        !ZYAN_SUCCESS(ZydisDecoderDecodeFull(&f->decoder, code->bytes + (address - code->start),
                                             code->end - address, &f->decoded, f->operands)))
        return;
    uint32_t behind = depth_behind(f, bytes);
    ZydisInstructionCategory category = f->decoded.meta.category;
    uint64_t next = (uint64_t)offset + f->decoded.length;
    bool is_branch = category == ZYDIS_CATEGORY_UNCOND_BR || category == ZYDIS_CATEGORY_COND_BR;
    if (is_branch && f->operands[0].type == ZYDIS_OPERAND_TYPE_IMMEDIATE)
        reach(f, next + (uint64_t)f->operands[0].imm.value.s, behind);
    if (category != ZYDIS_CATEGORY_UNCOND_BR && category != ZYDIS_CATEGORY_RET &&
        f->decoded.mnemonic != ZYDIS_MNEMONIC_UD2 && f->decoded.mnemonic != ZYDIS_MNEMONIC_HLT)
        reach(f, next, behind);
}

uint32_t depths_at(struct depths *d, uint32_t function, uint32_t offset)
{
    uint32_t number;
    if (d->function != function) {
        struct following f = {.out = d, .frame = DEPTH_UNKNOWN};
        ZydisDecoderInit(&f.decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
        depths_end(d);
        depths_begin(d, d->file, d->map);
        d->function = function;
        reach(&f, function, BYTES_AT_ENTRY);
        for (size_t i = 0; i < f.open.count; i++)
            follow(&f, f.open.items[i]);
        vec_free(&f.open);
    }
    return key_set_find(&d->reached, &offset, &number) && d->bytes.items[number] != DEPTH_UNKNOWN
               ? d->bytes.items[number]
               : 0;
}
