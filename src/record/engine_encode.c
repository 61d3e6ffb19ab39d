/* Engine `encode`: contexts of samples by decoding a number that call sites keep. */
#include "record/engine.h"
#include "record/engine_encode_dictionary.h"
#include "record/grow.h"
#include "record/record.h"
#include "record/server.h"
#include "runtime/encode/encode_format.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

struct encode_options {
    const char *modules; /* a glob for the modules whose call sites are edited; NULL: all */
    uint64_t max_ids;    /* 0: as many as there are */
    uint64_t renumber;   /* 0: when it is worth it */
};

static int take_modules(void *options, const char *argument, struct ct_error *err)
{
    (void)err;
    ((struct encode_options *)options)->modules = argument;
    return CT_OK;
}

static int take_number(const char *option, const char *argument, uint64_t *to, struct ct_error *err)
{
    char *end;
    *to = strtoul(argument, &end, 10);
    if (*end || *argument < '0' || *argument > '9' || !*to || *to > INT32_MAX)
        return ct_fail(err, "--%s: '%s' is not from 1 to %d", option, argument, INT32_MAX);
    return CT_OK;
}

static int take_max_ids(void *options, const char *argument, struct ct_error *err)
{
    return take_number("max-ids", argument, &((struct encode_options *)options)->max_ids, err);
}

static int take_renumber(void *options, const char *argument, struct ct_error *err)
{
    return take_number("renumber", argument, &((struct encode_options *)options)->renumber, err);
}

static const struct engine_option option_rows[] = {
    {.name = "modules",
     .argument = "GLOB",
     .take = take_modules,
     .help = "only calls from modules whose path or name matches",
     .man = "edit only calls from modules whose path or name matches; contexts of others are "
            "walked.\n"},
    {.name = "max-ids",
     .argument = "N",
     .take = take_max_ids,
     .help = "at most N numbers for contexts, 2147483647 by default;\nwhere they are too few, "
             "the coldest calls have none",
     .man = "at most\n.Ar n\nnumbers for contexts, 2147483647 by default.\n"
            "Where they are too few, the coldest calls have none, and cost more.\n"},
    {.name = "renumber",
     .argument = "N",
     .take = take_renumber,
     .help = "make numbers anew after N calls whose number was not known,\nnot only when it is "
             "worth it (a test of the engine)",
     .man = "make numbers anew after\n.Ar n\ncalls whose number was not known, not only when it is "
            "worth it: a test of the engine.\n"},
    {0}};

static int check(const void *options, const struct record_options *all, struct ct_error *err)
{
    (void)options;
    if (all->perf.count)
        return ct_fail(err, "perf events cannot be combined with --engine encode");
    return CT_OK;
}

static void make_settings(const void *options, const struct record_options *all,
                          uint64_t settings[ENGINE_SETTINGS])
{
    (void)all;
    const struct encode_options *o = options;
    struct encode_settings s = {.most_ids = o->max_ids, .storm_calls = o->renumber};
    memcpy(settings, &s, sizeof s);
}

static bool edits(const void *options, const char *path)
{
    const char *glob = ((const struct encode_options *)options)->modules;
    const char *name = strrchr(path, '/');
    return !glob || fnmatch(glob, path, 0) == 0 || (name && fnmatch(glob, name + 1, 0) == 0);
}

/* Each is a sum over threads, in the order of struct encode_counts. */
enum { COUNTS = sizeof(struct encode_counts) / sizeof(uint64_t) };

static_assert((unsigned)COUNTS <= (unsigned)ENGINE_SUMS, "they have their places");

static void grow(void *state, const struct arena_view *v, const struct arena_thread *t,
                 struct grown_tree *g)
{
    (void)state;
    (void)v;
    const uint64_t *counts = (const uint64_t *)(const void *)encode_counts_in(t);
    for (unsigned i = 0; i < COUNTS; i++)
        g->sums[i] += counts[i];
}

static void write_facts(const struct server *s, const uint64_t sums[ENGINE_SUMS],
                        struct profile_writer *w, enum ctp_scope scope, uint32_t index)
{
    static const char *const names[COUNTS] = {
        "encode_functions", "encode_edges",       "encode_coded_edges", "encode_back_edges",
        "encode_ids",       "encode_entries",     "encode_numberings",  "encode_numbering_ns",
        "encode_pushes",    "encode_resyncs",     "encode_not_encoded", "encode_decoded",
        "encode_walked",    "encode_walk_frames", "encode_entry_depth", "encode_slow"};
    (void)s;
    for (unsigned i = 0; i < COUNTS; i++)
        profile_fact_u64(w, scope, index, names[i], sums[i]);
}

const struct record_engine record_encode = {
    ENGINE_IS(encode),
    .help = "samples whose context is decoded from a number that edited\ncall sites keep; no stack "
            "is walked but its innermost frames",
    .man = "The context of each sample is decoded from a number that call sites keep, which are "
           "edited in the\nprogram's memory.\nOnly the innermost frames of a stack are walked.\n",
    .options = option_rows,
    .options_bytes = sizeof(struct encode_options),
    .check = check,
    .settings = make_settings,
    .events = EVENT_CPU,
    .first_arena_bytes = 2 << 20, /* a thread's first snapshot needs room for its dictionary */
    .edits = edits,
    .grow = grow,
    .write_facts = write_facts,
    .write_process = encode_write_process,
};
