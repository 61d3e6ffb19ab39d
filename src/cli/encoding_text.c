#include "cli/encoding_text.h"

#include "query/static_encoding.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static uint64_t fact(const struct profile *p, const char *key)
{
    const struct ctp_fact *f = profile_find_fact(p, CTP_SCOPE_PROFILE, 0, key);
    return f && f->type == CTP_U64 ? f->value : 0;
}

static double seconds(const struct profile *p)
{
    const struct ctp_fact *f = profile_find_fact(p, CTP_SCOPE_PROFILE, 0, "utime_s");
    return f && f->type == CTP_F64 ? profile_fact_double(f) : 0;
}

static double ratio(double part, double whole)
{
    return whole > 0 ? part / whole : 0;
}

static void print_depths(const uint64_t *depths, unsigned count, const char *of, FILE *out)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < count; i++)
        sum += depths[i];
    if (!sum)
        return;
    fprintf(out, "\n%s by the depth of the stack of contexts that were pushed\n", of);
    for (unsigned i = 0; i < count; i++)
        if (depths[i])
            fprintf(out, "  %2u%s %12" PRIu64 "  %5.1f%%\n", i, i + 1 == count ? "+" : " ",
                    depths[i], 100.0 * ratio((double)depths[i], (double)sum));
}

/* A process's numbers in a text: rows end with ';'. */
static const char *text_fact(const struct profile *p, uint32_t process, const char *key)
{
    const struct ctp_fact *f = profile_find_fact(p, CTP_SCOPE_PROCESS, process, key);
    return f && f->type == CTP_STRING ? profile_string(p, f->value) : "";
}

static void print_progress(const struct profile *p, uint32_t process, FILE *out)
{
    const char *text = text_fact(p, process, "encode_progress");
    if (!*text)
        return;
    fprintf(out,
            "\nProgress of pid %" PRIu32 ", in the thread with most edges\n"
            "     seconds  functions    edges  with a code       numbers  entries     pushes\n",
            profile_process(p, process)->pid);
    while (*text) {
        uint64_t v[7] = {0};
        for (unsigned i = 0; i < 7 && *text && *text != ';'; i++) {
            char *end;
            v[i] = strtoull(text, &end, 10);
            text = *end == ' ' ? end + 1 : end;
        }
        fprintf(out,
                "  %10.3f %10" PRIu64 " %8" PRIu64 " %12" PRIu64 " %13" PRIu64 " %8" PRIu64
                " %10" PRIu64 "\n",
                (double)v[0] / 1e6, v[1], v[2], v[3], v[4], v[5], v[6]);
        text += strcspn(text, ";");
        text += *text != 0;
    }
}

static void add_depths(const struct profile *p, uint32_t process, uint64_t depths[STATIC_DEPTHS])
{
    const char *text = text_fact(p, process, "encode_depths");
    for (unsigned i = 0; i < STATIC_DEPTHS && *text; i++) {
        char *end;
        depths[i] += strtoull(text, &end, 10);
        text = *end == ' ' ? end + 1 : "";
    }
}

static void print_recorded(const struct profile *p, FILE *out)
{
    uint64_t depths[STATIC_DEPTHS] = {0}, decoded = fact(p, "encode_decoded");
    uint64_t pushes = fact(p, "encode_pushes"), slow = fact(p, "encode_slow");
    fprintf(out,
            "Encoding while the program ran\n"
            "  functions (nodes)       %12" PRIu64 "\n"
            "  edges                   %12" PRIu64 ", %" PRIu64 " with a code, %" PRIu64
            " that close a cycle\n"
            "  numbers (maxID)         %12" PRIu64 "\n",
            fact(p, "encode_functions"), fact(p, "encode_edges"), fact(p, "encode_coded_edges"),
            fact(p, "encode_back_edges"), fact(p, "encode_ids"));
    fprintf(out,
            "  pushes (ccStack)        %12" PRIu64 ", %.0f in a second of CPU time\n"
            "  entries of a context    %12.1f on average\n"
            "  numbered                %12" PRIu64 " times, in %.1f ms of CPU time\n"
            "  calls on the slow path  %12" PRIu64 ", %" PRIu64 " of them with a walk\n"
            "  samples                 %12" PRIu64 " decoded, %" PRIu64 " walked\n",
            pushes, ratio((double)pushes, seconds(p)),
            ratio((double)fact(p, "encode_entry_depth"), (double)decoded),
            fact(p, "encode_numberings"), (double)fact(p, "encode_numbering_ns") / 1e6, slow,
            fact(p, "encode_resyncs"), decoded, fact(p, "encode_walked"));
    for (uint32_t i = 0; i < profile_process_count(p); i++) {
        print_progress(p, i, out);
        add_depths(p, i, depths);
    }
    print_depths(depths, STATIC_DEPTHS, "Samples", out);
}

static int print_static(const struct profile *p, FILE *out, struct ct_error *err)
{
    struct static_encoding e;
    CT_TRY(static_encoding_of(p, &e, err));
    double calls = (double)e.calls / 100;
    fprintf(out,
            "Encoding by who knows all calls before (PCCE)\n"
            "  functions (nodes)       %12" PRIu32 "\n"
            "  edges                   %12" PRIu32 ", %" PRIu32 " that close a cycle\n"
            "  numbers (maxID)         %12.6g\n"
            "  calls                   %12" PRIu64 ", %.0f in a second of CPU time\n",
            e.functions, e.edges, e.back_edges, e.ids, e.calls, ratio((double)e.calls, seconds(p)));
    fprintf(out,
            "    on edges that add 0   %12" PRIu64 " (%.1f%%)\n"
            "    that add something    %12" PRIu64 " (%.1f%%)\n"
            "    that push (ccStack)   %12" PRIu64 " (%.1f%%)\n"
            "  pushed contexts         %12.1f on average\n",
            e.free_calls, ratio((double)e.free_calls, calls), e.adding_calls,
            ratio((double)e.adding_calls, calls), e.pushing_calls,
            ratio((double)e.pushing_calls, calls), e.mean_depth);
    print_depths(e.depths, STATIC_DEPTHS, "Calls", out);
    return CT_OK;
}

int encoding_print(const struct profile *p, FILE *out, struct ct_error *err)
{
    if (!profile_find_fact(p, CTP_SCOPE_PROFILE, 0, "encode_edges"))
        return print_static(p, out, err);
    print_recorded(p, out);
    return CT_OK;
}
