/*
 * calltrail infer: contexts from two registers, or a part of the stack, and a map of known paths.
 */
#include "cli/commands.h"
#include "cli/infer_text.h"

#include "infer/path_complete.h"
#include "infer/path_search.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const char usage[] =
    "usage: calltrail infer --train -o MAP PROFILE...\n"
    "       calltrail infer --search -o MAP [MAP] PROFILE\n"
    "       calltrail infer [-o OUT] [--top-paths N] [MAP] PROFILE\n"
    "       calltrail infer --score [--window BYTES] MAP TRUTH\n"
    "       calltrail infer --unseen MAP PROFILE\n"
    "       calltrail infer --at MODULE+OFFSET,HEIGHT MAP\n"
    "       calltrail infer --core FILE MAP\n"
    "       calltrail infer --resize -o MAP [--growth FACTOR] [--calls PERCENT] MAP\n"
    "\n"
    "Finds the callers of samples for which only the height of the stack is known (record "
    "--engine\n"
    "infer), in a map of known paths; without one, in what the profile's own complete stacks "
    "tell.\n"
    "\n"
    "  --train            make a map of profiles with stack heights (record --engine exact\n"
    "                     --height), and of other maps\n"
    "  --search           add to a map, or to none, paths to what a profile has and training "
    "never\n"
    "                     met: by the calls and frame sizes in the code of its modules\n"
    "  --score            how good the map is for a profile whose paths are known\n"
    "  --unseen           functions at heights that training never saw\n"
    "  --at PLACE         the paths that may lead to a place in a module at a stack height, as in\n"
    "                     a crash whose stack is gone\n"
    "  --core FILE        the paths that may lead to where the threads of a core file were\n"
    "  --resize           make frames grow, so that paths with the same function and height have\n"
    "                     different ones: for record --resize MAP, and for what that records\n"
    "  --growth FACTOR    with --resize: the highest stack gets at most so much higher (1.13)\n"
    "  --calls PERCENT    with --resize: of all calls, at most so many take longer (5)\n"
    "  -o, --output FILE  the map to write, or the profile with the callers that were found\n"
    "  --top-paths N      of what is ambiguous, the N heaviest paths (-o: all; otherwise 3)\n"
    "  --window BYTES     with --score: how much of each stack is seen (0)\n"
    "  --weight METRIC    with --train, --score and --unseen: the metric that is the weight of a\n"
    "                     path (calls)\n"
    "  --help             this text\n";

enum { KIND_TRAIN = 256, KIND_SEARCH, KIND_SCORE, KIND_UNSEEN, KIND_AT, KIND_CORE, KIND_RESIZE };

struct options {
    struct infer_options text;
    const char *at; /* a place, or a core file */
    int kind;       /* 0: complete a profile */
};

static int train(const struct options *o, char **paths, struct ct_error *err)
{
    struct path_trainer *t = path_train_begin(o->text.weight);
    int status = CT_OK;
    for (; *paths && status == CT_OK; paths++)
        status = path_train_add(t, *paths, err);
    if (status == CT_OK)
        status = path_train_write(t, o->text.output, err);
    path_train_free(t);
    return status;
}

/* Of the map, if there is one, and the profile. */
static int search_into(struct path_trainer *t, const struct path_map *map, const char *path,
                       struct path_search_result *out, struct ct_error *err)
{
    struct profile p;
    struct map_cache cache;
    CT_TRY(profile_open(path, &p, err));
    int status = profile_validate(&p, err);
    if (status == CT_OK && map)
        status = path_train_take(t, &map->profile, err);
    if (status == CT_OK) {
        map_cache_open(&cache);
        status = path_search(map, &p, &cache, t, out, err);
        map_cache_close(&cache);
    }
    profile_close(&p);
    return status;
}

static int search(const struct options *o, char **paths, struct ct_error *err)
{
    struct path_map map;
    struct path_search_result result;
    bool has_map = paths[1] != NULL;
    if (has_map)
        CT_TRY(path_map_open(paths[0], &map, err));
    struct path_trainer *t = path_train_begin(NULL);
    int status = search_into(t, has_map ? &map : NULL, paths[has_map], &result, err);
    if (status == CT_OK)
        infer_print_search(paths[has_map], &result);
    if (status == CT_OK)
        status = path_train_write(t, o->text.output, err);
    path_train_free(t);
    if (has_map)
        path_map_close(&map);
    return status;
}

