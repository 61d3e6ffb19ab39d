/*
 * The calls in the code of modules, as their edit plans have them. A call leads to its target; or,
 * through the slot of a symbol, to all functions of that name in any module; or through a pointer,
 * to any function whose address is taken: by data, by a relocation, or by code. How large the frame
 * is at the place is what the unwind rows say. Where they count from the frame pointer, the code
 * is followed from the start of the function (edit/depth.h).
 */
#include "edit/depth.h"
#include "edit/plan.h"
#include "elf/start_code.h"
#include "infer/path_graph.h"

#include <string.h>
#include <xxhash.h>

/* What a word of a module is made to hold when it is loaded. */
struct slot {
    uint64_t name;  /* hash of a symbol's; 0: none, and */
    uint64_t value; /* the offset of a function that finds out what is called */
};

struct code_module {
    uint32_t number; /* the graph's */
    struct elf_file file;
    struct map map;
    struct plan plan;
    struct key_set slot_keys; /* uint64_t: offset */
    VEC(struct slot) slots;
    VEC(struct graph_jump)
    taken; /* `to` is a function that the code at `from` has the address of */
};

struct symbol {
    uint64_t name;
    uint32_t module, index; /* in the list of modules; of the module's function */
    bool is_indirect;
};

struct code {
    struct path_graph *graph;
    VEC(struct code_module) modules;
    VEC(struct symbol) symbols; /* by name */
};

/* --- functions ---------------------------------------------------------------------------------
 */

/* The graph's number of the function that holds an offset. */
static uint32_t function_of(const struct code *c, const struct code_module *m, uint64_t offset)
{
    const struct map_function *f = map_find_function(&m->map, offset);
    return f ? path_graph_find(c->graph, m->number, map_whole_of(&m->map, f)->start) : CTP_NONE;
}

/* The function that begins there, or NULL. */
static const struct map_function *function_at(const struct code_module *m, uint64_t offset)
{
    const struct map_function *f =
        offset < m->map.header->span ? map_find_function(&m->map, offset) : NULL;
    return f && f->start == offset && !(f->flags & FUNCTION_FRAGMENT) ? f : NULL;
}

static void add_functions(struct code *c, const struct code_module *m)
{
    for (uint32_t i = 0; i < m->map.function_count; i++) {
        const struct map_function *f = &m->map.functions[i];
        if (map_whole_of(&m->map, f) == f)
            path_graph_function(c->graph, m->number, f->start, f->size,
                                map_string(&m->map, f->name));
    }
}

static void take_address(struct code *c, const struct code_module *m, uint64_t offset)
{
    const struct map_function *f = function_at(m, offset);
    uint32_t number = f ? path_graph_find(c->graph, m->number, f->start) : CTP_NONE;
    if (number != CTP_NONE)
        vec_push(&c->graph->jumps, (struct graph_jump){number, PATH_POINTED_TO, PATH_BY_POINTER});
}

/* --- what a file says of symbols and slots -----------------------------------------------------
 */

static uint64_t hash_of(const char *name)
{
    return XXH3_64bits(name, strlen(name)) | 1;
}

static void add_symbols(struct code *c, uint32_t module, Elf_Scn *section, const GElf_Shdr *header)
{
    const struct code_module *m = &c->modules.items[module];
    Elf_Data *data = elf_section_data(section);
    size_t count = data ? data->d_size / sizeof(Elf64_Sym) : 0;
    for (size_t i = 1; i < count; i++) {
        GElf_Sym s;
        if (!gelf_getsym(data, (int)i, &s) || s.st_shndx == SHN_UNDEF ||
            (GELF_ST_TYPE(s.st_info) != STT_FUNC && GELF_ST_TYPE(s.st_info) != STT_GNU_IFUNC &&
             GELF_ST_TYPE(s.st_info) != STT_NOTYPE))
            continue;
        const char *name = elf_strptr(m->file.elf, header->sh_link, s.st_name);
        uint32_t function = function_of(c, m, s.st_value - m->file.base);
        if (name && *name && function != CTP_NONE)
            vec_push(&c->symbols, (struct symbol){hash_of(name), module, function,
                                                  GELF_ST_TYPE(s.st_info) == STT_GNU_IFUNC});
    }
}

static void add_slot(struct code_module *m, uint64_t offset, struct slot slot)
{
    uint32_t before = m->slot_keys.count;
    if (key_set_add(&m->slot_keys, &offset) == before)
        vec_push(&m->slots, slot);
}

