/*
 * What reports show, against a computation that knows no trees: all_paths.h.
 */
#include "all_paths.h"

#include "export/export.h"
#include "query/flat.h"
#include "query/shorten.h"
#include "report/report.h"

enum { ROUNDS = 150 };

static void open_view(const struct profile *p, struct view_options options, struct view *out)
{
    struct ct_error err = {""};
    options.metric = "cost";
    options.labels.fold_inlined = folding;
    int status = view_open(p, &options, out, &err);
    assert_string_equal(err.text, "");
    assert_int_equal(status, CT_OK);
}

/* ---- What the two sides say ------------------------------------------------------------------ */

/* The key that call_of gives, from a label. */
static void label_key(const struct view *view, uint32_t label, char *key)
{
    const struct label *l = &view->labels.items.items[label];
    const char *module =
        l->module == CTP_NONE
            ? ""
            : profile_string(view->profile, profile_module(view->profile, l->module)->path);
    char text[64];
    const char *name = label_name(&view->labels, label, text, sizeof text);
    if (l->kind == LABEL_FUNCTION)
        snprintf(key, KEY_ROOM, "%s %s %u", name, module, (unsigned)l->number);
    else if (l->kind == LABEL_PLACE)
        snprintf(key, KEY_ROOM, "+ %s %u", module, (unsigned)l->number);
    else if (l->kind == LABEL_GAP)
        snprintf(key, KEY_ROOM, "gap %u", (unsigned)l->number);
    else
        snprintf(key, KEY_ROOM, "%s", l->kind == LABEL_FOLDED ? "folded" : "nothing");
}

static void check_contexts(const struct view *view)
{
    struct tally got = {0}, expected = {0};
    for (size_t i = 0; i < paths.count; i++)
        tally_add(&expected, join(&paths.items[i], 0, paths.items[i].count, false),
                  paths.items[i].value);
    const struct tree *tree = &view->tree;
    for (uint32_t i = 1; i < tree->count; i++) {
        struct path p = {0};
        uint32_t depth = 0;
        for (uint32_t at = i; at; at = tree->nodes[at].parent)
            depth++;
        p.count = depth;
        for (uint32_t at = i; at; at = tree->nodes[at].parent)
            label_key(view, tree->nodes[at].label, p.calls[--depth].key);
        const char *key = join(&p, 0, p.count, false);
        for (size_t k = 0; k < got.sums.count; k++) /* equal contexts have been joined */
            assert_string_not_equal(got.sums.items[k].key, key);
        tally_add(&got, key, tree->nodes[i].self);
    }
    tally_same(&got, &expected);
    assert_int_equal(tree->nodes[0].self, 0);
    assert_int_equal(tree->totals[0], sum_of_paths());
}

static void tally_outline(const struct view *view, const struct outline *outline,
                          struct tally *totals)
{
    uint64_t self = 0, tops = 0;
    for (uint32_t i = 0; i < outline->rows.count; i++) {
        const struct outline_row *row = &outline->rows.items[i];
        struct path p = {.count = row->depth + 1};
        uint32_t at = i;
        for (uint32_t k = p.count; k-- > 0; at = outline->rows.items[at].parent)
            label_key(view, outline->rows.items[at].label, p.calls[k].key);
        assert_int_equal(at, TREE_NONE);
        assert_true(row->total <= view->total);
        self += row->self;
        tops += row->depth == 0 ? row->total : 0;
        tally_add(totals, join(&p, 0, p.count, false), row->total);
    }
    assert_int_equal(self, tops);
}

static const struct outline_options everything = {.min_total = 1};

static void check_topdown(const struct view *view)
{
    struct tally got = {0}, expected = {0};
    for (size_t i = 0; i < paths.count; i++)
        for (uint32_t n = 1; n <= paths.items[i].count; n++)
            tally_add(&expected, join(&paths.items[i], 0, n, false), paths.items[i].value);
    struct outline outline;
    outline_topdown(view, &everything, &outline);
    tally_outline(view, &outline, &got);
    outline_free(&outline);
    tally_same(&got, &expected);
}

static void check_bottomup(const struct view *view)
{
    struct tally got = {0}, expected = {0};
    for (size_t i = 0; i < paths.count; i++)
        for (uint32_t n = 0; n < paths.items[i].count; n++)
            tally_add(&expected, join(&paths.items[i], n, paths.items[i].count, true),
                      paths.items[i].value);
    struct outline outline;
    outline_bottomup(view, &everything, &outline);
    tally_outline(view, &outline, &got);
    outline_free(&outline);
    tally_same(&got, &expected);
}

