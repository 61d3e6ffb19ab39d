/*
 * Stubs against what their machine code does. For every site of some real modules the stub is
 * written, as in a program, and then followed, instruction by instruction, as Zydis decodes it, on
 * all ways through it: what is on the stack, and where the caller's rax, rcx and rdx are. At every
 * instruction the stub's rows must say the same; and where the stub is left, all must be as the
 * callee, or the program's own code, expects it.
 */
#include "runtime/encode/encode.h"
#include "runtime/exact/exact.h"

#include "edit/plan.h"
#include "elf/elf_file.h"
#include "runtime/edit/stubs.h"
#include "runtime/exact/counting.h"
#include "runtime/exact/timing_stubs.h"
#include "runtime/guest.h"

#include <Zydis/Zydis.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

/* --- what the writers of stubs need of the runtime -------------------------------------------
 */

static struct guest only_guest;
struct guest *guest = &only_guest;
__thread struct exact_state exact_state;

void exact_slow_entry(void);
void exact_slow_entry(void)
{
}

__thread struct encode_state encode_state;

void encode_slow_entry(void);
void encode_slow_entry(void)
{
}

/* --- following a stub --------------------------------------------------------------------------
 */

enum { RAX, RCX, RDX, SAVED_REGISTERS };

/* In a stub that calls come back to, from where the slow path comes back: as in exact_inside.h. */
enum { STUB_AGAIN = 15, STUB_GO = 20, STUB_BACK = 24 };

enum { MOST_WORDS = 64, MOST_STUB = 1024, MOST_WAYS = 64 };

/* What a word holds: one of the caller's registers, or something else. */
enum word { OF_RAX, OF_RCX, OF_RDX, ELSE };

struct state {
    bool is_back; /* what was called has come back */
    int words;
    enum word stack[MOST_WORDS];
    enum word registers[SAVED_REGISTERS];
};

struct follower {
    const struct edited_module *module;
    const struct plan_site *site;
    const struct stub_layout *layout;
    const uint8_t *stub;
    bool seen[MOST_STUB];
    struct {
        uint32_t at;
        struct state state;
    } ways[MOST_WAYS];
    unsigned way_count;
    unsigned ends; /* ways out of the stub */
};

static ZydisDecoder decoder;
static uint64_t instructions_checked, stubs_checked;

#define FAIL_AT(f, at, ...)                                                                        \
    do {                                                                                           \
        print_error("site %#x kind %u tier %u flags %u, stub + %u: ", (f)->site->offset,           \
                    (f)->site->kind, (f)->site->tier, (f)->site->flags, (at));                     \
        print_error(__VA_ARGS__);                                                                  \
        print_error("\n");                                                                         \
        fail();                                                                                    \
    } while (0)

static const struct stub_row *row_at(const struct follower *f, uint32_t at)
{
    const struct stub_row *row = &rows_all[rows_shapes[f->layout->shape].first_row];
    assert_int_equal(row->at, 0);
    while (row[1].at != ROW_LAST && row[1].at <= at)
        row++;
    return row;
}

static void check_row(const struct follower *f, uint32_t at, const struct state *s)
{
    const struct stub_row *row = row_at(f, at);
    const uint8_t places[SAVED_REGISTERS] = {row->rax, row->rcx, row->rdx};
    if (row->words != s->words)
        FAIL_AT(f, at, "%d words on the stack, the row says %u", s->words, row->words);
    for (unsigned r = 0; r < SAVED_REGISTERS; r++) {
        enum word found = places[r] ? s->stack[places[r] - 1] : s->registers[r];
        if (places[r] > s->words || found != (enum word)r)
            FAIL_AT(f, at, "register %u is not where the row says, %u", r, places[r]);
    }
    const bool returns = row->flags == ROW_RETURNS;
    if (s->is_back ? row->pc != f->site->length - returns || row->flags & ~ROW_RETURNS
                   : row->pc != 0 || row->flags)
        FAIL_AT(f, at, "the row is of another place: %d, flags %u", row->pc, row->flags);
    instructions_checked++;
}

