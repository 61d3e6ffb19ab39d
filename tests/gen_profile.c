/*
 * Makes profiles out of random numbers: the same seed gives the same bytes.
 *
 *     gen_profile --seed N --nodes N [--shape random|deep|bushy] [--threads N] [--metrics N]
 *                 [--no-times] [--hostile] OUT
 *
 * Every table has something in it, names have characters that some tool will print wrongly, and
 * memory does not grow with the number of nodes, so that huge files can be made as well.
 */
#include "base/strings.h"
#include "profile/profile.h"

#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { CHUNK = 1 << 16, EPOCHS = 2, MODULES = 6, FUNCTIONS_MAX = 5000, FRAMES_MAX = 100000 };
enum shape { RANDOM, DEEP, BUSHY };

struct generator {
    uint64_t state;
    uint32_t nodes, threads, metrics, processes, functions, frames, lines;
    enum shape shape;
    bool without_times;
    bool hostile; /* every name would like to run in a page, or to look like another */
    struct profile_writer *writer;
};

/* splitmix64: small, and good enough for shapes. */
static uint64_t next(struct generator *g)
{
    uint64_t z = g->state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static uint32_t below(struct generator *g, uint32_t limit)
{
    return (uint32_t)((next(g) >> 32) * limit >> 32);
}

static const char *const hostile_names[] = {
    "<img src=x onerror=\"window.hostile=1\">",
    "\"><script>window.hostile=1</script>",
    "</script><script>window.hostile=1</script><!--",
    "'-(window.hostile=1)-'",
    "\xe2\x80\xaegnp.exe\xe2\x80\xac",
    "javascript:window.hostile=1//",
    "${window.hostile=1}]]>",
    "\xff\xfe\xc3(\xed\xa0\x80",
    "<svg onload=window.hostile=1>&lt;&#60;",
};
enum { HOSTILE_NAMES = sizeof hostile_names / sizeof *hostile_names, HOSTILE_LONG = 10000 };

static uint32_t string(struct generator *g, const char *text)
{
    if (!g->hostile || !*text)
        return profile_add_string(g->writer, text);
    size_t kind = hash_bytes(text, strlen(text)) % (HOSTILE_NAMES + 1);
    char *name = kind < HOSTILE_NAMES ? must_format("%s%s", hostile_names[kind], text)
                                      : must_format("%0*d%s", HOSTILE_LONG, 0, text);
    uint32_t offset = profile_add_string(g->writer, name);
    free(name);
    return offset;
}

static const char *const odd_names[] = {
    "main",
    "std::vector<int, std::allocator<int> >::push_back(int const&)",
    "operator\"\" _km",
    "a name with spaces;and a semicolon",
    "back\\slash and \"quotes\"",
    "tab\there\nand a new line",
    "\x1b[31mred\x1b[0m",
    "na\xc3\xafve \xe5\x87\xbd\xe6\x95\xb0 \xf0\x9f\x90\x99",
    "broken utf-8: \xff\xc3 \xed\xa0\x80 \xf4\x90\x80\x80 \xe2\x82",
    "c1 control \xc2\x9b[31m",
    "<script>alert('&amp;')</script>",
    "%s%n%d",
    "_ZN3fooILi3EE3barEv.cold",
    "",
};
enum { ODD_NAMES = sizeof odd_names / sizeof *odd_names };

static void add_modules(struct generator *g)
{
    static const char *const paths[MODULES] = {
        "/usr/bin/program",          "/usr/lib/libc.so.6", "[vdso]", "/tmp/perf-1.map", "",
        "/opt/odd dir/lib\xffx\n.so"};
    static const uint32_t module_kinds[MODULES] = {CTP_MODULE_FILE,    CTP_MODULE_FILE,
                                                   CTP_MODULE_VDSO,    CTP_MODULE_JIT,
                                                   CTP_MODULE_UNKNOWN, CTP_MODULE_FILE};
    for (uint32_t i = 0; i < MODULES; i++) {
        struct ctp_module module = {.path = string(g, paths[i]),
                                    .kind = module_kinds[i],
                                    .base = i == 0 ? 0x400000 : 0,
                                    .size = 0x1000 + below(g, 1 << 24),
                                    .build_id_size = i * 20 % 33};
        for (uint32_t k = 0; k < module.build_id_size; k++)
            module.build_id[k] = (uint8_t)next(g);
        profile_add_module(g->writer, &module);
    }
}

static void add_functions(struct generator *g)
{
    char *long_name = must_realloc(NULL, 3001, 1);
    memset(long_name, 'x', 3000);
    memcpy(long_name + 1020, "\xe5\x87\xbd\xe6\x95\xb0", 6); /* across a likely place to cut */
    long_name[3000] = '\0';
    for (uint32_t i = 0; i < g->functions; i++) {
        char name[64];
        snprintf(name, sizeof name, "function_%" PRIu32, i);
        uint32_t text =
            i < ODD_NAMES ? string(g, odd_names[i]) : string(g, i == ODD_NAMES ? long_name : name);
        profile_add_function(g->writer,
                             &(struct ctp_function){.offset = UINT64_C(0x1000) * i,
                                                    .size = 1 + below(g, 0x1000),
                                                    .name = text,
                                                    .module = i % 7 == 6 ? CTP_NONE : i % MODULES,
                                                    .file = string(g, i % 3 ? "src/a file.c" : ""),
                                                    .line = below(g, 3) * (i + 1)});
    }
    free(long_name);
}

static void add_lines_and_frames(struct generator *g)
{
    for (uint32_t i = 0; i < g->lines; i++)
        profile_add_line(g->writer, &(struct ctp_line){
                                        .function = i % 5 == 4 ? CTP_NONE : below(g, g->functions),
                                        .file = string(g, "src/inlined.h"),
                                        .line = below(g, 1000),
                                        .column = below(g, 80)});
    for (uint32_t i = 0; i < g->frames; i++) {
        struct ctp_frame frame = {.offset = next(g) >> 40, .flags = i % 8};
        frame.module = i % 11 == 10 ? CTP_NONE : i % MODULES;
        frame.function = i % 4 == 3 ? CTP_NONE : i % g->functions;
        frame.gap = i % 17 == 16 ? 1 + below(g, CTP_GAP_END - 1) : CTP_GAP_NONE;
        frame.line_count = i % 3;
        frame.first_line = below(g, g->lines - frame.line_count + 1);
        profile_add_frame(g->writer, &frame);
    }
}

static void add_processes_and_threads(struct generator *g)
{
    static const char *const arguments[] = {"program", "--name=a b", "", "it's", "\xff\n", "$HOME"};
    for (uint32_t i = 0; i < g->processes; i++)
        profile_add_process(
            g->writer,
            &(struct ctp_process){.pid = 1000 + i,
                                  .parent = i == 0 ? CTP_NONE : below(g, i),
                                  .command = string(g, i % 2 ? "/bin/sh" : "/usr/bin/program"),
                                  .flags = i % 4,
                                  .start_ns = UINT64_C(1700000000000000000) + i,
                                  .end_ns = UINT64_C(1700000002500000000) + below(g, 1 << 30),
                                  .exit_kind = i % 4,
                                  .exit_value = i % 4 == 2 ? 9 : i % 3},
            i % 7, arguments);
    for (uint32_t i = 0; i < g->threads; i++) {
        char name[32];
        snprintf(name, sizeof name, "worker \"%" PRIu32 "\"", i);
        profile_add_thread(
            g->writer,
            &(struct ctp_thread){.process = i % g->processes,
                                 .tid = 1000 + i,
                                 .name = string(g, i == 0 ? "main" : name),
                                 .creator = i == 0 || !g->nodes ? CTP_NONE : below(g, g->nodes),
                                 .start_ns = i,
                                 .end_ns = 2500000000u + i});
    }
    profile_add_epoch(g->writer, "start-up");
    profile_add_epoch(g->writer, "phase \"two\"");
}

static void add_metrics(struct generator *g)
{
    static const char *const names[] = {"cpu", "malloc", "calls"};
    static const char *const units[] = {"ns", "bytes", "calls"};
    for (uint32_t i = 0; i < g->metrics; i++) {
        char name[32];
        snprintf(name, sizeof name, "metric %" PRIu32, i);
        profile_add_metric(g->writer,
                           &(struct ctp_metric){.name = string(g, i < 3 ? names[i] : name),
                                                .unit = string(g, units[i % 3]),
                                                .description = string(g, i ? "" : "user CPU time"),
                                                .kind = (i + 1) % 3,
                                                .period = i % 3 == 0 ? 1000000 : 0});
    }
}

static void add_facts_about(struct generator *g, enum ctp_scope scope, uint32_t index)
{
    struct profile_writer *w = g->writer;
    profile_fact_u64(w, scope, index, "samples", next(g) >> 44);
    profile_fact_u64(w, scope, index, "lost", below(g, 100));
    profile_fact_f64(w, scope, index, "rate_got_hz", below(g, 1000) + 0.1);
    profile_fact_i64(w, scope, index, "an odd\tkey \"\xff\"", -(int64_t)below(g, 1000));
    profile_fact_string(w, scope, index, "name", "a value named like a field");
    profile_fact_string(w, scope, index, "note", odd_names[below(g, ODD_NAMES)]);
}

static void add_facts(struct generator *g)
{
    struct profile_writer *w = g->writer;
    for (uint32_t i = 0; i < MODULES; i += 2)
        add_facts_about(g, CTP_SCOPE_MODULE, i);
    for (uint32_t i = 0; i < g->threads && i < 100; i += 3)
        add_facts_about(g, CTP_SCOPE_THREAD, i);
    for (uint32_t i = 0; i < g->metrics; i++)
        add_facts_about(g, CTP_SCOPE_METRIC, i);
    for (uint32_t i = 0; i < g->processes; i++)
        add_facts_about(g, CTP_SCOPE_PROCESS, i);
    add_facts_about(g, CTP_SCOPE_PROFILE, 0);
    profile_fact_u64(w, CTP_SCOPE_PROFILE, 0, "nodes", UINT64_MAX); /* as a field is named */
    profile_fact_u64(w, CTP_SCOPE_PROFILE, 0, "walks_total", 1000);
    profile_fact_u64(w, CTP_SCOPE_PROFILE, 0, "walks_complete", 998);
    profile_fact_i64(w, CTP_SCOPE_PROFILE, 0, "lowest", INT64_MIN);
    profile_fact_f64(w, CTP_SCOPE_PROFILE, 0, "not_a_number", NAN);
    profile_fact_string(w, CTP_SCOPE_PROFILE, 0, "controls", "\x1b[31m \xc2\x9b[31m \x7f");
    profile_fact_f64(w, CTP_SCOPE_PROFILE, 0, "utime_s", 1.0 / 3);
}

static uint32_t choose_parent(struct generator *g, uint32_t first, uint32_t node)
{
    uint32_t before = node - first;
    switch (g->shape) {
    case DEEP:
        if (below(g, 64))
            return node - 1;
        return node - 1 - below(g, before < 1000 ? before : 1000);
    case BUSHY:
        return first + (before - 1) / 16;
    default:
        return first + below(g, before);
    }
}

enum { TIMED_NODES_MAX = 1 << 17, TIMED_METRICS = 2 };

/*
 * Some samples of a chunk of nodes have a time: entries of two values, in no order, some of them
 * behind the first 2^32 microseconds. Never more than the node has.
 */
static void add_times(struct generator *g, uint32_t metric, uint32_t first, const uint64_t *values,
                      uint32_t count)
{
    static const uint64_t worth[] = {1000, 40960};
    uint64_t before = g->state; /* what follows is the same with times and without */
    for (uint32_t i = 0; i < count && !g->without_times && metric < TIMED_METRICS; i++) {
        uint64_t left = values[i];
        for (unsigned k = 0; k < 6 && left; k++) {
            uint64_t bits = next(g);
            struct ctp_time_run run = {
                .metric = metric, .span = bits % 97 == 0, .value = worth[bits >> 20 & 1]};
            struct ctp_time time = {.node = first + i, .us = (uint32_t)(bits >> 32)};
            if (!run.span)
                time.us %= 7500000;
            if (run.value > left)
                break;
            profile_add_times(g->writer, &run, &time, 1);
            left -= run.value;
        }
    }
    g->state = before;
}

/* The nodes of all roots, a chunk at a time. Roots share the nodes about equally. */
static void write_nodes(struct generator *g)
{
    uint32_t roots = g->threads * EPOCHS < g->nodes ? g->threads * EPOCHS : g->nodes;
    for (uint32_t i = 0; i < roots; i++)
        profile_add_root(g->writer, i == 3 ? CTP_NONE : i / EPOCHS, i == 5 ? CTP_NONE : i % EPOCHS);
    uint32_t *parents = must_calloc(CHUNK, sizeof *parents);
    uint32_t *frames = must_calloc(CHUNK, sizeof *frames);
    uint64_t *values = must_calloc(CHUNK, sizeof *values);
    uint32_t root = 0, first = 0;
    for (uint32_t node = 0, used = 0; node < g->nodes; node++) {
        if (node == (uint64_t)g->nodes * root / roots) {
            first = node;
            root++;
            parents[used] = frames[used] = CTP_NONE;
        } else {
            parents[used] = choose_parent(g, first, node);
            bool recursion = used && parents[used] == node - 1 && frames[used - 1] != CTP_NONE &&
                             below(g, 4) == 0;
            frames[used] = recursion ? frames[used - 1] : below(g, g->frames);
        }
        if (++used < CHUNK && node + 1 < g->nodes)
            continue;
        profile_write_nodes(g->writer, parents, frames, used);
        for (uint32_t m = 0; m < g->metrics; m++) {
            for (uint32_t i = 0; i < used; i++) {
                uint64_t bits = next(g);
                values[i] = bits % 3 ? 0 : bits >> 44;
            }
            profile_write_values(g->writer, m, values, used);
            if (g->nodes <= TIMED_NODES_MAX)
                add_times(g, m, node + 1 - used, values, used);
        }
        used = 0;
    }
    free(parents);
    free(frames);
    free(values);
}

static int generate(struct generator *g, const char *path, struct ct_error *err)
{
    g->processes = 1 + g->threads / 3;
    g->functions = g->nodes < FUNCTIONS_MAX ? ODD_NAMES + 2 + g->nodes / 8 : FUNCTIONS_MAX;
    g->frames = g->nodes / 4 < FRAMES_MAX ? 40 + g->nodes / 4 : FRAMES_MAX;
    g->lines = 8 + g->frames / 2;
    CT_TRY(profile_writer_open(path, &g->writer, err));
    add_metrics(g);
    profile_begin_nodes(g->writer, g->nodes);
    write_nodes(g);
    add_modules(g);
    add_functions(g);
    add_lines_and_frames(g);
    add_processes_and_threads(g);
    add_facts(g);
    return profile_writer_commit(g->writer, err);
}

static uint32_t parse_count(const char *text)
{
    char *end;
    unsigned long long value = strtoull(text, &end, 10);
    if (*text == '\0' || *end != '\0' || value >= CTP_NONE) {
        fprintf(stderr, "gen_profile: %s is not a number that fits\n", text);
        exit(2);
    }
    return (uint32_t)value;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"seed", required_argument, NULL, 's'},    {"nodes", required_argument, NULL, 'n'},
        {"shape", required_argument, NULL, 'f'},   {"threads", required_argument, NULL, 't'},
        {"metrics", required_argument, NULL, 'm'}, {"no-times", no_argument, NULL, 'T'},
        {"hostile", no_argument, NULL, 'h'},       {0},
    };
    struct generator g = {.nodes = 100, .threads = 4, .metrics = 2};
    int option;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == 's')
            g.state = parse_count(optarg);
        else if (option == 'n')
            g.nodes = parse_count(optarg);
        else if (option == 't')
            g.threads = parse_count(optarg);
        else if (option == 'm')
            g.metrics = parse_count(optarg);
        else if (option == 'T')
            g.without_times = true;
        else if (option == 'h')
            g.hostile = true;
        else if (option == 'f' && strcmp(optarg, "random") == 0)
            g.shape = RANDOM;
        else if (option == 'f' && strcmp(optarg, "deep") == 0)
            g.shape = DEEP;
        else if (option == 'f' && strcmp(optarg, "bushy") == 0)
            g.shape = BUSHY;
        else
            optind = argc; /* says the usage below */
    }
    if (optind != argc - 1 || g.threads == 0 || g.threads > 1000000) {
        fputs("usage: gen_profile --seed N --nodes N [--shape random|deep|bushy] [--threads N] "
              "[--metrics N] [--hostile] OUT\n",
              stderr);
        return 2;
    }
    struct ct_error err;
    if (generate(&g, argv[optind], &err) != CT_OK) {
        fprintf(stderr, "gen_profile: %s\n", err.text);
        return 1;
    }
    return 0;
}
