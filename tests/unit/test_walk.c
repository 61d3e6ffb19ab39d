/*
 * The walker on stacks and tables made by hand (walk_by_hand.h). Each test writes the return
 * addresses where the rules say they are, and expects exactly those.
 */
#include "unwind/memory.h"
#include "walk_by_hand.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

static struct walk_cache cache;

/* Walks in both ways, the cached one twice; all must agree. */
static struct walk_result walk(struct walk_frame *frames, uint32_t room)
{
    struct walk_memory memory = stack_memory();
    struct walk_result result = walk_frames(&modules, &registers, &memory, frames, room);
    for (int i = 0; i < 2; i++) {
        struct walk_frame again[64];
        memory = stack_memory();
        struct walk_result cached =
            walk_frames_cached(&cache, &modules, &registers, &memory, again, room);
        assert_int_equal(cached.end, result.end);
        assert_int_equal(cached.count, result.count);
        assert_memory_equal(again, frames, result.count * sizeof *frames);
    }
    return result;
}

static void expect(enum walk_end end, unsigned count, const uint64_t *pcs)
{
    struct walk_frame frames[64];
    struct walk_result result = walk(frames, 64);
    assert_string_equal(walk_end_names[result.end], walk_end_names[end]);
    assert_int_equal(result.count, count);
    for (unsigned i = 0; i < count; i++)
        assert_int_equal(frames[i].pc, pcs[i]);
}

static void frames_of_fixed_size(void **state)
{
    (void)state;
    add_row(0x000, direct(RULE_RSP, 8, 0, 0), 0);
    add_row(0x004, direct(RULE_RSP, 32, 0, 0), 0);
    add_outermost();
    registers.value[X86_RIP] = CODE(0x002); /* in a leaf: return address on top */
    stack[0] = CODE(0x010);                 /* caller has 32 bytes from its CFA: 8 + 3 words */
    stack[4] = CODE(0x020);
    stack[8] = CODE(0xf10);
    expect(WALK_COMPLETE, 4, (uint64_t[]){CODE(0x002), CODE(0x010), CODE(0x020), CODE(0xf10)});
}

static void a_return_address_belongs_to_the_call_before_it(void **state)
{
    (void)state;
    /* A call that ends its function: the return address is the first byte of the next one, whose
       rule differs. */
    add_row(0x000, direct(RULE_RSP, 24, 0, 0), 0);
    add_row(0x100, direct(RULE_RSP, 8, 0, 0), 0);
    add_outermost();
    registers.value[X86_RIP] = CODE(0x100);
    stack[0] = CODE(0x100);
    stack[3] = CODE(0xf10);
    expect(WALK_COMPLETE, 3, (uint64_t[]){CODE(0x100), CODE(0x100), CODE(0xf10)});
}

static void frame_pointers_are_followed_through_frames_that_save_them(void **state)
{
    (void)state;
    add_row(0x000, direct(RULE_RSP, 24, 3, 0), 0); /* no frame, but rbp pushed at CFA-24 */
    add_row(0x100, direct(RULE_RBP, 16, 2, 0), 0); /* the usual one */
    add_outermost();
    registers.value[X86_RIP] = CODE(0x010);
    registers.value[X86_RBP] = 0xdead;
    stack[0] = AT(20); /* the caller's rbp */
    stack[2] = CODE(0x110);
    stack[20] = AT(40); /* CFA = rbp+16: rbp at CFA-16 */
    stack[21] = CODE(0x120);
    stack[40] = 0;
    stack[41] = CODE(0xf01);
    expect(WALK_COMPLETE, 4, (uint64_t[]){CODE(0x010), CODE(0x110), CODE(0x120), CODE(0xf01)});
}

