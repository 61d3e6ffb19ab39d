#include "map/unwind.h"

#include "base/reader.h"
#include "base/strings.h"

#include <dwarf.h>
#include <string.h>

void unwind_init(struct unwind_table *table)
{
    *table = (struct unwind_table){.special_slot_count = 256};
    table->special_slots = must_calloc(table->special_slot_count, sizeof *table->special_slots);
    static const uint8_t fixed[SPECIAL_FIRST_OWN] = {[SPECIAL_NONE] = CFA_NONE,
                                                     [SPECIAL_END] = CFA_END,
                                                     [SPECIAL_UNKNOWN] = CFA_UNKNOWN,
                                                     [SPECIAL_SWITCHED] = CFA_SWITCHED};
    for (unsigned i = 0; i < SPECIAL_FIRST_OWN; i++)
        vec_push(
            &table->specials,
            (struct map_special){.cfa_kind = fixed[i], .reg = X86_NONE, .index_reg = X86_NONE});
}

void unwind_free(struct unwind_table *table)
{
    vec_free(&table->rows);
    vec_free(&table->saves);
    vec_free(&table->specials);
    free(table->special_slots);
}

void unwind_append(struct unwind_table *t, uint32_t pc, struct unwind_rule rule)
{
    size_t n = t->rows.count;
    if (n && t->rows.items[n - 1].pc == pc) /* the earlier row turned out to be empty */
        t->rows.count = t->saves.count = --n;
    if (n && t->rows.items[n - 1].rule == rule.rule && t->saves.items[n - 1] == rule.saves)
        return;
    vec_push(&t->rows, (struct map_row){.pc = pc, .rule = rule.rule});
    vec_push(&t->saves, rule.saves);
}

struct unwind_rule unwind_fixed(uint32_t special)
{
    return (struct unwind_rule){.rule = special << 2 | RULE_SPECIAL};
}

static size_t special_slot(const struct unwind_table *t, const struct map_special *special)
{
    size_t mask = t->special_slot_count - 1;
    size_t i = (size_t)(hash_bytes(special, sizeof *special) >> 16) & mask;
    while (t->special_slots[i] &&
           memcmp(&t->specials.items[t->special_slots[i]], special, sizeof *special) != 0)
        i = (i + 1) & mask;
    return i;
}

struct unwind_rule unwind_special(struct unwind_table *t, const struct map_special *special)
{
    size_t slot = special_slot(t, special);
    if (t->special_slots[slot])
        return unwind_fixed(t->special_slots[slot]);
    uint32_t index = (uint32_t)t->specials.count;
    vec_push(&t->specials, *special);
    t->special_slots[slot] = index;
    if (t->specials.count * 2 > t->special_slot_count) {
        t->special_slot_count *= 2;
        free(t->special_slots);
        t->special_slots = must_calloc(t->special_slot_count, sizeof *t->special_slots);
        for (uint32_t i = SPECIAL_FIRST_OWN; i <= index; i++)
            t->special_slots[special_slot(t, &t->specials.items[i])] = i;
    }
    return unwind_fixed(index);
}

/* An expression taken apart: an operation and its operand each. */
struct operation {
    uint8_t op;
    uint8_t reg;
    int64_t operand;
};

enum { MOST_OPERATIONS = 12 };

static unsigned take_apart(const uint8_t *bytes, uint32_t size, struct operation *ops)
{
    struct reader r = reader_over(bytes, size);
    unsigned n = 0;
    while (reader_left(&r)) {
        if (n == MOST_OPERATIONS)
            return 0;
        struct operation *o = &ops[n++];
        *o = (struct operation){.op = read_u8(&r), .reg = X86_NONE};
        if (o->op >= DW_OP_breg0 && o->op <= DW_OP_breg16) {
            o->reg = o->op - DW_OP_breg0;
            o->op = DW_OP_breg0;
            o->operand = read_sleb(&r);
        } else if (o->op >= DW_OP_lit0 && o->op <= DW_OP_lit31) {
            o->operand = o->op - DW_OP_lit0;
            o->op = DW_OP_lit0;
        } else if (o->op == DW_OP_plus_uconst) {
            o->operand = (int64_t)read_uleb(&r);
        } else if (o->op != DW_OP_deref && o->op != DW_OP_plus && o->op != DW_OP_and &&
                   o->op != DW_OP_ge && o->op != DW_OP_shl && o->op != DW_OP_mul) {
            return 0;
        }
    }
    return r.failed ? 0 : n;
}

static bool fits32(int64_t value)
{
    return value == (int32_t)value;
}

static bool is_literal(const struct operation *o, int64_t value)
{
    return o->op == DW_OP_lit0 && o->operand == value;
}

