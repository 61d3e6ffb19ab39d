/*
 * Which functions may be called with more stack above them: small ones of this program, each with
 * one thing that it does with what is above its frame. And the list of calls, as text.
 */
#include "edit/growth.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* Each is a function with CFI; `frame` is what it takes from the stack, `body` what it does. */
#define FUNCTION(name, body)                                                                       \
    __asm__(".text\n.globl " #name "\n.type " #name ", @function\n" #name ":\n.cfi_startproc\n"    \
            ".cfi_def_cfa rsp, 8\n" body "\n.cfi_endproc\n.size " #name ", . - " #name "\n");      \
    void name(void)

#define FRAME        "sub $24, %rsp\n.cfi_def_cfa_offset 32\n"
#define UNFRAME      "add $24, %rsp\n.cfi_def_cfa_offset 8\n"
#define FRAMED(body) FRAME body UNFRAME "ret"

FUNCTION(plain, FRAMED("mov %rdi, 8(%rsp)\nmov 16(%rsp), %eax\n"));
FUNCTION(saves, "push %rbx\n.cfi_def_cfa_offset 16\n.cfi_offset rbx, -16\n"
                "lea 0(%rsp), %rdi\nmov (%rsp), %rax\npop %rbx\n.cfi_def_cfa_offset 8\nret");
FUNCTION(framed_by_rbp, "push %rbp\n.cfi_def_cfa_offset 16\n.cfi_offset rbp, -16\nmov %rsp, %rbp\n"
                        ".cfi_def_cfa_register rbp\nsub $64, %rsp\nmov %rax, -8(%rbp)\n"
                        "mov 48(%rsp), %rdx\nleave\n.cfi_def_cfa rsp, 8\nret");
FUNCTION(argument, FRAMED("mov 32(%rsp), %eax\n"));
FUNCTION(argument_by_rbp,
         "push %rbp\n.cfi_def_cfa_offset 16\n.cfi_offset rbp, -16\nmov %rsp, %rbp\n"
         ".cfi_def_cfa_register rbp\nmov 16(%rbp), %eax\npop %rbp\n.cfi_def_cfa rsp, 8\nret");
FUNCTION(argument_below_rbp,
         "push %rbp\n.cfi_def_cfa_offset 16\n.cfi_offset rbp, -16\nmov %rsp, %rbp\n"
         ".cfi_def_cfa_register rbp\nsub $64, %rsp\nmov 80(%rsp), %rdx\nleave\n"
         ".cfi_def_cfa rsp, 8\nret");
FUNCTION(address_of_arguments, FRAMED("lea 32(%rsp), %rax\n"));
FUNCTION(half_an_argument, FRAMED("movups 16(%rsp), %xmm0\n")); /* the return address is in it */
FUNCTION(return_address, FRAMED("mov 24(%rsp), %rax\n"));
FUNCTION(pops_return_address, "pop %rax\n.cfi_def_cfa_offset 0\njmp *%rax");
FUNCTION(copy_at_entry, "mov %rsp, %rax\nsub $24, %rsp\n.cfi_def_cfa_offset 32\n"
                        "mov 8(%rax), %edx\n" UNFRAME "ret");
FUNCTION(copy, FRAMED("mov %rsp, %rdi\nmov 16(%rdi), %eax\n"));
FUNCTION(copy_too_far, FRAMED("mov %rsp, %rdi\nmov 32(%rdi), %eax\n"));
FUNCTION(copy_that_moves, FRAMED("mov %rsp, %rdi\nadd $32, %rdi\n"));
FUNCTION(stored, FRAMED("mov %rsp, (%rdi)\n"));
FUNCTION(indexed, "sub $1024, %rsp\n.cfi_def_cfa_offset 1032\nmov (%rsp,%rdi,8), %rax\n"
                  "add $1024, %rsp\n.cfi_def_cfa_offset 8\nret");
FUNCTION(indexed_near_the_top, FRAMED("mov (%rsp,%rdi,8), %rax\n"));
FUNCTION(switches, "mov (%rdi), %rsp\nret");
FUNCTION(frees_arguments, "ret $16");
FUNCTION(jumps_to_plain, "jmp plain");
FUNCTION(jumps_to_argument, "jmp argument");
FUNCTION(jumps_and_jumps, "jmp jumps_to_argument");
FUNCTION(jumps_anywhere, "jmp *%rdi");
FUNCTION(without_rows, ".cfi_undefined rip\nret");
FUNCTION(rows_that_lie, "push %rax\n.cfi_def_cfa_offset 48\nmov 16(%rsp), %eax\npop %rdx\n"
                        ".cfi_def_cfa_offset 8\nret");
FUNCTION(calls, FRAME "call plain\ncall argument\ncall *%rax\ncall *8(%rdi)\n" UNFRAME "ret");

static char folder[64];
static struct map_cache cache;
static struct elf_file file;
static struct map map;
static struct plan plan;
static struct above_finder finder;

static int begin(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/growth-XXXXXX");
    assert_non_null(mkdtemp(folder));
    setenv("XDG_CACHE_HOME", folder, 1);
    map_cache_open(&cache);
    assert_int_equal(elf_open("/proc/self/exe", &file, NULL), CT_OK);
    assert_int_equal(map_for_file(&cache, "/proc/self/exe", &map, NULL, NULL), CT_OK);
    assert_int_equal(plan_for_file(&cache, "/proc/self/exe", &plan, NULL), CT_OK);
    above_begin(&finder, &file, &map, &plan);
    return 0;
}

static int end(void **state)
{
    (void)state;
    char *command = must_format("rm -rf %s", folder);
    above_end(&finder);
    plan_close(&plan);
    map_close(&map);
    elf_close(&file);
    map_cache_close(&cache);
    assert_int_equal(system(command), 0);
    free(command);
    return 0;
}

/* Functions are found by name: where this program is loaded is nobody's business. */
static uint32_t offset_of(const char *name)
{
    for (uint32_t i = 0; i < map.function_count; i++)
        if (strcmp(map_string(&map, map.functions[i].name), name) == 0)
            return map.functions[i].start;
    fail_msg("there is no function %s", name);
    return 0;
}

static void functions(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        enum above is;
    } rows[] = {{"plain", ABOVE_NOTHING},
                {"saves", ABOVE_NOTHING},
                {"framed_by_rbp", ABOVE_NOTHING},
                {"copy", ABOVE_NOTHING},
                {"indexed", ABOVE_NOTHING},
                {"jumps_to_plain", ABOVE_NOTHING},
                {"calls", ABOVE_NOTHING},
                {"argument", ABOVE_ARGUMENTS},
                {"argument_by_rbp", ABOVE_ARGUMENTS},
                {"argument_below_rbp", ABOVE_ARGUMENTS},
                {"address_of_arguments", ABOVE_ARGUMENTS},
                {"copy_at_entry", ABOVE_ARGUMENTS},
                {"copy_too_far", ABOVE_ARGUMENTS},
                {"copy_that_moves", ABOVE_ARGUMENTS},
                {"stored", ABOVE_ARGUMENTS},
                {"indexed_near_the_top", ABOVE_ARGUMENTS},
                {"half_an_argument", ABOVE_RETURN},
                {"return_address", ABOVE_RETURN},
                {"pops_return_address", ABOVE_RETURN},
                {"switches", ABOVE_MOVES},
                {"frees_arguments", ABOVE_MOVES},
                {"jumps_to_argument", ABOVE_JUMPS},
                {"jumps_and_jumps", ABOVE_JUMPS},
                {"jumps_anywhere", ABOVE_JUMPS},
                {"rows_that_lie", ABOVE_NO_ROWS},
                {"without_rows", ABOVE_NO_START}};
    for (unsigned round = 0; round < 2; round++) /* the second time it is known */
        for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++)
            if (above_of(&finder, offset_of(rows[i].name)) != rows[i].is)
                fail_msg("%s: %s", rows[i].name,
                         above_names[above_of(&finder, offset_of(rows[i].name))]);
    assert_int_equal(above_of(&finder, offset_of("plain") + 1), ABOVE_NO_START);
}

