/*
 * stack_walk against walk_frames: whatever has happened to the stack since the last walk, both must
 * find the same frames. Stacks are random: frames counted from rsp and from rbp, frames that save
 * rbp and frames that do not, special ones; they grow, shrink, and are damaged.
 */
#include "unwind/stack.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MODULE = 0x10000, STACK = 0x7f0000, WORDS = 4096, BELOW = 64, ROOM = 600, RULES = 7 };

/* Function k occupies 256 bytes from 256 * k on; the last one is the outermost. */
static const struct map_special specials[] = {
    {.cfa_kind = CFA_END},
    {.cfa_kind = CFA_REG, /* rbp + 16 the long way, with rbp saved there */
     .reg = X86_RBP,
     .index_reg = X86_NONE,
     .offset = 16,
     .place = {[AT_RIP] = {.kind = PLACE_CFA, .offset = -8},
               [AT_RBP] = {.kind = PLACE_CFA, .offset = -16}}}};

#define DIRECT(kind, words, rbp_slot) ((kind) | (rbp_slot) << 2 | (uint32_t)(words) << 12)

static const struct map_row rows[RULES] = {
    {0x000, DIRECT(RULE_RSP, 1, 0)}, {0x100, DIRECT(RULE_RSP, 5, 0)},
    {0x200, DIRECT(RULE_RSP, 4, 3)}, {0x300, DIRECT(RULE_RBP, 2, 2)},
    {0x400, DIRECT(RULE_RBP, 4, 3)}, {0x500, 1u << 2 | RULE_SPECIAL},
    {0x600, 0u << 2 | RULE_SPECIAL}};

static uint64_t words[WORDS];
static uint32_t bucket_index[33];
static uint16_t saves[RULES];
static struct map_tables tables = {.index = bucket_index,
                                   .rows = rows,
                                   .saves = saves,
                                   .specials = specials,
                                   .bucket_count = 32,
                                   .row_count = RULES,
                                   .special_count = 2};
static struct walk_module module = {MODULE, MODULE + 2048, MODULE, &tables};
static struct walk_modules modules = {.count = 1, .items = &module};

#define AT(word) (STACK + 8 * (uint64_t)(word))

/* A stack that is built from its outer end, as a program does. */
struct frame {
    unsigned function, top, rbp; /* indices of words; top: where its return address is */
};

static struct frame frames[ROOM];
static unsigned depth;
static uint64_t random_state;

static unsigned pick(unsigned n)
{
    random_state = random_state * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (unsigned)(random_state >> 33) % n;
}

static unsigned frame_words(unsigned function)
{
    static const unsigned fixed[RULES] = {1, 5, 4, 0, 0, 0, 0};
    return fixed[function] ? fixed[function] : 4 + pick(6);
}

/*
 * Calls a function: its frame lies below the caller's stack pointer. The words that its rule reads
 * are written as its prologue would. Returns false when the stack is full.
 */
static bool call(unsigned function)
{
    struct frame *caller = &frames[depth - 1];
    unsigned sp = depth == 1 ? WORDS - 8 : caller->top + 1 - frame_words(caller->function);
    if (depth == ROOM - 2 || sp < BELOW + 64)
        return false;
    struct frame *f = &frames[depth++];
    f->function = function;
    f->top = sp - 1;
    f->rbp = caller->rbp;
    /* The return address into the caller: one of four calls in it. */
    words[f->top] = MODULE + 256 * (uint64_t)caller->function + 16 + 16 * pick(4);
    unsigned cfa = f->top + 1;
    if (function == 2)
        words[cfa - 3] = AT(caller->rbp);
    if (function == 3 || function == 5) {
        words[cfa - 2] = AT(caller->rbp);
        f->rbp = cfa - 2;
    }
    if (function == 4) {
        words[cfa - 3] = AT(caller->rbp);
        f->rbp = cfa - 4;
    }
    return true;
}

/* A mark is a number in [MARKS, MARKS + ROOM) in the slot of a return address. */
enum { MARKS = 0x20000 };
static uint64_t marked[ROOM], marked_slot[ROOM]; /* what each stands for, and where */

