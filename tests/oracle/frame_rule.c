/*
 * What a map must say, worked out from readelf's words alone.
 *
 * Expressions are evaluated with symbols in place of values. All that a rule can hold has the form
 *
 *     base + index * 8 + offset        or        *(base + index * 8 + offset) + add
 *
 * and an expression that leaves this form is one that no rule can say.
 */
#include "frame_rule.h"

#include "map/map.h"
#include "readelf_run.h"

#include <stdio.h>
#include <string.h>

/* Where the kernel saves registers in the ucontext of a signal frame, from rsp. */
static const int32_t kernel_offsets[AT_COUNT] = {
    [AT_RIP] = 168, [AT_RSP] = 160, [AT_RBX] = 128, [AT_RBP] = 120,
    [AT_R12] = 72,  [AT_R13] = 80,  [AT_R14] = 88,  [AT_R15] = 96,
};

enum { BASE_CFA = X86_COUNT, MAX_DEPTH = 8 };

struct term {
    uint8_t base; /* a register, BASE_CFA or X86_NONE */
    uint8_t index;
    bool loaded; /* from memory */
    int64_t offset;
    int64_t add; /* to what was loaded */
};

struct evaluation {
    struct term stack[MAX_DEPTH];
    unsigned depth;
    bool is_usual; /* written as compilers and the assembly that we know write it */
};

static bool is_constant(const struct term *t)
{
    return t->base == X86_NONE && t->index == X86_NONE && !t->loaded;
}

static struct term constant(int64_t value)
{
    return (struct term){.base = X86_NONE, .index = X86_NONE, .offset = value};
}

static bool push(struct evaluation *e, struct term term)
{
    if (e->depth == MAX_DEPTH)
        return false;
    e->stack[e->depth++] = term;
    return true;
}

static bool add_constant(struct term *t, int64_t value)
{
    int64_t *sum = t->loaded ? &t->add : &t->offset;
    return !__builtin_add_overflow(*sum, value, sum);
}

static bool add_terms(struct evaluation *e, struct term *a, const struct term *b)
{
    if (is_constant(b) || is_constant(a)) {
        e->is_usual = false;
        int64_t value = is_constant(b) ? b->offset : a->offset;
        if (!is_constant(b))
            *a = *b;
        return add_constant(a, value);
    }
    bool fits = !a->loaded && !b->loaded && (a->base == X86_NONE || b->base == X86_NONE) &&
                (a->index == X86_NONE || b->index == X86_NONE);
    if (!fits)
        return false;
    if (a->base == X86_NONE)
        a->base = b->base;
    if (a->index == X86_NONE)
        a->index = b->index;
    return !__builtin_add_overflow(a->offset, b->offset, &a->offset);
}

/* A register times eight becomes an index. */
static bool scale(struct term *t)
{
    if (t->loaded || t->index != X86_NONE || t->base >= X86_COUNT)
        return false;
    t->index = t->base;
    t->base = X86_NONE;
    return !__builtin_mul_overflow(t->offset, 8, &t->offset);
}

static bool binary_operation(struct evaluation *e, const char *name)
{
    if (e->depth < 2)
        return false;
    struct term *a = &e->stack[e->depth - 2];
    const struct term *b = &e->stack[--e->depth];
    if (strcmp(name, "plus") == 0)
        return add_terms(e, a, b);
    if (strcmp(name, "mul") == 0)
        return is_constant(b) && b->offset == 8 && scale(a);
    e->is_usual = false;
    if (strcmp(name, "minus") == 0)
        return is_constant(b) && b->offset > INT32_MIN && add_constant(a, -b->offset);
    return is_constant(b) && b->offset == 3 && scale(a); /* shl */
}

/* "DW_OP_bregx: 6 (rbp) -16" */
static bool based_on_any_register(struct evaluation *e, const char *operands)
{
    int64_t reg, offset;
    const char *at = parse_number(operands, &reg);
    if (at[0] == ' ' && at[1] == '(')
        at += strcspn(at, ")") + 1;
    parse_number(skip_spaces(at), &offset);
    e->is_usual = false;
    return reg < X86_COUNT &&
           push(e, (struct term){.base = (uint8_t)reg, .index = X86_NONE, .offset = offset});
}

