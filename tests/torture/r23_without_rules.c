/*
 * Row 23: as r23_registers, below functions of a library without unwind information
 * (without_rules.c): when what they call makes its first call, the stack is walked, and where they
 * begin is looked for in their code. All vector registers are kept over that, those of AVX-512 too.
 */
#include "torture.h"

enum { VECTORS = 32, MASKS = 8, AVX_AT = 64, AVX512_AT = 16384 };

struct registers {
    uint8_t vectors[VECTORS][64];
    uint64_t masks[MASKS];
};

typedef void probe_fn(const struct registers *in, struct registers *out, void (*callee)(void));
void anchor(void);

/* It changes no register, and calls another that does not either. */
void calls_silent(void);
__asm__(".text\n.type silent, @function\nsilent:\n.cfi_startproc\n ret\n.cfi_endproc\n"
        ".size silent, . - silent\n"
        ".type calls_silent, @function\ncalls_silent:\n.cfi_startproc\n"
        " sub $8, %rsp\n.cfi_adjust_cfa_offset 8\n call silent\n"
        " add $8, %rsp\n.cfi_adjust_cfa_offset -8\n ret\n.cfi_endproc\n"
        ".size calls_silent, . - calls_silent\n");

static NOINLINE void try(unsigned place, unsigned vectors, unsigned bytes, unsigned masks)
{
    struct registers in, out;
    uint64_t seed = 1;
    for (size_t i = 0; i < sizeof in; i++)
        ((uint8_t *)&in)[i] =
            (uint8_t)((seed = seed * 6364136223846793005u + 1442695040888963407u) >> 33);
    ((probe_fn *)((uint64_t)anchor + place))(&in, &out, calls_silent);
    for (unsigned i = 0; i < vectors; i++)
        CHECK(memcmp(in.vectors[i], out.vectors[i], bytes) == 0);
    for (unsigned i = 1; i < masks; i++)
        CHECK(in.masks[i] == out.masks[i]);
}

int main(void)
{
    if (__builtin_cpu_supports("avx2"))
        try(AVX_AT, 16, 32, 0);
    if (__builtin_cpu_supports("avx512bw"))
        try(AVX512_AT, VECTORS, 64, MASKS);
    return torture_end();
}