static uint64_t real_address(struct walk_marks *marks, uint64_t mark, uint64_t slot)
{
    (void)marks;
    return marked_slot[mark - MARKS] == slot ? marked[mark - MARKS] : 0;
}

static bool leave_mark(struct walk_marks *marks, const struct walk_memory *memory, uint64_t *pc,
                       uint64_t *sp)
{
    (void)marks, (void)memory, (void)pc, (void)sp;
    return false;
}

static struct walk_marks marks = {
    .start = MARKS, .end = MARKS + ROOM, .real = real_address, .leave = leave_mark, .join = true};

static void check_walk(struct thread_stack *stack, unsigned round)
{
    static struct walk_frame expected[ROOM], before[ROOM];
    const struct frame *top = &frames[depth - 1];
    struct walk_registers r = {0};
    unsigned sp = top->top + 1 - (top->function ? frame_words(top->function) : 1);
    r.value[X86_RIP] = MODULE + 256 * (uint64_t)top->function + 16 + 16 * pick(4);
    r.value[X86_RSP] = AT(sp);
    r.value[X86_RBP] = AT(top->rbp);
    struct walk_memory memory = {
        .start = AT(0), .end = AT(WORDS), .bias = (uint64_t)(uintptr_t)words - STACK};
    memory.marks = &marks;
    struct walk_memory again = memory;
    struct walk_result plain = walk_frames(&modules, &r, &memory, expected, ROOM);
    memcpy(before, stack->frames, sizeof before);
    stack_walk(stack, &modules, &r, &again, (struct stack_mark){0});
    if (stack->end != plain.end || stack->count != plain.count)
        fail_msg("round %u: %u frames (%s), expected %u (%s)", round, stack->count,
                 walk_end_names[stack->end], plain.count, walk_end_names[plain.end]);
    for (uint32_t i = 0; i < plain.count; i++)
        assert_memory_equal(&stack->frames[i], &expected[plain.count - 1 - i], sizeof *expected);
    assert_true(stack->kept <= stack->count);
    assert_memory_equal(stack->frames, before, stack->kept * sizeof *before);
}

static struct thread_stack *new_stack(void)
{
    static struct thread_stack stack;
    free(stack.past);
    free(stack.frames);
    free(stack.fresh);
    stack = (struct thread_stack){.room = ROOM,
                                  .past = calloc(ROOM, sizeof *stack.past),
                                  .frames = calloc(ROOM, sizeof *stack.frames),
                                  .fresh = calloc(ROOM, sizeof *stack.fresh)};
    return &stack;
}

static int setup(void **state)
{
    (void)state;
    for (unsigned b = 0; b <= 32; b++)
        for (bucket_index[b] = 0; bucket_index[b] < RULES && rows[bucket_index[b]].pc < b * 64;)
            bucket_index[b]++;
    depth = 1;
    frames[0] = (struct frame){.function = 6, .top = WORDS - 1, .rbp = WORDS - 2};
    random_state = 12345;
    return 0;
}

static void grow_and_shrink(struct thread_stack *stack, unsigned rounds, bool with_special,
                            uint64_t *kept)
{
    for (unsigned round = 0; round < rounds; round++) {
        unsigned down = pick(4) ? pick(5) : pick(depth), up = pick(4) ? pick(5) : pick(200);
        while (down-- && depth > 1)
            depth--;
        while (up--)
            call(pick(with_special ? 6 : 5));
        if (depth == 1)
            call(1);
        check_walk(stack, round);
        *kept += stack->kept;
    }
}

static void a_stack_that_grows_and_shrinks(void **state)
{
    (void)state;
    uint64_t kept = 0;
    grow_and_shrink(new_stack(), 20000, false, &kept);
    assert_true(kept > 20000 * 20); /* it does join, nearly always */
}

static void a_stack_with_special_frames(void **state)
{
    (void)state;
    uint64_t kept = 0;
    grow_and_shrink(new_stack(), 20000, true, &kept);
    assert_true(kept > 20000);
}