static int use_profile(const struct options *o, const struct path_map *map, const struct profile *p,
                       struct ct_error *err)
{
    if (o->kind == KIND_SCORE)
        return infer_print_score(map, p, &o->text, err);
    if (o->kind == KIND_UNSEEN)
        return infer_print_unseen(map, p, &o->text, err);
    if (!o->text.output)
        return infer_print_answers(map, p, &o->text, err);
    return path_complete(map, p, o->text.top_paths, o->text.output, err);
}

/* The map that a profile's own complete stacks make, in memory that is unmapped after it. */
static int learn(const struct profile *p, struct path_map *out, struct mapped_file *file,
                 struct ct_error *err)
{
    struct path_trainer *t = path_train_begin(profile_string(p, profile_metric(p, 0)->name));
    int fd = memfd_create("learnt", MFD_CLOEXEC);
    char *path = must_format("/proc/self/fd/%d", fd);
    int status = fd < 0 ? ct_fail_errno(err, errno, "no memory for a map") : CT_OK;
    if (status == CT_OK)
        status = path_train_take(t, p, err);
    if (status == CT_OK && !path_train_count(t))
        status = ct_fail(err,
                         "%s: no sample has all of its stack, and no MAP is given: record with "
                         "a larger --window, or make a map (--train)",
                         p->name);
    if (status == CT_OK)
        status = path_train_write(t, path, err);
    if (status == CT_OK)
        status = file_map(path, file, err);
    if (status == CT_OK)
        status = path_map_from_bytes(file->bytes, file->size, p->name, out, err);
    if (fd >= 0)
        close(fd);
    free(path);
    path_train_free(t);
    return status;
}

static int use_map(const struct options *o, char **paths, struct ct_error *err)
{
    struct path_map map;
    struct profile p;
    struct mapped_file file = {0};
    if (o->kind == KIND_AT || o->kind == KIND_CORE) {
        CT_TRY(path_map_open(paths[0], &map, err));
        int status = o->kind == KIND_AT ? infer_print_at(&map, o->at, &o->text, err)
                                        : infer_print_core(&map, o->at, &o->text, err);
        path_map_close(&map);
        return status;
    }
    CT_TRY(profile_open(paths[paths[1] != NULL], &p, err));
    int status = profile_validate(&p, err);
    if (status == CT_OK)
        status = paths[1] ? path_map_open(paths[0], &map, err) : learn(&p, &map, &file, err);
    if (status == CT_OK) {
        status = use_profile(o, &map, &p, err);
        path_map_close(&map);
    }
    file_unmap(&file);
    profile_close(&p);
    return status;
}

static bool take_number(const char *text, uint64_t most, uint64_t *out)
{
    char *end;
    *out = strtoull(text, &end, 10);
    return *text >= '0' && *text <= '9' && !*end && *out <= most;
}

/* One option; returns 0 or the exit status. */
static int take_option(struct options *o, int option)
{
    uint64_t number;
    char *end;
    switch (option) {
    case KIND_AT:
    case KIND_CORE:
        o->at = optarg;
        /* fall through */
    case KIND_TRAIN:
    case KIND_SEARCH:
    case KIND_SCORE:
    case KIND_UNSEEN:
    case KIND_RESIZE:
        if (o->kind && o->kind != option)
            return usage_error(
                "infer",
                "--train, --search, --score, --unseen, --at, --core and --resize are one each");
        o->kind = option;
        return 0;
    case 'o':
        o->text.output = optarg;
        return 0;
    case 'W':
        o->text.weight = optarg;
        return 0;
    case 'g':
        o->text.most_growth = strtod(optarg, &end);
        if (*end || !*optarg || !(o->text.most_growth >= 1 && o->text.most_growth <= 100))
            return usage_error("infer", "--growth: '%s' is not a factor from 1 to 100", optarg);
        return 0;
    case 'c':
        o->text.most_calls = strtod(optarg, &end);
        if (*end || !*optarg || !(o->text.most_calls >= 0 && o->text.most_calls <= 100))
            return usage_error("infer", "--calls: '%s' is not a number from 0 to 100", optarg);
        return 0;
    case 't':
        if (!take_number(optarg, UINT32_MAX, &number) || !number)
            return usage_error("infer", "--top-paths: '%s' is not a number of paths", optarg);
        o->text.top_paths = (uint32_t)number;
        return 0;
    default:
        if (!take_number(optarg, INT_MAX, &o->text.window_bytes))
            return usage_error("infer", "--window: '%s' is not a number of bytes", optarg);
        return 0;
    }
}

