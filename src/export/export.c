#include "export/export.h"

#include <inttypes.h>
#include <stdio_ext.h>
#include <string.h>

const struct export_format export_formats[] = {
    {.name = "folded",
     .about = "one line for each context, f1;f2;f3 value: flame graph tools",
     .identity = STACK_BY_NAME,
     .greatest = UINT64_MAX,
     .write = export_folded},
    {.name = "pprof",
     .about = "gzipped profile.proto: pprof, Go tools, Pyroscope, Parca",
     .binary = true,
     .all_metrics = true,
     .one_frame_for_inlined = true,
     .identity = STACK_BY_PLACE,
     .greatest = INT64_MAX,
     .write = export_pprof},
    {.name = "speedscope",
     .about = "JSON: speedscope",
     .identity = STACK_BY_FUNCTION,
     .greatest = UINT64_MAX,
     .write = export_speedscope},
    {.name = "callgrind",
     .about = "call graph: KCachegrind, callgrind_annotate",
     .identity = STACK_BY_PLACE,
     .greatest = UINT64_MAX,
     .loses = "callgrind files hold a call graph: which contexts the costs came from is lost, and "
              "counts of calls are numbers of contexts",
     .write = export_callgrind},
    {.name = "firefox",
     .about = "JSON: profiler.firefox.com",
     .identity = STACK_BY_PLACE,
     .greatest = UINT64_MAX,
     .write = export_firefox},
    {.name = "chrome",
     .about = "trace events, JSON: chrome://tracing, Perfetto, DevTools",
     .identity = STACK_BY_FUNCTION,
     .greatest = UINT64_MAX,
     .write = export_chrome},
    {.name = "sqlite",
     .about = "a database with tables and views: sqlite3",
     .binary = true,
     .all_metrics = true,
     .identity = STACK_BY_PLACE,
     .greatest = INT64_MAX,
     .write = export_sqlite},
    {.name = "json",
     .about = "the tree, for programs of your own",
     .all_metrics = true,
     .identity = STACK_BY_PLACE,
     .greatest = UINT64_MAX,
     .write = export_json},
    {0},
};

const struct export_format *export_find(const char *name)
{
    for (const struct export_format *format = export_formats; format->name; format++)
        if (strcmp(format->name, name) == 0)
            return format;
    return NULL;
}

static int check_totals(const struct stacks *stacks, const struct export_format *format,
                        struct ct_error *err)
{
    for (uint32_t i = 0; i < stacks->metric_count; i++)
        if (stacks->totals[i] > format->greatest)
            return ct_fail(err,
                           "%s: the values of %s add up to more than %s can hold (%" PRIu64 ")",
                           stacks->profile->name, stack_metric_name(stacks, i), format->name,
                           format->greatest);
    return CT_OK;
}

int export_profile(const struct profile *profile, const struct export_format *format,
                   const struct export_options *options, FILE *out, struct ct_error *err)
{
    struct stack_options stack_options = {
        .identity = format->identity,
        .metric = options->metric,
        .all_metrics = format->all_metrics,
        .threads = options->threads,
        .inlined = !options->no_inline,
        .keep_mangled = options->no_demangle,
        .expand = !format->one_frame_for_inlined,
    };
    struct stacks stacks;
    CT_TRY(stacks_open(profile, &stack_options, &stacks, err));
    /* Millions of small writes, and one thread. */
    __fsetlocking(out, FSETLOCKING_BYCALLER);
    int status = check_totals(&stacks, format, err);
    if (status == CT_OK)
        status = format->write(&stacks, out, err);
    stacks_close(&stacks);
    return status;
}
