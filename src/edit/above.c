#include "edit/above.h"

#include "base/search.h"

#include <Zydis/Zydis.h>
#include <string.h>

const char *const above_names[ABOVE_KINDS] = {"look at nothing above their frame",
                                              "no function begins there",
                                              "not all of their bytes are instructions",
                                              "where their frame is cannot be told everywhere",
                                              "look at their return address",
                                              "look at what their caller has on the stack, or may",
                                              "set the stack pointer",
                                              "end in a jump to what may, or is not known"};

/* A register that holds a copy of the stack pointer, and how far that was below the CFA. */
struct copy {
    ZydisRegister reg;
    uint32_t depth;
};

enum { MOST_COPIES = 8, RETURN_ADDRESS = 8, NEAR_TOP = 128 };

struct look {
    struct above_finder *finder;
    uint32_t function; /* start of the whole */
    uint32_t offset;   /* of the instruction */
    struct map_special rule;
    ZydisDecodedInstruction decoded;
    ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
    struct copy copies[MOST_COPIES];
    unsigned copy_count;
    int64_t lowest_saved; /* the lowest slot of a saved register, from the CFA */
    enum above found;
};

static ZydisRegister whole_register(ZydisRegister reg)
{
    return ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, reg);
}

static bool has_register(const ZydisDecodedOperand *o, ZydisRegister reg)
{
    return o->type == ZYDIS_OPERAND_TYPE_REGISTER && whole_register(o->reg.value) == reg;
}

/* --- the frame at an instruction ---------------------------------------------------------------
 */

static bool read_rule(struct look *l)
{
    const struct map_tables *tables = &l->finder->map->tables;
    int64_t row = map_find_row(tables, l->offset);
    if (row < 0 || map_find_correction(tables, l->offset)) /* what the rows say is wrong */
        return false;
    l->rule = map_spell_rule(tables, (uint32_t)row);
    for (unsigned i = 0; i < AT_COUNT; i++)
        if (i != AT_RIP && l->rule.place[i].kind == PLACE_CFA &&
            l->rule.place[i].offset < l->lowest_saved)
            l->lowest_saved = l->rule.place[i].offset;
    return l->rule.cfa_kind == CFA_REG && !(l->rule.flags & SPECIAL_GUESSED) &&
           (l->rule.reg == X86_RSP || l->rule.reg == X86_RBP) &&
           l->rule.place[AT_RIP].kind == PLACE_CFA && l->rule.place[AT_RIP].offset == -8;
}

/* How far rsp is below the CFA; 0: it is not known. */
static uint32_t depth_of(struct look *l)
{
    if (l->rule.reg == X86_RSP)
        return l->rule.offset > 0 ? (uint32_t)l->rule.offset : 0;
    return depths_at(&l->finder->depths, l->function, l->offset);
}

/* --- operands ----------------------------------------------------------------------------------
 */

/* Memory from so many bytes above the CFA on (below it: less than 0). */
static enum above of_bytes(const struct look *l, int64_t from_cfa, int64_t bytes, bool has_index)
{
    if (has_index)
        return from_cfa + NEAR_TOP >= l->lowest_saved ? ABOVE_ARGUMENTS : ABOVE_NOTHING;
    if (from_cfa + bytes <= -RETURN_ADDRESS)
        return ABOVE_NOTHING;
    return from_cfa < 0 ? ABOVE_RETURN : ABOVE_ARGUMENTS;
}

static enum above of_memory(struct look *l, const ZydisDecodedOperand *o)
{
    const bool has_index = o->mem.index != ZYDIS_REGISTER_NONE;
    const bool is_address = o->mem.type == ZYDIS_MEMOP_TYPE_AGEN;
    const int64_t distance = o->mem.disp.value, bytes = is_address ? 1 : o->size / 8;
    ZydisRegister base =
        o->mem.base == ZYDIS_REGISTER_NONE ? ZYDIS_REGISTER_NONE : whole_register(o->mem.base);
    if (has_index && whole_register(o->mem.index) == ZYDIS_REGISTER_RBP && l->rule.reg == X86_RBP)
        return ABOVE_ARGUMENTS;
    if (base == ZYDIS_REGISTER_RBP && l->rule.reg == X86_RBP)
        return of_bytes(l, distance - l->rule.offset, bytes, has_index);
    if (base != ZYDIS_REGISTER_RSP)
        return ABOVE_NOTHING;
    const uint32_t depth = depth_of(l);
    return depth ? of_bytes(l, distance - depth, bytes, has_index) : ABOVE_NO_ROWS;
}

