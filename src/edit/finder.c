#include "edit/finder.h"

#include <string.h>

bool each_instruction(struct finder *f, visit_fn *visit)
{
    const struct map_function *fn = f->function;
    const struct code_range *code = elf_code_at(f->file, f->file->base + fn->start);
    if (!code || fn->size > code->end - f->file->base - fn->start)
        return false;
    const uint8_t *bytes = code->bytes + (f->file->base + fn->start - code->start);
    struct instruction *i = f->room;
    f->before_count = 0;
    f->before = f->room;
    for (uint32_t at = 0; at < fn->size; at += i[-1].decoded.length) {
        if (i == f->room + BEFORE_ROOM) {
            i = f->room + MOST_BEFORE;
            memcpy(f->room, f->room + BEFORE_ROOM - MOST_BEFORE, MOST_BEFORE * sizeof *i);
            f->before = f->room;
        }
        i->offset = fn->start + at;
        i->bytes = bytes + at;
        if (!ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&f->decoder, &i->context, i->bytes,
                                                        fn->size - at, &i->decoded)))
            return false;
        visit(f, i++);
        if (f->before_count == MOST_BEFORE)
            f->before++;
        else
            f->before_count++;
    }
    return true;
}

void look_before(struct finder *f)
{
    f->before = f->room;
    f->before_count = 0;
    for (unsigned k = 0; k < f->earlier_count; k++) {
        struct instruction *b = &f->room[f->before_count++];
        b->offset = f->function->start + f->earlier[k];
        b->bytes = f->function_bytes + f->earlier[k];
        ZydisDecoderDecodeInstruction(&f->decoder, &b->context, b->bytes,
                                      f->function->size - f->earlier[k], &b->decoded);
    }
}

void each_branch(struct finder *f, const uint8_t *length, visit_fn *visit)
{
    const struct map_function *fn = f->function;
    const struct code_range *code = elf_code_at(f->file, f->file->base + fn->start);
    struct instruction i;
    f->function_bytes = code->bytes + (f->file->base + fn->start - code->start);
    f->earlier_count = 0;
    for (uint32_t at = 0; at < fn->size; at += *length++ & ~(unsigned)IS_BRANCH) {
        if (*length & IS_BRANCH) {
            i.offset = fn->start + at;
            i.bytes = f->function_bytes + at;
            ZydisDecoderDecodeInstruction(&f->decoder, &i.context, i.bytes, fn->size - at,
                                          &i.decoded);
            visit(f, &i);
        }
        if (f->earlier_count == MOST_BEFORE)
            memmove(f->earlier, f->earlier + 1, --f->earlier_count * sizeof f->earlier[0]);
        f->earlier[f->earlier_count++] = at;
    }
}
