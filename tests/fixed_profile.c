/*
 * Writes the profile that the golden outputs of `calltrail report` show: a script under perl that
 * matches, sorts recursively and asks a C++ library, which indexes in a thread of its own; then a
 * child that sorts. Small enough to check by eye, with one of everything that views must get right.
 *
 *     fixed_profile OUT [lines]
 *
 * With `lines`, some of its frames have source positions, and functions inlined there.
 */
#include "base/vec.h"
#include "profile/profile.h"

#include <string.h>

#define SORT "std::sort<std::vector<Document*, std::allocator<Document*> >::iterator, ByScore>"
#define MAP  "std::map<std::string, std::vector<Posting, PoolAllocator<Posting> >, std::less<void> >"

enum thread { MAIN, INDEXER, CHILD };
enum phase { NO_PHASE, PARSE, RUN };

/* A context with its costs: outermost frame first, MODULE!FUNCTION, MODULE+OFFSET for code without
 * a function, ?N for a gap; the thread's own cost has no frames. */
struct context {
    enum thread thread;
    enum phase phase;
    const char *frames;
    uint64_t samples;
    uint64_t bytes;
};

#define START  "libc!__libc_start_main;perl!main;"
#define RUNOPS START "perl!perl_run;perl!Perl_runops_standard;"
#define SORTED                                                                                     \
    RUNOPS "perl!Perl_pp_sort;perl!S_mergesortsv;perl!S_sortcv;perl!Perl_runops_standard;"

static const struct context contexts[] = {
    {MAIN, PARSE, START "perl!perl_parse;perl!S_parse_body;perl!Perl_yyparse;perl!Perl_yylex", 41,
     0},
    {MAIN, PARSE, START "perl!perl_parse;perl!S_parse_body;perl!Perl_yyparse", 23, 0},
    {MAIN, PARSE,
     START "perl!perl_parse;perl!S_parse_body;perl!Perl_yyparse;perl!Perl_newBINOP;"
           "perl!Perl_Slab_Alloc;libc!malloc",
     6, 1572864},
    {MAIN, PARSE, "", 2, 0},
    {MAIN, RUN, RUNOPS "perl!Perl_pp_match;perl!Perl_regexec_flags;perl!S_regtry;perl!S_regmatch",
     312, 0},
    {MAIN, RUN,
     RUNOPS "perl!Perl_pp_match;perl!Perl_regexec_flags;perl!S_regtry;perl!S_regmatch;"
            "perl!S_regrepeat",
     95, 0},
    {MAIN, RUN, RUNOPS "perl!Perl_pp_match;perl!Perl_regexec_flags", 18, 65536},
    {MAIN, RUN, RUNOPS "perl!Perl_pp_match;perl+0x1f2e40", 7, 0},
    {MAIN, RUN, RUNOPS, 64, 0},
    {MAIN, RUN, RUNOPS "perl!Perl_pp_sort;perl!S_mergesortsv", 21, 0},
    {MAIN, RUN, SORTED "perl!Perl_pp_match;perl!Perl_regexec_flags;perl!S_regtry;perl!S_regmatch",
     88, 0},
    {MAIN, RUN,
     SORTED "perl!Perl_pp_sort;perl!S_mergesortsv;perl!S_sortcv;perl!Perl_runops_standard", 37, 0},
    {MAIN, RUN, SORTED, 29, 0},
    {MAIN, RUN,
     RUNOPS "perl!Perl_pp_entersub;search!XS_Search_query;search!Engine::query(std::string const&);"
            "search!" SORT "(ByScore);libc!__memmove_avx_unaligned",
     44, 0},
    {MAIN, RUN,
     RUNOPS "perl!Perl_pp_entersub;search!XS_Search_query;search!Engine::query(std::string const&);"
            "search!" SORT "(ByScore)",
     58, 0},
    {MAIN, RUN,
     RUNOPS "perl!Perl_pp_entersub;search!XS_Search_query;search!Engine::query(std::string const&);"
            "search!" MAP "::operator[](std::string const&);libc!malloc",
     12, 4194304},
    {MAIN, RUN, RUNOPS "perl!Perl_pp_time;vdso!__vdso_clock_gettime", 3, 0},
    {MAIN, RUN, "?4;libjit+0x40;perl!Perl_sv_setsv_flags", 5, 0},
    {INDEXER, RUN, "libc!start_thread;search!Indexer::run();search!Indexer::add(Document&)", 73, 0},
    {INDEXER, RUN,
     "libc!start_thread;search!Indexer::run();search!Indexer::add(Document&);"
     "search!" MAP "::operator[](std::string const&)",
     66, 0},
    {INDEXER, RUN,
     "libc!start_thread;search!Indexer::run();search!Indexer::add(Document&);"
     "search!" MAP "::operator[](std::string const&);libc!malloc",
     9, 12582912},
    {INDEXER, RUN, "?1;search!walk(Node*);search!walk(Node*);search!walk(Node*)", 4, 0},
    {INDEXER, RUN, "?1;search!walk(Node*);search!walk(Node*)", 2, 0},
    {CHILD, NO_PHASE,
     "libc!__libc_start_main;sort!main;sort!sortlines;sort!sortlines;sort!sequential_sort;"
     "libc!strcoll_l",
     31, 0},
    {CHILD, NO_PHASE, "libc!__libc_start_main;sort!main;sort!sortlines;sort!sequential_sort", 8,
     262144},
};
enum { CONTEXTS = sizeof contexts / sizeof *contexts };

