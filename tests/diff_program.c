/*
 * A program whose functions have known shares of its time, for comparing recorded runs. Which one
 * is called next is drawn at random, from the same seed in every run, so the work is the same and
 * samples fall on it as they fall on a program that knows nothing of the sampler.
 *
 *     diff_program CALLS SLOWER
 *
 * `target` has 3% of the time. SLOWER is the factor by which its calls take longer, in per cent:
 * 100 is no change.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { TURNS = 1500 };

static volatile uint64_t result;

static inline __attribute__((always_inline)) void work(unsigned turns)
{
    uint64_t x = result;
    for (unsigned i = 0; i < turns; i++)
        x = x * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    result = x;
}

#define FUNCTION(name)                                                                             \
    static __attribute__((noinline)) void name(unsigned turns)                                     \
    {                                                                                              \
        work(turns);                                                                               \
        __asm__ volatile("" ::: "memory"); /* a call, not a jump */                                \
    }

FUNCTION(parse)
FUNCTION(resolve)
FUNCTION(optimize)
FUNCTION(allocate)
FUNCTION(emit)
FUNCTION(hash)
FUNCTION(copy)
FUNCTION(sort)
FUNCTION(target)
FUNCTION(check)
FUNCTION(log_line)
FUNCTION(flush)

static const struct {
    void (*run)(unsigned turns);
    unsigned share;
} functions[] = {{parse, 25}, {resolve, 20}, {optimize, 15}, {allocate, 10},
                 {emit, 8},   {hash, 6},     {copy, 5},      {sort, 4},
                 {target, 3}, {check, 2},    {log_line, 1},  {flush, 1}};

int main(int argc, char **argv)
{
    if (argc != 3) {
        fputs("usage: diff_program CALLS SLOWER\n", stderr);
        return 2;
    }
    unsigned long calls = strtoul(argv[1], NULL, 10);
    unsigned slower = (unsigned)strtoul(argv[2], NULL, 10);
    uint64_t random = 1;
    for (unsigned long i = 0; i < calls; i++) {
        random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        unsigned at = (unsigned)(random >> 33) % 100, which = 0;
        while (at >= functions[which].share)
            at -= functions[which++].share;
        unsigned turns = functions[which].run == target ? TURNS * slower / 100 : TURNS;
        functions[which].run(turns);
    }
    return 0;
}
