/*
 * Draws samples from a program that exists only as a table of costs, and writes their profile: two
 * seeds are two runs of the same program. What `calltrail diff` may and must say of them is known.
 *
 *     sample_profile --seed N [--samples N] [--functions N] [--slower FACTOR] [--vary SHARE]
 *                    [--scale FACTOR] [--rebuilt] [--program PATH] [--unit UNIT] OUT
 *
 * The program has four stages that call functions of falling cost, each from one to three of the
 * stages, and `target`, which has 3% of the cost. --slower multiplies the cost of target and of
 * nothing else, --scale that of everything; samples are more by as much. --vary makes each
 * function's cost vary from run to run. --rebuilt moves the code and the file, --program
 * only the file.
 */
#include "base/vec.h"
#include "profile/profile.h"

#include <getopt.h>
#include <math.h>
#include <string.h>

enum { STAGES = 4, FUNCTIONS_MAX = 1000, PLACES = 3 };
#define PERIOD_NS UINT64_C(200000)

struct sampler {
    uint64_t state;
    uint32_t samples, functions;
    double slower, vary, scale;
    bool rebuilt;
    const char *program, *unit;
    struct profile_writer *writer;
    VEC(uint32_t) parents;
    VEC(uint32_t) frames;
    VEC(double) costs;
    VEC(uint64_t) values;
};

static double uniform(struct sampler *s)
{
    uint64_t z = s->state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (double)((z ^ z >> 31) >> 11) / 9007199254740992.0;
}

static double normal(struct sampler *s)
{
    return sqrt(-2 * log(1 - uniform(s))) * cos(2 * M_PI * uniform(s));
}

/* A function with one frame. */
static uint32_t add_function(struct sampler *s, const char *name, uint32_t number)
{
    uint64_t offset = 0x1000 + 0x100 * (uint64_t)number + (s->rebuilt ? 0x7730 : 0);
    uint32_t function = profile_add_function(
        s->writer, &(struct ctp_function){.offset = offset,
                                          .size = 0x100,
                                          .name = profile_add_string(s->writer, name),
                                          .module = number % 2});
    return profile_add_frame(
        s->writer,
        &(struct ctp_frame){.offset = offset + 0x20, .module = number % 2, .function = function});
}

static uint32_t add_node(struct sampler *s, uint32_t parent, uint32_t frame, double cost)
{
    vec_push(&s->parents, parent);
    vec_push(&s->frames, frame);
    vec_push(&s->costs, cost);
    vec_push(&s->values, 0);
    return (uint32_t)s->parents.count - 1;
}

/* The costs of all functions add up to 1, before target is made slower. */
static void describe(struct sampler *s)
{
    uint32_t root = add_node(s, CTP_NONE, CTP_NONE, 0);
    uint32_t top = add_node(s, root, add_function(s, "main", 0), 0.002), stages[STAGES];
    double left = 1 - 0.002 - 0.03, sum = 0;
    for (uint32_t i = 0; i < STAGES; i++) {
        char name[32];
        snprintf(name, sizeof name, "stage_%u", i);
        stages[i] = add_node(s, top, add_function(s, name, 1 + i), 0.005);
        left -= 0.005;
    }
    for (uint32_t i = 0; i < s->functions; i++)
        sum += pow(i + 1, -1.1);
    for (uint32_t i = 0; i < s->functions; i++) {
        char name[32];
        snprintf(name, sizeof name, "function_%u", i);
        uint32_t frame = add_function(s, name, 10 + i), places = 1 + i % PLACES;
        double cost = left * pow(i + 1, -1.1) / sum * exp(s->vary * normal(s));
        for (uint32_t k = 0; k < places; k++)
            add_node(s, stages[(i + k) % STAGES], frame, cost / places);
    }
    double cost = 0.03 * s->slower * exp(s->vary * normal(s));
    add_node(s, stages[1], add_function(s, "target", 9), cost);
}

