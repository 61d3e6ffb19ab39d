/*
 * Functions are decoded in a straight line, twice: first for what branches lead to, then for the
 * sites. Code with data in it stops the decoder, and such a function is left alone as a whole;
 * where the data looks like instructions, nothing leads to them.
 */
#include "edit/sites.h"

#include "arch/x86_64/code_bytes.h"
#include "base/search.h"
#include "edit/finder.h"
#include "map/decode.h"

#include <string.h>

/* A direct branch: where it leads, as an offset. */
static bool is_direct(const struct instruction *i, uint64_t *target)
{
    const ZydisDecodedInstruction *d = &i->decoded;
    if (!d->raw.imm[0].is_relative)
        return false;
    *target = i->offset + d->length + (uint64_t)d->raw.imm[0].value.s;
    return true;
}

/* Does control never come out at the end of an instruction? */
static bool is_last(const struct instruction *i)
{
    return i->decoded.meta.category == ZYDIS_CATEGORY_UNCOND_BR ||
           i->decoded.meta.category == ZYDIS_CATEGORY_RET;
}

static void add_pad(struct finder *f, uint32_t start, uint32_t end)
{
    struct pad *last = f->pads.count ? &f->pads.items[f->pads.count - 1] : NULL;
    if (last && last->end == start)
        last->end = end;
    else if (!last || last->end < start)
        vec_push(&f->pads, (struct pad){start, end});
}

/* Padding inside a function, behind a jump or a return. */
static void find_pad(struct finder *f, const struct instruction *i)
{
    const struct instruction *before = f->before_count ? &f->before[f->before_count - 1] : NULL;
    if (!before || !is_padding(i))
        return;
    bool continues = f->pads.count && f->pads.items[f->pads.count - 1].end == i->offset;
    if (is_last(before) || (is_padding(before) && continues))
        add_pad(f, i->offset, i->offset + i->decoded.length);
}

/* Padding between the current function, all of which was decoded, and the next one. */
static void find_pad_behind(struct finder *f, const struct map_function *next)
{
    uint32_t end = f->function->start + f->function->size;
    const struct instruction *last = f->before_count ? &f->before[f->before_count - 1] : NULL;
    if (!last || next->start <= end || !(is_last(last) || is_padding(last)))
        return;
    bool continues = f->pads.count && f->pads.items[f->pads.count - 1].end == end;
    if ((is_last(last) || continues) &&
        decode_padding(f->file, end, next->start) == next->start - end)
        add_pad(f, end, next->start);
}

static void add_to_reach(struct finder *f, const struct instruction *i)
{
    uint64_t target;
    bool is_part = f->function->flags & FUNCTION_FRAGMENT; /* jumps from elsewhere lead into it */
    if (!f->before_count || is_last(&f->before[f->before_count - 1])) {
        reach_begin(&f->reach, f->function->start, i->offset);
        if (is_part)
            reach_add_branch(&f->reach, f->function->start, i->offset);
    }
    reach_add(&f->reach, i->offset + i->decoded.length, is_last(i));
    if (is_direct(i, &target))
        reach_add_branch(&f->reach, i->offset, target);
    else if (is_jump(i) || i->decoded.meta.category == ZYDIS_CATEGORY_CALL)
        reach_add_branch(&f->reach, i->offset, REACH_ANYWHERE);
}

static int compare_parts(const void *a, const void *b)
{
    const struct part *x = a, *y = b;
    if (x->whole != y->whole)
        return x->whole < y->whole ? -1 : 1;
    return x->start < y->start ? -1 : x->start > y->start;
}

static void find_parts(struct finder *f)
{
    for (uint32_t k = 0; k < f->map->function_count; k++) {
        const struct map_function *fn = &f->map->functions[k];
        uint32_t whole = map_whole_of(f->map, fn)->start;
        if (fn->size)
            vec_push(&f->parts, (struct part){whole, fn->start, fn->start + fn->size});
    }
    if (f->parts.count)
        qsort(f->parts.items, f->parts.count, sizeof *f->parts.items, compare_parts);
}