/* One operation: its name without DW_OP_, and its operands behind the colon, or "". */
static bool evaluate(struct evaluation *e, const char *name, const char *operands)
{
    int64_t number, offset;
    struct term *top = e->depth > 0 ? &e->stack[e->depth - 1] : NULL;
    parse_number(operands, &offset);
    if (strcmp(name, "bregx") == 0)
        return based_on_any_register(e, operands);
    if (strncmp(name, "breg", 4) == 0) {
        parse_number(name + 4, &number); /* breg6 (rbp) */
        return number < X86_COUNT &&
               push(e, (struct term){.base = (uint8_t)number, .index = X86_NONE, .offset = offset});
    }
    if (strncmp(name, "lit", 3) == 0) {
        parse_number(name + 3, &number);
        return push(e, constant(number));
    }
    if (strncmp(name, "const", 5) == 0)
        return push(e, constant(offset));
    if (strcmp(name, "deref") == 0) {
        if (top == NULL || top->loaded)
            return false;
        top->loaded = true;
        return true;
    }
    if (strcmp(name, "plus_uconst") == 0) {
        if (top == NULL)
            return false;
        e->is_usual &= top->loaded;
        return add_constant(top, offset);
    }
    if (strcmp(name, "plus") == 0 || strcmp(name, "mul") == 0 || strcmp(name, "minus") == 0 ||
        strcmp(name, "shl") == 0)
        return binary_operation(e, name);
    e->is_usual = false;
    return strcmp(name, "nop") == 0;
}

/* The whole text, "DW_OP_breg7 (rsp): 40; DW_OP_deref". False when no rule can say it. */
static bool evaluate_text(struct evaluation *e, const char *text)
{
    static const char start[] = "DW_OP_";
    while (*text != '\0') {
        char operation[64];
        size_t length = strcspn(text, ";");
        if (length >= sizeof operation || strncmp(text, start, sizeof start - 1) != 0)
            return false;
        memcpy(operation, text, length);
        operation[length] = '\0';
        text = skip_spaces(text + length + (text[length] == ';'));

        char *name = operation + sizeof start - 1;
        char *colon = strstr(name, ": ");
        if (colon != NULL)
            *colon = '\0';
        if (!evaluate(e, name, colon ? colon + 2 : ""))
            return false;
    }
    if (e->depth == 0)
        return false;
    const struct term *top = &e->stack[e->depth - 1];
    return top->base < X86_NONE && top->offset == (int32_t)top->offset &&
           top->add == (int32_t)top->add;
}

/* A PLT's expression: rsp + 8 + ((rip & 15) >= N) * 8. */
static bool is_plt(const char *text, int32_t *offset)
{
    static const char start[] =
        "DW_OP_breg7 (rsp): 8; DW_OP_breg16 (rip): 0; DW_OP_lit15; DW_OP_and; DW_OP_lit";
    static const char end[] = "; DW_OP_ge; DW_OP_lit3; DW_OP_shl; DW_OP_plus";
    if (strncmp(text, start, sizeof start - 1) != 0)
        return false;
    int64_t number;
    const char *rest = parse_number(text + sizeof start - 1, &number);
    *offset = (int32_t)number;
    return strcmp(rest, end) == 0;
}

static void expect_cfa_expression(struct expected_rule *expected, const char *text)
{
    struct map_special *rule = &expected->rule;
    struct evaluation e = {.is_usual = true};
    rule->cfa_kind = CFA_UNKNOWN;
    if (is_plt(text, &rule->offset)) {
        rule->cfa_kind = CFA_PLT;
        return;
    }
    if (!evaluate_text(&e, text))
        return;
    const struct term *t = &e.stack[e.depth - 1];
    if (!t->loaded && t->index != X86_NONE)
        return;
    rule->cfa_kind = t->loaded ? CFA_DEREF : CFA_REG;
    rule->reg = t->base;
    rule->index_reg = t->index;
    rule->offset = (int32_t)t->offset;
    rule->add = (int32_t)t->add;
    expected->cfa_may_be_unknown = !e.is_usual || !t->loaded;
}