static void check_flat(const struct view *view)
{
    struct tally self = {0}, total = {0}, expected_self = {0}, expected_total = {0};
    for (size_t i = 0; i < paths.count; i++) {
        const struct path *p = &paths.items[i];
        tally_add(&expected_self, p->calls[p->count - 1].key, p->value);
        for (uint32_t n = 0; n < p->count; n++) {
            bool seen = false;
            for (uint32_t k = 0; k < n; k++)
                seen |= strcmp(p->calls[k].key, p->calls[n].key) == 0;
            if (!seen)
                tally_add(&expected_total, p->calls[n].key, p->value);
        }
    }
    uint32_t count;
    struct flat_row *rows = flat_rows(view, &count);
    for (uint32_t i = 0; i < count; i++) {
        char key[KEY_ROOM];
        label_key(view, rows[i].label, key);
        tally_add(&self, key, rows[i].self);
        tally_add(&total, key, rows[i].total);
        assert_true(share_percent(rows[i].total, view->total) <= 100);
    }
    free(rows);
    tally_same(&self, &expected_self);
    tally_same(&total, &expected_total);
}

/* The function `gamma` of both modules, as roots of two trees. */
static void check_callers_and_callees(const struct view *view)
{
    struct tally got[2] = {0}, expected[2] = {0};
    for (size_t i = 0; i < paths.count; i++) {
        const struct path *p = &paths.items[i];
        uint32_t outermost = 0;
        while (outermost < p->count && strcmp(p->calls[outermost].name, "gamma") != 0)
            outermost++;
        for (uint32_t n = outermost + 1; n <= p->count; n++)
            tally_add(&expected[0], join(p, outermost, n, false), p->value);
        for (uint32_t n = 0; n <= outermost && outermost < p->count; n++)
            tally_add(&expected[1], join(p, n, outermost + 1, true), p->value);
    }
    bool *wanted = must_calloc(view->labels.items.count, sizeof *wanted);
    for (uint32_t i = 0; i < view->labels.items.count; i++) {
        char text[64];
        wanted[i] = strcmp(label_name(&view->labels, i, text, sizeof text), "gamma") == 0;
    }
    struct outline outline;
    outline_callees(view, wanted, &everything, &outline);
    tally_outline(view, &outline, &got[0]);
    outline_free(&outline);
    outline_callers(view, wanted, &everything, &outline);
    tally_outline(view, &outline, &got[1]);
    outline_free(&outline);
    free(wanted);
    tally_same(&got[0], &expected[0]);
    tally_same(&got[1], &expected[1]);
}

static void check_all(const struct view *view)
{
    check_contexts(view);
    check_topdown(view);
    check_bottomup(view);
    check_flat(view);
    check_callers_and_callees(view);
}

/* ---- Tests ----------------------------------------------------------------------------------- */

static void views_agree_with_all_paths(void **state)
{
    (void)state;
    for (uint32_t seed = 0; seed < ROUNDS; seed++) {
        struct profile p;
        struct view view;
        random_profile(seed, &p);
        open_view(&p, (struct view_options){0}, &view);
        assert_int_equal(view.total, sum_of_paths());
        check_all(&view);
        view_close(&view);
        profile_close(&p);
    }
}

static void each_refinement_agrees_with_all_paths(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < REFINEMENTS; i++)
        for (uint32_t seed = 0; seed < ROUNDS / 3; seed++) {
            struct profile p;
            struct view view;
            random_profile(seed + 1000 * i, &p);
            uint64_t whole = sum_of_paths();
            open_view(&p,
                      (struct view_options){.refinements = &refinements[i].refinement,
                                            .refinement_count = 1},
                      &view);
            refine_paths(refinements[i].refinement.kind, refinements[i].part);
            assert_int_equal(view.total, whole);
            check_all(&view);
            view_close(&view);
            profile_close(&p);
        }
}

static void refinements_apply_one_after_the_other(void **state)
{
    (void)state;
    for (uint32_t seed = 0; seed < ROUNDS; seed++) {
        struct profile p;
        struct view view;
        struct refinement list[4];
        random_profile(seed, &p);
        size_t count = 2 + below(3);
        for (size_t i = 0; i < count; i++) {
            uint32_t which = below(REFINEMENTS);
            list[i] = refinements[which].refinement;
            refine_paths(list[i].kind, refinements[which].part);
        }
        open_view(&p, (struct view_options){.refinements = list, .refinement_count = count}, &view);
        check_all(&view);
        view_close(&view);
        profile_close(&p);
    }
}