/* The parts of the current function, itself among them. */
static const struct part *parts_of(const struct finder *f, unsigned *count)
{
    size_t i;
    SEARCH(i, f->parts.count, f->parts.items[i].whole < f->whole);
    *count = 0;
    while (i + *count < f->parts.count && f->parts.items[i + *count].whole == f->whole)
        ++*count;
    return f->parts.items + i;
}

static void find_targets(struct finder *f, const struct instruction *i)
{
    uint64_t target;
    bool branches = is_jump(i) || i->decoded.meta.category == ZYDIS_CATEGORY_CALL;
    vec_push(&f->lengths, (uint8_t)(i->decoded.length | (branches ? IS_BRANCH : 0)));
    find_pad(f, i);
    add_to_reach(f, i);
    if (is_direct(i, &target)) {
        targets_add(&f->targets, target);
    } else if (i->decoded.mnemonic == ZYDIS_MNEMONIC_LEA && is_rip_relative(i, &target)) {
        const struct map_function *there = map_find_function(f->map, target);
        if (there && !(there->flags & FUNCTION_HAS_CFI))
            reach_add_taken(&f->reach, (uint32_t)target);
        targets_add(&f->targets, target); /* code whose address is taken, or a table */
        vec_push(&f->places, (struct known_place){(uint32_t)target, f->whole});
    }
}

static int compare_places(const void *a, const void *b)
{
    const struct known_place *x = a, *y = b;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    return x->whole < y->whole ? -1 : x->whole > y->whole;
}

/* Jump tables, now that it is known where each of them must end. */
static void find_tables(struct finder *f)
{
    const struct known_place *p = f->places.items;
    size_t count = f->places.count, behind = 0;
    if (count)
        qsort(f->places.items, count, sizeof *p, compare_places);
    for (size_t k = 0; k < count; k++) {
        while (behind < count && p[behind].offset <= p[k].offset)
            behind++;
        if (k && compare_places(&p[k - 1], &p[k]) == 0)
            continue;
        unsigned part_count;
        f->whole = p[k].whole;
        const struct part *parts = parts_of(f, &part_count);
        uint64_t end = behind < count ? p[behind].offset : UINT32_MAX;
        targets_add_table(&f->targets, f->file, p[k].offset, end, parts, part_count);
    }
}

/* What something leads to is no padding: it is run, or it is data. */
static void cut_pads(struct finder *f)
{
    for (size_t i = 0; i < f->pads.count; i++) {
        struct pad *p = &f->pads.items[i];
        for (uint32_t at = p->start; at < p->end; at++)
            if (targets_has(&f->targets, at))
                p->end = at;
    }
}

/* CFA - rsp - 8 is 0: the return address is at the top of the stack, as at a function's entry. */
static bool is_as_at_entry(const struct map *map, uint64_t offset)
{
    int64_t row = map_find_row(&map->tables, offset);
    if (row < 0)
        return false;
    struct map_special s = map_spell_rule(&map->tables, (uint32_t)row);
    return s.cfa_kind == CFA_REG && s.reg == X86_RSP && s.offset == 8;
}

static bool may_write(const struct instruction *i, unsigned to)
{
    const ZydisDecodedInstruction *d = &i->decoded;
    if (!(d->attributes & ZYDIS_ATTRIB_HAS_MODRM))
        return ((d->opcode & 7u) | (unsigned)d->raw.rex.B << 3) == to;
    return (d->raw.modrm.reg | (unsigned)d->raw.rex.R << 3) == to ||
           (d->raw.modrm.mod == 3 && (d->raw.modrm.rm | (unsigned)d->raw.rex.B << 3) == to);
}

/* The same by another register, with no register saved yet. */
static bool is_cfa_copied(const struct map *map, uint64_t offset)
{
    int64_t row = map_find_row(&map->tables, offset);
    if (row < 0)
        return false;
    struct map_special s = map_spell_rule(&map->tables, (uint32_t)row);
    return s.cfa_kind == CFA_REG && s.reg != X86_RSP && s.reg != X86_RBP && s.offset == 8 &&
           s.place[AT_RBX].kind != PLACE_CFA && s.place[AT_RBP].kind != PLACE_CFA;
}