static void add_way(struct follower *f, uint64_t target, const struct state *s)
{
    uint64_t at = target - (uint64_t)f->stub;
    if (at < f->layout->bytes) {
        assert_true(f->way_count < MOST_WAYS);
        f->ways[f->way_count].at = (uint32_t)at;
        f->ways[f->way_count++].state = *s;
        return;
    }
    /* Out of it: to the callee, with its return address on the stack, or back into the function. */
    uint64_t offset = target - f->module->base;
    bool is_back = offset == f->site->offset + (uint64_t)f->site->length;
    bool is_call = f->site->kind <= SITE_CALL_INDIRECT;
    if (s->words != (is_call && !is_back))
        FAIL_AT(f, (uint32_t)at, "left with %d words on the stack", s->words);
    for (unsigned r = 0; r < SAVED_REGISTERS; r++)
        if (s->registers[r] != (enum word)r)
            FAIL_AT(f, (uint32_t)at, "left with another register %u", r);
    f->ends++;
}

static int saved_register(ZydisRegister reg)
{
    switch (ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, reg)) {
    case ZYDIS_REGISTER_RAX:
        return RAX;
    case ZYDIS_REGISTER_RCX:
        return RCX;
    case ZYDIS_REGISTER_RDX:
        return RDX;
    default:
        return -1;
    }
}

static void push(struct follower *f, uint32_t at, struct state *s, enum word word)
{
    if (s->words >= MOST_WORDS)
        FAIL_AT(f, at, "too much on the stack");
    s->stack[s->words++] = word;
}

static enum word pop(struct follower *f, uint32_t at, struct state *s)
{
    if (s->words <= 0)
        FAIL_AT(f, at, "takes from the caller's stack");
    return s->stack[--s->words];
}

/* lea rsp, [rsp + n] */
static void move_stack(struct follower *f, uint32_t at, struct state *s, int64_t bytes)
{
    for (; bytes < 0; bytes += 8)
        push(f, at, s, ELSE);
    for (; bytes > 0; bytes -= 8)
        pop(f, at, s);
    assert_int_equal(bytes, 0);
}

static uint64_t target_of(const ZydisDecodedInstruction *i, const ZydisDecodedOperand *o,
                          const uint8_t *pc)
{
    ZyanU64 target = 0;
    assert_true(ZYAN_SUCCESS(ZydisCalcAbsoluteAddress(i, o, (ZyanU64)(uintptr_t)pc, &target)));
    return target;
}

static void pop_to(struct follower *f, uint32_t at, struct state *s, const ZydisDecodedOperand *o)
{
    enum word word = pop(f, at, s);
    if (o->type == ZYDIS_OPERAND_TYPE_REGISTER) {
        int r = saved_register(o->reg.value);
        if (r < 0)
            FAIL_AT(f, at, "pops a register that it does not own");
        s->registers[r] = word;
        return;
    }
    /* pop [rsp + n], after which rsp is 8 more: a word that is on the stack already */
    assert_int_equal(o->mem.base, ZYDIS_REGISTER_RSP);
    int64_t index = s->words - 1 - o->mem.disp.value / 8;
    if (index < 0 || index >= s->words)
        FAIL_AT(f, at, "writes to the caller's stack");
    s->stack[index] = word;
}

/* All else: registers that it writes hold something else then; others must not be written. */
static void note_writes(struct follower *f, uint32_t at, struct state *s,
                        const ZydisDecodedInstruction *i, const ZydisDecodedOperand *o)
{
    for (unsigned k = 0; k < i->operand_count; k++) {
        if (o[k].type != ZYDIS_OPERAND_TYPE_REGISTER ||
            !(o[k].actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) ||
            o[k].reg.value == ZYDIS_REGISTER_RFLAGS || o[k].reg.value == ZYDIS_REGISTER_RIP)
            continue;
        int r = saved_register(o[k].reg.value);
        if (r < 0)
            FAIL_AT(f, at, "writes %s", ZydisRegisterGetString(o[k].reg.value));
        s->registers[r] = ELSE;
    }
}

static const struct stub_writer *writer; /* whose stubs are looked at */

static bool comes_back(const struct follower *f)
{
    return writer->comes_back && f->site->kind <= SITE_CALL_INDIRECT;
}