/* rsp + 8 + ((rip & 15) >= N) * 8: what ld emits for a PLT. */
static bool match_plt(const struct operation *o, unsigned n, struct map_special *s)
{
    if (n != 9 || o[0].op != DW_OP_breg0 || o[0].reg != X86_RSP || o[0].operand != 8 ||
        o[1].op != DW_OP_breg0 || o[1].reg != X86_RIP || o[1].operand != 0 ||
        !is_literal(&o[2], 15) || o[3].op != DW_OP_and || o[4].op != DW_OP_lit0 ||
        o[5].op != DW_OP_ge || !is_literal(&o[6], 3) || o[7].op != DW_OP_shl ||
        o[8].op != DW_OP_plus)
        return false;
    s->cfa_kind = CFA_PLT;
    s->offset = (int32_t)o[4].operand;
    return true;
}

/* *(reg + offset) + add, and *(reg + offset + index * 8) + add. */
static bool match_deref(const struct operation *o, unsigned n, struct map_special *s)
{
    if (n < 2 || o[0].op != DW_OP_breg0 || !fits32(o[0].operand))
        return false;
    s->cfa_kind = CFA_DEREF;
    s->reg = o[0].reg;
    s->offset = (int32_t)o[0].operand;
    unsigned at = 1;
    if (n >= 6 && o[1].op == DW_OP_breg0 && o[1].operand == 0 && is_literal(&o[2], 8) &&
        o[3].op == DW_OP_mul && o[4].op == DW_OP_plus) {
        s->index_reg = o[1].reg;
        at = 5;
    }
    if (o[at++].op != DW_OP_deref)
        return false;
    if (at < n && o[at].op == DW_OP_plus_uconst && fits32(o[at].operand))
        s->add = (int32_t)o[at++].operand;
    return at == n && s->reg != X86_RIP && s->index_reg != X86_RIP;
}

static bool cfa_of(const struct cfi_row *row, struct map_special *s)
{
    if (!row->cfa_is_expression) {
        if (row->cfa_reg >= X86_RIP || !fits32(row->cfa_offset))
            return false;
        s->cfa_kind = CFA_REG;
        s->reg = row->cfa_reg;
        s->offset = (int32_t)row->cfa_offset;
        return true;
    }
    struct operation ops[MOST_OPERATIONS];
    unsigned n = take_apart(row->cfa_expression, row->cfa_size, ops);
    return match_plt(ops, n, s) || match_deref(ops, n, s);
}

static struct map_place place_of(const struct cfi_rule *rule)
{
    struct operation ops[MOST_OPERATIONS];
    struct map_place lost = {.kind = PLACE_LOST, .reg = X86_NONE};
    switch (rule->kind) {
    case R_UNSET:
    case R_SAME:
    case R_UNDEFINED: /* it is not needed: the value that we have is as good as any */
        return (struct map_place){.kind = PLACE_SAME, .reg = X86_NONE};
    case R_OFFSET:
        return fits32(rule->offset) ? (struct map_place){.kind = PLACE_CFA,
                                                         .reg = X86_NONE,
                                                         .offset = (int32_t)rule->offset}
                                    : lost;
    case R_REGISTER:
        return rule->reg < X86_RIP ? (struct map_place){.kind = PLACE_REG, .reg = rule->reg} : lost;
    case R_EXPRESSION:
        if (take_apart(rule->expression, rule->size, ops) == 1 && ops[0].op == DW_OP_breg0 &&
            ops[0].reg < X86_RIP && fits32(ops[0].operand))
            return (struct map_place){
                .kind = PLACE_MEMORY, .reg = ops[0].reg, .offset = (int32_t)ops[0].operand};
        return lost;
    default:
        return lost;
    }
}

static const uint8_t at_reg[AT_COUNT] = {X86_RIP, X86_RSP, X86_RBX, X86_RBP,
                                         X86_R12, X86_R13, X86_R14, X86_R15};

/* The slot of a register saved at CFA - 8 * slot; 0 when it is unchanged, -1 when it is elsewhere.
 */
static int slot_of(const struct map_place *place, int most)
{
    if (place->kind == PLACE_SAME)
        return 0;
    if (place->kind != PLACE_CFA || place->offset >= 0 || place->offset % 8 != 0 ||
        place->offset < -8 * most)
        return -1;
    return -place->offset / 8;
}