static const struct {
    const char *name, *path;
    uint32_t kind;
} modules[] = {
    {"perl", "/usr/bin/perl", CTP_MODULE_FILE},
    {"libc", "/usr/lib/x86_64-linux-gnu/libc.so.6", CTP_MODULE_FILE},
    {"search", "/usr/lib/x86_64-linux-gnu/perl5/auto/Search/Search.so", CTP_MODULE_FILE},
    {"sort", "/usr/bin/sort", CTP_MODULE_FILE},
    {"vdso", "[vdso]", CTP_MODULE_VDSO},
    {"libjit", "/tmp/perf-4711.map", CTP_MODULE_JIT},
};
enum { MODULES = sizeof modules / sizeof *modules };

/* Where functions are in their source, by the parity of the depth (each calls from two places), and
 * what is inlined at the first of them. */
static const struct source {
    const char *function, *file;
    uint32_t declared, lines[2];
    const char *inlined, *inlined_file;
    uint32_t inlined_declared, inlined_line;
} sources[] = {
    {"sort!sortlines",
     "/build/coreutils/sort.c",
     8,
     {14, 11},
     "keycompare",
     "/build/coreutils/sort.c",
     1,
     3},
    {"perl!S_regtry",
     "/build/perl/regexec.c",
     21,
     {23, 23},
     "S_next_char",
     "/build/perl/inline.h",
     4,
     5},
    {"search!Engine::query(std::string const&)",
     "/build/search/engine.cc",
     40,
     {52, 44},
     "_ZNK5Index4findERKSs",
     "/build/search/index.h",
     7,
     9},
    {"search!Indexer::add(Document&)",
     "/build/search/index.cc",
     30,
     {33, 31},
     "_ZNK5Index4findERKSs",
     "/build/search/index.h",
     7,
     10},
};
enum { SOURCES = sizeof sources / sizeof *sources };

#define PERIOD_NS UINT64_C(1001001)

struct maker {
    struct profile_writer *writer;
    VEC(uint32_t) parents;
    VEC(uint32_t) frames;
    VEC(uint64_t) times;
    VEC(uint64_t) bytes;
    VEC(char *) names; /* of frames, as in the contexts, with "@" behind it for another call site */
    VEC(char *) functions;
    bool with_lines;
};

static uint32_t find(char **names, size_t count, const char *name)
{
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    return CTP_NONE;
}

static const struct source *source_of(const struct maker *m, const char *name)
{
    for (uint32_t i = 0; i < SOURCES && m->with_lines; i++)
        if (strcmp(sources[i].function, name) == 0)
            return &sources[i];
    return NULL;
}

static uint32_t function_of(struct maker *m, const char *name, uint32_t module)
{
    uint32_t found = find(m->functions.items, m->functions.count, name);
    if (found != CTP_NONE)
        return found;
    vec_push(&m->functions, must_strdup(name));
    const char *own = strchr(name, '!') + 1;
    const struct source *source = source_of(m, name);
    return profile_add_function(
        m->writer,
        &(struct ctp_function){.offset = 0x1000 * m->functions.count,
                               .size = 0x800,
                               .name = profile_add_string(m->writer, own),
                               .module = module,
                               .file = profile_add_string(m->writer, source ? source->file : ""),
                               .line = source ? source->declared : 0});
}

