#include "infer/path_core.h"

#include "elf/elf_file.h"

#include <string.h>

enum { WORD = 8 };

/* Where a file is: the address of what it calls 0. */
static bool find_bias(const struct core_mapping *m, const struct elf_file *file, uint64_t *bias)
{
    GElf_Phdr h;
    for (unsigned i = 0; elf_program_header(file, i, &h); i++)
        if (h.p_type == PT_LOAD && h.p_offset / PAGE_BYTES * PAGE_BYTES == m->file_offset) {
            *bias = m->start - h.p_vaddr / PAGE_BYTES * PAGE_BYTES;
            return true;
        }
    return false;
}

static const struct core_mapping *mapping_at(const struct core_file *core, uint64_t address)
{
    for (size_t i = 0; i < core->mappings.count; i++)
        if (address >= core->mappings.items[i].start && address < core->mappings.items[i].end)
            return &core->mappings.items[i];
    return NULL;
}

static uint64_t word_at(const struct core_file *core, uint64_t address)
{
    uint64_t bytes, word = 0;
    const uint8_t *at = core_memory(core, address, &bytes);
    if (at && bytes >= WORD)
        memcpy(&word, at, WORD);
    return word;
}

/* --- the base ----------------------------------------------------------------------------------
 */

struct base {
    uint64_t address;
    uint32_t frame; /* of the map */
};

struct bases {
    VEC(struct base) items;
};

/* The addresses of all outermost places of calls of a module that the map knows. */
static void add_bases(const struct path_map *map, const struct core_mapping *m, struct bases *out)
{
    const struct profile *p = &map->profile;
    struct elf_file file;
    uint64_t bias;
    if (elf_open(m->path, &file, NULL) != CT_OK)
        return;
    uint32_t module = path_map_module(map, file.build_id, file.build_id_size);
    if (module != CTP_NONE && find_bias(m, &file, &bias))
        for (uint32_t i = 1; i < p->node_count; i++) {
            const struct ctp_frame *f = profile_frame(p, profile_node_frame(p, i));
            if (profile_parent(p, i) == 0 && f->module == module)
                vec_push(&out->items,
                         (struct base){bias + file.base + f->offset, profile_node_frame(p, i)});
        }
    elf_close(&file);
}

/* The highest word of a stack that is such an address; 0: there is none. */
static uint64_t find_base(const struct path_map *map, const struct core_file *core, uint64_t sp,
                          uint32_t *frame)
{
    struct bases bases = {0};
    uint64_t bytes = 0, found = 0;
    const uint8_t *stack = core_memory(core, sp & ~UINT64_C(7), &bytes);
    for (size_t i = 0; i < core->mappings.count; i++)
        if (core->mappings.items[i].file_offset == 0)
            add_bases(map, &core->mappings.items[i], &bases);
    for (uint64_t at = bytes & ~UINT64_C(7); stack && at >= WORD && !found; at -= WORD) {
        uint64_t word;
        memcpy(&word, stack + at - WORD, WORD);
        for (size_t i = 0; i < bases.items.count && !found; i++)
            if (bases.items.items[i].address == word) {
                *frame = bases.items.items[i].frame;
                found = (sp & ~UINT64_C(7)) + at - WORD;
            }
    }
    vec_free(&bases.items);
    return found;
}

/* --- the function that ran ---------------------------------------------------------------------
 */

/* Finds the function and the slot of its return address. */
static const char *find_slot(const struct path_map *map, const struct core_mapping *m,
                             const struct core_thread *t, struct map_cache *cache,
                             struct path_crash *out, uint64_t *slot)
{
    struct elf_file file;
    struct map code;
    uint64_t bias = 0;
    const char *problem = NULL;
    if (elf_open(m->path, &file, NULL) != CT_OK)
        return "the file is missing";
    uint32_t module = path_map_module(map, file.build_id, file.build_id_size);
    if (module == CTP_NONE)
        problem = "the map does not know the file, or not this build of it";
    else if (!find_bias(m, &file, &bias) ||
             map_for_file(cache, m->path, &code, NULL, NULL) != CT_OK)
        problem = "the file cannot be read";
    if (problem) {
        elf_close(&file);
        return problem;
    }
    uint64_t offset = out->pc - bias - file.base;
    const struct map_function *f = map_find_function(&code, offset);
    int64_t row = map_find_row(&code.tables, offset);
    const struct map_range *correction = map_find_correction(&code.tables, offset);
    uint32_t rule = row < 0 ? 0 : code.tables.rows[row].rule;
    rule = correction && row >= 0 ? correction->value : rule;
    if (f)
        out->function = path_map_function(map, module, map_whole_of(&code, f)->start);
    if (RULE_KIND(rule) == RULE_RSP)
        *slot = t->sp + (uint64_t)RULE_CFA_WORDS(rule) * WORD - WORD;
    else if (RULE_KIND(rule) == RULE_RBP)
        *slot = t->bp + (uint64_t)RULE_CFA_WORDS(rule) * WORD - WORD;
    else
        problem = "where its return address lies is not known";
    map_close(&code);
    elf_close(&file);
    return problem;
}

void path_crash_find(const struct path_map *map, const struct core_file *core, uint32_t thread,
                     struct map_cache *cache, struct path_crash *out)
{
    struct core_thread t = core->threads.items[thread];
    const struct core_mapping *m = mapping_at(core, t.pc);
    uint64_t slot = 0;
    *out =
        (struct path_crash){.tid = t.tid, .pc = t.pc, .function = CTP_NONE, .outermost = CTP_NONE};
    if (!m) { /* a call to nowhere: the return address is the last that was pushed */
        out->pc = word_at(core, t.sp) - 1;
        t.sp += WORD;
        m = mapping_at(core, out->pc);
    }
    out->problem = m ? find_slot(map, m, &t, cache, out, &slot) : "the pc is in no file";
    if (out->problem)
        return;
    uint64_t base = find_base(map, core, t.sp, &out->outermost);
    if (!base)
        out->problem = "the base of its stack is not there";
    else if (slot > base || (base - slot) % WORD)
        out->problem = "its frame is not on its stack";
    else
        out->height_bytes = base - slot;
}