static bool make_direct(const struct map_special *s, struct unwind_rule *out)
{
    if (s->cfa_kind != CFA_REG || s->flags || (s->reg != X86_RSP && s->reg != X86_RBP) ||
        s->offset < 0 || s->offset % 8 != 0 || s->offset / 8 > RULE_MAX_CFA_WORDS ||
        s->place[AT_RIP].kind != PLACE_CFA || s->place[AT_RIP].offset != -8 ||
        s->place[AT_RSP].kind != PLACE_SAME)
        return false;
    int rbp = slot_of(&s->place[AT_RBP], RULE_MAX_SLOT);
    int rbx = slot_of(&s->place[AT_RBX], RULE_MAX_SLOT);
    if (rbp < 0 || rbx < 0)
        return false;
    unsigned saves = 0;
    for (unsigned i = 0; i < 4; i++) {
        int slot = slot_of(&s->place[AT_R12 + i], SAVES_MAX_SLOT);
        if (slot < 0)
            return false;
        saves |= (unsigned)slot << (4 * i);
    }
    out->rule = (s->reg == X86_RSP ? RULE_RSP : RULE_RBP) | (uint32_t)rbp << 2 |
                (uint32_t)rbx << 7 | (uint32_t)(s->offset / 8) << 12;
    out->saves = (uint16_t)saves;
    return true;
}

/* Is this the kernel's signal frame, as glibc describes it: a ucontext at rsp? */
static bool is_kernel_frame(const struct map_special *s)
{
    static const uint8_t in_ucontext[AT_COUNT] = {
        [AT_RIP] = 168, [AT_RSP] = 160, [AT_RBX] = 128, [AT_RBP] = 120,
        [AT_R12] = 72,  [AT_R13] = 80,  [AT_R14] = 88,  [AT_R15] = 96};
    for (unsigned i = 0; i < AT_COUNT; i++)
        if (s->place[i].kind != PLACE_MEMORY || s->place[i].reg != X86_RSP ||
            s->place[i].offset != in_ucontext[i])
            return false;
    return s->cfa_kind == CFA_DEREF && s->reg == X86_RSP && s->index_reg == X86_NONE &&
           s->offset == in_ucontext[AT_RSP] && s->add == 0;
}

/*
 * Haskell's StgRun leaves the CFA at rsp and says that the caller's rsp is so many bytes above it.
 * Counting everything from there instead gives an ordinary rule.
 */
static void count_from_callers_rsp(const struct cfi_row *row, struct map_special *s)
{
    const struct cfi_rule *rsp = &row->reg[X86_RSP];
    struct operation op[MOST_OPERATIONS];
    if (rsp->kind != R_VAL_EXPRESSION || s->cfa_kind != CFA_REG || s->reg != X86_RSP ||
        take_apart(rsp->expression, rsp->size, op) != 1 || op[0].op != DW_OP_breg0 ||
        op[0].reg != X86_RSP || op[0].operand < 0 || op[0].operand > INT32_MAX / 2 ||
        s->offset < 0 || s->offset > INT32_MAX / 2)
        return;
    int32_t up = (int32_t)op[0].operand - s->offset;
    for (unsigned i = 0; i < AT_COUNT; i++)
        if (s->place[i].kind == PLACE_CFA && s->place[i].offset < INT32_MIN / 2)
            return;
    for (unsigned i = 0; i < AT_COUNT; i++)
        if (s->place[i].kind == PLACE_CFA)
            s->place[i].offset -= up;
    s->offset += up;
    s->place[AT_RSP] = (struct map_place){.kind = PLACE_SAME, .reg = X86_NONE};
}

struct unwind_rule unwind_from_cfi(struct unwind_table *t, const struct cfi_row *row,
                                   bool signal_frame)
{
    struct map_special s = {.reg = X86_NONE, .index_reg = X86_NONE};
    const struct cfi_rule *ra = &row->reg[X86_RIP];
    if (ra->kind == R_UNDEFINED)
        return unwind_fixed(SPECIAL_END);
    for (unsigned i = 0; i < AT_COUNT; i++)
        s.place[i] = place_of(&row->reg[at_reg[i]]);
    if (!cfa_of(row, &s)) {
        t->rows_unknown++;
        return unwind_fixed(SPECIAL_UNKNOWN);
    }
    if (signal_frame) {
        s.flags |= SPECIAL_EXACT_PC;
        if (is_kernel_frame(&s))
            s = (struct map_special){
                .cfa_kind = CFA_SIGNAL, .reg = X86_RSP, .index_reg = X86_NONE, .flags = s.flags};
        return unwind_special(t, &s);
    }
    count_from_callers_rsp(row, &s);
    struct unwind_rule direct;
    if (make_direct(&s, &direct))
        return direct;
    if (s.place[AT_RIP].kind == PLACE_LOST || s.place[AT_RIP].kind == PLACE_SAME ||
        s.place[AT_RSP].kind == PLACE_LOST) {
        t->rows_unknown++;
        return unwind_fixed(SPECIAL_UNKNOWN);
    }
    return unwind_special(t, &s);
}