/* Words of outer frames change under the walk, as after longjmp and new calls at the same depth. */
static void a_stack_whose_outer_words_change(void **state)
{
    (void)state;
    struct thread_stack *stack = new_stack();
    for (unsigned round = 0; round < 20000; round++) {
        while (depth < 60)
            call(pick(5));
        if (pick(2)) {
            /* The stack is the same from here on in, but was reached through other calls. */
            unsigned i = 1 + pick(depth - 1);
            words[frames[i].top] = MODULE + 256 * (uint64_t)pick(RULES) + 16 + 16 * pick(4);
        } else if (pick(4) == 0) {
            words[BELOW + pick(WORDS - BELOW)] = pick(2) ? AT(pick(WORDS)) : pick(1000);
        } else {
            depth = 1 + pick(depth);
            if (depth == 1)
                call(1);
        }
        check_walk(stack, round);
    }
}

static void set_mark(unsigned frame)
{
    uint64_t *slot = &words[frames[frame].top];
    if (*slot == MARKS + frame)
        return;
    marked[frame] = *slot;
    marked_slot[frame] = AT(frames[frame].top);
    *slot = MARKS + frame;
}

static void clear_marks(void)
{
    for (unsigned i = 1; i < depth; i++)
        if (words[frames[i].top] == MARKS + i)
            words[frames[i].top] = marked[i];
}

/* Marks come and go between walks; what is below them is no other stack for that. */
static void a_stack_with_marks(void **state)
{
    (void)state;
    struct thread_stack *stack = new_stack();
    uint64_t kept = 0, all = 0;
    for (unsigned round = 0; round < 20000; round++) {
        clear_marks();
        if (depth > 2 && pick(8) == 0)
            depth = 2 + pick(depth - 2);
        while (depth < 60)
            call(pick(5));
        for (unsigned i = pick(3); i > 0; i--)
            set_mark(1 + pick(depth - 1));
        uint64_t *one = &marked[1 + pick(depth - 1)], before = *one;
        if (pick(8) == 0) /* perhaps one of those that are set: it stands for another caller now */
            *one = MODULE + 256 * (uint64_t)pick(5) + 16;
        check_walk(stack, round);
        *one = before;
        kept += stack->kept;
        all += stack->count;
    }
    assert_true(kept * 10 > all * 8);
    marks.join = false; /* then no walk joins the past through a mark, and is as right */
    set_mark(20);
    check_walk(stack, 0);
    clear_marks();
    check_walk(stack, 1);
    set_mark(30);
    check_walk(stack, 2);
    assert_true(stack->kept == 0);
    marks.join = true;
}

static void another_set_of_modules_is_another_stack(void **state)
{
    (void)state;
    struct thread_stack *stack = new_stack();
    while (depth < 40)
        call(pick(5));
    check_walk(stack, 0);
    check_walk(stack, 1);
    assert_true(stack->kept > 30);
    modules.generation++;
    check_walk(stack, 2);
    assert_int_equal(stack->kept, 0);
}

static void a_stack_deeper_than_the_room_is_said(void **state)
{
    (void)state;
    struct thread_stack *stack = new_stack();
    while (depth < 100)
        call(0);
    check_walk(stack, 0);
    stack->room = 80;
    struct walk_registers r = {0};
    r.value[X86_RIP] = MODULE + 16;
    r.value[X86_RSP] = AT(frames[depth - 1].top);
    struct walk_memory memory = {
        .start = AT(0), .end = AT(WORDS), .bias = (uint64_t)(uintptr_t)words - STACK};
    *stack = (struct thread_stack){
        .room = 80, .past = stack->past, .frames = stack->frames, .fresh = stack->fresh};
    stack_walk(stack, &modules, &r, &memory, (struct stack_mark){0});
    assert_int_equal(stack->end, WALK_LIMIT);
    assert_int_equal(stack->count, 80);
    assert_int_equal(stack->past_count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_stack_that_grows_and_shrinks, setup),
        cmocka_unit_test_setup(a_stack_with_special_frames, setup),
        cmocka_unit_test_setup(a_stack_whose_outer_words_change, setup),
        cmocka_unit_test_setup(a_stack_with_marks, setup),
        cmocka_unit_test_setup(another_set_of_modules_is_another_stack, setup),
        cmocka_unit_test_setup(a_stack_deeper_than_the_room_is_said, setup),
    };
    return cmocka_run_group_tests_name("stack", tests, NULL, NULL);
}