/*
 * The slow path of a stub to which calls come back may go on at one of two jumps in front of the
 * call that leads there, and finds there how far away calls come back.
 */
static void add_slow_ways(struct follower *f, uint32_t behind, const struct state *s)
{
    if (writer != &timing_stubs || s->is_back)
        return;
    for (int i = 0; i < 2; i++) {
        const uint32_t at = behind - (i ? STUB_GO : STUB_AGAIN);
        assert_int_equal(f->stub[at], 0xe9);
        add_way(f, (uint64_t)(f->stub + at), s);
    }
    int32_t away;
    memcpy(&away, f->stub + behind - STUB_BACK, sizeof away);
    uint32_t back = comes_back(f) ? behind + (uint32_t)away : 0;
    if (back != rows_return(f->layout->shape) || (!comes_back(f) && away))
        FAIL_AT(f, behind, "calls come back to %u, not to %u", rows_return(f->layout->shape), back);
}

/* The site's own call: from here as from its place, and back with results in registers. */
static void follow_call(struct follower *f, uint32_t at, struct state *s)
{
    if (!comes_back(f) || s->words || s->is_back)
        FAIL_AT(f, at, "calls with %d words on the stack", s->words);
    for (unsigned r = 0; r < SAVED_REGISTERS; r++)
        if (s->registers[r] != (enum word)r)
            FAIL_AT(f, at, "calls with another register %u", r);
    s->is_back = true;
    f->ends++;
}

/* One instruction; false: it does not go on behind it. */
static bool follow_one(struct follower *f, uint32_t at, struct state *s, uint32_t *length)
{
    ZydisDecodedInstruction i;
    ZydisDecodedOperand o[ZYDIS_MAX_OPERAND_COUNT];
    const uint8_t *pc = f->stub + at;
    if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, pc, 15, &i, o)))
        FAIL_AT(f, at, "no instruction");
    *length = i.length;
    switch (i.mnemonic) {
    case ZYDIS_MNEMONIC_PUSH: {
        int r = o[0].type == ZYDIS_OPERAND_TYPE_REGISTER ? saved_register(o[0].reg.value) : -1;
        push(f, at, s, r < 0 ? ELSE : s->registers[r]);
        return true;
    }
    case ZYDIS_MNEMONIC_PUSHFQ:
        push(f, at, s, ELSE);
        return true;
    case ZYDIS_MNEMONIC_POP:
        pop_to(f, at, s, &o[0]);
        return true;
    case ZYDIS_MNEMONIC_POPFQ:
        pop(f, at, s);
        return true;
    case ZYDIS_MNEMONIC_CALL: /* the common code: all is as it was */
        if (o[0].type == ZYDIS_OPERAND_TYPE_IMMEDIATE &&
            target_of(&i, &o[0], pc) == (uint64_t)f->module->stubs)
            add_slow_ways(f, at + i.length, s);
        else
            follow_call(f, at, s);
        return true;
    case ZYDIS_MNEMONIC_JMP:
        if (o[0].type == ZYDIS_OPERAND_TYPE_IMMEDIATE)
            add_way(f, target_of(&i, &o[0], pc), s);
        else if (o[0].type == ZYDIS_OPERAND_TYPE_MEMORY && o[0].mem.base == ZYDIS_REGISTER_RSP)
            add_way(f, 1, s); /* where the indirect site leads: nowhere in the module */
        else /* through the GOT; or the site's own jump, which stays in its function */
            add_way(f, f->site->flags & SITE_MAY_STAY ? f->module->base + f->site->offset : 1, s);
        return false;
    case ZYDIS_MNEMONIC_LEA:
        if (o[0].reg.value == ZYDIS_REGISTER_RSP) {
            assert_int_equal(o[1].mem.base, ZYDIS_REGISTER_RSP);
            move_stack(f, at, s, o[1].mem.disp.value);
            return true;
        }
        break;
    default:
        break;
    }
    if (i.meta.category == ZYDIS_CATEGORY_COND_BR)
        add_way(f, target_of(&i, &o[0], pc), s);
    note_writes(f, at, s, &i, o);
    return true;
}