static void a_cfa_in_rbx_is_found_above_a_frame_that_saved_it(void **state)
{
    (void)state;
    /* As the lazy binder: CFA = rbx + 32 there, and the function it calls pushes rbx. */
    add_row(0x000, direct(RULE_RSP, 16, 0, 2), 0);
    add_special(0x100, special(CFA_REG, X86_RBX, 32));
    add_outermost();
    registers.value[X86_RIP] = CODE(0x010);
    registers.value[X86_RBX] = 0xdead;
    stack[0] = AT(10); /* rbx */
    stack[1] = CODE(0x110);
    stack[13] = CODE(0xf01); /* CFA is AT(14) */
    expect(WALK_COMPLETE, 3, (uint64_t[]){CODE(0x010), CODE(0x110), CODE(0xf01)});
}

static void a_cfa_in_r13_is_found_above_frames_that_saved_it(void **state)
{
    (void)state;
    add_row(0x000, direct(RULE_RSP, 8, 0, 0), 0);
    add_row(0x080, direct(RULE_RSP, 40, 0, 0), 3 << 4); /* r13 at CFA-24 */
    add_special(0x100, special(CFA_REG, X86_R13, 16));
    add_outermost();
    registers.value[X86_RIP] = CODE(0x001);
    registers.value[X86_R13] = 0xdead;
    stack[0] = CODE(0x090);
    stack[3] = AT(30); /* CFA of 0x090 is AT(6) */
    stack[5] = CODE(0x110);
    stack[31] = CODE(0xf01);
    expect(WALK_COMPLETE, 4, (uint64_t[]){CODE(0x001), CODE(0x090), CODE(0x110), CODE(0xf01)});
}

static void a_frame_that_counts_from_a_scratch_register_across_a_call_is_believed(void **state)
{
    (void)state;
    add_row(0x000, direct(RULE_RSP, 8, 0, 0), 0);
    add_special(0x100, special(CFA_REG, X86_R10, 8));
    add_outermost();
    registers.value[X86_RIP] = CODE(0x110);
    registers.value[X86_R10] = AT(5);
    stack[5] = CODE(0xf01);
    expect(WALK_COMPLETE, 2, (uint64_t[]){CODE(0x110), CODE(0xf01)});
    registers.value[X86_RIP] = CODE(0x001); /* a callee that leaves r10 alone */
    stack[0] = CODE(0x110);
    expect(WALK_COMPLETE, 3, (uint64_t[]){CODE(0x001), CODE(0x110), CODE(0xf01)});
}

static void a_register_that_was_lost_ends_the_walk(void **state)
{
    (void)state;
    struct map_special s = special(CFA_REG, X86_RSP, 16);
    s.place[AT_RBX].kind = PLACE_LOST;
    add_special(0x000, s);
    add_special(0x100, special(CFA_REG, X86_RBX, 8));
    add_outermost();
    registers.value[X86_RIP] = CODE(0x001);
    registers.value[X86_RBX] = AT(5);
    stack[1] = CODE(0x110);
    stack[5] = CODE(0xf01);
    expect(WALK_REGISTER, 2, (uint64_t[]){CODE(0x001), CODE(0x110)});
}

static void a_realigned_frame_keeps_its_cfa_in_memory(void **state)
{
    (void)state;
    struct map_special s = special(CFA_DEREF, X86_RBP, -8);
    s.place[AT_RBP] = (struct map_place){.kind = PLACE_MEMORY, .reg = X86_RBP, .offset = 0};
    add_special(0x000, s);
    add_row(0x100, direct(RULE_RBP, 16, 2, 0), 0);
    add_outermost();
    registers.value[X86_RIP] = CODE(0x010);
    registers.value[X86_RBP] = AT(8);
    stack[7] = AT(16); /* the CFA */
    stack[8] = AT(30); /* the caller's rbp, at the frame's own rbp, not relative to the CFA */
    stack[15] = CODE(0x110);
    stack[31] = CODE(0xf01);
    expect(WALK_COMPLETE, 3, (uint64_t[]){CODE(0x010), CODE(0x110), CODE(0xf01)});
}

