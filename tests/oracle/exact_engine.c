#include "exact_engine.h"

#include "exact_layout.h"
#include "step_memory.h"

#include <fcntl.h>
#include <gelf.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* --- finding it
 * ------------------------------------------------------------------------------------ */

static Elf_Scn *section_of_type(Elf *elf, uint32_t type, Elf_Scn *after, GElf_Shdr *header)
{
    while ((after = elf_nextscn(elf, after)))
        if (gelf_getshdr(after, header) && header->sh_type == type)
            return after;
    return NULL;
}

static bool find_symbol(Elf *elf, const char *name, uint64_t *value)
{
    GElf_Shdr header;
    Elf_Scn *section = section_of_type(elf, SHT_SYMTAB, NULL, &header);
    Elf_Data *data = section ? elf_getdata(section, NULL) : NULL;
    GElf_Sym symbol;
    for (int i = 0; data && gelf_getsym(data, i, &symbol); i++) {
        const char *text = elf_strptr(elf, header.sh_link, symbol.st_name);
        if (text && strcmp(text, name) == 0) {
            *value = symbol.st_value;
            return true;
        }
    }
    return false;
}

/* A word of the global offset table that holds a distance from %fs, and what it is the distance of.
 */
static bool find_distance(Elf *elf, GElf_Rela *found)
{
    GElf_Shdr header;
    for (Elf_Scn *s = NULL; (s = section_of_type(elf, SHT_RELA, s, &header));) {
        Elf_Data *data = elf_getdata(s, NULL);
        for (int i = 0; data && gelf_getrela(data, i, found); i++)
            if (GELF_R_TYPE(found->r_info) == R_X86_64_TPOFF64 && !GELF_R_SYM(found->r_info))
                return true;
    }
    return false;
}

static int find_state(struct engine *engine, const char *path, uint64_t bias, uint64_t fs_base,
                      struct ct_error *err)
{
    uint64_t symbol, distance;
    GElf_Rela reloc;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    elf_version(EV_CURRENT);
    Elf *elf = fd >= 0 ? elf_begin(fd, ELF_C_READ, NULL) : NULL;
    bool found = elf && find_symbol(elf, "exact_state", &symbol) && find_distance(elf, &reloc) &&
                 read_word(engine->pid, bias + reloc.r_offset, &distance);
    elf_end(elf);
    if (fd >= 0)
        close(fd);
    if (!found)
        return ct_fail(err, "%s: has no symbol exact_state: was it stripped?", path);
    engine->state_at = fs_base + distance - (uint64_t)reloc.r_addend + symbol;
    return CT_OK;
}

static int map_arena(struct engine *engine, uint64_t address, struct ct_error *err)
{
    char path[64], line[512], name[400];
    snprintf(path, sizeof path, "/proc/%d/maps", (int)engine->pid);
    FILE *maps = fopen(path, "re");
    uint64_t start = 0, end = 0;
    bool found = false;
    while (!found && maps && fgets(line, sizeof line, maps))
        found = sscanf(line, "%" SCNx64 "-%" SCNx64 " %*s %*s %*s %*s %399s", &start, &end, name) ==
                    3 &&
                start == address;
    if (maps)
        fclose(maps);
    int fd = found ? open(name, O_RDONLY | O_CLOEXEC) : -1;
    void *bytes = fd >= 0 ? mmap(NULL, end - start, PROT_READ, MAP_SHARED | MAP_NORESERVE, fd, 0)
                          : MAP_FAILED;
    if (fd >= 0)
        close(fd);
    if (bytes == MAP_FAILED)
        return ct_fail(err, "the arena at %#lx cannot be read", address);
    engine->arena = bytes;
    engine->arena_start = start;
    engine->arena_bytes = end - start;
    return CT_OK;
}

static const void *at_place(const struct engine *engine, uint32_t place)
{
    return place ? engine->arena + 8ul * place : NULL;
}

static const struct arena_header *header_of(const struct engine *engine)
{
    return (const void *)engine->arena;
}

static const struct arena_thread *find_thread(const struct engine *engine)
{
    const struct arena_thread *t = at_place(engine, header_of(engine)->first_thread);
    while (t && t->tid != (uint32_t)engine->pid)
        t = at_place(engine, t->next);
    return t;
}

int engine_find(struct engine *engine, const struct code_view *code, uint64_t fs_base, bool *ready,
                struct ct_error *err)
{
    uint64_t bias, arena, others;
    const char *path = code_runtime(code, &bias);
    *engine = (struct engine){.pid = code->pid};
    *ready = false;
    if (!path || !fs_base)
        return CT_OK;
    CT_TRY(find_state(engine, path, bias, fs_base, err));
    if (!read_word(engine->pid, engine->state_at + exact_layout.mirror, &engine->mirror) ||
        !read_word(engine->pid, engine->state_at + exact_layout.arena, &arena) ||
        !read_word(engine->pid, engine->state_at + exact_layout.others, &others))
        return ct_fail(err, "the engine's state cannot be read");
    if (!arena || !others)
        return CT_OK;
    CT_TRY(map_arena(engine, arena, err));
    engine->thread = find_thread(engine);
    if (!engine->thread)
        return ct_fail(err, "the arena does not have the main thread");
    *ready = true;
    return CT_OK;
}