/* Root i is thread i % 3 (processes 0, 0, 1) in phase i / 3, the last in none. */
static void threads_processes_and_phases_are_chosen(void **state)
{
    (void)state;
    static const struct {
        struct view_options options;
        unsigned roots; /* bits */
    } choices[] = {
        {{.thread = "one"}, 0x12},
        {{.thread = "other"}, 0x0d},
        {{.thread = "102"}, 0x04},
        {{.process = "7"}, 0x1b},
        {{.process = "8"}, 0x04},
        {{.phase = "first"}, 0x07},
        {{.phase = "second"}, 0x08},
        {{.phase = "(no phase)"}, 0x10},
        {{.thread = "one", .phase = "first"}, 0x02},
    };
    for (uint32_t i = 0; i < sizeof choices / sizeof *choices; i++)
        for (uint32_t seed = 0; seed < 20; seed++) {
            struct profile p;
            struct view view;
            random_profile(seed, &p);
            size_t kept = 0;
            for (size_t k = 0; k < paths.count; k++)
                if (choices[i].roots >> paths.items[k].root & 1)
                    paths.items[kept++] = paths.items[k];
            paths.count = kept;
            open_view(&p, choices[i].options, &view);
            assert_int_equal(view.total, sum_of_paths());
            check_all(&view);
            view_close(&view);
            profile_close(&p);
        }
}

/* Groups have the sums of their roots, whatever is refined below them. */
static void groups_sum_up_their_roots(void **state)
{
    (void)state;
    static const uint32_t groups[][ROOTS] = {[GROUP_THREAD] = {0, 1, 2, 0, 1},
                                             [GROUP_PROCESS] = {0, 0, 1, 0, 0},
                                             [GROUP_PHASE] = {0, 0, 0, 1, CTP_NONE}};
    for (uint32_t seed = 0; seed < ROUNDS; seed++) {
        struct profile p;
        struct view view;
        random_profile(seed, &p);
        enum view_grouping grouping = GROUP_THREAD + seed % 3;
        uint32_t which = below(REFINEMENTS);
        refine_paths(refinements[which].refinement.kind, refinements[which].part);
        open_view(&p,
                  (struct view_options){.grouping = grouping,
                                        .refinements = &refinements[which].refinement,
                                        .refinement_count = 1},
                  &view);
        struct tally got = {0}, expected = {0};
        char key[16];
        for (size_t i = 0; i < paths.count; i++) {
            snprintf(key, sizeof key, "%u", groups[grouping][paths.items[i].root]);
            tally_add(&expected, key, paths.items[i].value);
        }
        for (uint32_t i = 1; i < view.tree.count; i += view.tree.sizes[i]) {
            const struct label *label = &view.labels.items.items[view.tree.nodes[i].label];
            assert_int_equal(label->kind, LABEL_GROUP);
            assert_int_equal(view.tree.nodes[i].self, 0); /* contexts have it all */
            snprintf(key, sizeof key, "%u", (unsigned)label->number);
            tally_add(&got, key, view.tree.totals[i]);
        }
        tally_same(&got, &expected);
        view_close(&view);
        profile_close(&p);
    }
}

/* What is printed with `kind` as CSV, without limits. */
static char *print_csv(const struct view *view, enum report_kind kind)
{
    char *text;
    size_t size;
    struct terminal terminal = {.out = open_memstream(&text, &size), .columns = 80};
    struct report_options options = {.kind = kind, .format = SHEET_CSV};
    struct ct_error err;
    assert_int_equal(report_print(view, &options, &terminal, &err), CT_OK);
    fclose(terminal.out);
    return text;
}

