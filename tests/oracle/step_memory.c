#include "step_memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/uio.h>

enum {
    BELOW_BYTES = 1024, /* the red zone, and what a remembered walk wants to be sure of */
    NEAR_BYTES = 64 * 1024,
    ELSEWHERE_BYTES = 64 * 1024,
    FULL_EVERY_STEPS = 1000,
};

static const uint64_t mirror_bytes = UINT64_C(1) << 30; /* of address space, not of memory */

size_t read_tracee(pid_t pid, uint64_t address, void *bytes, size_t size)
{
    struct iovec here = {bytes, size};
    struct iovec there = {(void *)(uintptr_t)address, size};
    ssize_t got = process_vm_readv(pid, &here, 1, &there, 1, 0);
    return got < 0 ? 0 : (size_t)got;
}

bool read_word(pid_t pid, uint64_t address, uint64_t *word)
{
    return read_tracee(pid, address, word, sizeof *word) == sizeof *word;
}

void mirror_begin(struct stack_mirror *mirror, pid_t pid, uint64_t top)
{
    *mirror = (struct stack_mirror){.pid = pid, .top = top, .bottom = top - mirror_bytes};
    mirror->start = top;
    mirror->bytes = mmap(NULL, mirror_bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    mirror->elsewhere = malloc(ELSEWHERE_BYTES);
    if (mirror->bytes == MAP_FAILED || !mirror->elsewhere) {
        fprintf(stderr, "step: out of memory\n");
        exit(2);
    }
}

void mirror_end(struct stack_mirror *mirror)
{
    if (mirror->bytes)
        munmap(mirror->bytes, mirror_bytes);
    free(mirror->elsewhere);
    *mirror = (struct stack_mirror){0};
}

void mirror_forget(struct stack_mirror *mirror)
{
    mirror->start = mirror->top;
    mirror->steps_since_full = 0;
}

static void use_mirror(const struct stack_mirror *mirror, struct walk_memory *memory)
{
    memory->start = mirror->start;
    memory->end = mirror->top;
    memory->bias = (uint64_t)(uintptr_t)mirror->bytes - mirror->bottom;
}

static bool fetch_elsewhere(struct stack_mirror *mirror, uint64_t address,
                            struct walk_memory *memory)
{
    mirror->elsewhere_start = address;
    mirror->elsewhere_end =
        address + read_tracee(mirror->pid, address, mirror->elsewhere, ELSEWHERE_BYTES);
    memory->start = mirror->elsewhere_start;
    memory->end = mirror->elsewhere_end;
    memory->bias = (uint64_t)(uintptr_t)mirror->elsewhere - mirror->elsewhere_start;
    return mirror->elsewhere_end >= address + 8;
}

static bool find_memory(struct walk_memory *memory, uint64_t address)
{
    struct stack_mirror *mirror = memory->context;
    if (address >= mirror->start && address + 8 <= mirror->top) {
        use_mirror(mirror, memory);
        return true;
    }
    if (address > UINT64_MAX - ELSEWHERE_BYTES)
        return false;
    return fetch_elsewhere(mirror, address, memory);
}

/* The page below the stack pointer need not exist yet: then there is nothing in it. */
static uint64_t readable_start(const struct stack_mirror *mirror, uint64_t rsp)
{
    uint64_t low = (rsp - BELOW_BYTES) & ~UINT64_C(7);
    uint64_t word;
    if ((low ^ rsp) >> 12 == 0 || read_word(mirror->pid, low, &word))
        return low;
    return rsp & ~UINT64_C(7);
}

struct walk_memory mirror_refresh(struct stack_mirror *mirror, uint64_t rsp)
{
    struct walk_memory memory = {.find_memory = find_memory, .context = mirror};
    uint64_t low = readable_start(mirror, rsp);
    if (low < mirror->bottom || rsp >= mirror->top) {
        /* Not on the main stack. No code writes there now, so the mirror is good as it is. */
        if (!fetch_elsewhere(mirror, low, &memory))
            memory.end = memory.start;
        return memory;
    }
    uint64_t high = low + NEAR_BYTES;
    if (++mirror->steps_since_full >= FULL_EVERY_STEPS || high < mirror->start) {
        /* Also after the stack pointer went down so far that a part was never read. */
        mirror->steps_since_full = 0;
        high = mirror->top;
    }
    if (high > mirror->top)
        high = mirror->top;
    uint64_t wanted = high - low;
    if (read_tracee(mirror->pid, low, mirror->bytes + (low - mirror->bottom), wanted) == wanted)
        mirror->start = low;
    else
        mirror->start = mirror->top;
    use_mirror(mirror, &memory);
    return memory;
}

struct walk_memory mirror_again(struct stack_mirror *mirror, struct walk_memory memory)
{
    bool is_mirrored = memory.start >= mirror->start && memory.end <= mirror->top;
    if (!is_mirrored && memory.start != mirror->elsewhere_start && memory.end > memory.start)
        fetch_elsewhere(mirror, memory.start, &memory);
    return memory;
}
