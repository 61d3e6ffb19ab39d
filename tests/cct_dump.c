/*
 * What our trees say about traces, for a program that knows nothing of them to compare with.
 *
 *     cct_dump TRACE…
 *
 * For each trace, with and without call sites, and each k: every chain of at most k callers with
 * its number of calls, from the k-slab forest and from the calling context tree:
 *
 *     TRACE sites|functions slabs|tree K COUNT CHAIN
 *
 * where CHAIN is labels (or functions), outermost first, with commas.
 */
#include "cct/contexts.h"
#include "trace/replay.h"

#include <inttypes.h>

static void print_contexts(const char *what, const struct contexts *c)
{
    for (uint32_t i = 0; i < c->count; i++) {
        printf("%s %" PRIu64 " ", what, c->values[i]);
        /* Upwards in an inverse is inwards in the stack. */
        for (uint32_t at = i; at != CONTEXTS_NONE; at = c->nodes[at].parent)
            printf("%s%" PRIu32, at == i ? "" : ",", c->nodes[at].label);
        putchar('\n');
    }
}

static int dump(const char *path, bool sites, bool slabs, uint32_t k)
{
    struct trace trace;
    struct replay replay;
    struct ct_error err;
    /* k = 0 has no slabs: it is asked of those of k = 1. */
    struct replay_options options = {.k = !slabs ? FOREST_UNBOUNDED : k ? k : 1, .sites = sites};
    if (trace_open(path, &trace, &err) != CT_OK ||
        replay_trace(&trace, &options, &replay, &err) != CT_OK) {
        fprintf(stderr, "cct_dump: %s\n", err.text);
        return 1;
    }
    struct contexts forest, inverse;
    contexts_from_forest(&replay.forest, &forest);
    contexts_invert(&forest, k, &inverse);
    char *what = must_format("%s %s %s %" PRIu32, path, sites ? "sites" : "functions",
                             slabs ? "slabs" : "tree", k);
    print_contexts(what, &inverse);
    free(what);
    contexts_free(&forest);
    contexts_free(&inverse);
    replay_end(&replay);
    trace_close(&trace);
    return 0;
}

int main(int argc, char **argv)
{
    static const uint32_t ks[] = {0, 1, 2, 3, 5, 8, 100};
    for (int i = 1; i < argc; i++)
        for (int way = 0; way < 4; way++)
            for (size_t k = 0; k < sizeof ks / sizeof *ks; k++)
                if (dump(argv[i], way & 1, way & 2, ks[k]) != 0)
                    return 1;
    return 0;
}