static void add_lines(struct maker *m, const struct source *s, bool second, struct ctp_frame *frame)
{
    struct profile_writer *w = m->writer;
    uint32_t file = profile_add_string(w, s->file), first = CTP_NONE;
    if (!second && s->inlined) {
        vec_push(&m->functions, must_strdup("(inlined)")); /* the names go with the records */
        uint32_t inlined = profile_add_function(
            w, &(struct ctp_function){.name = profile_add_string(w, s->inlined),
                                      .module = frame->module,
                                      .file = profile_add_string(w, s->inlined_file),
                                      .line = s->inlined_declared});
        first =
            profile_add_line(w, &(struct ctp_line){inlined, profile_add_string(w, s->inlined_file),
                                                   s->inlined_line, 5});
    }
    uint32_t own =
        profile_add_line(w, &(struct ctp_line){frame->function, file, s->lines[second], 1});
    frame->first_line = first == CTP_NONE ? own : first;
    frame->line_count = first == CTP_NONE ? 1 : 2;
}

/* Every second level calls from another place, so that frames of one function have to be joined. */
static uint32_t frame_of(struct maker *m, const char *name, uint32_t depth)
{
    char *key = must_format("%s%s", name, depth % 2 ? "@" : "");
    uint32_t found = find(m->names.items, m->names.count, key);
    if (found != CTP_NONE) {
        free(key);
        return found;
    }
    vec_push(&m->names, key);
    struct ctp_frame frame = {.module = CTP_NONE, .function = CTP_NONE};
    size_t length = strcspn(name, "!+");
    for (uint32_t i = 0; i < MODULES; i++)
        if (strncmp(modules[i].name, name, length) == 0 && strlen(modules[i].name) == length)
            frame.module = i;
    if (*name == '?') {
        frame.gap = (uint32_t)strtoul(name + 1, NULL, 10);
    } else if (name[length] == '!') {
        frame.function = function_of(m, name, frame.module);
        frame.offset = 0x1000 * (frame.function + 1) + (depth % 2 ? 0x20 : 0x40);
        frame.flags = CTP_FRAME_RETURN;
        if (source_of(m, name))
            add_lines(m, source_of(m, name), depth % 2, &frame);
    } else {
        frame.offset = strtoull(name + length + 1, NULL, 16);
    }
    return profile_add_frame(m->writer, &frame);
}

static uint32_t add_node(struct maker *m, uint32_t first, uint32_t parent, uint32_t frame)
{
    for (uint32_t i = first; i < m->parents.count; i++)
        if (m->parents.items[i] == parent && m->frames.items[i] == frame)
            return i;
    vec_push(&m->parents, parent);
    vec_push(&m->frames, frame);
    vec_push(&m->times, 0);
    vec_push(&m->bytes, 0);
    return (uint32_t)m->parents.count - 1;
}

static void add_contexts(struct maker *m)
{
    uint32_t first = 0;
    for (uint32_t i = 0; i < CONTEXTS; i++) {
        const struct context *c = &contexts[i];
        if (i == 0 || c->thread != c[-1].thread || c->phase != c[-1].phase) {
            first = (uint32_t)m->parents.count;
            profile_add_root(m->writer, c->thread, c->phase ? c->phase - 1 : CTP_NONE);
        }
        uint32_t at = add_node(m, first, CTP_NONE, CTP_NONE), depth = 0;
        char *copy = must_strdup(c->frames), *rest = copy;
        for (char *name; (name = strsep(&rest, ";")) != NULL;)
            if (*name)
                at = add_node(m, first, at, frame_of(m, name, depth++));
        free(copy);
        m->times.items[at] += c->samples * PERIOD_NS;
        m->bytes.items[at] += c->bytes;
    }
}

