/*
 * Row 51: a program that wants its memory at fixed, round addresses finds them free, and what it
 * puts there stays.
 */
#include "torture.h"

#include <sys/mman.h>

enum { BYTES = 64 << 20 };

static NOINLINE unsigned next(unsigned x)
{
    return x * 1664525u + 1013904223u;
}

static NOINLINE void fill(unsigned *at, unsigned seed)
{
    for (size_t i = 0; i < BYTES / sizeof *at; i += 1024)
        at[i] = seed = next(seed);
}

static NOINLINE int holds(const unsigned *at, unsigned seed)
{
    for (size_t i = 0; i < BYTES / sizeof *at; i += 1024)
        if (at[i] != (seed = next(seed)))
            return 0;
    return 1;
}

static void use(uint64_t place, int how)
{
    unsigned *at = mmap((void *)place, BYTES, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | how, -1, 0);
    if (at == MAP_FAILED) {
        printf("%#lx: %s\n", place, strerrorname_np(errno));
        return;
    }
    fill(at, (unsigned)(place >> 20));
    burn_ms(30);
    printf("%#lx: %d\n", place, at == (void *)place && holds(at, (unsigned)(place >> 20)));
    munmap(at, BYTES);
}

int main(void)
{
    static const uint64_t places[] = {UINT64_C(1) << 30, UINT64_C(1) << 31, UINT64_C(0x90000000),
                                      UINT64_C(1) << 32, UINT64_C(1) << 36};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        use(places[i], MAP_FIXED_NOREPLACE);
        use(places[i], MAP_FIXED);
    }
    return torture_end();
}