/* A copy of rsp is the address of what is lowest in the frame; or of what is not known. */
static enum above of_copy(struct look *l)
{
    const ZydisDecodedOperand *to = &l->operands[0];
    const uint32_t depth = depth_of(l);
    if (l->decoded.mnemonic != ZYDIS_MNEMONIC_MOV || to->type != ZYDIS_OPERAND_TYPE_REGISTER ||
        l->decoded.operand_width != 64)
        return ABOVE_ARGUMENTS;
    if (has_register(to, ZYDIS_REGISTER_RBP)) { /* where the CFA is counted from it then */
        int64_t row = map_find_row(&l->finder->map->tables, l->offset + l->decoded.length);
        struct map_special next =
            row < 0 ? l->rule : map_spell_rule(&l->finder->map->tables, (uint32_t)row);
        if (next.cfa_kind == CFA_REG && next.reg == X86_RBP)
            return ABOVE_NOTHING;
    }
    if (depth <= RETURN_ADDRESS || l->copy_count == MOST_COPIES)
        return ABOVE_ARGUMENTS;
    l->copies[l->copy_count++] = (struct copy){whole_register(to->reg.value), depth};
    return ABOVE_NOTHING;
}

/* What sets rsp: only by what the rows follow. */
static enum above of_change(const struct look *l)
{
    const ZydisDecodedOperand *from = &l->operands[1];
    const bool is_framed = l->rule.reg == X86_RBP;
    switch (l->decoded.mnemonic) {
    case ZYDIS_MNEMONIC_PUSH:
    case ZYDIS_MNEMONIC_POP:
    case ZYDIS_MNEMONIC_PUSHFQ:
    case ZYDIS_MNEMONIC_POPFQ:
    case ZYDIS_MNEMONIC_CALL:
        return has_register(&l->operands[0], ZYDIS_REGISTER_RSP) ? ABOVE_MOVES : ABOVE_NOTHING;
    case ZYDIS_MNEMONIC_RET:
        return l->operands[0].type == ZYDIS_OPERAND_TYPE_IMMEDIATE ? ABOVE_MOVES : ABOVE_NOTHING;
    case ZYDIS_MNEMONIC_LEAVE:
        return is_framed ? ABOVE_NOTHING : ABOVE_MOVES;
    case ZYDIS_MNEMONIC_ADD:
    case ZYDIS_MNEMONIC_SUB:
        return from->type == ZYDIS_OPERAND_TYPE_IMMEDIATE || is_framed ? ABOVE_NOTHING
                                                                       : ABOVE_MOVES;
    case ZYDIS_MNEMONIC_AND:
    case ZYDIS_MNEMONIC_MOV:
        return is_framed ? ABOVE_NOTHING : ABOVE_MOVES;
    case ZYDIS_MNEMONIC_LEA:
        return from->mem.index == ZYDIS_REGISTER_NONE &&
                       (from->mem.base == ZYDIS_REGISTER_RSP ||
                        (is_framed && from->mem.base == ZYDIS_REGISTER_RBP))
                   ? ABOVE_NOTHING
                   : ABOVE_MOVES;
    default:
        return ABOVE_MOVES;
    }
}

static bool is_stack_instruction(const struct look *l)
{
    ZydisInstructionCategory c = l->decoded.meta.category;
    return c == ZYDIS_CATEGORY_PUSH || c == ZYDIS_CATEGORY_POP || c == ZYDIS_CATEGORY_CALL ||
           c == ZYDIS_CATEGORY_RET || l->decoded.mnemonic == ZYDIS_MNEMONIC_LEAVE;
}

static enum above of_operand(struct look *l, const ZydisDecodedOperand *o)
{
    const bool is_hidden = o->visibility == ZYDIS_OPERAND_VISIBILITY_HIDDEN;
    const bool writes = o->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE;
    const bool reads = o->actions & ZYDIS_OPERAND_ACTION_MASK_READ;
    enum above found = ABOVE_NOTHING;
    if (o->type == ZYDIS_OPERAND_TYPE_MEMORY && !(is_hidden && is_stack_instruction(l)))
        return of_memory(l, o);
    if (!has_register(o, ZYDIS_REGISTER_RSP))
        return ABOVE_NOTHING;
    if (writes)
        found = of_change(l);
    if (found == ABOVE_NOTHING && reads && !writes && !is_hidden &&
        l->decoded.mnemonic != ZYDIS_MNEMONIC_CMP)
        found = of_copy(l);
    return found;
}

/* The word at the top of the stack is the return address: it is for ret alone. */
static bool takes_return_address(const struct look *l)
{
    return l->decoded.meta.category == ZYDIS_CATEGORY_POP && l->rule.reg == X86_RSP &&
           l->rule.offset <= RETURN_ADDRESS;
}