static void printed_self_values_sum_to_the_total(void **state)
{
    (void)state;
    static const struct {
        enum report_kind kind;
        int column; /* that must sum to the total */
        int share_column;
        bool tops_only; /* of rows with depth 0 */
    } prints[] = {
        {REPORT_CONTEXTS, 1, 0, false},  {REPORT_TOPDOWN, 6, 1, false},
        {REPORT_TOPDOWN, 3, 2, true},    {REPORT_BOTTOMUP, 2, 1, true},
        {REPORT_FLAT, 2, 1, false},      {REPORT_THREADS, 1, 0, false},
        {REPORT_PROCESSES, 1, 0, false}, {REPORT_PHASES, 1, 0, false},
    };
    for (uint32_t seed = 0; seed < ROUNDS; seed++) {
        struct profile p;
        random_profile(seed, &p);
        for (size_t i = 0; i < sizeof prints / sizeof *prints; i++) {
            struct view view;
            struct view_options options = {0};
            report_prepare(&(struct report_options){.kind = prints[i].kind}, &options);
            open_view(&p, options, &view);
            char *text = print_csv(&view, prints[i].kind), *rest = text;
            uint64_t sum = 0;
            strsep(&rest, "\n");
            for (char *line; (line = strsep(&rest, "\n")) != NULL && *line;) {
                char *cells[8] = {0};
                for (int k = 0; k < 8 && line; k++)
                    cells[k] = strsep(&line, ",");
                assert_true(strtod(cells[prints[i].share_column], NULL) <= 100);
                if (!prints[i].tops_only || strcmp(cells[0], "0") == 0)
                    sum += strtoull(cells[prints[i].column], NULL, 10);
            }
            assert_int_equal(sum, sum_of_paths());
            free(text);
            view_close(&view);
        }
        profile_close(&p);
    }
}

/* Of a limited outline, no row that is missing is heavier than one that is there. */
/* What the lines of a function cost, by its paths: a line is on a path or it is not. */
static void expect_lines(const char *name, struct tally *self, struct tally *total)
{
    for (size_t i = 0; i < paths.count; i++) {
        const struct path *p = &paths.items[i];
        bool seen[64] = {false};
        for (uint32_t k = 0; k < p->count; k++) {
            const struct call *c = &p->calls[k];
            char key[16];
            if (!c->code || strcmp(c->name, name) != 0)
                continue;
            snprintf(key, sizeof key, "%u", c->line);
            if (!seen[c->line])
                tally_add(total, key, p->value);
            seen[c->line] = true;
            if (k + 1 == p->count)
                tally_add(self, key, p->value);
        }
    }
}

static void lines_agree_with_all_paths(void **state)
{
    (void)state;
    static const char *const names[] = {"alpha", "eps", "inl", "beta"};
    for (uint32_t seed = 0; seed < ROUNDS; seed++) {
        struct profile p;
        struct view view;
        struct report_options options = {
            .kind = REPORT_LINES, .function = names[seed % 4], .format = SHEET_CSV};
        struct view_options view_options = {0};
        struct tally got[2] = {0}, expected[2] = {0};
        random_profile(seed, &p);
        report_prepare(&options, &view_options);
        open_view(&p, view_options, &view);
        expect_lines(options.function, &expected[0], &expected[1]);
        char *text = NULL, *rest;
        size_t size;
        struct terminal terminal = {.out = open_memstream(&text, &size), .columns = 80};
        struct ct_error err;
        int status = report_print(&view, &options, &terminal, &err);
        fclose(terminal.out);
        rest = text;
        strsep(&rest, "\n");
        for (char *line; rest && (line = strsep(&rest, "\n")) != NULL && *line;) {
            char *cells[7] = {0};
            for (int k = 0; k < 7 && line; k++)
                cells[k] = strsep(&line, ",");
            assert_true(strtod(cells[1], NULL) <= 100);
            tally_add(&got[0], cells[3], strtoull(cells[2], NULL, 10));
            tally_add(&got[1], cells[3], strtoull(cells[6], NULL, 10));
        }
        /* A function that no label has, because all of it was inlined and that is folded. */
        assert_true(status == CT_OK || expected[1].sums.count == 0);
        tally_same(&got[0], &expected[0]);
        tally_same(&got[1], &expected[1]);
        free(text);
        view_close(&view);
        profile_close(&p);
    }
}