/* The first site at or behind an offset. */
static uint32_t place_behind(uint32_t offset, unsigned number)
{
    uint32_t i = 0;
    while (plan.sites[i].offset < offset)
        i++;
    return plan.sites[i + number].offset + plan.sites[i + number].length;
}

static void calls_that_may(void **state)
{
    (void)state;
    static const enum growth_reason reasons[] = {GROWTH_ALLOWED, GROWTH_LOOKS, GROWTH_INDIRECT,
                                                 GROWTH_INDIRECT};
    const uint32_t first = offset_of("calls");
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(growth_allows(&finder, place_behind(first, i), NULL, NULL), reasons[i]);
    assert_int_equal(growth_allows(&finder, first + 1, NULL, NULL), GROWTH_NO_SITE);
    assert_int_equal(growth_allows(&finder, UINT32_MAX, NULL, NULL), GROWTH_NO_SITE);
}

static void plans(void **state)
{
    (void)state;
    struct growth g = {0};
    struct plan own;
    uint32_t refused = 0;
    const uint32_t first = offset_of("calls");
    for (unsigned i = 0; i < 3; i++) {
        struct growth_item item = {.build_id_size = (uint32_t)file.build_id_size,
                                   .place = place_behind(first, i),
                                   .bytes = 48};
        memcpy(item.build_id, file.build_id, file.build_id_size);
        vec_push(&g.items, item);
    }
    assert_int_equal(growth_plan(&g, &finder, g.items.items[0].build_id,
                                 g.items.items[0].build_id_size, &own, &refused, NULL),
                     CT_OK);
    assert_int_equal(refused, 2);
    assert_int_equal(own.site_count, 1);
    assert_int_equal(own.sites[0].grow, 3);
    assert_int_equal(own.sites[0].target, offset_of("plain"));
    assert_int_equal(growth_at(&g, g.items.items[0].build_id, g.items.items[0].build_id_size,
                               g.items.items[1].place),
                     48);
    assert_int_equal(growth_at(&g, g.items.items[0].build_id, 1, g.items.items[1].place), 0);
    plan_close(&own);
    growth_free(&g);
}

