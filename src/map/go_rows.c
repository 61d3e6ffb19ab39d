#include "map/go_rows.h"

#include "map/decode.h"
#include "map/instruction.h"

#include <string.h>

enum go_kind {
    ORDINARY,
    OUTERMOST,     /* nothing has called it */
    LEAVES_STACK,  /* to call what never returns, on another stack */
    INTERRUPTED,   /* what it returns to was not calling it */
    SIGNAL_RETURN, /* the kernel's signal frame is at rsp */
};

static const struct {
    const char *name;
    enum go_kind kind;
} known_functions[] = {
    {"runtime.goexit", OUTERMOST},         {"runtime.mstart", OUTERMOST},
    {"runtime.rt0_go", OUTERMOST},         {"_rt0_amd64", OUTERMOST},
    {"_rt0_amd64_linux", OUTERMOST},       {"runtime.mcall", LEAVES_STACK},
    {"runtime.sigtramp", INTERRUPTED}, /* a top frame by its flags; but the way out is known */
    {"runtime.asyncPreempt", INTERRUPTED}, {"runtime.sigpanic", INTERRUPTED},
    {"runtime.sigpanic0", INTERRUPTED},    {"runtime.debugCallV1", INTERRUPTED},
    {"runtime.debugCallV2", INTERRUPTED},  {"runtime.cgocallback", INTERRUPTED},
};

/* The numbers that Go gives to such functions differ by release; their names do not. */
static enum go_kind kind_of(const struct go_rows *rows, const struct go_function *f)
{
    static const uint8_t sigreturn[] = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05};
    const uint8_t *code = elf_bytes_at(rows->file, f->start, sizeof sigreturn);
    if (code && memcmp(code, sigreturn, sizeof sigreturn) == 0)
        return SIGNAL_RETURN;
    for (unsigned i = 0; i < sizeof known_functions / sizeof known_functions[0]; i++)
        if (strcmp(f->name, known_functions[i].name) == 0)
            return known_functions[i].kind;
    return !(f->flags & GO_NO_FLAGS) && (f->flags & GO_TOP_FRAME) ? OUTERMOST : ORDINARY;
}

/* A function under description. */
struct described {
    struct go_rows *rows;
    const struct go_function *function;
    uint32_t from, to;       /* rows are wanted for this part, offsets */
    bool is_exact;           /* what it returns to was interrupted */
    uint64_t rbp_saved_from; /* from this address on, in a frame, rbp is at CFA - 16 */
};

static void put(struct described *d, uint64_t address, struct unwind_rule rule)
{
    uint32_t pc = (uint32_t)(address - d->rows->file->base);
    if (pc < d->to)
        unwind_append(d->rows->table, pc > d->from ? pc : d->from, rule);
}

static struct map_special spelt(uint8_t reg, int32_t offset, bool saves_rbp, uint8_t flags)
{
    struct map_special s = {
        .cfa_kind = CFA_REG, .reg = reg, .index_reg = X86_NONE, .flags = flags, .offset = offset};
    for (unsigned i = 0; i < AT_COUNT; i++)
        s.place[i] = (struct map_place){.kind = PLACE_SAME, .reg = X86_NONE};
    s.place[AT_RIP] = (struct map_place){.kind = PLACE_CFA, .reg = X86_NONE, .offset = -8};
    if (saves_rbp)
        s.place[AT_RBP] = (struct map_place){.kind = PLACE_CFA, .reg = X86_NONE, .offset = -16};
    return s;
}

/* The return address is `height` bytes above rsp. */
static struct unwind_rule rule_of(const struct described *d, uint64_t address, int32_t height)
{
    if (height < 0 || height % 8 || height > INT32_MAX - 8)
        return unwind_fixed(SPECIAL_UNKNOWN);
    bool saves_rbp = height > 0 && address >= d->rbp_saved_from;
    if (d->is_exact || height / 8 >= RULE_MAX_CFA_WORDS) {
        struct map_special s =
            spelt(X86_RSP, height + 8, saves_rbp, d->is_exact ? SPECIAL_EXACT_PC : 0);
        return unwind_special(d->rows->table, &s);
    }
    return (struct unwind_rule){.rule = RULE_RSP | (saves_rbp ? 2u << 2 : 0) |
                                        (uint32_t)(height / 8 + 1) << 12};
}

/*
 * Where rbp is saved, if it is: the frame has just been made, `height` bytes, and the code goes on
 * at `address`. Since Go 1.21 it was made by push %rbp, before that mov %rbp, height-8(%rsp)
 * follows.
 */