/* --- control -----------------------------------------------------------------------------------
 */

static const struct plan_site *site_at(const struct plan *plan, uint32_t offset)
{
    uint32_t i;
    SEARCH(i, plan->site_count, plan->sites[i].offset < offset);
    return i < plan->site_count && plan->sites[i].offset == offset ? &plan->sites[i] : NULL;
}

static bool is_inside(const struct look *l, uint64_t target)
{
    const struct map *map = l->finder->map;
    const struct map_function *f = target <= UINT32_MAX ? map_find_function(map, target) : NULL;
    return f && map_whole_of(map, f)->start == l->function;
}

static enum above of_jump(struct look *l)
{
    const ZydisInstructionCategory category = l->decoded.meta.category;
    const bool is_direct = l->operands[0].type == ZYDIS_OPERAND_TYPE_IMMEDIATE;
    const uint64_t next = (uint64_t)l->offset + l->decoded.length;
    const uint64_t target = is_direct ? next + (uint64_t)l->operands[0].imm.value.s : 0;
    if (category == ZYDIS_CATEGORY_CALL)
        return is_direct && target == next ? ABOVE_RETURN : ABOVE_NOTHING;
    if (category != ZYDIS_CATEGORY_UNCOND_BR && category != ZYDIS_CATEGORY_COND_BR)
        return ABOVE_NOTHING;
    const struct plan_site *site = site_at(l->finder->plan, l->offset);
    if (is_direct && is_inside(l, target) && !site)
        return ABOVE_NOTHING;
    if (!is_direct) /* a switch is no site */
        return site ? ABOVE_JUMPS : ABOVE_NOTHING;
    if (!site || site->got)
        return ABOVE_JUMPS;
    vec_push(&l->finder->jumps, site->target);
    return ABOVE_NOTHING;
}

/* --- a function --------------------------------------------------------------------------------
 */

static enum above of_instruction(struct look *l)
{
    enum above found = read_rule(l) ? of_jump(l) : ABOVE_NO_ROWS;
    if (found == ABOVE_NOTHING && takes_return_address(l))
        found = ABOVE_RETURN;
    for (unsigned i = 0; i < l->decoded.operand_count && found == ABOVE_NOTHING; i++)
        found = of_operand(l, &l->operands[i]);
    return found;
}

/* Is a place that a copy of rsp leads to above the frame? */
static enum above of_copies(const struct look *l)
{
    for (unsigned i = 0; i < l->decoded.operand_count; i++) {
        const ZydisDecodedOperand *o = &l->operands[i];
        ZydisRegister base = o->type == ZYDIS_OPERAND_TYPE_MEMORY     ? o->mem.base
                             : o->type == ZYDIS_OPERAND_TYPE_REGISTER ? o->reg.value
                                                                      : ZYDIS_REGISTER_NONE;
        bool adds = l->decoded.mnemonic == ZYDIS_MNEMONIC_ADD && i == 0 &&
                    l->operands[1].type == ZYDIS_OPERAND_TYPE_IMMEDIATE;
        int64_t distance = o->type == ZYDIS_OPERAND_TYPE_MEMORY ? o->mem.disp.value
                           : adds                               ? l->operands[1].imm.value.s
                                                                : 0;
        for (unsigned k = 0; k < l->copy_count && base != ZYDIS_REGISTER_NONE; k++)
            if (whole_register(base) == l->copies[k].reg &&
                distance + RETURN_ADDRESS + o->size / 8 > (int64_t)l->copies[k].depth)
                return ABOVE_ARGUMENTS;
    }
    return ABOVE_NOTHING;
}

/* Every instruction of a part of the function, in a straight line. */
static enum above each_instruction(struct look *l, const struct map_function *part, bool is_again)
{
    const struct above_finder *f = l->finder;
    const struct code_range *code = elf_code_at(f->file, f->file->base + part->start);
    ZydisDecoder decoder;
    if (!code || part->size > code->end - f->file->base - part->start)
        return ABOVE_UNDECODED;
    const uint8_t *bytes = code->bytes + (f->file->base + part->start - code->start);
    ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    for (uint32_t at = 0; at < part->size; at += l->decoded.length) {
        l->offset = part->start + at;
        if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, bytes + at, part->size - at, &l->decoded,
                                                 l->operands)))
            return ABOVE_UNDECODED;
        enum above found = is_again ? of_copies(l) : of_instruction(l);
        if (found != ABOVE_NOTHING)
            return found;
    }
    return ABOVE_NOTHING;
}

static uint32_t whole_of(const struct above_finder *f, uint32_t index)
{
    return map_whole_of(f->map, &f->map->functions[index])->start;
}