static bool may_change_rsp(const struct instruction *i)
{
    const ZydisDecodedInstruction *d = &i->decoded;
    unsigned category = d->meta.category, to = 4;
    if (category == ZYDIS_CATEGORY_PUSH || category == ZYDIS_CATEGORY_POP ||
        category == ZYDIS_CATEGORY_CALL || category == ZYDIS_CATEGORY_RET ||
        d->mnemonic == ZYDIS_MNEMONIC_LEAVE || d->mnemonic == ZYDIS_MNEMONIC_ENTER)
        return true;
    bool reads_reg = d->mnemonic == ZYDIS_MNEMONIC_MOV && d->opcode == 0x89;
    if (reads_reg || (d->opcode >= 0x80 && d->opcode <= 0x83)) /* reg is a part of the opcode */
        return d->raw.modrm.mod == 3 && (d->raw.modrm.rm | (unsigned)d->raw.rex.B << 3) == to;
    return may_write(i, to);
}

/*
 * Is the return address at the top of the stack though the CFA is in another register, as in
 * assembly that begins by putting rsp there? No instruction before has changed rsp, and none has
 * saved a register.
 */
static bool is_top_copied(struct finder *f, uint32_t offset)
{
    enum { MOST_BYTES = 64 };
    const struct map_function *fn = f->function;
    const struct code_range *code = elf_code_at(f->file, f->file->base + fn->start);
    struct instruction i;
    if (!is_cfa_copied(f->map, offset) || (fn->flags & FUNCTION_FRAGMENT) ||
        offset - fn->start > MOST_BYTES || !is_as_at_entry(f->map, fn->start))
        return false;
    const uint8_t *bytes = code->bytes + (f->file->base + fn->start - code->start);
    for (uint32_t at = 0; fn->start + at < offset; at += i.decoded.length)
        if (!ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&f->decoder, &i.context, bytes + at,
                                                        fn->size - at, &i.decoded)) ||
            may_change_rsp(&i))
            return false;
    return true;
}

static void find_slot(const struct finder *f, uint32_t offset, struct plan_site *site)
{
    int64_t row = map_find_row(&f->map->tables, offset);
    const struct map_range *correction = map_find_correction(&f->map->tables, offset);
    if (row < 0 || correction) /* the CFI is wrong there: rare enough to leave alone */
        return;
    struct map_special s = map_spell_rule(&f->map->tables, (uint32_t)row);
    if (s.cfa_kind != CFA_REG || s.place[AT_RIP].kind != PLACE_CFA ||
        s.place[AT_RIP].offset != -8 || (s.reg != X86_RSP && s.reg != X86_RBP))
        return;
    site->slot_base = s.reg == X86_RSP ? SLOT_RSP : SLOT_RBP;
    site->slot_bytes = s.offset - 8;
}

static bool is_plt(const struct finder *f, uint32_t offset)
{
    return elf_is_plt(elf_code_at(f->file, f->file->base + offset));
}

/* The slot that a stub of the PLT jumps through; 0 when the target is none. */
static uint32_t got_of(const struct finder *f, uint64_t target)
{
    const struct code_range *code = elf_code_at(f->file, f->file->base + target);
    if (!elf_is_plt(code))
        return 0;
    const uint8_t *at = code->bytes + (f->file->base + target - code->start);
    unsigned bytes = code_stub_bytes(at, code->end - f->file->base - target);
    int32_t relative;
    if (!bytes)
        return 0;
    memcpy(&relative, at + bytes - sizeof relative, sizeof relative);
    return (uint32_t)(target + bytes + (uint64_t)(int64_t)relative);
}

/* May a jump stay in its function? Only where the data leads to places inside it. */
static bool may_stay_inside(const struct finder *f)
{
    unsigned count;
    const struct part *parts = parts_of(f, &count);
    for (unsigned k = 0; k < count; k++)
        if (targets_has_label(&f->targets, parts[k].start, parts[k].end))
            return true;
    return false;
}

static void add_number(struct sites *out, uint32_t number)
{
    for (unsigned k = 0; k < 4; k++)
        vec_push(&out->code, (uint8_t)(number >> 8 * k));
}