/* The register is saved at the value of the expression, or (`is_value`) has that value. */
static struct map_place place_of_expression(const char *text, bool is_value, bool *may_be_lost)
{
    static const struct map_place lost = {.kind = PLACE_LOST};
    struct evaluation e = {.is_usual = true};
    push(&e, (struct term){.base = BASE_CFA, .index = X86_NONE}); /* DWARF puts it there */
    if (!evaluate_text(&e, text))
        return lost;
    const struct term *t = &e.stack[e.depth - 1];
    *may_be_lost = !e.is_usual || is_value || t->base == BASE_CFA;
    if (t->index != X86_NONE || t->add != 0)
        return lost;
    int32_t offset = (int32_t)t->offset;
    if (t->loaded != is_value) { /* a value that is no address of anything */
        if (t->loaded || t->base == BASE_CFA || offset != 0)
            return lost;
        return (struct map_place){.kind = PLACE_REG, .reg = t->base};
    }
    if (t->base == BASE_CFA)
        return (struct map_place){.kind = PLACE_CFA, .offset = offset};
    return (struct map_place){.kind = PLACE_MEMORY, .reg = t->base, .offset = offset};
}

static void expect_place(struct expected_rule *expected, const struct frames *frames,
                         const struct frame_row *row, const struct frame_detail *detail,
                         unsigned at)
{
    struct map_place *place = &expected->rule.place[at];
    if (detail != NULL && detail->dropped[at])
        return;
    switch ((enum said)row->said[at]) {
    case SAID_NOTHING:
    case SAID_UNSET:
        /* Undefined is what unwinders leave alone, too; a map may also say that it is lost. */
        place->kind = PLACE_SAME;
        expected->may_be_lost[at] = detail != NULL && detail->undefined[at];
        break;
    case SAID_SAME:
        place->kind = PLACE_SAME;
        break;
    case SAID_CFA:
        place->kind = PLACE_CFA;
        place->offset = row->number[at];
        break;
    case SAID_VALUE:
        place->kind = PLACE_LOST;
        break;
    case SAID_REG:
        place->kind = row->number[at] < X86_COUNT ? PLACE_REG : PLACE_LOST;
        place->reg = (uint8_t)row->number[at];
        break;
    case SAID_EXP:
    case SAID_VEXP:
        if (detail == NULL)
            expected->is_open = true;
        else
            *place = place_of_expression(strings_get(&frames->texts, detail->text[at]),
                                         row->said[at] == SAID_VEXP, &expected->may_be_lost[at]);
        break;
    }
}

/*
 * The caller's rsp can be given apart from the CFA, which is then no more than a base. When it is
 * the CFA plus a constant, a map can only count everything from the caller's rsp (or call it
 * unknown).
 */
static void count_from_rsp(struct expected_rule *expected, const struct frames *frames,
                           const struct frame_row *row, const struct frame_detail *detail)
{
    struct map_special *rule = &expected->rule;
    int64_t distance = row->number[AT_RSP];
    if (rule->cfa_kind != CFA_REG)
        return;
    if (row->said[AT_RSP] == SAID_VEXP) {
        struct evaluation e = {.is_usual = true};
        push(&e, (struct term){.base = BASE_CFA, .index = X86_NONE});
        if (detail == NULL || !evaluate_text(&e, strings_get(&frames->texts, detail->text[AT_RSP])))
            return;
        const struct term *t = &e.stack[e.depth - 1];
        if (t->loaded || t->index != X86_NONE || (t->base != BASE_CFA && t->base != rule->reg))
            return;
        distance = t->base == BASE_CFA ? t->offset : t->offset - rule->offset;
    }
    if (distance > INT32_MAX / 2 || distance < INT32_MIN / 2 || rule->offset > INT32_MAX / 2)
        return;
    rule->offset += (int32_t)distance;
    for (unsigned at = 0; at < AT_COUNT; at++)
        if (rule->place[at].kind == PLACE_CFA)
            rule->place[at].offset -= (int32_t)distance;
    rule->place[AT_RSP].kind = PLACE_SAME;
    expected->may_be_lost[AT_RSP] = true;
}