static void draw(struct sampler *s)
{
    double sum = 0;
    for (size_t i = 0; i < s->costs.count; i++)
        sum += s->costs.items[i];
    double samples = s->samples * s->scale * sum;
    for (uint32_t n = 0; n < samples; n++) {
        double at = uniform(s) * sum;
        size_t i = 0;
        while (i + 1 < s->costs.count && at >= s->costs.items[i])
            at -= s->costs.items[i++];
        s->values.items[i] += PERIOD_NS;
    }
}

static int write_profile(struct sampler *s, const char *path, struct ct_error *err)
{
    CT_TRY(profile_writer_open(path, &s->writer, err));
    struct profile_writer *w = s->writer;
    const char *program = s->rebuilt ? "/opt/new/program" : s->program;
    profile_add_metric(w, &(struct ctp_metric){.name = profile_add_string(w, "cpu"),
                                               .unit = profile_add_string(w, s->unit),
                                               .kind = CTP_METRIC_SAMPLED,
                                               .period = PERIOD_NS});
    for (uint32_t i = 0; i < 2; i++)
        profile_add_module(
            w, &(struct ctp_module){.path = profile_add_string(w, i ? "/lib/libwork.so" : program),
                                    .kind = CTP_MODULE_FILE,
                                    .size = 0x100000,
                                    .build_id_size = 20,
                                    .build_id = {(uint8_t)(1 + i + (s->rebuilt ? 10 : 0))}});
    profile_add_process(w,
                        &(struct ctp_process){.pid = 100,
                                              .parent = CTP_NONE,
                                              .command = profile_add_string(w, program)},
                        0, NULL);
    profile_add_thread(w, &(struct ctp_thread){.process = 0,
                                               .tid = 100,
                                               .name = profile_add_string(w, "program"),
                                               .creator = CTP_NONE});
    describe(s);
    draw(s);
    profile_begin_nodes(w, (uint32_t)s->parents.count);
    profile_add_root(w, 0, CTP_NONE);
    profile_write_nodes(w, s->parents.items, s->frames.items, s->parents.count);
    profile_write_values(w, 0, s->values.items, s->values.count);
    return profile_writer_commit(w, err);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"seed", required_argument, NULL, 's'},      {"samples", required_argument, NULL, 'n'},
        {"functions", required_argument, NULL, 'f'}, {"slower", required_argument, NULL, 'w'},
        {"vary", required_argument, NULL, 'v'},      {"scale", required_argument, NULL, 'c'},
        {"rebuilt", no_argument, NULL, 'r'},         {"program", required_argument, NULL, 'p'},
        {"unit", required_argument, NULL, 'u'},      {0},
    };
    struct sampler s = {.samples = 5000,
                        .functions = 40,
                        .slower = 1,
                        .scale = 1,
                        .program = "/opt/old/program",
                        .unit = "ns"};
    int option;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == 's')
            s.state = strtoull(optarg, NULL, 10) * UINT64_C(0x2545f4914f6cdd1d);
        else if (option == 'n')
            s.samples = (uint32_t)strtoul(optarg, NULL, 10);
        else if (option == 'f')
            s.functions = (uint32_t)strtoul(optarg, NULL, 10);
        else if (option == 'w')
            s.slower = strtod(optarg, NULL);
        else if (option == 'v')
            s.vary = strtod(optarg, NULL);
        else if (option == 'c')
            s.scale = strtod(optarg, NULL);
        else if (option == 'r')
            s.rebuilt = true;
        else if (option == 'p')
            s.program = optarg;
        else if (option == 'u')
            s.unit = optarg;
        else
            optind = argc; /* says the usage below */
    }
    if (optind != argc - 1 || s.functions > FUNCTIONS_MAX) {
        fputs("usage: sample_profile --seed N [--samples N] [--functions N] [--slower FACTOR] "
              "[--vary SHARE] [--scale FACTOR] [--rebuilt] [--program PATH] [--unit UNIT] OUT\n",
              stderr);
        return 2;
    }
    struct ct_error err;
    int status = write_profile(&s, argv[optind], &err);
    if (status != CT_OK)
        fprintf(stderr, "sample_profile: %s\n", err.text);
    vec_free(&s.parents);
    vec_free(&s.frames);
    vec_free(&s.costs);
    vec_free(&s.values);
    return status;
}