static void limits_keep_the_heaviest_rows(void **state)
{
    (void)state;
    for (uint32_t seed = 0; seed < ROUNDS; seed++) {
        struct profile p;
        struct view view;
        random_profile(seed, &p);
        open_view(&p, (struct view_options){0}, &view);
        for (int up = 0; up < 2; up++) {
            struct outline all, some;
            struct outline_options options = {.min_total = 1, .limit_rows = 1 + below(12)};
            (up ? outline_bottomup : outline_topdown)(&view, &everything, &all);
            (up ? outline_bottomup : outline_topdown)(&view, &options, &some);
            uint32_t expected =
                options.limit_rows < all.rows.count ? options.limit_rows : (uint32_t)all.rows.count;
            assert_int_equal(some.rows.count, expected);
            uint64_t lightest = UINT64_MAX;
            for (uint32_t i = 0; i < some.rows.count; i++)
                if (some.rows.items[i].total < lightest)
                    lightest = some.rows.items[i].total;
            uint32_t heavier = 0;
            for (uint32_t i = 0; i < all.rows.count; i++)
                heavier += all.rows.items[i].total > lightest;
            assert_true(heavier < options.limit_rows);
            outline_free(&all);
            outline_free(&some);
        }
        view_close(&view);
        profile_close(&p);
    }
}

static void folded_stacks_agree_with_all_paths(void **state)
{
    (void)state;
    static const char *const thread_names[] = {"other", "one", "other", "other", "one"};
    for (uint32_t seed = 0; seed < ROUNDS; seed++) {
        struct profile p;
        struct ct_error err;
        bool by_thread = seed % 2;
        random_profile(seed, &p);
        struct tally got = {0}, expected = {0};
        for (size_t i = 0; i < paths.count; i++) {
            size_t used = 0;
            if (by_thread)
                used = (size_t)sprintf(joined, ";%s", thread_names[paths.items[i].root]);
            for (uint32_t k = 0; k < paths.items[i].count; k++) {
                const struct call *c = &paths.items[i].calls[k];
                const char *name =
                    strcmp(c->key, "nothing") == 0 ? "(context not known)"
                    : strcmp(c->key, "gap 1") == 0 ? "(walk ended: more frames than could be kept)"
                    : strcmp(c->key, "gap 2") == 0 ? "(walk ended: code outside every module)"
                    : strcmp(c->name, "delta;x") == 0 ? "delta:x"
                                                      : c->name;
                used += (size_t)snprintf(joined + used, sizeof joined - used, ";%s", name);
            }
            tally_add(&expected, joined + 1, paths.items[i].value);
        }
        char *text, *rest;
        size_t size;
        FILE *out = open_memstream(&text, &size);
        struct export_options options = {
            .metric = "cost", .threads = by_thread, .no_inline = folding};
        assert_int_equal(export_profile(&p, export_find("folded"), &options, out, &err), CT_OK);
        fclose(out);
        rest = text;
        for (char *line; (line = strsep(&rest, "\n")) != NULL && *line;) {
            char *space = strrchr(line, ' ');
            *space = '\0';
            for (size_t k = 0; k < got.sums.count; k++) /* identical lines are merged */
                assert_string_not_equal(got.sums.items[k].key, line);
            tally_add(&got, line, strtoull(space + 1, NULL, 10));
        }
        tally_same(&got, &expected);
        free(text);
        profile_close(&p);
    }
}