/* A signal frame of the kernel: everything is in its ucontext. */
static bool is_kernel_frame(const struct map_special *rule)
{
    if (rule->cfa_kind != CFA_DEREF || rule->reg != X86_RSP || rule->index_reg != X86_NONE ||
        rule->offset != kernel_offsets[AT_RSP] || rule->add != 0)
        return false;
    for (unsigned at = 0; at < AT_COUNT; at++) {
        const struct map_place *place = &rule->place[at];
        if (place->kind != PLACE_MEMORY || place->reg != X86_RSP ||
            place->offset != kernel_offsets[at])
            return false;
    }
    return true;
}

struct expected_rule rule_expected(const struct frames *frames, const struct frame_fde *fde,
                                   const struct frame_row *row, const struct frame_detail *detail)
{
    const struct frame_cie *cie = &frames->cies.items[fde->cie];
    struct expected_rule expected = {
        .rule = {.index_reg = X86_NONE, .flags = cie->signal ? SPECIAL_EXACT_PC : 0}};
    struct map_special *rule = &expected.rule;
    for (unsigned at = 0; at < AT_COUNT; at++)
        expect_place(&expected, frames, row, detail, at);

    if (row->cfa_is_expression) {
        if (detail == NULL)
            expected.is_open = true;
        else
            expect_cfa_expression(&expected, strings_get(&frames->texts, detail->cfa_text));
        if (cie->signal && is_kernel_frame(rule))
            rule->cfa_kind = CFA_SIGNAL;
    } else if (row->cfa_reg == X86_NONE || (detail != NULL && !detail->cfa_is_set)) {
        rule->cfa_kind = CFA_UNKNOWN;
    } else {
        rule->cfa_kind = CFA_REG;
        rule->reg = row->cfa_reg;
        rule->offset = row->cfa_offset;
    }

    if (row->said[AT_RSP] == SAID_VALUE || row->said[AT_RSP] == SAID_VEXP)
        count_from_rsp(&expected, frames, row, detail);
    if (row->said[AT_RIP] == SAID_NOTHING || row->said[AT_RIP] == SAID_UNSET) {
        /* `u` in the table is also said where there is no rule, which is no way to go on either. */
        bool has_no_rule =
            row->said[AT_RIP] == SAID_NOTHING || (detail != NULL && !detail->undefined[AT_RIP]);
        rule->cfa_kind = CFA_END;
        expected.cfa_may_be_unknown = has_no_rule;
    }
    if (cie->ra != X86_RIP)
        rule->cfa_kind = CFA_UNKNOWN;
    if (rule->cfa_kind == CFA_END)
        return expected;
    /* No walk can go on without a return address and a stack pointer. */
    for (unsigned at = AT_RIP; at <= AT_RSP; at++)
        if (rule->place[at].kind == PLACE_LOST || expected.may_be_lost[at])
            expected.cfa_may_be_unknown = true;
    return expected;
}

static bool same_cfa(const struct map_special *a, const struct map_special *b)
{
    if (a->cfa_kind != b->cfa_kind)
        return false;
    switch (a->cfa_kind) {
    case CFA_REG:
        return a->reg == b->reg && a->offset == b->offset;
    case CFA_DEREF:
        return a->reg == b->reg && a->index_reg == b->index_reg && a->offset == b->offset &&
               a->add == b->add;
    case CFA_PLT:
        return a->offset == b->offset;
    default:
        return true;
    }
}

static bool same_place(const struct map_place *a, const struct map_place *b)
{
    if (a->kind != b->kind)
        return false;
    switch (a->kind) {
    case PLACE_CFA:
        return a->offset == b->offset;
    case PLACE_MEMORY:
        return a->reg == b->reg && a->offset == b->offset;
    case PLACE_REG:
        return a->reg == b->reg;
    default:
        return true;
    }
}

