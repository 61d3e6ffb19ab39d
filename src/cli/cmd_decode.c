/* calltrail decode: the contexts that a program wrote into its log (ct_print), as calls. */
#include "cli/commands.h"

#include "names/demangle.h"
#include "query/snapshots.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char usage[] =
    "usage: calltrail decode [OPTIONS] [FILE] [SNAPSHOT]...\n"
    "\n"
    "Prints the calls that a snapshot stands for, innermost first: what ct_print has made of it\n"
    "in a program that was recorded with --engine encode, as 'ct:1:…'. Without snapshots, "
    "standard\n"
    "input is copied, and calls stand below each line that has some. FILE is the profile of that\n"
    "recording, calltrail.ctp when it is not given, on any machine.\n"
    "\n"
    "  --inline         calls in place of the snapshot, outermost first\n"
    "  --keys           the key of the context as well: 64 bits, as ct_key has them\n"
    "  --help           this text\n";

struct decode_options {
    bool in_place, keys;
};

struct decode_run {
    const struct decode_options *options;
    struct snapshots snapshots;
    struct snapshot_path path;
    uint64_t decoded, failed;
};

/* --- calls ------------------------------------------------------------------------------------ */

static void print_name(const char *name)
{
    char *readable = demangle(name);
    fputs(readable ? readable : name, stdout);
    free(readable);
}

static const char *file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* As module and offset, where there is no name. */
static void print_function(const struct profile *p, const struct ctp_frame *f, uint32_t function)
{
    const char *name = profile_string(p, profile_function(p, function)->name);
    const char *path = profile_string(p, profile_module(p, f->module)->path);
    if (*name)
        print_name(name);
    else
        printf("%s+0x%" PRIx64, *path ? file_name(path) : "?", f->offset);
}

/* Of a gap, and of places that no frame is known of. */
static const char *special(const struct profile *p, const struct snapshot_call *c)
{
    return c->place == PLACE_GAP || profile_frame(p, c->frame)->gap ? "(callers are not known)"
           : c->frame == CTP_NONE                                   ? "(not known)"
                                                                    : NULL;
}

/* The first line of a frame that people want to see: ct_here is inlined where it is called. */
static uint32_t first_line(const struct profile *p, const struct snapshot_call *c)
{
    const struct ctp_frame *f = profile_frame(p, c->frame);
    uint32_t k = 0;
    while ((c->place == PLACE_HERE || c->place == PLACE_TASK) && k + 1 < f->line_count) {
        const struct ctp_line *line = profile_frame_line(p, f, k);
        const char *name = profile_string(p, profile_function(p, line->function)->name);
        if (strcmp(name, "ct_here") != 0 && strcmp(name, "ct_here_fast") != 0)
            break;
        k++;
    }
    return k;
}

static void print_names(const struct profile *p, const struct snapshot_call *c)
{
    const struct ctp_frame *f = profile_frame(p, c->frame);
    if (special(p, c)) {
        fputs(special(p, c), stdout);
        return;
    }
    uint32_t first = first_line(p, c);
    for (uint32_t k = f->line_count; k > first + 1; k--) { /* what it was inlined into is first */
        print_function(p, f, profile_frame_line(p, f, k - 1)->function);
        fputs(" > ", stdout);
    }
    const struct ctp_line *line = profile_frame_line(p, f, first);
    print_function(p, f, line ? line->function : f->function);
}

/* In place: outermost first. */
static void print_chain(const struct profile *p, const struct snapshot_path *path)
{
    for (size_t i = path->calls.count; i-- > 0;) {
        print_names(p, &path->calls.items[i]);
        if (i)
            fputs(" > ", stdout);
    }
}

static void print_line(const struct profile *p, const struct ctp_frame *f,
                       const struct ctp_line *line)
{
    const char *file = line ? profile_string(p, line->file) : "";
    printf("    ");
    print_function(p, f, line ? line->function : f->function);
    if (*file)
        printf(" at %s:%" PRIu32, file_name(file), line->line);
}

static void print_call(const struct profile *p, const struct snapshot_call *c)
{
    static const char *const notes[] = {[PLACE_TAIL] = " (tail call)",
                                        [PLACE_SIGNAL] = " (interrupted by a signal)",
                                        [PLACE_TASK] = " (handed the work over)",
                                        [PLACE_GAP] = ""};
    const struct ctp_frame *f = profile_frame(p, c->frame);
    if (special(p, c)) {
        printf("    %s\n", special(p, c));
        return;
    }
    for (uint32_t k = first_line(p, c); k + 1 < f->line_count; k++) {
        print_line(p, f, profile_frame_line(p, f, k));
        puts(" (inlined)");
    }
    print_line(p, f, f->line_count ? profile_frame_line(p, f, f->line_count - 1) : NULL);
    if (c->bytes)
        printf("+0x%" PRIx64, c->bytes);
    printf("%s\n", notes[c->place] ? notes[c->place] : "");
}

static void print_calls(const struct profile *p, const struct snapshot_path *path)
{
    for (size_t i = 0; i < path->calls.count; i++)
        print_call(p, &path->calls.items[i]);
}

