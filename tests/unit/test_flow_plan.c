/* Plans that relocate functions: what must hold of any, on this test's own code and on a library's.
 */
#include "flow/flow_plan.h"

#include "base/search.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

struct opened {
    struct elf_file file;
    struct map map;
    struct plan_content content;
    struct flow_module module;
};

static void open_plan(const char *path, struct opened *o)
{
    struct map_cache cache;
    map_cache_open(&cache);
    assert_int_equal(map_for_file(&cache, path, &o->map, NULL, NULL), CT_OK);
    assert_int_equal(elf_open(path, &o->file, NULL), CT_OK);
    flow_plans.make(&o->file, &o->map, &o->content);
    flow_module_open(&o->module, &o->file, &o->map);
    map_cache_close(&cache);
}

static void close_plan(struct opened *o)
{
    flow_module_end(&o->module);
    flow_plans.free(&o->content);
    elf_close(&o->file);
    map_close(&o->map);
}

static uint64_t count_of(const struct opened *o, enum plan_section_kind kind)
{
    return o->content.header.sections[kind].count;
}

/* Jumps to the copies lie apart from each other and lead into the copies. */
static void check_hooks(const struct opened *o)
{
    const struct plan_hook *hooks = o->content.items[PLAN_COPY_HOOKS];
    uint64_t count = count_of(o, PLAN_COPY_HOOKS);
    for (uint64_t i = 0; i < count; i++) {
        assert_true(hooks[i].bytes == 5 || hooks[i].bytes == 2);
        if (i + 1 < count)
            assert_true(hooks[i].offset + hooks[i].bytes <= hooks[i + 1].offset);
        if (hooks[i].bytes == 5)
            assert_true(hooks[i].target < count_of(o, PLAN_COPIES));
    }
}

static void check_pieces(const struct opened *o)
{
    const struct plan_piece *pieces = o->content.items[PLAN_COPY_PIECES];
    for (uint64_t i = 1; i < count_of(o, PLAN_COPY_PIECES); i++)
        assert_true(pieces[i - 1].start + pieces[i - 1].bytes <= pieces[i].start);
}

/* No jump lies over a call of the old code, which is still made there; and every place behind one
 * leads to the copy, but where there is no room for it. */
static void check_calls(struct opened *o, const struct plan_routine *entry)
{
    const struct plan_hook *hooks = o->content.items[PLAN_COPY_HOOKS];
    const uint64_t count = count_of(o, PLAN_COPY_HOOKS);
    struct routine r;
    routine_read(&o->module, entry->start, 0, &r);
    assert_int_equal(r.reason, 0);
    for (uint32_t n = 0; n < r.blocks.count; n++) {
        const struct flow_block *b = &r.blocks.items[n];
        for (uint32_t k = b->first; k < b->end && b->is_reached; k++) {
            const struct flow_insn *call = &r.insns.items[k];
            uint64_t i;
            if (call->kind != INSN_CALL)
                continue;
            SEARCH(i, count, hooks[i].offset + hooks[i].bytes <= call->offset);
            if (i < count)
                assert_true(hooks[i].offset >= call->offset + call->length);
        }
    }
    assert_true(routine_number(&r, PLAN_MOST_PATHS));
    assert_int_equal(r.graph.paths, entry->paths);
    routine_free(&r);
}

static void check_plan(const char *path)
{
    struct opened o;
    open_plan(path, &o);
    const struct plan_routine *routines = o.content.items[PLAN_ROUTINES];
    uint64_t relocated = 0, counters = 0;
    check_hooks(&o);
    check_pieces(&o);
    for (uint64_t i = 0; i < count_of(&o, PLAN_ROUTINES); i++) {
        assert_true(!routines[i].paths == !!routines[i].reason);
        if (!routines[i].paths)
            continue;
        assert_int_equal(routines[i].first, counters); /* no two share one */
        counters += routines[i].paths;
        relocated++;
        check_calls(&o, &routines[i]);
    }
    assert_int_equal(o.content.header.path_count, counters);
    assert_true(o.content.header.lost_counter >= counters);
    assert_true(o.content.header.lost_counter < o.content.header.counter_count);
    assert_true(10 * relocated > 8 * count_of(&o, PLAN_ROUTINES));
    close_plan(&o);
}

static void test_own_code(void **state)
{
    (void)state;
    check_plan("/proc/self/exe");
}

static void test_shell(void **state)
{
    (void)state;
    check_plan("/bin/sh");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_own_code),
                                       cmocka_unit_test(test_shell)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
