/* Instructions that are known by their bytes. No calls: for the runtime too. */
#ifndef ARCH_X86_64_CODE_BYTES_H
#define ARCH_X86_64_CODE_BYTES_H

#include <stdbool.h>
#include <stdint.h>

enum { ENDBR64_BYTES = 4, SLOT_JUMP_BYTES = 6 };

/* endbr64, where an indirect branch may arrive; `at` has four bytes. */
static inline bool code_is_endbr64(const uint8_t *at)
{
    return at[0] == 0xf3 && at[1] == 0x0f && at[2] == 0x1e && at[3] == 0xfa;
}

/* Behind endbr64, where there is one. No byte is read behind one that is not of it. */
static inline const uint8_t *code_skip_endbr64(const uint8_t *at)
{
    return code_is_endbr64(at) ? at + ENDBR64_BYTES : at;
}

/* jmp *SLOT(%rip), how a PLT leads to another module; `at` has two bytes. */
static inline bool code_is_slot_jump(const uint8_t *at)
{
    return at[0] == 0xff && at[1] == 0x25;
}

/* push SLOT(%rip), with which entry 0 of a PLT begins; `at` has two bytes. */
static inline bool code_is_slot_push(const uint8_t *at)
{
    return at[0] == 0xff && at[1] == 0x35;
}

/* mov SLOT(%rip), %rax; jmp *FIELD(%rax): how libc's functions lead to those of the dynamic linker.
 * `at` has 13 bytes. */
static inline bool code_is_field_jump(const uint8_t *at)
{
    return at[0] == 0x48 && at[1] == 0x8b && at[2] == 0x05 && at[7] == 0xff && at[8] == 0xa0;
}

/* push NUMBER, in a PLT's stub that is not bound yet: for the binder. */
static inline bool code_is_binder_push(const uint8_t *at)
{
    return at[0] == 0x68;
}

/* The jump of a PLT's stub, [endbr64;] [bnd] jmp *SLOT(%rip): its bytes up to the jump's end, or 0
 * where the `left` bytes are none. */
static inline unsigned code_stub_bytes(const uint8_t *at, uint64_t left)
{
    unsigned before = left >= ENDBR64_BYTES && code_is_endbr64(at) ? ENDBR64_BYTES : 0;
    before += left > before && at[before] == 0xf2; /* bnd */
    return left - before >= SLOT_JUMP_BYTES && code_is_slot_jump(at + before)
               ? before + SLOT_JUMP_BYTES
               : 0;
}

#endif