static void follow(struct follower *f)
{
    while (f->way_count) {
        f->way_count--;
        uint32_t at = f->ways[f->way_count].at, length;
        struct state s = f->ways[f->way_count].state;
        do {
            check_row(f, at, &s);
            if (at >= MOST_STUB || f->seen[at])
                break; /* with the same state: the row has been found right for both */
            f->seen[at] = true;
        } while (follow_one(f, at, &s, &length) && (at += length));
    }
}

/* What moved out of the way of a hop, and back; and what moved with the site: places of their own.
 */
static uint32_t check_moved(const struct follower *f)
{
    const struct plan_site *s = f->site;
    uint32_t start = 0;
    if (s->flags & SITE_MAKES_ROOM) {
        const uint8_t *at = f->module->code + s->code + s->code_bytes;
        uint32_t room = s->flags & SITE_MAY_STAY ? at[1 + 8 * at[0]] : at[0];
        for (uint32_t i = 0; i < room + 5; i++) {
            const struct stub_row *row = row_at(f, i);
            uint32_t moved = row->flags & ROW_MOVES ? i - row->at : 0;
            if (row->words || row->pc + (int)moved != s->hop - 5 + (int)(i < room ? i : room))
                FAIL_AT(f, i, "a row of the room: %u words, pc %d", row->words, row->pc);
        }
        start = room + 5;
    }
    if (comes_back(f) && s->kind == SITE_CALL_INDIRECT && !(s->flags & SITE_PUSHES_RETURN)) {
        const struct stub_row *row = row_at(f, start); /* of an instruction that makes room */
        if (row->words || row->pc != -s->moved_bytes || row->flags)
            FAIL_AT(f, start, "a row before moved code: %u words, pc %d", row->words, row->pc);
        start += 5;
    }
    for (uint32_t i = 0; i < s->moved_bytes; i++) {
        const struct stub_row *row = row_at(f, start + i);
        if (!(row->flags & ROW_MOVES) ||
            row->pc + (int)(start + i - row->at) != (int)i - s->moved_bytes)
            FAIL_AT(f, start + i, "a row of moved code: pc %d", row->pc);
    }
    return start + s->moved_bytes;
}

static void check_stub(const struct edited_module *m, uint32_t index)
{
    static struct follower f;
    memset(&f, 0, sizeof f);
    f.module = m;
    f.site = &m->sites[index];
    f.layout = &m->layouts[index];
    f.stub = m->stubs + f.layout->start;
    assert_true(f.layout->bytes <= stub_most_bytes(f.site) + writer->most_bytes(f.site));
    bool is_called = f.site->kind <= SITE_CALL_INDIRECT && !(f.site->flags & SITE_PUSHES_RETURN) &&
                     (!comes_back(&f) || f.site->kind == SITE_CALL_INDIRECT);
    struct state s = {.words = is_called, .stack = {ELSE}, .registers = {OF_RAX, OF_RCX, OF_RDX}};
    f.ways[0].at = check_moved(&f);
    f.ways[0].state = s;
    f.way_count = 1;
    follow(&f);
    if (!f.ends)
        FAIL_AT(&f, 0, "no way leads out of the stub");
    stubs_checked++;
}

/* --- modules -----------------------------------------------------------------------------------
 */