static void an_indexed_cfa_is_read_where_it_points(void **state)
{
    (void)state;
    struct map_special s = special(CFA_DEREF, X86_RSP, 8);
    s.index_reg = X86_R9;
    s.add = 8;
    add_special(0x000, s);
    add_outermost();
    registers.value[X86_RIP] = CODE(0x010);
    registers.value[X86_R9] = 3;
    stack[4] = AT(20); /* *(rsp + 3 * 8 + 8), plus 8 is the CFA */
    stack[20] = CODE(0xf01);
    expect(WALK_COMPLETE, 2, (uint64_t[]){CODE(0x010), CODE(0xf01)});
}

static void the_plt_has_a_word_more_behind_its_push(void **state)
{
    (void)state;
    add_special(0x000, special(CFA_PLT, X86_NONE, 11));
    add_outermost();
    stack[0] = CODE(0xf01);
    stack[1] = CODE(0xf02);
    registers.value[X86_RIP] = CODE(0x02a); /* byte 10 of its entry */
    expect(WALK_COMPLETE, 2, (uint64_t[]){CODE(0x02a), CODE(0xf01)});
    registers.value[X86_RIP] = CODE(0x02b);
    expect(WALK_COMPLETE, 2, (uint64_t[]){CODE(0x02b), CODE(0xf02)});
}

static void a_signal_frame_gives_back_every_register(void **state)
{
    (void)state;
    struct map_special s = special(CFA_SIGNAL, X86_RSP, 0);
    s.flags = SPECIAL_EXACT_PC;
    add_row(0x000, direct(RULE_RSP, 8, 0, 0), 0); /* the handler */
    add_special(0x100, s);
    add_special(0x200, special(CFA_REG, X86_R10, 8));
    add_row(0x240, direct(RULE_RSP, 8, 0, 0), 0);
    add_outermost();
    registers.value[X86_RIP] = CODE(0x000);
    stack[0] = CODE(0x101);
    uint64_t *ucontext = &stack[1]; /* gregs from byte 40: r8 r9 r10 ... rsp rip */
    ucontext[5 + 2] = AT(100);      /* r10 */
    ucontext[5 + 15] = AT(90);      /* rsp */
    ucontext[5 + 16] = CODE(0x200); /* rip: the first byte of its function, looked up exactly */
    stack[100] = CODE(0xf01);
    struct walk_frame frames[8];
    struct walk_result result = walk(frames, 8);
    assert_int_equal(result.end, WALK_COMPLETE);
    assert_int_equal(result.count, 4);
    assert_int_equal(frames[2].pc, CODE(0x200));
    assert_int_equal(frames[2].flags, FRAME_IS_PC | FRAME_SPECIAL);
    assert_int_equal(frames[1].flags, FRAME_SPECIAL);
    assert_int_equal(frames[0].flags, FRAME_IS_PC);
    assert_int_equal(frames[3].pc, CODE(0xf01));
}

static void a_return_address_can_be_in_a_register(void **state)
{
    (void)state;
    struct map_special s = special(CFA_REG, X86_RSP, 0); /* vfork, after its pop */
    s.place[AT_RIP] = (struct map_place){.kind = PLACE_REG, .reg = X86_RDI};
    add_special(0x000, s);
    add_row(0x100, direct(RULE_RSP, 16, 0, 0), 0);
    add_outermost();
    registers.value[X86_RIP] = CODE(0x001);
    registers.value[X86_RDI] = CODE(0x110);
    stack[1] = CODE(0xf01);
    expect(WALK_COMPLETE, 3, (uint64_t[]){CODE(0x001), CODE(0x110), CODE(0xf01)});
}

static const uint8_t *code_bytes;

/* The code of the module, which walks of these tests do not read otherwise. */
static bool find_code(struct walk_memory *memory, uint64_t address)
{
    memory->start = MODULE;
    memory->end = MODULE + 4096;
    memory->bias = (uint64_t)(uintptr_t)code_bytes - MODULE;
    return address >= memory->start && address < memory->end;
}