static void add_relocations(struct code *c, struct code_module *m, Elf_Scn *section,
                            const GElf_Shdr *header)
{
    Elf_Data *data = elf_section_data(section);
    size_t count = data ? data->d_size / sizeof(Elf64_Rela) : 0;
    GElf_Shdr symbols_header;
    Elf_Scn *symbols = elf_getscn(m->file.elf, header->sh_link);
    Elf_Data *symbol_data =
        symbols && gelf_getshdr(symbols, &symbols_header) ? elf_section_data(symbols) : NULL;
    for (size_t i = 0; i < count; i++) {
        GElf_Rela r;
        GElf_Sym s;
        if (!gelf_getrela(data, (int)i, &r))
            continue;
        uint64_t offset = r.r_offset - m->file.base;
        uint64_t value = (uint64_t)r.r_addend - m->file.base;
        uint64_t type = GELF_R_TYPE(r.r_info), symbol = GELF_R_SYM(r.r_info);
        if (type == R_X86_64_IRELATIVE)
            add_slot(m, offset, (struct slot){0, value});
        else if (type == R_X86_64_RELATIVE)
            take_address(c, m, value);
        if (!symbol || !symbol_data || !gelf_getsym(symbol_data, (int)symbol, &s))
            continue;
        const char *name = elf_strptr(m->file.elf, symbols_header.sh_link, s.st_name);
        if (!name || !*name)
            continue;
        if (type == R_X86_64_JUMP_SLOT || type == R_X86_64_GLOB_DAT)
            add_slot(m, offset, (struct slot){hash_of(name), 0});
        if (type != R_X86_64_JUMP_SLOT) /* `to` is the name's, until all symbols are known */
            add_slot(m, ~offset, (struct slot){hash_of(name), 1});
    }
}

/* Words of data that are addresses of functions. */
static void add_words(struct code *c, const struct code_module *m, Elf_Scn *section)
{
    const Elf_Data *data = elf_section_data(section);
    for (size_t i = 0; data && data->d_buf && i + 8 <= data->d_size; i += 8) {
        uint64_t word;
        memcpy(&word, (const char *)data->d_buf + i, sizeof word);
        take_address(c, m, word - m->file.base);
    }
}

/* lea DISTANCE(%rip),REG, and mov $ADDRESS,REG where the file is for one address. */
static void add_code_addresses(struct code *c, struct code_module *m)
{
    bool is_fixed = m->file.header.e_type == ET_EXEC;
    for (size_t k = 0; k < m->file.code.count; k++) {
        const struct code_range *code = &m->file.code.items[k];
        for (uint64_t i = 3; i + 4 <= code->end - code->start; i++) {
            const uint8_t *at = code->bytes + i;
            int32_t number;
            bool is_lea = at[-2] == 0x8d && (at[-1] & 0xc7) == 5 && (at[-3] & 0xf8) == 0x48;
            if (!is_lea && !is_fixed)
                continue;
            memcpy(&number, at, sizeof number);
            uint64_t offset = code->start - m->file.base + i;
            uint64_t to = is_lea ? offset + 4 + (uint64_t)(int64_t)number
                                 : (uint64_t)(int64_t)number - m->file.base;
            const struct map_function *f = function_at(m, to);
            if (!f)
                continue;
            take_address(c, m, to);
            vec_push(&m->taken, (struct graph_jump){f->start, (uint32_t)offset, 0});
        }
    }
}

static void read_sections(struct code *c, uint32_t module)
{
    struct code_module *m = &c->modules.items[module];
    Elf_Scn *section = NULL;
    GElf_Shdr header;
    while ((section = elf_nextscn(m->file.elf, section))) {
        if (!gelf_getshdr(section, &header) || !(header.sh_flags & SHF_ALLOC))
            continue;
        if (header.sh_type == SHT_RELA)
            add_relocations(c, m, section, &header);
        else if (header.sh_type == SHT_DYNSYM)
            add_symbols(c, module, section, &header);
        else if (header.sh_type != SHT_NOBITS && !(header.sh_flags & SHF_EXECINSTR))
            add_words(c, m, section);
    }
    add_code_addresses(c, m);
}

/* --- where a call leads ------------------------------------------------------------------------
 */