/* --- lines ------------------------------------------------------------------------------------ */

/* What is wrong with a snapshot, without the profile's name. */
static const char *reason(const struct decode_run *r, const struct ct_error *err)
{
    size_t length = strlen(r->snapshots.profile->name);
    bool is_named = strncmp(err->text, r->snapshots.profile->name, length) == 0;
    return is_named ? err->text + length + 2 : err->text;
}

static bool decode(struct decode_run *r, const char **at, struct ct_error *err)
{
    struct snapshot_text text;
    bool is_whole = snapshot_text_read(at, &text);
    int status = is_whole ? snapshot_decode(&r->snapshots, &text, &r->path, err)
                          : ct_fail(err, "the snapshot was cut or changed");
    r->decoded += status == CT_OK;
    r->failed += status != CT_OK;
    return status == CT_OK;
}

static void print_below(struct decode_run *r, const char *line)
{
    const char *at = line;
    while ((at = strstr(at, SNAPSHOT_TEXT_BEGIN)) != NULL) {
        struct ct_error err;
        bool is_decoded = decode(r, &at, &err);
        if (is_decoded && r->options->keys)
            printf("    key %016" PRIx64 "\n", r->path.key);
        if (is_decoded)
            print_calls(r->snapshots.profile, &r->path);
        else
            printf("    (not decoded: %s)\n", reason(r, &err));
    }
}

static void print_in_place(struct decode_run *r, const char *line)
{
    const char *at = line, *next;
    while ((next = strstr(at, SNAPSHOT_TEXT_BEGIN)) != NULL) {
        struct ct_error err;
        fwrite(at, 1, (size_t)(next - at), stdout);
        at = next;
        if (!decode(r, &at, &err)) {
            printf("(not decoded: %s)", reason(r, &err));
            continue;
        }
        if (r->options->keys)
            printf("%016" PRIx64 " ", r->path.key);
        print_chain(r->snapshots.profile, &r->path);
    }
    fputs(at, stdout);
}

static void decode_line(struct decode_run *r, const char *line, bool is_copied)
{
    if (r->options->in_place) {
        print_in_place(r, line);
        if (!is_copied)
            putchar('\n');
        return;
    }
    if (is_copied)
        fputs(line, stdout);
    if (is_copied && *line && line[strlen(line) - 1] != '\n')
        putchar('\n');
    print_below(r, line);
}

static int decode_input(struct decode_run *r, struct ct_error *err)
{
    char *line = NULL;
    size_t room = 0;
    while (getline(&line, &room, stdin) >= 0)
        decode_line(r, line, true);
    free(line);
    return ferror(stdin) ? ct_fail_errno(err, errno, "standard input: cannot be read") : CT_OK;
}

static int decode_all(const char *path, const struct decode_options *options,
                      char *const *snapshots, struct ct_error *err)
{
    struct profile profile;
    struct decode_run run = {.options = options};
    CT_TRY(profile_open(path, &profile, err));
    int status = profile_validate_tables(&profile, err);
    if (status == CT_OK)
        status = snapshots_begin(&run.snapshots, &profile, err);
    if (status == CT_OK && !*snapshots)
        status = decode_input(&run, err);
    for (; status == CT_OK && *snapshots; snapshots++)
        decode_line(&run, *snapshots, false);
    if (status == CT_OK && run.failed)
        status = ct_fail(err, "%s: %" PRIu64 " of %" PRIu64 " snapshots could not be decoded", path,
                         run.failed, run.failed + run.decoded);
    snapshots_end(&run.snapshots);
    vec_free(&run.path.calls);
    profile_close(&profile);
    return status;
}

int cmd_decode(int argc, char **argv)
{
    static const struct option options[] = {{"inline", no_argument, NULL, 'i'},
                                            {"keys", no_argument, NULL, 'k'},
                                            {"help", no_argument, NULL, 'h'},
                                            {0}};
    struct decode_options wanted = {0};
    const char *path = "calltrail.ctp";
    struct ct_error err;
    opterr = 0;
    for (int option; (option = getopt_long(argc, argv, ":h", options, NULL)) != -1;) {
        switch (option) {
        case 'i':
            wanted.in_place = true;
            break;
        case 'k':
            wanted.keys = true;
            break;
        case 'h':
            fputs(usage, stdout);
            return finish_output();
        default:
            return option_error("decode", argv);
        }
    }
    const size_t begin = strlen(SNAPSHOT_TEXT_BEGIN);
    if (optind < argc && strncmp(argv[optind], SNAPSHOT_TEXT_BEGIN, begin) != 0)
        path = argv[optind++];
    for (int i = optind; i < argc; i++)
        if (strncmp(argv[i], SNAPSHOT_TEXT_BEGIN, begin) != 0)
            return usage_error("decode", "'%s' is not a snapshot (ct:1:…)", argv[i]);
    int status = decode_all(path, &wanted, argv + optind, &err);
    if (status != CT_OK)
        status = report_error(&err);
    return finish_output() || status != CT_OK;
}