static void an_unwinder_that_is_about_to_land_has_no_call_before_the_landing_pad(void **state)
{
    (void)state;
    static uint8_t code[4096];
    static const struct map_range unwinder = {.start = 0x100, .end = 0x140, .value = 1};
    /* A function with one word saved, which ends at 0x20; its landing pad is behind that. */
    add_row(0x000, direct(RULE_RSP, 16, 0, 0), 0);
    add_row(0x01f, direct(RULE_RSP, 8, 0, 0), 0); /* ret */
    add_row(0x020, direct(RULE_RSP, 16, 0, 0), 0);
    add_row(0x100, direct(RULE_RSP, 24, 0, 0), 0); /* the unwinder */
    add_row(0x140, direct(RULE_RSP, 24, 0, 0), 0); /* any other */
    add_outermost();
    memset(code, 0x90, sizeof code);
    code[0x00b] = 0xe8; /* a call, before 0x10 */
    code[0x01f] = 0xc3;
    code[0xf0b] = 0xe8;
    code_bytes = code;
    tables.unmarkable = &unwinder;
    tables.unmarkable_count = 1;
    bucket_index[0x100 >> MAP_BUCKET_SHIFT] |= INDEX_UNMARKABLE;
    registers.value[X86_RSP] = AT(100); /* so high that the cache is used */
    stack[102] = CODE(0x010);
    stack[104] = CODE(0x020);
    stack[105] = 4; /* what the function has saved, or would return to */
    stack[106] = CODE(0xf10);
    for (int i = 0; i < 3; i++) {
        struct walk_frame frames[8];
        struct walk_memory memory = stack_memory();
        memory.find_memory = find_code;
        registers.value[X86_RIP] = CODE(i == 1 ? 0x150 : 0x110);
        struct walk_result result =
            walk_frames_cached(&cache, &modules, &registers, &memory, frames, 8);
        assert_int_equal(result.end, i == 1 ? WALK_NO_MODULE : WALK_COMPLETE);
        assert_int_equal(result.count, 4);
        assert_int_equal(frames[2].pc, CODE(0x020));
        assert_int_equal(frames[3].pc, i == 1 ? 4 : CODE(0xf10));
    }
}

static void a_stack_below_is_gone_to_only_if_the_rule_says_so(void **state)
{
    (void)state;
    struct map_special s =
        special(CFA_REG, X86_RBP, 16); /* a clock that is read on another stack */
    s.place[AT_RBP] = (struct map_place){.kind = PLACE_CFA, .offset = -16};
    add_special(0x000, s);
    s.flags = SPECIAL_OTHER_STACK;
    add_special(0x100, s);
    add_outermost();
    registers.value[X86_RSP] = AT(20);
    registers.value[X86_RBP] = AT(4);
    stack[5] = CODE(0xf01);
    registers.value[X86_RIP] = CODE(0x001);
    expect(WALK_NO_PROGRESS, 1, (uint64_t[]){CODE(0x001)});
    registers.value[X86_RIP] = CODE(0x101);
    expect(WALK_COMPLETE, 2, (uint64_t[]){CODE(0x101), CODE(0xf01)});
}

