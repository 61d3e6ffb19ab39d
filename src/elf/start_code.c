#include "elf/start_code.h"

#include <string.h>

/* One instruction of _start, with what follows its fixed bytes. */
enum operand { OPERAND_NONE, OPERAND_RELATIVE, OPERAND_ABSOLUTE, OPERAND_LOADED };

struct form {
    uint8_t bytes[4];
    uint8_t size;
    enum operand operand; /* four bytes; that of the last group is main */
};

/* xor %ebp,%ebp; mov %rdx,%r9; pop %rsi; mov %rsp,%rdx; and $-16,%rsp; push %rax; push %rsp: the
 * same in every version of glibc. */
static const uint8_t beginning[] = {0x31, 0xed, 0x49, 0x89, 0xd1, 0x5e, 0x48, 0x89,
                                    0xe2, 0x48, 0x83, 0xe4, 0xf0, 0x50, 0x54};
static const uint8_t endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};

/* The arguments before main: init and fini, or nothing. */
static const struct form others[] = {
    {{0x45, 0x31, 0xc0}, 3, OPERAND_NONE},     /* xor %r8d,%r8d */
    {{0x31, 0xc9}, 2, OPERAND_NONE},           /* xor %ecx,%ecx */
    {{0x4c, 0x8d, 0x05}, 3, OPERAND_RELATIVE}, /* lea fini(%rip),%r8 */
    {{0x48, 0x8d, 0x0d}, 3, OPERAND_RELATIVE}, /* lea init(%rip),%rcx */
    {{0x49, 0xc7, 0xc0}, 3, OPERAND_ABSOLUTE}, /* mov $fini,%r8 */
    {{0x48, 0xc7, 0xc1}, 3, OPERAND_ABSOLUTE}, /* mov $init,%rcx */
};
static const struct form first_argument[] = {
    {{0x48, 0x8d, 0x3d}, 3, OPERAND_RELATIVE}, /* lea main(%rip),%rdi */
    {{0x48, 0xc7, 0xc7}, 3, OPERAND_ABSOLUTE}, /* mov $main,%rdi */
    {{0xbf}, 1, OPERAND_ABSOLUTE},             /* mov $main,%edi */
    {{0x48, 0x8b, 0x3d}, 3, OPERAND_LOADED},   /* mov main@GOTPCREL(%rip),%rdi */
};
static const struct form calls[] = {
    {{0xff, 0x15}, 2, OPERAND_RELATIVE},
    {{0xe8}, 1, OPERAND_RELATIVE},
    {{0x67, 0xe8}, 2, OPERAND_RELATIVE},
};

struct cursor {
    const uint8_t *bytes;
    size_t size, at;
};

static bool skip(struct cursor *c, const uint8_t *bytes, size_t size)
{
    if (c->size - c->at < size || memcmp(c->bytes + c->at, bytes, size) != 0)
        return false;
    c->at += size;
    return true;
}

/* The form that comes next, with its operand, or NULL. */
static const struct form *take(struct cursor *c, const struct form *forms, size_t count,
                               int32_t *operand)
{
    for (size_t i = 0; i < count; i++) {
        if (!skip(c, forms[i].bytes, forms[i].size))
            continue;
        *operand = 0;
        if (forms[i].operand == OPERAND_NONE)
            return &forms[i];
        if (c->size - c->at < sizeof *operand)
            return NULL;
        memcpy(operand, c->bytes + c->at, sizeof *operand);
        c->at += sizeof *operand;
        return &forms[i];
    }
    return NULL;
}

#define TAKE(c, forms, operand) take(c, forms, sizeof(forms) / sizeof *(forms), operand)

uint64_t elf_main_address(const struct elf_file *file)
{
    uint64_t entry = elf_program_entry(file);
    const struct code_range *code = entry ? elf_code_at(file, entry) : NULL;
    if (!code)
        return 0;
    struct cursor c = {code->bytes + (entry - code->start), (size_t)(code->end - entry), 0};
    int32_t operand;
    skip(&c, endbr64, sizeof endbr64);
    if (!skip(&c, beginning, sizeof beginning))
        return 0;
    while (TAKE(&c, others, &operand))
        continue;
    const struct form *form = TAKE(&c, first_argument, &operand);
    uint64_t behind = entry + c.at, address = 0;
    int32_t unused;
    if (!form || !TAKE(&c, calls, &unused))
        return 0;
    if (form->operand == OPERAND_ABSOLUTE)
        address = (uint32_t)operand;
    else if (form->operand == OPERAND_RELATIVE)
        address = behind + (uint64_t)(int64_t)operand;
    else if (!elf_relocated_word(file, behind + (uint64_t)(int64_t)operand, &address))
        return 0;
    return elf_code_at(file, address) ? address : 0;
}