/* A jump that may stay in its function: the stub must know what that is. */
static void displace_may_stay(struct finder *f, const struct instruction *i, struct plan_site *site)
{
    unsigned count;
    const struct part *parts = parts_of(f, &count);
    site->flags |= SITE_MAY_STAY;
    if (count > PLAN_MOST_PARTS) {
        site->tier = TIER_NONE;
        site->reason = REASON_MAY_STAY;
        return;
    }
    displace(f, i, site);
    if (site->tier == TIER_NONE)
        return;
    vec_push(&f->out->code, (uint8_t)count);
    for (unsigned k = 0; k < count; k++) {
        add_number(f->out, parts[k].start + (parts[k].start == f->whole));
        add_number(f->out, parts[k].end);
    }
}

static void add_site(struct finder *f, const struct instruction *i, enum site_kind kind,
                     uint64_t target)
{
    struct plan_site site = {.offset = i->offset,
                             .target = (uint32_t)target,
                             .function = f->whole,
                             .length = i->decoded.length,
                             .kind = (uint8_t)kind};
    find_slot(f, i->offset, &site);
    if (kind != SITE_CALL && kind != SITE_TAIL)
        look_before(f);
    if (site.slot_base == SLOT_UNKNOWN && (kind == SITE_TAIL || kind == SITE_TAIL_SHORT)) {
        site.slot_base = SLOT_RSP; /* see is_top_copied */
        site.slot_bytes = 0;
    }
    if ((kind == SITE_CALL || kind == SITE_TAIL) && !elf_code_at(f->file, f->file->base + target)) {
        site.tier = TIER_NONE; /* a weak symbol without a definition, or no instruction at all */
        site.reason = REASON_NO_CODE;
    } else if (kind == SITE_CALL || kind == SITE_TAIL) {
        site.tier = TIER_RETARGET;
        site.got = got_of(f, target);
    } else if (kind == SITE_TAIL_INDIRECT && may_stay_inside(f)) {
        displace_may_stay(f, i, &site);
    } else {
        displace(f, i, &site);
    }
    if (site.slot_base == SLOT_UNKNOWN && site.tier != TIER_NONE)
        site.reason = REASON_NO_SLOT; /* it must walk the stack each time */
    vec_push(&f->out->items, site);
}

/* Does a jump leave its function for another, as a call that returns to our caller? */
static bool is_tail(struct finder *f, const struct instruction *i, uint64_t target)
{
    const struct map_function *there = map_find_function(f->map, target);
    if (there && map_whole_of(f->map, there)->start == f->whole)
        return target == f->whole && is_as_at_entry(f->map, i->offset) &&
               f->function->start != target;
    bool is_start = there && there->start == target && !(there->flags & FUNCTION_FRAGMENT);
    if (there && !is_start && !(there->flags & FUNCTION_FRAGMENT) &&
        is_as_at_entry(f->map, there->start) && is_cfa_copied(f->map, target) &&
        is_top_copied(f, i->offset))
        return true; /* into the middle, behind its own copy of rsp */
    return is_as_at_entry(f->map, i->offset) &&
           ((is_start && is_as_at_entry(f->map, target)) || got_of(f, target));
}

/* Does it take the return address from the top of the stack into that register? */
static bool takes_return_address(const struct finder *f, const struct instruction *i, unsigned to)
{
    const ZydisDecodedInstruction *d = &i->decoded;
    bool is_pop = d->mnemonic == ZYDIS_MNEMONIC_POP && d->opcode >= 0x58 && d->opcode < 0x60 &&
                  ((d->opcode & 7u) | (unsigned)d->raw.rex.B << 3) == to;
    bool is_load = d->mnemonic == ZYDIS_MNEMONIC_MOV && d->opcode == 0x8b && d->raw.rex.W &&
                   d->raw.modrm.mod == 0 && d->raw.modrm.rm == 4 && d->raw.sib.base == 4 &&
                   d->raw.sib.index == 4 && (d->raw.modrm.reg | (unsigned)d->raw.rex.R << 3) == to;
    return (is_pop || is_load) && is_as_at_entry(f->map, i->offset);
}

/* A jump to the return address is a return, also where the code does not say to unwinders that it
 * has taken that from the stack. */