/* The segments of a file in memory, with room for stubs in front that a rel32 reaches. */
static uint8_t *load(const struct elf_file *file, uint64_t room)
{
    uint8_t *memory = mmap(NULL, room + file->span, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_true(memory != MAP_FAILED);
    for (size_t i = 0; i < file->code.count; i++)
        memcpy(memory + room + (file->code.items[i].start - file->base), file->code.items[i].bytes,
               file->code.items[i].end - file->code.items[i].start);
    return memory;
}

static void check_module(const char *path, const struct exact_settings *settings)
{
    struct map_cache cache;
    struct plan plan;
    struct elf_file file;
    struct ct_error err;
    memcpy(guest->settings, settings, sizeof *settings);
    map_cache_open(&cache);
    assert_int_equal(plan_for_file(&cache, path, &plan, &err), CT_OK);
    assert_int_equal(elf_open(path, &file, &err), CT_OK);
    enum { COMMON = 64 };
    uint64_t room = COMMON;
    for (uint32_t i = 0; i < plan.site_count; i++)
        room += stub_most_bytes(&plan.sites[i]) + writer->most_bytes(&plan.sites[i]);
    room = (room + PAGE_BYTES - 1) & ~(uint64_t)(PAGE_BYTES - 1);
    uint8_t *memory = load(&file, room), *at = memory + COMMON;
    struct edited_module m = {.base = (uint64_t)memory + room,
                              .first_site = 1,
                              .plan = plan.header,
                              .sites = plan.sites,
                              .site_count = plan.site_count,
                              .code = plan.code,
                              .stubs = memory};
    m.layouts = calloc(plan.site_count, sizeof *m.layouts);
    assert_non_null(m.layouts);
    assert_non_null(stub_write_common(m.stubs, &m, writer));
    for (uint32_t i = 0; i < plan.site_count; i++) {
        m.layouts[i].start = (uint32_t)(at - m.stubs);
        if (plan.sites[i].tier == TIER_NONE)
            continue;
        at = stub_write(at, &m, i, writer);
        assert_non_null(at);
        check_stub(&m, i);
    }
    munmap(memory, room + file.span);
    free(m.layouts);
    elf_close(&file);
    plan_close(&plan);
    map_cache_close(&cache);
}

/* Each way of counting is other code. */
static const struct exact_settings all_settings[] = {
    {0},
    {.flags = EXACT_HEIGHTS},
    {.flags = EXACT_FOLDS},
    {.flags = EXACT_TRACES},
    {.k = 3},
    {.burst_ns = 1},
    {.burst_ns = 1, .flags = EXACT_HEIGHTS | EXACT_FOLDS},
};

static void rows_say_what_stubs_do(void **state)
{
    static const char *const modules[] = {"/proc/self/exe", "/lib/x86_64-linux-gnu/libc.so.6",
                                          "/usr/bin/perl"};
    (void)state;
    ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    for (size_t i = 0; i < sizeof modules / sizeof modules[0]; i++)
        for (size_t k = 0; k < sizeof all_settings / sizeof all_settings[0]; k++) {
            writer = &counting_stubs;
            check_module(modules[i], &all_settings[k]);
        }
    for (size_t i = 0; i < sizeof modules / sizeof modules[0]; i++) {
        writer = &adding_stubs;
        check_module(modules[i], &all_settings[0]);
    }
    static const struct exact_settings times[] = {
        {.flags = EXACT_TIMES}, {.flags = EXACT_TIMES | EXACT_HEIGHTS | EXACT_FOLDS}};
    writer = &timing_stubs;
    for (size_t i = 0; i < sizeof modules / sizeof modules[0]; i++)
        for (size_t k = 0; k < sizeof times / sizeof times[0]; k++)
            check_module(modules[i], &times[k]);
    print_message("# %lu stubs, %lu instructions\n", (unsigned long)stubs_checked,
                  (unsigned long)instructions_checked);
    assert_true(stubs_checked > 100000);
}

static void the_common_code_is_left(void **state)
{
    (void)state;
    static uint8_t code[2][64];
    static const struct stub_writer *const writers[] = {&counting_stubs, &adding_stubs};
    struct edited_module m = {.stubs = code[0]};
    for (unsigned i = 0; i < 2; i++)
        assert_non_null(stub_write_common(code[i], &m, writers[i]));
    /* All but the address that they call. */
    assert_memory_equal(code[0], code[1], 13);
    /* push rcx; call [rip + 6]; lea rsp, [rsp + 8]; ret: at each, where the way back lies */
    static const struct {
        uint32_t at, words;
    } places[] = {{0, 0}, {1, 1}, {7, 1}, {12, 0}};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        uint64_t stack[4] = {11, 22, 33, 44};
        struct walk_registers r = {{0}};
        r.value[X86_RSP] = (uint64_t)stack;
        rows_leave(m.common.shape, places[i].at, 0, &r);
        assert_int_equal(r.value[X86_RIP], stack[places[i].words]);
        assert_int_equal(r.value[X86_RSP], (uint64_t)(stack + places[i].words + 1));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows_say_what_stubs_do),
                                       cmocka_unit_test(the_common_code_is_left)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