static uint64_t rbp_save_at(const struct go_rows *rows, uint64_t address, int32_t height)
{
    const uint8_t *code = elf_bytes_at(rows->file, address - 1, 9);
    int32_t at;
    if (!code)
        return UINT64_MAX;
    if (code[0] == 0x55 && height == 8)
        return address;
    if (memcmp(code + 1, "\x48\x89\x6c\x24", 4) == 0 && (int8_t)code[5] == height - 8)
        return address + 5;
    memcpy(&at, code + 5, sizeof at);
    if (memcmp(code + 1, "\x48\x89\xac\x24", 4) == 0 && at == height - 8)
        return address + 8;
    return UINT64_MAX;
}

static void find_rbp_save(struct described *d)
{
    struct go_values v = go_stack_values(d->rows->go, d->function);
    d->rbp_saved_from = UINT64_MAX;
    while (go_next_value(&v)) {
        if (v.value > 0) {
            d->rbp_saved_from = rbp_save_at(d->rows, v.start, v.value);
            return;
        }
    }
}

static void put_heights(struct described *d)
{
    struct go_values v = go_stack_values(d->rows->go, d->function);
    while (go_next_value(&v)) {
        put(d, v.start, rule_of(d, v.start, v.value));
        if (v.start < d->rbp_saved_from && d->rbp_saved_from < v.end)
            put(d, d->rbp_saved_from, rule_of(d, d->rbp_saved_from, v.value));
    }
}

/* --- functions that write rsp ------------------------------------------------------------------
 */

enum effect {
    NO_EFFECT,
    SETS_RSP,     /* by more than the table says */
    RESTORES_RBP, /* as at the end of a function */
    USES_RBP,     /* for something that is not a frame pointer */
    RETURNS,
};

static bool writes(const ZydisDecodedOperand *o, uint8_t reg)
{
    return o->type == ZYDIS_OPERAND_TYPE_REGISTER &&
           (o->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) && decode_register(o->reg.value) == reg;
}

static bool is_at_rsp(const ZydisDecodedOperand *o)
{
    return o->type == ZYDIS_OPERAND_TYPE_MEMORY && o->mem.base == ZYDIS_REGISTER_RSP &&
           o->mem.index == ZYDIS_REGISTER_NONE;
}

static enum effect effect_of(const ZydisDecoder *decoder, const struct instruction *i)
{
    const ZydisMnemonic m = i->whole.mnemonic;
    ZydisDecodedOperand o[ZYDIS_MAX_OPERAND_COUNT];
    if (m == ZYDIS_MNEMONIC_RET)
        return RETURNS;
    if (m == ZYDIS_MNEMONIC_LEAVE || m == ZYDIS_MNEMONIC_ENTER ||
        !ZYAN_SUCCESS(
            ZydisDecoderDecodeOperands(decoder, &i->context, &i->whole, o, i->whole.operand_count)))
        return SETS_RSP;
    for (unsigned k = 0; k < i->whole.operand_count_visible; k++) {
        if (writes(&o[k], X86_RSP)) {
            bool by_known = (m == ZYDIS_MNEMONIC_ADD || m == ZYDIS_MNEMONIC_SUB)
                                ? o[1].type == ZYDIS_OPERAND_TYPE_IMMEDIATE
                                : m == ZYDIS_MNEMONIC_LEA && is_at_rsp(&o[1]);
            return by_known ? NO_EFFECT : SETS_RSP;
        }
        if (writes(&o[k], X86_RBP)) {
            if (m == ZYDIS_MNEMONIC_POP || (m == ZYDIS_MNEMONIC_MOV && is_at_rsp(&o[1])))
                return RESTORES_RBP;
            bool sets_frame =
                (m == ZYDIS_MNEMONIC_LEA && is_at_rsp(&o[1])) ||
                (m == ZYDIS_MNEMONIC_MOV && o[1].type == ZYDIS_OPERAND_TYPE_REGISTER &&
                 o[1].reg.value == ZYDIS_REGISTER_RSP);
            return sets_frame ? NO_EFFECT : USES_RBP;
        }
    }
    return NO_EFFECT;
}

/* What the instructions of a function do with rsp, as far as the table is silent about it. */
struct sp_writes {
    uint64_t from; /* from here on the table says nothing; UINT64_MAX: it says all */
    bool keeps_rbp;
};

static bool next_instruction(const struct described *d, uint64_t address, uint64_t end,
                             struct instruction *i)
{
    const uint8_t *bytes =
        address < end ? elf_bytes_at(d->rows->file, address, end - address) : NULL;
    return bytes && instruction_read_any(&d->rows->decoder, bytes, (uint32_t)(end - address),
                                         (uint32_t)(address - d->rows->file->base), i);
}

/*
 * In order of addresses, which is enough: code behind the first write counts as behind it even if
 * another way leads there, and so does code before it that is jumped back to.
 */
