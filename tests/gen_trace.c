/*
 * Makes traces out of random numbers: the same seed gives the same bytes.
 *
 *     gen_trace --seed N [--events N] [--functions N] [--fanout N] [--depth N] [--skew X]
 *               [--threads N] [--call-share X] OUT
 *     gen_trace --seed N --many N FOLDER
 *
 * A function can call FANOUT others, the first of them oftener than the last by the power SKEW.
 * With
 * --many, small traces of all kinds: deep, flat, recursive (the root's function too), of one
 * function or many, with threads whose events are mixed, and with calls that never return.
 */
#include "trace/trace.h"

#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

struct shape {
    uint64_t state;
    uint32_t events, functions, fanout, depth, threads, sites;
    double skew, call_share;
};

/* splitmix64 */
static uint64_t next(struct shape *s)
{
    uint64_t z = s->state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static uint32_t below(struct shape *s, uint32_t limit)
{
    return (uint32_t)((next(s) >> 32) * limit >> 32);
}

static double unit(struct shape *s)
{
    return (double)(next(s) >> 11) * 0x1p-53;
}

static uint32_t callee_of(struct shape *s, uint32_t caller)
{
    uint32_t which = (uint32_t)(pow(unit(s), s->skew) * s->fanout);
    uint64_t mixed = ((uint64_t)caller << 32 | which) * UINT64_C(0xd6e8feb86659fd93);
    return (uint32_t)((mixed ^ mixed >> 32) * UINT64_C(0x9e3779b97f4a7c15) >> 40) % s->functions;
}

struct stack {
    VEC(uint32_t) functions;
};

static void write_events(struct shape *s, struct trace_writer *w)
{
    struct stack *stacks = must_calloc(s->threads, sizeof *stacks);
    uint32_t thread = 0, known = 1;
    for (uint32_t i = 0; i < s->events; i++) {
        if (s->threads > 1 && below(s, 4) == 0) {
            thread = below(s, known < s->threads ? known + 1 : known);
            known += thread == known;
            trace_choose_thread(w, thread);
        }
        struct stack *stack = &stacks[thread];
        size_t depth = stack->functions.count;
        if (depth && (depth >= s->depth || unit(s) >= s->call_share)) {
            trace_write_return(w);
            stack->functions.count--;
            continue;
        }
        uint32_t callee =
            depth ? callee_of(s, stack->functions.items[depth - 1]) : thread % s->functions;
        trace_write_call(w, callee * s->sites + below(s, s->sites));
        vec_push(&stack->functions, callee);
    }
    for (uint32_t t = 0; t < s->threads; t++)
        vec_free(&stacks[t].functions);
    free(stacks);
}

static int write_trace(struct shape *s, const char *path)
{
    struct trace_writer *w;
    struct ct_error err;
    if (trace_writer_open(path, &w, &err) == CT_OK) {
        for (uint32_t i = 0; i < s->functions; i++) {
            char name[32];
            snprintf(name, sizeof name, "f%" PRIu32, i);
            uint32_t function = trace_add_function(w, name, "generated");
            for (uint32_t site = 0; site < s->sites; site++)
                trace_add_label(w, function, site);
        }
        write_events(s, w);
        if (trace_writer_commit(w, &err) == CT_OK)
            return 0;
    }
    fprintf(stderr, "gen_trace: %s\n", err.text);
    return 1;
}

static int write_many(uint64_t seed, uint32_t count, const char *folder)
{
    int status = 0;
    for (uint32_t i = 0; i < count && status == 0; i++) {
        struct shape s = {.state = seed * 1000003 + i};
        s.events = below(&s, 4) ? below(&s, 60) : below(&s, 300);
        s.functions = 1 + below(&s, below(&s, 2) ? 4 : 12);
        s.fanout = 1 + below(&s, 6);
        s.depth = 1 + below(&s, below(&s, 3) ? 8 : 40);
        s.threads = below(&s, 3) ? 1 : 1 + below(&s, 4);
        s.sites = below(&s, 3) ? 1 : 3;
        s.skew = below(&s, 2) ? 1 : 3;
        s.call_share = 0.3 + 0.6 * unit(&s);
        char *path = must_format("%s/%05" PRIu32 ".trace", folder, i);
        status = write_trace(&s, path);
        free(path);
    }
    return status;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"seed", 1, NULL, 's'},       {"events", 1, NULL, 'e'},
        {"functions", 1, NULL, 'f'},  {"fanout", 1, NULL, 'o'},
        {"depth", 1, NULL, 'd'},      {"skew", 1, NULL, 'w'},
        {"threads", 1, NULL, 't'},    {"many", 1, NULL, 'm'},
        {"call-share", 1, NULL, 'c'}, {0},
    };
    struct shape s = {.events = 1000,
                      .functions = 50,
                      .fanout = 8,
                      .depth = 30,
                      .threads = 1,
                      .sites = 1,
                      .skew = 2,
                      .call_share = 0.52};
    uint64_t seed = 1;
    uint32_t many = 0;
    int option;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        uint32_t number = optarg ? (uint32_t)strtoul(optarg, NULL, 10) : 0;
        switch (option) {
        case 's':
            seed = number;
            break;
        case 'e':
            s.events = number;
            break;
        case 'f':
            s.functions = number;
            break;
        case 'o':
            s.fanout = number;
            break;
        case 'd':
            s.depth = number;
            break;
        case 'w':
            s.skew = strtod(optarg, NULL);
            break;
        case 't':
            s.threads = number;
            break;
        case 'm':
            many = number;
            break;
        case 'c':
            s.call_share = strtod(optarg, NULL);
            break;
        default:
            return 2;
        }
    }
    if (optind + 1 != argc || !s.functions || !s.fanout || !s.threads) {
        fputs("usage: gen_trace [OPTIONS] OUT\n", stderr);
        return 2;
    }
    s.state = seed;
    return many ? write_many(seed, many, argv[optind]) : write_trace(&s, argv[optind]);
}