static void add_what_ran(struct maker *m)
{
    static const char *const perl[] = {"perl", "search.pl", "--query", "needle in a haystack"};
    static const char *const sort[] = {"sort", "-n"};
    struct profile_writer *w = m->writer;
    uint64_t start = UINT64_C(1700000000000000000);
    profile_add_process(w,
                        &(struct ctp_process){.pid = 4711,
                                              .parent = CTP_NONE,
                                              .command = profile_add_string(w, modules[0].path),
                                              .start_ns = start,
                                              .end_ns = start + 1204000000,
                                              .exit_kind = CTP_EXIT_STATUS},
                        4, perl);
    profile_add_process(w,
                        &(struct ctp_process){.pid = 4713,
                                              .parent = 0,
                                              .command = profile_add_string(w, modules[3].path),
                                              .start_ns = start + 1100000000,
                                              .end_ns = start + 1150000000,
                                              .exit_kind = CTP_EXIT_STATUS},
                        2, sort);
    static const struct {
        const char *name;
        uint32_t process, tid;
    } threads[] = {{"perl", 0, 4711}, {"indexer", 0, 4712}, {"sort", 1, 4713}};
    for (uint32_t i = 0; i < 3; i++)
        profile_add_thread(w, &(struct ctp_thread){.process = threads[i].process,
                                                   .tid = threads[i].tid,
                                                   .name = profile_add_string(w, threads[i].name),
                                                   .creator = CTP_NONE});
    profile_add_epoch(w, "parse");
    profile_add_epoch(w, "run");
}

static void add_facts(struct profile_writer *w)
{
    profile_fact_u64(w, CTP_SCOPE_PROFILE, 0, "samples", 1058);
    profile_fact_u64(w, CTP_SCOPE_PROFILE, 0, "lost", 3);
    profile_fact_u64(w, CTP_SCOPE_PROFILE, 0, "walks_total", 1058);
    profile_fact_u64(w, CTP_SCOPE_PROFILE, 0, "walks_complete", 1047);
    profile_fact_f64(w, CTP_SCOPE_PROFILE, 0, "utime_s", 1.071);
    profile_fact_f64(w, CTP_SCOPE_PROFILE, 0, "stime_s", 0.122);
}

static void add_metrics(struct profile_writer *w)
{
    profile_add_metric(w,
                       &(struct ctp_metric){.name = profile_add_string(w, "cpu"),
                                            .unit = profile_add_string(w, "ns"),
                                            .description = profile_add_string(w, "user CPU time"),
                                            .kind = CTP_METRIC_SAMPLED,
                                            .period = PERIOD_NS});
    profile_add_metric(w,
                       &(struct ctp_metric){.name = profile_add_string(w, "malloc"),
                                            .unit = profile_add_string(w, "bytes"),
                                            .description = profile_add_string(w, "bytes asked for"),
                                            .kind = CTP_METRIC_EXACT});
}

static void free_names(char **names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(names[i]);
    free(names);
}

int main(int argc, char **argv)
{
    struct ct_error err;
    struct maker m = {0};
    m.with_lines = argc == 3 && strcmp(argv[2], "lines") == 0;
    if (argc != 2 && !m.with_lines) {
        fputs("usage: fixed_profile OUT [lines]\n", stderr);
        return 2;
    }
    if (profile_writer_open(argv[1], &m.writer, &err) != CT_OK) {
        fprintf(stderr, "fixed_profile: %s\n", err.text);
        return 1;
    }
    for (uint32_t i = 0; i < MODULES; i++)
        profile_add_module(
            m.writer, &(struct ctp_module){.path = profile_add_string(m.writer, modules[i].path),
                                           .kind = modules[i].kind,
                                           .size = 0x100000});
    add_metrics(m.writer);
    add_what_ran(&m);
    add_facts(m.writer);
    add_contexts(&m);
    profile_begin_nodes(m.writer, (uint32_t)m.parents.count);
    profile_write_nodes(m.writer, m.parents.items, m.frames.items, m.parents.count);
    profile_write_values(m.writer, 0, m.times.items, m.times.count);
    profile_write_values(m.writer, 1, m.bytes.items, m.bytes.count);
    int status = profile_writer_commit(m.writer, &err);
    if (status != CT_OK)
        fprintf(stderr, "fixed_profile: %s\n", err.text);
    vec_free(&m.parents);
    vec_free(&m.frames);
    vec_free(&m.times);
    vec_free(&m.bytes);
    free_names(m.names.items, m.names.count);
    free_names(m.functions.items, m.functions.count);
    return status;
}