static struct sp_writes find_sp_writes(const struct described *d, uint64_t end)
{
    struct sp_writes w = {.from = UINT64_MAX, .keeps_rbp = true};
    const uint64_t base = d->rows->file->base;
    struct instruction i;
    uint64_t at = d->function->start, lowest = UINT64_MAX;
    for (; next_instruction(d, at, end, &i); at = base + i.next) {
        enum effect effect = effect_of(&d->rows->decoder, &i);
        if (effect == SETS_RSP && w.from == UINT64_MAX)
            w.from = base + i.next;
        if (effect == USES_RBP)
            w.keeps_rbp = false;
        if (i.is_jump && w.from != UINT64_MAX && base + i.target < lowest)
            lowest = base + i.target;
    }
    if (w.from == UINT64_MAX)
        return w;
    if (at < end) /* not all instructions */
        w.keeps_rbp = false;
    if (lowest >= d->function->start && lowest < w.from)
        w.from = d->function->start; /* what jumps in between do is not looked at */
    return w;
}

/* Is rbp the frame pointer where the table falls silent? */
static bool has_frame_pointer(const struct described *d, const struct sp_writes *w)
{
    struct go_values v = go_stack_values(d->rows->go, d->function);
    while (go_next_value(&v))
        if (w->from > v.start && w->from <= v.end)
            return w->keeps_rbp && v.value > 0 && d->rbp_saved_from < w->from;
    return false;
}

/* From `w->from` on by the frame pointer, but for what is between its end and the return. */
static void put_by_frame_pointer(struct described *d, const struct sp_writes *w, uint64_t end)
{
    struct map_special by_rbp = spelt(X86_RBP, 16, true, SPECIAL_OTHER_STACK);
    struct go_values v = go_stack_values(d->rows->go, d->function);
    bool has_values = go_next_value(&v), is_at_end = false;
    struct instruction i;
    for (uint64_t at = d->function->start; next_instruction(d, at, end, &i);
         at = d->rows->file->base + i.next) {
        while (has_values && at >= v.end)
            has_values = go_next_value(&v);
        if (at >= w->from && !is_at_end)
            put(d, at, unwind_special(d->rows->table, &by_rbp));
        else if (at >= w->from)
            put(d, at, rule_of(d, at, v.value));
        enum effect effect = effect_of(&d->rows->decoder, &i);
        is_at_end = effect == RESTORES_RBP || (is_at_end && effect != RETURNS);
    }
}

static void cut_rows_from(struct described *d, uint64_t address)
{
    struct unwind_table *t = d->rows->table;
    uint32_t pc = (uint32_t)(address - d->rows->file->base);
    pc = pc > d->from ? pc : d->from;
    while (t->rows.count && t->rows.items[t->rows.count - 1].pc >= pc)
        t->rows.count = --t->saves.count;
}

static void put_sp_writes(struct described *d, enum go_kind kind, uint64_t end)
{
    struct sp_writes w = find_sp_writes(d, end);
    if (w.from == UINT64_MAX)
        return;
    cut_rows_from(d, w.from);
    if (kind == LEAVES_STACK)
        put(d, w.from, unwind_fixed(SPECIAL_END));
    else if (has_frame_pointer(d, &w))
        put_by_frame_pointer(d, &w, end);
    else
        put(d, w.from, unwind_fixed(SPECIAL_SWITCHED));
}

/* --- all ---------------------------------------------------------------------------------------
 */

struct go_rows go_rows_begin(const struct elf_file *file, const struct go_table *go,
                             struct unwind_table *table)
{
    struct go_rows rows = {.file = file, .go = go, .table = table};
    ZydisDecoderInit(&rows.decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    return rows;
}

bool go_rows_of(struct go_rows *rows, const struct go_function *f, uint32_t from, uint32_t to)
{
    struct described d = {.rows = rows, .function = f, .from = from, .to = to};
    struct go_values v = go_stack_values(rows->go, f);
    if (!go_next_value(&v))
        return false;
    enum go_kind kind = kind_of(rows, f);
    uint64_t end = go_code_end(rows->go, f);
    if (kind == OUTERMOST) {
        put(&d, f->start, unwind_fixed(SPECIAL_END));
    } else if (kind == SIGNAL_RETURN) {
        struct map_special s = {.cfa_kind = CFA_SIGNAL,
                                .reg = X86_RSP,
                                .index_reg = X86_NONE,
                                .flags = SPECIAL_EXACT_PC};
        put(&d, f->start, unwind_special(rows->table, &s));
    } else {
        d.is_exact = kind == INTERRUPTED;
        find_rbp_save(&d);
        put_heights(&d);
        if (kind != INTERRUPTED && (f->flags & (GO_WRITES_SP | GO_NO_FLAGS)))
            put_sp_writes(&d, kind, end);
    }
    uint32_t rest = (uint32_t)(end - rows->file->base);
    if (rest >= from && rest < to && decode_padding(rows->file, rest, to) != to - rest)
        put(&d, end, unwind_fixed(SPECIAL_NONE));
    return true;
}