static bool is_return(const struct finder *f, const struct instruction *i)
{
    unsigned to = i->decoded.raw.modrm.rm | (unsigned)i->decoded.raw.rex.B << 3;
    if (i->decoded.raw.modrm.mod != 3)
        return false;
    for (size_t k = f->before_count; k-- > 0;) {
        const struct instruction *before = &f->before[k];
        if (takes_return_address(f, before, to))
            return true;
        if (before->decoded.meta.branch_type != ZYDIS_BRANCH_TYPE_NONE || may_write(before, to))
            return false;
    }
    return false;
}

/* Not to another segment of code, as only bytes that are no instructions do. */
static bool is_near(const struct instruction *i)
{
    return i->decoded.meta.branch_type == ZYDIS_BRANCH_TYPE_NEAR;
}

static void find_sites(struct finder *f, const struct instruction *i)
{
    const ZydisDecodedInstruction *d = &i->decoded;
    uint64_t target = 0;
    bool direct = is_direct(i, &target);
    if (!is_jump(i) && d->meta.category != ZYDIS_CATEGORY_CALL)
        return;
    if (!reach_has(&f->reach, i->offset))
        return;
    if (d->meta.category == ZYDIS_CATEGORY_CALL) {
        if (direct && target != i->offset + d->length) /* call to the next: it reads its own pc */
            add_site(f, i, SITE_CALL, target);
        else if (!direct && is_near(i))
            add_site(f, i, SITE_CALL_INDIRECT, 0);
    } else if (is_jump(i) && direct && is_tail(f, i, target)) {
        add_site(f, i, d->raw.imm[0].size == 32 ? SITE_TAIL : SITE_TAIL_SHORT, target);
    } else if (d->mnemonic == ZYDIS_MNEMONIC_JMP && !direct && is_near(i) &&
               is_as_at_entry(f->map, i->offset)) {
        look_before(f);
        if (!is_jump_of_switch(f, i) && !is_return(f, i))
            add_site(f, i, SITE_TAIL_INDIRECT, 0);
    }
}

static void keep(struct finder *f, const struct instruction *i)
{
    vec_push(&f->all, *i);
}

static uint64_t end_of_decoded(const struct finder *f, size_t i)
{
    const struct map_function *fn = &f->map->functions[f->decoded.items[i]];
    return (uint64_t)fn->start + fn->size;
}

/* Decodes the functions of which a part is so near to a place that a short jump may reach it. */
static void decode_around(struct finder *f, uint32_t offset)
{
    enum { NEAR = 160 };
    size_t i;
    SEARCH(i, f->decoded.count, end_of_decoded(f, i) + NEAR <= offset);
    f->all.count = 0;
    for (; i < f->decoded.count; i++) {
        f->function = &f->map->functions[f->decoded.items[i]];
        if (f->function->start > (uint64_t)offset + NEAR)
            break;
        each_instruction(f, keep);
    }
}

/* Makes room for puns, where all other sites are done. */
static void make_rooms(struct finder *f)
{
    for (size_t k = 0; k < f->out->items.count; k++) {
        struct plan_site *s = &f->out->items.items[k];
        if (s->tier != TIER_PUN)
            continue;
        decode_around(f, s->offset);
        for (size_t at = 0; at < f->all.count; at++)
            if (f->all.items[at].offset == s->offset)
                make_room(f, f->all.items, f->all.count, at, s);
    }
}

