#include "record/outside/outside_base.h"

#include <string.h>
#include <sys/uio.h>

enum { CHUNK = 64 << 10, MOST_STACK = 64 << 20 };

/* --- what is an outermost return address -------------------------------------------------------
 */

/* Is the code before this address that of a frame without a caller? */
static bool is_outermost(const struct map_tables *tables, uint64_t offset)
{
    int64_t row = map_find_row(tables, offset);
    if (row == NO_ROW)
        return false;
    uint32_t rule = tables->rows[row].rule;
    const struct map_range *correction = map_find_correction(tables, offset);
    if (correction && correction->value == (SPECIAL_END << 2 | RULE_SPECIAL))
        return true;
    return RULE_KIND(rule) == RULE_SPECIAL && RULE_SPECIAL_INDEX(rule) < tables->special_count &&
           tables->specials[RULE_SPECIAL_INDEX(rule)].cfa_kind == CFA_END;
}

static bool is_behind_call(const struct outside_module *m, uint64_t address)
{
    uint64_t start, end, bytes;
    const char *code =
        m->file ? outside_file_code(m->file, address - 1 - m->bias, &start, &end) : NULL;
    if (!code || address - m->bias - start < sizeof bytes)
        return false;
    memcpy(&bytes, code + (address - m->bias - start) - sizeof bytes, sizeof bytes);
    return walk_ends_in_call(bytes);
}

static bool is_base(const struct outside_process *p, uint64_t word)
{
    for (size_t i = 0; i < p->walked.count; i++) {
        const struct walk_module *w = &p->walked.items[i];
        if (word <= w->start || word > w->end)
            continue;
        return w->tables && is_outermost(w->tables, word - 1 - w->base) &&
               is_behind_call(&p->modules.items[i], word);
    }
    return false;
}

/*
 * Looks at words from the highest down. A second one that could be a base: these are several
 * stacks, or what is left of others, and no height is certain.
 */
static void take_words(const struct outside_process *p, struct outside_base *b, uint64_t start,
                       const char *bytes, uint64_t count)
{
    for (uint64_t at = count & ~UINT64_C(7); at >= 8 && !b->is_uncertain;) {
        uint64_t word;
        at -= 8;
        memcpy(&word, bytes + at, sizeof word);
        if (!is_base(p, word))
            continue;
        b->is_uncertain = b->slot != 0;
        b->slot = start + at;
        b->word = word;
    }
    b->checked = start;
}

bool outside_base_in(const struct outside_process *p, uint64_t sp, const char *stack,
                     uint64_t bytes, struct outside_base *b)
{
    *b = (struct outside_base){.low = sp, .high = sp + bytes};
    take_words(p, b, sp, stack, bytes);
    return b->slot && !b->is_uncertain;
}

/* --- of a process that runs --------------------------------------------------------------------
 */

static bool read_memory(const struct outside_process *p, uint64_t address, void *to, uint64_t bytes)
{
    struct iovec local = {to, bytes}, remote = {(void *)(uintptr_t)address, bytes};
    return process_vm_readv((pid_t)p->pid, &local, 1, &remote, 1, 0) == (ssize_t)bytes;
}

/* The mapping that holds an address. */
static bool find_mapping(const struct outside_process *p, uint64_t address, uint64_t *low,
                         uint64_t *high)
{
    char path[64], line[512];
    bool found = false;
    snprintf(path, sizeof path, "/proc/%u/maps", p->pid);
    FILE *maps = fopen(path, "re");
    while (maps && !found && fgets(line, sizeof line, maps))
        found = sscanf(line, "%lx-%lx ", low, high) == 2 && address >= *low && address < *high;
    if (maps)
        fclose(maps);
    return found;
}

/* Looks at what lies between the stack pointer and what has been looked at. */
static void look_on(const struct outside_process *p, struct outside_base *b, uint64_t sp)
{
    static char chunk[CHUNK];
    sp &= ~UINT64_C(7);
    while (b->checked > sp && !b->is_uncertain) {
        uint64_t bytes = b->checked - sp < CHUNK ? b->checked - sp : CHUNK;
        if (!read_memory(p, b->checked - bytes, chunk, bytes))
            return;
        take_words(p, b, b->checked - bytes, chunk, bytes);
    }
}

/* Is what was found still there? A process that is gone cannot say otherwise. */
static bool is_there(const struct outside_process *p, const struct outside_base *b)
{
    uint64_t word;
    return !b->slot || !read_memory(p, b->slot, &word, sizeof word) || word == b->word;
}

bool outside_base_find(const struct outside_process *p, struct outside_base *b, uint64_t sp)
{
    uint64_t low, high;
    if (sp < b->low || sp >= b->high || !is_there(p, b)) {
        if (!find_mapping(p, sp, &low, &high) || high - sp > MOST_STACK)
            return false;
        bool has_grown = high == b->high && is_there(p, b);
        if (!has_grown)
            *b = (struct outside_base){.high = high, .checked = high};
        b->low = low;
    }
    look_on(p, b, sp);
    return b->slot && !b->is_uncertain && b->checked <= sp && sp <= b->slot;
}