static int by_name(const void *a, const void *b)
{
    const struct symbol *x = a, *y = b;
    if (x->name != y->name)
        return x->name < y->name ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

struct targets_of {
    VEC(uint32_t) items;
};

/* What the function that chooses between several has the addresses of. */
static void add_choices(const struct code *c, const struct code_module *m, uint64_t resolver,
                        struct targets_of *out)
{
    const struct map_function *f = map_find_function(&m->map, resolver);
    for (size_t i = 0; f && i < m->taken.count; i++) {
        uint64_t from = m->taken.items[i].from;
        uint32_t to = path_graph_find(c->graph, m->number, m->taken.items[i].to);
        if (from >= f->start && from < (uint64_t)f->start + f->size && to != CTP_NONE)
            vec_push(&out->items, to);
    }
}

/* The functions of a name. Which module's it is depends on the order in which they were loaded. */
static void add_named(const struct code *c, uint64_t name, struct targets_of *out)
{
    size_t i;
    SEARCH(i, c->symbols.count, c->symbols.items[i].name < name);
    for (; i < c->symbols.count && c->symbols.items[i].name == name; i++) {
        const struct symbol *s = &c->symbols.items[i];
        if (s->is_indirect)
            add_choices(c, &c->modules.items[s->module], c->graph->functions.items[s->index].offset,
                        out);
        else
            vec_push(&out->items, s->index);
    }
}

static bool add_slot_targets(const struct code *c, const struct code_module *m, uint64_t offset,
                             struct targets_of *out)
{
    uint32_t number;
    if (!key_set_find(&m->slot_keys, &offset, &number))
        return false;
    const struct slot *s = &m->slots.items[number];
    if (s->name)
        add_named(c, s->name, out);
    else
        add_choices(c, m, s->value, out);
    return true;
}

/* The slot that a call or jump through memory at a fixed distance reads. */
static bool find_slot(const struct code_module *m, const struct plan_site *s, uint64_t *slot)
{
    const uint8_t *bytes = elf_bytes_at(&m->file, m->file.base + s->offset, s->length);
    int32_t distance;
    if (!bytes || s->length < 6 || bytes[s->length - 6] != 0xff ||
        (bytes[s->length - 5] & 0xc7) != 5)
        return false;
    memcpy(&distance, bytes + s->length - 4, sizeof distance);
    *slot = s->offset + s->length + (uint64_t)(int64_t)distance;
    return true;
}

/* Where a site leads; returns how that is known. */
static enum path_level find_targets(const struct code *c, const struct code_module *m,
                                    const struct plan_site *s, struct targets_of *out)
{
    bool is_direct = s->kind == SITE_CALL || s->kind == SITE_TAIL || s->kind == SITE_TAIL_SHORT;
    uint64_t slot = s->got;
    out->items.count = 0;
    if ((is_direct ? s->got != 0 : find_slot(m, s, &slot)) && add_slot_targets(c, m, slot, out))
        return PATH_BY_CALL;
    if (is_direct) {
        uint32_t to = function_of(c, m, s->target);
        if (to != CTP_NONE)
            vec_push(&out->items, to);
        return PATH_BY_CALL;
    }
    vec_push(&out->items, PATH_POINTED_TO);
    return PATH_BY_POINTER;
}

/* --- sites -------------------------------------------------------------------------------------
 */

static bool is_outermost(const struct map *map, uint64_t offset)
{
    const struct map_tables *t = &map->tables;
    int64_t row = map_find_row(t, offset);
    const struct map_range *correction = map_find_correction(t, offset);
    if (correction && correction->value == (SPECIAL_END << 2 | RULE_SPECIAL))
        return true;
    return row != NO_ROW && map_spell_rule(t, (uint32_t)row).cfa_kind == CFA_END;
}

static void add_site(struct code *c, const struct code_module *m, struct depths *depths,
                     const struct plan_site *s, struct targets_of *targets)
{
    struct path_graph *g = c->graph;
    bool is_call = s->kind == SITE_CALL || s->kind == SITE_CALL_INDIRECT;
    uint32_t from = path_graph_find(g, m->number, s->function);
    enum path_level level = find_targets(c, m, s, targets);
    struct graph_call call = {.caller = from,
                              .module = m->number,
                              .level = (uint16_t)level,
                              .offset = (uint64_t)s->offset + s->length};
    if (from == CTP_NONE)
        return;
    if (!is_call) {
        for (size_t i = 0; i < targets->items.count; i++)
            vec_push(&g->jumps, (struct graph_jump){targets->items.items[i], from, level});
        return;
    }
    if (is_outermost(&m->map, s->offset))
        call.caller = PATH_NOBODY;
    else if (s->slot_base == SLOT_RSP)
        call.bytes = (uint64_t)(int64_t)s->slot_bytes + 8;
    else
        call.bytes = depths_at(depths, s->function, s->offset);
    if (call.caller != PATH_NOBODY && (!call.bytes || call.bytes % 8)) {
        g->unsized++;
        return;
    }
    for (size_t i = 0; i < targets->items.count; i++) {
        call.callee = targets->items.items[i];
        vec_push(&g->calls, call);
    }
}

/* What the code that calls certain functions leads to without pointers; NULL: the outermost place
 * of a module. */
static struct key_set called_by(const struct path_graph *g, const struct key_set *callers,
                                uint32_t module)
{
    struct key_set out;
    uint32_t number;
    key_set_init(&out, sizeof(uint32_t));
    for (size_t i = 0; i < g->calls.count; i++) {
        const struct graph_call *call = &g->calls.items[i];
        bool is_one = callers ? key_set_find(callers, &call->caller, &number)
                              : call->caller == PATH_NOBODY && call->module == module;
        if (is_one && !call->is_trained && call->level == PATH_BY_CALL)
            key_set_add(&out, &call->callee);
    }
    return out;
}

/*
 * main is called through a pointer, by glibc's __libc_start_main, or by a function that this one
 * calls.
 */
static void add_main(struct code *c, const struct code_module *m)
{
    struct path_graph *g = c->graph;
    uint64_t address = elf_main_address(&m->file);
    uint32_t to = address ? function_of(c, m, address - m->file.base) : CTP_NONE, number;
    if (to == CTP_NONE)
        return;
    struct key_set first = called_by(g, NULL, m->number);
    struct key_set second = called_by(g, &first, m->number);
    size_t count = g->calls.count;
    for (size_t i = 0; i < count; i++) {
        struct graph_call call = g->calls.items[i];
        if (call.callee != PATH_POINTED_TO || (!key_set_find(&first, &call.caller, &number) &&
                                               !key_set_find(&second, &call.caller, &number)))
            continue;
        call.callee = to;
        call.level = PATH_BY_CALL;
        vec_push(&g->calls, call);
    }
    key_set_free(&first);
    key_set_free(&second);
}

/* --- modules -----------------------------------------------------------------------------------
 */

static bool is_same(const struct ctp_module *m, const struct elf_file *file)
{
    return m->build_id_size == file->build_id_size &&
           memcmp(m->build_id, file->build_id, file->build_id_size) == 0;
}

static void open_module(struct code *c, struct map_cache *cache, uint32_t number)
{
    struct graph_module *g = &c->graph->modules.items[number];
    struct code_module m = {.number = number};
    if (g->module.kind != CTP_MODULE_FILE)
        return;
    c->graph->unread++;
    if (elf_open(g->path, &m.file, NULL) != CT_OK)
        return;
    if (!is_same(&g->module, &m.file) ||
        map_for_file(cache, g->path, &m.map, NULL, NULL) != CT_OK) {
        elf_close(&m.file);
        return;
    }
    if (plan_for_file(cache, g->path, &m.plan, NULL) != CT_OK) {
        map_close(&m.map);
        elf_close(&m.file);
        return;
    }
    c->graph->unread--;
    g->has_code = true;
    key_set_init(&m.slot_keys, sizeof(uint64_t));
    vec_push(&c->modules, m);
}

static void close_module(struct code_module *m)
{
    key_set_free(&m->slot_keys);
    vec_free(&m->slots);
    vec_free(&m->taken);
    plan_close(&m->plan);
    map_close(&m->map);
    elf_close(&m->file);
}

/* Symbols whose addresses some relocation takes. */
static void take_named(struct code *c, const struct code_module *m, struct targets_of *targets)
{
    for (size_t i = 0; i < m->slots.count; i++) {
        targets->items.count = 0;
        if (m->slots.items[i].name && m->slots.items[i].value)
            add_named(c, m->slots.items[i].name, targets);
        for (size_t k = 0; k < targets->items.count; k++)
            vec_push(&c->graph->jumps, (struct graph_jump){targets->items.items[k], PATH_POINTED_TO,
                                                           PATH_BY_POINTER});
    }
}

void path_graph_read_code(struct path_graph *g, struct map_cache *cache)
{
    struct code c = {.graph = g};
    struct targets_of targets = {0};
    for (uint32_t i = 0; i < g->modules.count; i++)
        open_module(&c, cache, i);
    for (size_t i = 0; i < c.modules.count; i++)
        add_functions(&c, &c.modules.items[i]);
    for (uint32_t i = 0; i < c.modules.count; i++)
        read_sections(&c, i);
    if (c.symbols.count)
        qsort(c.symbols.items, c.symbols.count, sizeof *c.symbols.items, by_name);
    for (size_t i = 0; i < c.modules.count; i++) {
        struct code_module *m = &c.modules.items[i];
        struct depths depths;
        take_named(&c, m, &targets);
        depths_begin(&depths, &m->file, &m->map);
        for (uint32_t k = 0; k < m->plan.site_count; k++)
            add_site(&c, m, &depths, &m->plan.sites[k], &targets);
        depths_end(&depths);
    }
    for (size_t i = 0; i < c.modules.count; i++)
        add_main(&c, &c.modules.items[i]);
    for (size_t i = 0; i < c.modules.count; i++)
        close_module(&c.modules.items[i]);
    vec_free(&targets.items);
    vec_free(&c.modules);
    vec_free(&c.symbols);
}
