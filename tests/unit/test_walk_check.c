/*
 * What speaks against a walk, and where a stack ends that the tables do not know the end of: on
 * stacks, tables and code made by hand.
 */
#include "runtime/walk_check.h"
#include "walk_by_hand.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static struct walk_cache cache;

/*
 * Code for the checks of walks: 4 KB of it, at the module's place. A call ends before each multiple
 * of 16, so that those are return addresses; the function at 0x400 begins with a frame pointer.
 */
static uint8_t code[4096];
static struct map_function functions[3];

static bool find_code_or_stack(struct walk_memory *m, uint64_t address)
{
    if (address >= AT(0) && address < AT(WORDS)) {
        *m = (struct walk_memory){.start = AT(0),
                                  .end = AT(WORDS),
                                  .bias = (uint64_t)(uintptr_t)stack - STACK,
                                  .find_memory = find_code_or_stack};
        return true;
    }
    if (address < MODULE || address > MODULE + sizeof code - 8)
        return false;
    m->start = MODULE;
    m->end = MODULE + sizeof code;
    m->bias = (uint64_t)(uintptr_t)code - MODULE;
    return true;
}

static struct walk_memory code_and_stack(bool without_corrections)
{
    struct walk_memory m = stack_memory();
    m.find_memory = find_code_or_stack;
    m.without_corrections = without_corrections;
    return m;
}

static struct walk_result walk(struct walk_frame *frames, uint32_t room)
{
    struct walk_memory memory = code_and_stack(false);
    return walk_frames(&modules, &registers, &memory, frames, room);
}

static void add_code(void)
{
    for (unsigned at = 16; at < sizeof code; at += 16)
        code[at - 5] = 0xe8;
    memcpy(code + 0x400, "\x55\x48\x89\xe5", 4);
    memcpy(code + 0x800, "\xf3\x0f\x1e\xfa\x55\x48\x8b\xec", 8);
    functions[0] = (struct map_function){.start = 0x000, .size = 0x400, .parent = NO_PARENT};
    functions[1] = (struct map_function){.start = 0x400, .size = 0x400, .parent = NO_PARENT};
    functions[2] = (struct map_function){
        .start = 0xc00, .size = 0x100, .flags = FUNCTION_FRAGMENT, .parent = 1};
    tables.functions = functions;
    tables.function_count = 3;
}

/*
 * A frame realigned to 32 bytes, as gcc makes it: rbp points at the caller's rbp, below it the CFA.
 * The caller has a frame pointer. The row is what the CFI says; the correction says, as the behind
 * of its epilogue does, that rbp has its caller's value again, which is not so here.
 */
static void add_realigned_frame(struct map_range *wrong)
{
    struct map_special s = special(CFA_DEREF, X86_RBP, -8);
    tables.special_count = SPECIAL_FIRST_OWN; /* a correction to SPECIAL_END is another matter */
    s.place[AT_RBP] = (struct map_place){.kind = PLACE_MEMORY, .reg = X86_RBP};
    add_special(0x000, s);
    s.place[AT_RBP] = (struct map_place){.kind = PLACE_SAME, .reg = X86_NONE};
    s.flags = SPECIAL_GUESSED;
    *wrong = (struct map_range){
        .start = 0x100, .end = 0x200, .value = tables.special_count << 2 | RULE_SPECIAL};
    specials[tables.special_count++] = s;
    tables.corrections = wrong;
    tables.correction_count = 1;
    add_row(0x400, direct(RULE_RBP, 16, 2, 0), 0);
    add_outermost();
    for (unsigned i = 0x100 >> MAP_BUCKET_SHIFT; i < 0x200 >> MAP_BUCKET_SHIFT; i++)
        bucket_index[i] |= INDEX_CORRECTED;
    registers.value[X86_RIP] = CODE(0x108);
    registers.value[X86_RBP] = AT(4);
    stack[3] = AT(10); /* the CFA */
    stack[4] = AT(20); /* the caller's rbp */
    stack[9] = CODE(0x410);
    stack[21] = CODE(0xf10);
}

static void a_wrong_correction_is_refuted_by_the_cfi(void **state)
{
    (void)state;
    struct map_range wrong;
    struct walk_frame first[8], second[8];
    add_code();
    add_realigned_frame(&wrong);
    struct walk_memory memory = code_and_stack(false);
    struct walk_result one = walk_frames(&modules, &registers, &memory, first, 8);
    memory = code_and_stack(false);
    struct walk_cache own = {0};
    struct walk_result again = walk_frames_cached(&own, &modules, &registers, &memory, second, 8);
    assert_int_equal(one.end, WALK_NO_PROGRESS); /* two walks, one opinion */
    assert_int_equal(again.end, one.end);
    assert_true(walk_was_corrected(&modules, first, one.count));
    memory = code_and_stack(true);
    struct walk_result other = walk_frames(&modules, &registers, &memory, second, 8);
    assert_int_equal(other.end, WALK_COMPLETE);
    assert_true(walk_is_refuted(memory, one, first, other, second));

    /* A second opinion that leads to what is no return address is none. */
    stack[21] = CODE(0xf13);
    other = walk_frames(&modules, &registers, &memory, second, 8);
    assert_int_equal(other.end, WALK_COMPLETE);
    assert_false(walk_is_refuted(memory, one, first, other, second));

    /* And the other way round: a correction that leads to the end is right. */
    stack[21] = CODE(0xf10);
    other = walk_frames(&modules, &registers, &memory, second, 8);
    assert_false(walk_is_refuted(memory, other, second, one, first));
    tables.correction_count = 0;
    assert_false(walk_was_corrected(&modules, first, one.count));
}