/* All parts, first for what they do, then for what they do with copies of rsp. */
static enum above look_at(struct look *l)
{
    struct above_finder *f = l->finder;
    enum above found = ABOVE_NOTHING;
    size_t first;
    SEARCH(first, f->parts.count, whole_of(f, f->parts.items[first]) < l->function);
    for (unsigned again = 0; again < 2 && found == ABOVE_NOTHING; again++) {
        if (again && !l->copy_count)
            break;
        for (size_t i = first; i < f->parts.count && found == ABOVE_NOTHING &&
                               whole_of(f, f->parts.items[i]) == l->function;
             i++) {
            const struct map_function *part = &f->map->functions[f->parts.items[i]];
            const struct map_range *range = map_find_unmarkable(&f->map->tables, part->start);
            found = !range         ? each_instruction(l, part, again)
                    : range->value ? ABOVE_RETURN
                                   : ABOVE_JUMPS;
        }
    }
    return found;
}

static bool begins_there(const struct above_finder *f, uint32_t function)
{
    const struct map_function *fn = map_find_function(f->map, function);
    int64_t row = map_find_row(&f->map->tables, function);
    if (!fn || fn->start != function || !fn->size || !(fn->flags & FUNCTION_HAS_CFI) ||
        (fn->flags & (FUNCTION_FRAGMENT | FUNCTION_IFUNC)) || row < 0 ||
        (f->map->header->flags & (MAP_IS_GO | MAP_IS_OCAML | MAP_READS_ITSELF)) ||
        elf_is_plt(elf_code_at(f->file, f->file->base + function)))
        return false;
    struct map_special s = map_spell_rule(&f->map->tables, (uint32_t)row);
    return s.cfa_kind == CFA_REG && s.reg == X86_RSP && s.offset == RETURN_ADDRESS;
}

/* --- all ---------------------------------------------------------------------------------------
 */

static int by_whole(const void *a, const void *b, void *finder)
{
    const struct above_finder *f = finder;
    uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;
    uint32_t x = whole_of(f, i), y = whole_of(f, k);
    if (x != y)
        return x < y ? -1 : 1;
    return i < k ? -1 : i > k;
}

void above_begin(struct above_finder *f, const struct elf_file *file, const struct map *map,
                 const struct plan *plan)
{
    *f = (struct above_finder){.file = file, .map = map, .plan = plan};
    key_set_init(&f->functions, sizeof(uint32_t));
    depths_begin(&f->depths, file, map);
    for (uint32_t i = 0; i < map->function_count; i++)
        if (map->functions[i].size)
            vec_push(&f->parts, i);
    if (f->parts.count)
        qsort_r(f->parts.items, f->parts.count, sizeof *f->parts.items, by_whole, f);
}

void above_end(struct above_finder *f)
{
    key_set_free(&f->functions);
    depths_end(&f->depths);
    vec_free(&f->found);
    vec_free(&f->parts);
    vec_free(&f->jumps);
    vec_free(&f->first_jump);
}

/* Each is looked at once; its jumps are those behind the last one's. */
static uint32_t number_of(struct above_finder *f, uint32_t function)
{
    uint32_t before = f->functions.count, number = key_set_add(&f->functions, &function);
    if (number < before)
        return number;
    vec_push(&f->first_jump, (uint32_t)f->jumps.count);
    struct look l = {.finder = f, .function = function, .lowest_saved = -RETURN_ADDRESS};
    enum above found = begins_there(f, function) ? look_at(&l) : ABOVE_NO_START;
    vec_push(&f->found, (uint8_t)found);
    return number;
}

/*
 * A function and all that it ends in jumps to, and those, are looked at together: if one of them
 * looks above, the first one does, too.
 */
enum above above_of(struct above_finder *f, uint32_t function)
{
    struct key_set reached;
    enum above found = ABOVE_NOTHING;
    key_set_init(&reached, sizeof function);
    key_set_add(&reached, &function);
    for (uint32_t i = 0; i < reached.count && found == ABOVE_NOTHING; i++) {
        uint32_t at;
        memcpy(&at, key_set_get(&reached, i), sizeof at);
        const uint32_t number = number_of(f, at);
        const size_t end =
            number + 1 < f->first_jump.count ? f->first_jump.items[number + 1] : f->jumps.count;
        found = (enum above)f->found.items[number];
        if (found != ABOVE_NOTHING && i)
            found = ABOVE_JUMPS;
        for (size_t k = f->first_jump.items[number]; k < end; k++)
            key_set_add(&reached, &f->jumps.items[k]);
    }
    key_set_free(&reached);
    return found;
}