static int compare_ranks(const void *a, const void *b, void *items)
{
    const struct plan_site *x = (const struct plan_site *)items + *(const uint32_t *)a;
    const struct plan_site *y = (const struct plan_site *)items + *(const uint32_t *)b;
    if (x->function != y->function)
        return x->function < y->function ? -1 : 1;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

void sites_rank(struct sites *s)
{
    for (uint32_t i = 0; i < s->items.count; i++)
        vec_push(&s->by_rank, i);
    if (s->items.count)
        qsort_r(s->by_rank.items, s->by_rank.count, sizeof(uint32_t), compare_ranks,
                s->items.items);
    for (uint32_t rank = 0, first = 0; rank < s->by_rank.count; rank++) {
        struct plan_site *site = &s->items.items[s->by_rank.items[rank]];
        if (site->function != s->items.items[s->by_rank.items[first]].function)
            first = rank;
        site->rank = rank;
        site->first_rank = first;
    }
}

static bool has_sites(const struct sites *s, uint32_t function)
{
    size_t i;
    SEARCH(i, s->by_rank.count, s->items.items[s->by_rank.items[i]].function < function);
    return i < s->by_rank.count && s->items.items[s->by_rank.items[i]].function == function;
}

static void mark_leaves(const struct finder *f)
{
    for (size_t i = 0; i < f->out->items.count; i++) {
        struct plan_site *s = &f->out->items.items[i];
        bool is_direct_site =
            s->kind == SITE_CALL || s->kind == SITE_TAIL || s->kind == SITE_TAIL_SHORT;
        const struct map_function *there =
            is_direct_site && !s->got ? map_find_function(f->map, s->target) : NULL;
        if (there && !is_plt(f, s->target) &&
            !has_sites(f->out, map_whole_of(f->map, there)->start))
            s->flags |= SITE_TO_LEAF;
    }
}

/* Code between two functions that is no padding: of a function that no table has. */
static uint32_t unknown_between(const struct elf_file *file, uint32_t start, uint32_t end)
{
    const struct code_range *code = end > start ? elf_code_at(file, file->base + start) : NULL;
    if (!code || elf_is_plt(code))
        return 0;
    uint64_t last = code->end - file->base;
    end = end < last ? end : (uint32_t)last;
    return end - start - decode_padding(file, start, end);
}

void sites_find(const struct elf_file *file, const struct map *map, struct sites *out)
{
    struct finder f = {.file = file, .map = map, .out = out};
    *out = (struct sites){0};
    if (map->header->flags & (MAP_IS_GO | MAP_READS_ITSELF))
        return; /* who finds its way by tables or bytes of its own knows nothing of edits */
    ZydisDecoderInit(&f.decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    VEC(size_t) first_length = {0};
    VEC(bool) is_code = {0};
    targets_begin(&f.targets, file, map);
    find_parts(&f);
    for (uint32_t k = 0; k < map->function_count; k++) {
        f.function = &map->functions[k];
        f.whole = map_whole_of(map, f.function)->start;
        vec_push(&first_length, f.lengths.count);
        bool is_all = each_instruction(&f, find_targets);
        vec_push(&is_code, is_all);
        if (is_all && k + 1 < map->function_count)
            find_pad_behind(&f, &map->functions[k + 1]);
    }
    find_tables(&f);
    cut_pads(&f);
    reach_follow(&f.reach, &f.targets);
    uint32_t done = 0; /* functions may overlap: each byte is looked at once */
    for (uint32_t k = 0; k < map->function_count; k++) {
        f.function = &map->functions[k];
        f.whole = map_whole_of(map, f.function)->start;
        if (f.function->start < done || !f.function->size || is_plt(&f, f.function->start))
            continue;
        if (done)
            out->unknown_bytes += unknown_between(file, done, f.function->start);
        done = f.function->start + f.function->size;
        out->function_count++;
        if (is_code.items[k]) {
            each_branch(&f, f.lengths.items + first_length.items[k], find_sites);
            vec_push(&f.decoded, k);
        } else {
            vec_push(&out->undecoded, f.function->start);
            out->unknown_bytes += f.function->size;
        }
    }
    out->unknown_bytes += done ? unknown_between(file, done, UINT32_MAX) : 0;
    make_rooms(&f);
    sites_rank(out);
    mark_leaves(&f);
    targets_free(&f.targets);
    reach_free(&f.reach);
    vec_free(&f.pads);
    vec_free(&f.parts);
    vec_free(&f.places);
    vec_free(&f.decoded);
    vec_free(&f.all);
    vec_free(&f.lengths);
    vec_free(&first_length);
    vec_free(&is_code);
}

void sites_free(struct sites *sites)
{
    vec_free(&sites->items);
    vec_free(&sites->by_rank);
    vec_free(&sites->undecoded);
    vec_free(&sites->code);
}