static void text(void **state)
{
    (void)state;
    static const char good[] = "0a1b 10 16\n0a1b ff12 128\nffee 10 32\n";
    static const char *const bad[] = {"0a1b 10 16",
                                      "0a1b 10 17\n",
                                      "0a1b 10 0\n",
                                      "0a1b 10 144\n",
                                      " 10 16\n",
                                      "0a1 10 16\n",
                                      "0a1b 100000000 16\n",
                                      "0a1b  16\n",
                                      "0a1b 10 16 \n",
                                      "0A1b 10 16\n",
                                      "0a1b 10 16\n\n",
                                      "0a1b 10 -16\n",
                                      "0a1b 10 16\n0a1b 10 32\n"};
    struct growth g;
    struct ct_error err;
    assert_int_equal(growth_parse(good, "x", &g, &err), CT_OK);
    assert_int_equal(g.items.count, 3);
    char *again = growth_text(&g);
    assert_string_equal(again, good);
    uint64_t number = growth_number(&g);
    g.items.items[2].bytes = 48;
    assert_true(growth_number(&g) != number);
    free(again);
    growth_free(&g);
    for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (growth_parse(bad[i], "x", &g, &err) == CT_OK)
            fail_msg("'%s' is taken", bad[i]);
    char *long_id = must_calloc(80, 1);
    memset(long_id, 'a', 66);
    strcpy(long_id + 66, " 10 16\n");
    assert_int_equal(growth_parse(long_id, "x", &g, &err), CT_ERROR);
    free(long_id);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(functions),
                                       cmocka_unit_test(calls_that_may), cmocka_unit_test(plans),
                                       cmocka_unit_test(text)};
    return cmocka_run_group_tests(tests, begin, end);
}