static void each_way_to_stop_is_told_apart(void **state)
{
    (void)state;
    add_row(0x000, direct(RULE_RSP, 8, 0, 0), 0);
    add_row(0x100, direct(RULE_RBP, 16, 2, 0), 0);
    add_special(0x200, (struct map_special){.cfa_kind = CFA_NONE});
    add_special(0x300, (struct map_special){.cfa_kind = CFA_UNKNOWN});
    add_row(0x400, 1000u << 2 | RULE_SPECIAL, 0); /* a damaged table */
    add_special(0x500, (struct map_special){.cfa_kind = CFA_SWITCHED});
    add_outermost();
    registers.value[X86_RIP] = CODE(0x001);
    const struct {
        uint64_t ra;
        enum walk_end end;
    } cases[] = {{0x55, WALK_NO_MODULE},       {CODE(0x210), WALK_NO_RULE},
                 {CODE(0x310), WALK_UNKNOWN},  {CODE(0x410), WALK_UNKNOWN},
                 {CODE(0xf01), WALK_COMPLETE}, {0, WALK_NO_MODULE},
                 {CODE(0x510), WALK_SWITCHED}};
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        stack[0] = cases[i].ra;
        expect(cases[i].end, 2, (uint64_t[]){CODE(0x001), cases[i].ra});
    }
    stack[0] = CODE(0x110); /* its CFA is rbp + 16 */
    registers.value[X86_RBP] = AT(0) - 64;
    expect(WALK_NO_PROGRESS, 2, (uint64_t[]){CODE(0x001), CODE(0x110)});
    registers.value[X86_RBP] = AT(WORDS) + 64;
    expect(WALK_MEMORY, 2, (uint64_t[]){CODE(0x001), CODE(0x110)});
    registers.value[X86_RBP] = UINT64_MAX - 16;
    expect(WALK_MEMORY, 2, (uint64_t[]){CODE(0x001), CODE(0x110)});
    module.tables = NULL;
    modules.generation++;
    expect(WALK_NO_MAP, 1, (uint64_t[]){CODE(0x001)});
}

static void a_saved_register_below_the_memory_is_not_read(void **state)
{
    (void)state;
    add_row(0x000, direct(RULE_RSP, 8, 0, 0), 0);
    add_row(0x100, direct(RULE_RBP, 16, 31, 0), 0); /* rbp saved 248 bytes below the CFA */
    add_outermost();
    registers.value[X86_RIP] = CODE(0x001);
    registers.value[X86_RBP] = AT(40);
    stack[0] = CODE(0x110);
    stack[41] = CODE(0xf01);
    expect(WALK_COMPLETE, 3, (uint64_t[]){CODE(0x001), CODE(0x110), CODE(0xf01)});
    registers.value[X86_RBP] = AT(10); /* now it would be 19 words below the stack */
    stack[11] = CODE(0xf01);
    expect(WALK_MEMORY, 2, (uint64_t[]){CODE(0x001), CODE(0x110)});
}

static void a_full_array_is_said(void **state)
{
    (void)state;
    add_row(0x000, direct(RULE_RSP, 8, 0, 0), 0);
    add_outermost();
    registers.value[X86_RIP] = CODE(0x001);
    for (unsigned i = 0; i < 20; i++)
        stack[i] = CODE(0x010);
    stack[20] = CODE(0xf01);
    struct walk_frame frames[32];
    for (uint32_t room = 0; room < 22; room++) {
        struct walk_result result = walk(frames, room);
        assert_int_equal(result.count, room);
        assert_int_equal(result.end, WALK_LIMIT);
    }
    struct walk_result result = walk(frames, 22);
    assert_int_equal(result.end, WALK_COMPLETE);
    assert_int_equal(result.count, 22);
}

static void frames_made_by_decoding_are_marked(void **state)
{
    (void)state;
    struct map_special s = special(CFA_REG, X86_RSP, 16);
    s.flags = SPECIAL_GUESSED;
    add_special(0x000, s);
    add_outermost();
    registers.value[X86_RIP] = CODE(0x001);
    stack[1] = CODE(0xf01);
    struct walk_frame frames[4];
    assert_int_equal(walk(frames, 4).end, WALK_COMPLETE);
    assert_int_equal(frames[0].flags, FRAME_IS_PC | FRAME_GUESSED | FRAME_SPECIAL);
    assert_int_equal(frames[0].slot, AT(1));
}