void engine_free(struct engine *engine)
{
    if (engine->arena)
        munmap((void *)(uintptr_t)engine->arena, engine->arena_bytes);
    if (engine->counts_before)
        munmap(engine->counts_before, engine->arena_bytes / ARENA_RECORD_ALIGN * 8);
    *engine = (struct engine){0};
}

/* --- records
 * --------------------------------------------------------------------------------------- */

static const struct arena_record *record_at(const struct engine *engine, uint64_t address)
{
    return (const void *)(engine->arena + (address - engine->arena_start));
}

uint64_t engine_record(const struct engine *engine, uint64_t slot, uint64_t ret)
{
    uint64_t tag, record, at = engine->mirror + (slot & exact_layout.mirror_mask);
    if (!read_word(engine->pid, at, &tag) ||
        !read_word(engine->pid, at + exact_layout.mirror_records, &record))
        return 0;
    return tag == slot + ret ? record : 0;
}

static uint64_t address_of_key(const struct engine *engine, uint64_t key)
{
    if (!key || KEY_FLAGS(key) & KEY_GAP)
        return key;
    if (KEY_FLAGS(key) & KEY_ADDRESS)
        return (uint64_t)KEY_MODULE(key) << 32 | KEY_OFFSET(key);
    const struct arena_module *m = at_place(engine, header_of(engine)->first_module);
    while (m && m->id != KEY_MODULE(key))
        m = at_place(engine, m->next);
    return m ? m->base + KEY_OFFSET(key) : key;
}

uint32_t engine_context(const struct engine *engine, struct contexts *contexts, uint64_t record)
{
    VEC(const struct arena_record *) chain = {0};
    const struct arena_record *at = record_at(engine, record);
    while (at->parent) {
        vec_push(&chain, at);
        at = at_place(engine, at->parent);
    }
    uint32_t context = 0;
    while (chain.count) {
        at = chain.items[--chain.count];
        context = context_of(contexts, context, address_of_key(engine, at->site),
                             address_of_key(engine, at->callee), at->flags & RECORD_TAIL);
    }
    vec_free(&chain);
    return context;
}

typedef void visit_fn(const struct engine *engine, const struct arena_record *record,
                      uint64_t address, void *argument);

static void each_record(const struct engine *engine, visit_fn *visit, void *argument)
{
    const struct arena_record_chunk *chunk =
        at_place(engine, exact_counts_in(engine->thread)->first_record_chunk);
    for (; chunk; chunk = at_place(engine, chunk->next)) {
        const uint8_t *bytes = (const uint8_t *)chunk + chunk->start;
        uint32_t used = chunk->used < chunk->room ? chunk->used : chunk->room;
        for (uint64_t at = 0; at < used;) {
            const struct arena_record *record = (const void *)(bytes + at);
            if (record->is_made)
                visit(engine, record, engine->arena_start + (uint64_t)(bytes + at - engine->arena),
                      argument);
            at += record->is_made ? arena_record_bytes(record->site_count) : ARENA_RECORD_ALIGN;
        }
    }
}

static uint64_t *count_before(const struct engine *engine, uint64_t address)
{
    return &engine->counts_before[(address - engine->arena_start) / ARENA_RECORD_ALIGN];
}

static void keep_count(const struct engine *engine, const struct arena_record *record,
                       uint64_t address, void *unused)
{
    (void)unused;
    *count_before(engine, address) = record->count;
}

void engine_begin(struct engine *engine)
{
    engine->counts_before =
        mmap(NULL, engine->arena_bytes / ARENA_RECORD_ALIGN * 8, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (engine->counts_before == MAP_FAILED) {
        fprintf(stderr, "exact_step: out of memory\n");
        exit(2);
    }
    memcpy(engine->slow_before, exact_counts_in(engine->thread)->slow, sizeof engine->slow_before);
    each_record(engine, keep_count, NULL);
}

static void add_count(const struct engine *engine, const struct arena_record *record,
                      uint64_t address, void *argument)
{
    struct contexts *contexts = argument;
    uint64_t more = record->count - *count_before(engine, address);
    if (!more)
        return;
    uint32_t context = engine_context(engine, contexts, address);
    contexts->items.items[context].counted += more;
}

void engine_end(const struct engine *engine, struct contexts *contexts)
{
    each_record(engine, add_count, contexts);
}