enum verdict rule_compare(const struct expected_rule *expected, const struct map_tables *tables,
                          uint32_t row, unsigned *where)
{
    const struct map_special *want = &expected->rule;
    struct map_special found = map_spell_rule(tables, row);
    *where = DIFFERS_CFA;
    if (found.cfa_kind == CFA_UNKNOWN &&
        (want->cfa_kind == CFA_UNKNOWN || expected->cfa_may_be_unknown))
        return RULE_AGREES_UNKNOWN;
    if (!same_cfa(want, &found))
        return RULE_DIFFERS;
    if (want->cfa_kind == CFA_END)
        return RULE_AGREES;
    *where = DIFFERS_FLAGS;
    if (want->flags != found.flags)
        return RULE_DIFFERS;
    if (want->cfa_kind == CFA_SIGNAL)
        return RULE_AGREES;

    for (unsigned at = 0; at < AT_COUNT; at++) {
        const struct map_place *place = &found.place[at];
        *where = at;
        if (!same_place(&want->place[at], place) &&
            !(place->kind == PLACE_LOST && expected->may_be_lost[at]))
            return RULE_DIFFERS;
    }
    return RULE_AGREES;
}

const char *where_name(unsigned where)
{
    static const char *const names[] = {
        [AT_RIP] = "ra",       [AT_RSP] = "rsp",          [AT_RBX] = "rbx", [AT_RBP] = "rbp",
        [AT_R12] = "r12",      [AT_R13] = "r13",          [AT_R14] = "r14", [AT_R15] = "r15",
        [DIFFERS_CFA] = "CFA", [DIFFERS_FLAGS] = "flags",
    };
    return names[where];
}

static const char *name_of(uint8_t reg)
{
    return reg < X86_COUNT ? register_names[reg] : "?";
}

static void print_cfa(const struct map_special *rule, char *buffer, size_t size)
{
    static const char *const kinds[] = {
        [CFA_UNKNOWN] = "unknown", [CFA_NONE] = "none", [CFA_END] = "end",       [CFA_REG] = "",
        [CFA_DEREF] = "",          [CFA_PLT] = "plt",   [CFA_SIGNAL] = "signal",
    };
    if (rule->cfa_kind == CFA_REG)
        snprintf(buffer, size, "%s%+d", name_of(rule->reg), rule->offset);
    else if (rule->cfa_kind == CFA_DEREF && rule->index_reg == X86_NONE)
        snprintf(buffer, size, "*(%s%+d)%+d", name_of(rule->reg), rule->offset, rule->add);
    else if (rule->cfa_kind == CFA_DEREF)
        snprintf(buffer, size, "*(%s+%s*8%+d)%+d", name_of(rule->reg), name_of(rule->index_reg),
                 rule->offset, rule->add);
    else if (rule->cfa_kind == CFA_PLT)
        snprintf(buffer, size, "plt from byte %d", rule->offset);
    else
        snprintf(buffer, size, "%s", rule->cfa_kind <= CFA_SIGNAL ? kinds[rule->cfa_kind] : "?");
}

void rule_print(const struct map_special *rule, unsigned where, char *buffer, size_t size)
{
    if (where == DIFFERS_FLAGS) {
        snprintf(buffer, size, "%s%s%s", rule->flags & SPECIAL_EXACT_PC ? "exact pc " : "",
                 rule->flags & SPECIAL_GUESSED ? "guessed " : "", rule->flags ? "" : "none");
        return;
    }
    if (where == DIFFERS_CFA) {
        print_cfa(rule, buffer, size);
        return;
    }
    const struct map_place *place = &rule->place[where];
    switch (place->kind) {
    case PLACE_SAME:
        snprintf(buffer, size, "same");
        break;
    case PLACE_CFA:
        snprintf(buffer, size, "c%+d", place->offset);
        break;
    case PLACE_MEMORY:
        snprintf(buffer, size, "*(%s%+d)", name_of(place->reg), place->offset);
        break;
    case PLACE_REG:
        snprintf(buffer, size, "%s", name_of(place->reg));
        break;
    default:
        snprintf(buffer, size, place->kind == PLACE_LOST ? "lost" : "?");
    }
}