/* Returns 0 or the exit status. */
static int check(const struct options *o, int files)
{
    if (o->kind == KIND_TRAIN && !o->text.output)
        return usage_error("infer", "--train needs -o MAP: the file to write");
    if (o->kind == KIND_TRAIN && !files)
        return usage_error("infer", "--train needs profiles");
    if (o->kind == KIND_SEARCH && !o->text.output)
        return usage_error("infer", "--search needs -o MAP: the file to write");
    if (o->kind == KIND_SEARCH && (files < 1 || files > 2))
        return usage_error("infer", "--search needs a profile, and perhaps a MAP before it");
    if (o->kind == KIND_RESIZE && (!o->text.output || files != 1))
        return usage_error("infer", "--resize needs -o MAP, the file to write, and a MAP");
    if (o->text.most_growth != 0 && o->kind != KIND_RESIZE)
        return usage_error("infer", "--growth requires --resize");
    if (o->text.most_calls >= 0 && o->kind != KIND_RESIZE)
        return usage_error("infer", "--calls requires --resize");
    if (o->kind == KIND_AT && files != 1)
        return usage_error("infer", "--at needs a MAP");
    if (o->kind == KIND_CORE && files != 1)
        return usage_error("infer", "--core needs a MAP");
    bool makes_map = o->kind == KIND_TRAIN || o->kind == KIND_SEARCH || o->kind == KIND_RESIZE;
    if ((o->kind == KIND_SCORE || o->kind == KIND_UNSEEN) && files != 2)
        return usage_error("infer", "a MAP and a profile are needed");
    if (!o->kind && (files < 1 || files > 2))
        return usage_error("infer", "a profile is needed, and perhaps a MAP before it");
    if (o->kind && !makes_map && o->text.output)
        return usage_error("infer",
                           "-o requires --train, --search, --resize, or a MAP and a profile alone");
    if (o->text.window_bytes && o->kind != KIND_SCORE)
        return usage_error("infer", "--window requires --score");
    return 0;
}

int cmd_infer(int argc, char **argv)
{
    static const struct option long_options[] = {{"train", no_argument, NULL, KIND_TRAIN},
                                                 {"search", no_argument, NULL, KIND_SEARCH},
                                                 {"score", no_argument, NULL, KIND_SCORE},
                                                 {"unseen", no_argument, NULL, KIND_UNSEEN},
                                                 {"at", required_argument, NULL, KIND_AT},
                                                 {"core", required_argument, NULL, KIND_CORE},
                                                 {"output", required_argument, NULL, 'o'},
                                                 {"weight", required_argument, NULL, 'W'},
                                                 {"window", required_argument, NULL, 'w'},
                                                 {"top-paths", required_argument, NULL, 't'},
                                                 {"resize", no_argument, NULL, KIND_RESIZE},
                                                 {"growth", required_argument, NULL, 'g'},
                                                 {"calls", required_argument, NULL, 'c'},
                                                 {"help", no_argument, NULL, 'h'},
                                                 {0}};
    struct options o = {.text = {.most_calls = -1}};
    int status = 0;
    opterr = 0;
    for (int option;
         !status && (option = getopt_long(argc, argv, ":o:h", long_options, NULL)) != -1;) {
        if (option == 'h') {
            fputs(usage, stdout);
            return finish_output();
        }
        status = option == ':'   ? usage_error("infer", "%s needs a value", argv[optind - 1])
                 : option == '?' ? option_error("infer", argv)
                                 : take_option(&o, option);
    }
    if (!status)
        status = check(&o, argc - optind);
    if (status)
        return status;
    /* Big arrays go back to the system when they are freed; malloc would learn to keep them. */
    mallopt(M_MMAP_THRESHOLD, 1 << 20);
    struct ct_error err;
    char **paths = argv + optind;
    status = o.kind == KIND_TRAIN    ? train(&o, paths, &err)
             : o.kind == KIND_RESIZE ? infer_resize(paths[0], &o.text, &err)
             : o.kind == KIND_SEARCH ? search(&o, paths, &err)
                                     : use_map(&o, paths, &err);
    return status == CT_OK ? finish_output() : report_error(&err);
}