static void names_are_cut_with_care(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        size_t columns;
        const char *expected;
    } cases[] = {
        {"short", 10, "short"},
        {"std::map<K, std::vector<V> >::at(K const&)", 40, "std::map<...>::at(K const&)"},
        {"std::map<Key, std::vector<Value, Alloc> >::at(int)", 80, "std::map<...>::at(int)"},
        {"std::vector<int>::at(unsigned long)", 80, "std::vector<int>::at(unsigned long)"},
        {"std::map<Key, Value>::at(int, int, int)", 25, "std::map<...>::at(...)"},
        {"std::map<Key, Value>::at(int, int, int)", 18, "std::map<...>::at"},
        {"std::map<Key, Value>::at(int, int, int)", 10, "at"},
        {"void std::__introsort_loop<It, long>(It, It, long)", 80,
         "std::__introsort_loop<...>(It, It, long)"},
        {"void std::__introsort_loop<It, long>(It, It, long)", 25, "__introsort_loop<...>"},
        {"void std::__introsort_loop<It, long>(It, It, long)", 20, "__introsort_loop"},
        {"a::operator<<(a long list, of parameters)", 20, "a::operator<<(...)"},
        {"a::operator()(a long list, of parameters)", 20, "a::operator()(...)"},
        {"bool std::operator< <char, Traits>(A const&, B const&)", 30, "std::operator< <...>(...)"},
        {"a::run(int)::{lambda(A const&, B const&)#1}::operator()(A const&, B const&) const", 51,
         "a::run(int)::{lambda(...)#1}::operator()(...) const"},
        {"a::run(int)::{lambda(A const&, B const&)#1}::operator()(A const&, B const&) const", 30,
         "{lambda(...)#1}::operator()"},
        {"bool std::operator==<char, Traits>(A const&, B const&)", 30, "std::operator==<...>(...)"},
        {"A std::operator+<char, Traits>(A const&, B const&)", 40,
         "std::operator+<...>(A const&, B const&)"},
        {"T* p<T, Deleter>::operator-><U, V>(int, long, int) const", 30, "p<...>::operator-><...>"},
        {"(anonymous namespace)::function(with parameters)", 40,
         "(anonymous namespace)::function(...)"},
        {"<alloc::vec::Vec<T> as core::ops::drop::Drop>::drop", 60,
         "<alloc::vec::Vec<T> as core::ops::drop::Drop>::drop"},
        {"x->y<unbalanced", 12, "x->y<...nced"},
        {"0123456789abcdefghij", 11, "0123...ghij"},
        {"(walk ended: stack not readable)", 20, "(walk end...eadable)"},
        {"na\xc3\xafve \xe5\x87\xbd\xe6\x95\xb0 with a tail", 11, "na\xc3\xafv...tail"},
        {"abcdefghij", 5, "abcde"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *name = text_clean(cases[i].name);
        name_shorten(name, cases[i].columns, false);
        assert_true(text_columns(name) <= cases[i].columns);
        assert_string_equal(name, cases[i].expected);
        free(name);
    }
    static const char *const unicode[][2] = {
        {"std::map<Key, Value>::at(int, int)", "std::map<…>::at(…)"},
        {"0123456789abcdefghijklmn", "012345678…fghijklmn"},
        {"0123456789abcdefghij", "012345678…cdefghij"}};
    for (size_t i = 0; i < 3; i++) {
        char *name = text_clean(unicode[i][0]);
        name_shorten(name, 19, true);
        assert_string_equal(name, unicode[i][1]);
        free(name);
    }
    static const char *const modules[][2] = {{"libc.so.6", "libc"},
                                             {"ld-linux-x86-64.so.2", "ld-linu..."},
                                             {"perl", "perl"},
                                             {".so-and-so", ".so-a..."}};
    for (size_t i = 0; i < 4; i++) {
        char *module = text_clean(modules[i][0]);
        module_shorten(module, i == 1 ? 10 : 8, false);
        assert_string_equal(module, modules[i][1]);
        free(module);
    }
    /* Controls; what is no UTF-8; what turns the direction of writing or cannot be seen; and what
     * people write. */
    static const char *const shown[][2] = {
        {"a\x1b[1m\n\xc2\x9b", "a\\x1b[1m\\x0a\\xc2\\x9b"},
        {"\xff\xe2\x80", "\\xff\\xe2\\x80"},
        {"x\u202e\u2066y\u200f\u061c\u200b\ufeff", "x\\u202e\\u2066y\\u200f\\u061c\\u200b\\ufeff"},
        {"größe\u00a0→ 変数 \U0001f600", "größe\u00a0→ 変数 \U0001f600"},
    };
    for (size_t i = 0; i < sizeof shown / sizeof *shown; i++) {
        char *clean = text_clean(shown[i][0]);
        assert_string_equal(clean, shown[i][1]);
        free(clean);
    }
}

static void one_thing_is_one(void **state)
{
    (void)state;
    static const struct {
        const char *unit, *one, *two;
    } cases[] = {{"calls", "1 call", "2 calls"}, {"ns", "1 ns", "2 ns"},
                 {"bytes", "1 byte", "2 bytes"}, {"pages", "1 page", "2 pages"},
                 {"gas", "1 gas", "2 gas"},      {"", "1 ", "2 "}};
    char text[AMOUNT_ROOM];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct amount_scale scale = amount_scale(cases[i].unit, 9);
        assert_string_equal(amount_text(&scale, 1, text), cases[i].one);
        assert_string_equal(amount_text(&scale, 2, text), cases[i].two);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(views_agree_with_all_paths),
        TEST(each_refinement_agrees_with_all_paths),
        TEST(refinements_apply_one_after_the_other),
        TEST(threads_processes_and_phases_are_chosen),
        TEST(groups_sum_up_their_roots),
        TEST(printed_self_values_sum_to_the_total),
        TEST(lines_agree_with_all_paths),
        TEST(limits_keep_the_heaviest_rows),
        TEST(folded_stacks_agree_with_all_paths),
        TEST(names_are_cut_with_care),
        TEST(one_thing_is_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