static void a_stack_may_end_at_zero(void **state)
{
    (void)state;
    add_code();
    add_row(0x000, direct(RULE_RSP, 8, 0, 0), 0);
    add_row(0x100, direct(RULE_RSP, 24, 2, 0), 0);
    struct map_special s = special(CFA_REG, X86_RSP, 24);
    s.flags = SPECIAL_GUESSED;
    add_special(0x200, s);
    registers.value[X86_RIP] = CODE(0x001);
    stack[0] = CODE(0x110); /* its caller's rbp is at word 2, its return address at word 3 */
    struct walk_frame frames[8];
    struct walk_memory memory = code_and_stack(false);
    struct walk_result result = walk_frames(&modules, &registers, &memory, frames, 8);
    assert_int_equal(result.end, WALK_COMPLETE);
    assert_int_equal(result.count, 2);
    assert_int_equal(frames[1].pc, CODE(0x110));
    assert_int_equal(frames[1].slot, 0);
    assert_int_equal(frames[1].flags, FRAME_SPECIAL);
    struct walk_frame again[8];
    for (int i = 0; i < 2; i++) { /* the second time from the cache */
        memory = code_and_stack(false);
        result = walk_frames_cached(&cache, &modules, &registers, &memory, again, 8);
        assert_int_equal(result.end, WALK_COMPLETE);
        assert_memory_equal(again, frames, 2 * sizeof *frames);
    }
    /* A frame pointer, a guess, an address that is not behind a call, an interrupted frame: none
       of these is at the end of a stack. */
    static const struct {
        uint64_t rbp, return_address;
    } broken[] = {{AT(9), 0x110}, {0, 0x210}, {0, 0x113}, {0, 0}};
    for (unsigned i = 0; i < 4; i++) {
        stack[2] = broken[i].rbp;
        stack[0] = broken[i].return_address ? CODE(broken[i].return_address) : 0;
        memory = code_and_stack(false);
        result = walk_frames(&modules, &registers, &memory, frames, 8);
        assert_int_equal(result.end, WALK_NO_MODULE);
        assert_int_equal(frames[result.count - 1].pc, 0);
    }
}

static void frame_pointers_speak_against_a_wrong_row(void **state)
{
    (void)state;
    add_code();
    add_row(0x000, direct(RULE_RSP, 8, 0, 0), 0);
    add_row(0x400, direct(RULE_RSP, 32, 0, 0), 0); /* the truth is rbp + 16 */
    add_outermost();
    registers.value[X86_RIP] = CODE(0x008);
    registers.value[X86_RBP] = AT(5);
    stack[0] = CODE(0x410);
    stack[4] = CODE(0xf10); /* of an earlier call */
    stack[6] = CODE(0xf20);
    for (unsigned part = 0; part < 2; part++) {
        struct walk_frame frames[8];
        struct walk_result result = walk(frames, 8);
        assert_int_equal(result.end, WALK_COMPLETE);
        assert_int_equal(frames[2].pc, CODE(0xf10));
        assert_false(walk_agrees_with_frame_pointers(&modules, code_and_stack(false), frames, 3));
        registers.value[X86_RBP] = AT(3);
        assert_int_equal(walk(frames, 8).count, 3);
        assert_true(walk_agrees_with_frame_pointers(&modules, code_and_stack(false), frames, 3));
        registers.value[X86_RBP] = AT(5);
        stack[0] = CODE(0xc10); /* the same in a part of that function */
    }
    stack[0] = CODE(0x010); /* a function that does not begin so has rbp for other things */
    struct walk_frame frames[8];
    stack[1] = CODE(0xf10);
    assert_int_equal(walk(frames, 8).count, 3);
    assert_true(walk_agrees_with_frame_pointers(&modules, code_and_stack(false), frames, 3));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_wrong_correction_is_refuted_by_the_cfi, setup),
        cmocka_unit_test_setup(a_stack_may_end_at_zero, setup),
        cmocka_unit_test_setup(frame_pointers_speak_against_a_wrong_row, setup),
    };
    return cmocka_run_group_tests_name("walk_check", tests, NULL, NULL);
}