static void the_cache_forgets_with_another_set_of_modules(void **state)
{
    (void)state;
    add_row(0x000, direct(RULE_RSP, 8, 0, 0), 0);
    add_outermost();
    registers.value[X86_RIP] = CODE(0x001);
    stack[0] = CODE(0x010);
    stack[1] = CODE(0xf01);
    stack[2] = CODE(0xf02);
    expect(WALK_COMPLETE, 3, (uint64_t[]){CODE(0x001), CODE(0x010), CODE(0xf01)});
    rows[0].rule = direct(RULE_RSP, 16, 0, 0); /* another module at the same place */
    registers.value[X86_RSP] = AT(0);
    stack[1] = CODE(0x010);
    modules.generation++;
    stack[3] = CODE(0xf02);
    expect(WALK_COMPLETE, 3, (uint64_t[]){CODE(0x001), CODE(0x010), CODE(0xf02)});
}

static void memory_of_this_process_is_asked_for_page_by_page(void **state)
{
    (void)state;
    /* Three pages, the last one unreadable. */
    uint8_t *pages =
        mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(pages, MAP_FAILED);
    assert_int_equal(mprotect(pages + 8192, 4096, PROT_NONE), 0);
    uint64_t start = (uint64_t)(uintptr_t)pages;
    struct walk_memory m = memory_of_this_process(0, 0);
    assert_true(m.find_memory(&m, start + 16));
    assert_int_equal(m.start, start);
    assert_int_equal(m.end, start + 4096);
    assert_true(m.find_memory(&m, start + 4096)); /* joins */
    assert_int_equal(m.start, start);
    assert_int_equal(m.end, start + 8192);
    assert_false(m.find_memory(&m, start + 8192));
    assert_false(m.find_memory(&m, start + 8188)); /* straddles */
    assert_false(m.find_memory(&m, 0));
    assert_false(m.find_memory(&m, UINT64_MAX - 3));
    assert_false(m.find_memory(&m, UINT64_C(0x8000000000000000)));
    munmap(pages, 3 * 4096);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(frames_of_fixed_size, setup),
        cmocka_unit_test_setup(a_return_address_belongs_to_the_call_before_it, setup),
        cmocka_unit_test_setup(frame_pointers_are_followed_through_frames_that_save_them, setup),
        cmocka_unit_test_setup(a_cfa_in_rbx_is_found_above_a_frame_that_saved_it, setup),
        cmocka_unit_test_setup(a_cfa_in_r13_is_found_above_frames_that_saved_it, setup),
        cmocka_unit_test_setup(
            a_frame_that_counts_from_a_scratch_register_across_a_call_is_believed, setup),
        cmocka_unit_test_setup(a_register_that_was_lost_ends_the_walk, setup),
        cmocka_unit_test_setup(a_realigned_frame_keeps_its_cfa_in_memory, setup),
        cmocka_unit_test_setup(an_indexed_cfa_is_read_where_it_points, setup),
        cmocka_unit_test_setup(the_plt_has_a_word_more_behind_its_push, setup),
        cmocka_unit_test_setup(a_signal_frame_gives_back_every_register, setup),
        cmocka_unit_test_setup(a_return_address_can_be_in_a_register, setup),
        cmocka_unit_test_setup(an_unwinder_that_is_about_to_land_has_no_call_before_the_landing_pad,
                               setup),
        cmocka_unit_test_setup(a_stack_below_is_gone_to_only_if_the_rule_says_so, setup),
        cmocka_unit_test_setup(each_way_to_stop_is_told_apart, setup),
        cmocka_unit_test_setup(a_saved_register_below_the_memory_is_not_read, setup),
        cmocka_unit_test_setup(a_full_array_is_said, setup),
        cmocka_unit_test_setup(frames_made_by_decoding_are_marked, setup),
        cmocka_unit_test_setup(the_cache_forgets_with_another_set_of_modules, setup),
        cmocka_unit_test_setup(memory_of_this_process_is_asked_for_page_by_page, setup),
    };
    return cmocka_run_group_tests_name("walk", tests, NULL, NULL);
}
