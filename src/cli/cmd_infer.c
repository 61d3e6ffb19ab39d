/* calltrail infer: contexts from two registers, or a part of the stack, and a map of known paths.
 */
#include "cli/commands.h"

#include "infer/path_map.h"
#include "infer/path_train.h"

#include <getopt.h>
#include <malloc.h>
#include <stdio.h>

static const char usage[] =
    "usage: calltrail infer --train -o MAP PROFILE...\n"
    "\n"
    "  --train            make a path map of profiles with stack heights (record --engine exact\n"
    "                     --height), and of other maps\n"
    "  -o, --output FILE  the map, or the profile, to write\n"
    "  --weight METRIC    with --train: what says how likely a path is; default: calls\n"
    "  --help             this text\n";

struct options {
    const char *output, *weight;
    int kind; /* the option that says what to do, or 0 */
};

enum { KIND_TRAIN = 't' };

static int train(const struct options *o, char **paths, struct ct_error *err)
{
    struct path_trainer *t = path_train_begin(o->weight);
    int status = CT_OK;
    for (; *paths && status == CT_OK; paths++)
        status = path_train_add(t, *paths, err);
    if (status == CT_OK)
        status = path_train_write(t, o->output, err);
    path_train_free(t);
    return status;
}

int cmd_infer(int argc, char **argv)
{
    static const struct option long_options[] = {{"train", no_argument, NULL, KIND_TRAIN},
                                                 {"output", required_argument, NULL, 'o'},
                                                 {"weight", required_argument, NULL, 'w'},
                                                 {"help", no_argument, NULL, 'h'},
                                                 {0}};
    struct options o = {0};
    opterr = 0;
    for (int option; (option = getopt_long(argc, argv, ":o:h", long_options, NULL)) != -1;) {
        switch (option) {
        case KIND_TRAIN:
            o.kind = option;
            break;
        case 'o':
            o.output = optarg;
            break;
        case 'w':
            o.weight = optarg;
            break;
        case 'h':
            fputs(usage, stdout);
            return finish_output();
        case ':':
            return usage_error("infer", "%s needs a value", argv[optind - 1]);
        default:
            return option_error("infer", argv);
        }
    }
    mallopt(M_MMAP_THRESHOLD, 1 << 20);
    struct ct_error err;
    if (!o.output)
        return usage_error("infer", "-o MAP says where the map goes");
    if (optind == argc)
        return usage_error("infer", "--train needs profiles");
    return train(&o, argv + optind, &err) == CT_OK ? finish_output() : report_error(&err);
}
