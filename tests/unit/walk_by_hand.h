/*
 * Stacks and tables made by hand, for tests of the walker. One module of 4 KB at 0x10000; the stack
 * is an array whose word i has the address STACK + 8 * i.
 */
#ifndef WALK_BY_HAND_H
#define WALK_BY_HAND_H

#include "runtime/walk.h"

#include <string.h>

enum { MODULE = 0x10000, STACK = 0x7f0000, WORDS = 512, MOST_ROWS = 16, BUCKETS = 64 };

static uint64_t stack[WORDS];
static struct map_row rows[MOST_ROWS];
static uint16_t saves[MOST_ROWS];
static struct map_special specials[MOST_ROWS];
static uint32_t bucket_index[BUCKETS + 1];
static struct map_tables tables;
static struct walk_module module;
static struct walk_modules modules;
static struct walk_registers registers;

#define AT(word)     (STACK + 8 * (uint64_t)(word))
#define CODE(offset) (MODULE + (uint64_t)(offset))

static void add_row(uint32_t pc, uint32_t rule, uint16_t saved)
{
    rows[tables.row_count] = (struct map_row){.pc = pc, .rule = rule};
    saves[tables.row_count++] = saved;
    for (uint32_t b = 0; b <= BUCKETS; b++) {
        uint32_t first = 0;
        while (first < tables.row_count && rows[first].pc < b << MAP_BUCKET_SHIFT)
            first++;
        bucket_index[b] = first;
    }
}

static uint32_t direct(unsigned kind, uint32_t cfa_bytes, uint32_t rbp_slot, uint32_t rbx_slot)
{
    return kind | rbp_slot << 2 | rbx_slot << 7 | cfa_bytes / 8 << 12;
}

static void add_special(uint32_t pc, struct map_special s)
{
    specials[tables.special_count] = s;
    add_row(pc, tables.special_count++ << 2 | RULE_SPECIAL, 0);
}

static struct map_special special(uint8_t kind, uint8_t reg, int32_t offset)
{
    struct map_special s = {.cfa_kind = kind, .reg = reg, .index_reg = X86_NONE, .offset = offset};
    s.place[AT_RIP] = (struct map_place){.kind = PLACE_CFA, .offset = -8};
    return s;
}

static int setup(void **state)
{
    (void)state;
    memset(stack, 0, sizeof stack);
    memset(&registers, 0, sizeof registers);
    memset(specials, 0, sizeof specials);
    tables = (struct map_tables){.index = bucket_index,
                                 .rows = rows,
                                 .saves = saves,
                                 .specials = specials,
                                 .bucket_count = BUCKETS};
    module = (struct walk_module){MODULE, MODULE + 4096, MODULE, &tables};
    modules.count = 1;
    modules.items = &module;
    modules.generation++; /* other rules at the same addresses */
    /* Every test's outermost function is at 0xf00. */
    registers.value[X86_RSP] = AT(0);
    return 0;
}

static void add_outermost(void)
{
    add_special(0xf00, (struct map_special){.cfa_kind = CFA_END, .reg = X86_NONE});
}

static struct walk_memory stack_memory(void)
{
    return (struct walk_memory){
        .start = AT(0), .end = AT(WORDS), .bias = (uint64_t)(uintptr_t)stack - STACK};
}

#endif
