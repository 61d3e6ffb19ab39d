/* calltrail doctor: can I record here, and this program? */
#include "base/vec.h"
#include "cli/commands.h"
#include "edit/plan.h"
#include "flow/flow_plan.h"
#include "record/doctor.h"
#include "record/leftovers.h"
#include "record/target.h"

#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usage[] =
    "usage: calltrail doctor [PROGRAM]\n"
    "       calltrail doctor -p PID\n"
    "       calltrail doctor --clean [FOLDER...]\n"
    "       calltrail doctor --edit [--list] FILE|PROGRAM...\n"
    "\n"
    "Says what this machine and this user allow: where samples can come from and at which true\n"
    "rates, and the state of the cache; for a PROGRAM whether it can be recorded, or why not.\n"
    "With -p: whether a process that runs can be.\n"
    "\n"
    "With --clean: removes what recordings that were killed have left, or the FOLDERs of them "
    "that\n"
    "are given. What processes still write to stays.\n"
    "\n"
    "With --edit: the calls and tail jumps of each FILE (a program or a library), or of a PROGRAM\n"
    "that the shell would find, and how each could be counted without a new build: in place,\n"
    "moved to another place, by a short jump to a place nearby (hop), by a jump that overlaps the\n"
    "instruction behind it (pun), or not at all, with the reasons. And how many functions can be\n"
    "relocated to count the paths through them.\n"
    "--list prints one line for each of them.\n";

/* A file as it is, or else a program as the shell finds it; to be freed. */
static char *file_to_edit(const char *name, struct ct_error *err)
{
    char *path, *elf;
    if (strchr(name, '/') || access(name, F_OK) == 0)
        return must_strdup(name);
    if (target_find(name, &path, err) != CT_OK)
        return NULL;
    elf = target_elf(path);
    free(path);
    return elf;
}

static int print_edits(int count, char **files, bool list)
{
    struct map_cache cache;
    struct ct_error err;
    int status = 0;
    map_cache_open(&cache);
    for (int i = 0; i < count; i++) {
        struct plan plan;
        char *file = file_to_edit(files[i], &err);
        if (!file || plan_for_file(&cache, file, &plan, &err) != CT_OK) {
            status = report_error(&err);
            free(file);
            continue;
        }
        if (list)
            plan_list(&plan, stdout);
        else
            plan_print(&plan, file, stdout);
        plan_close(&plan);
        if (!list && plan_of_kind(&flow_plans, &cache, file, &plan, &err) == CT_OK) {
            flow_plan_print(&plan, file, stdout);
            plan_close(&plan);
        }
        free(file);
    }
    map_cache_close(&cache);
    return status;
}

static int clean_up(int count, char **folders)
{
    struct ct_error err;
    int status = count == 0 && leftovers_remove_all(stdout) ? 1 : 0;
    for (int i = 0; i < count; i++)
        if (leftovers_remove(folders[i], stdout, &err) != CT_OK)
            status = report_error(&err);
    int written = finish_output();
    return written ? written : status;
}

int cmd_doctor(int argc, char **argv)
{
    static const struct option options[] = {
        {"help", no_argument, NULL, 'h'},  {"pid", required_argument, NULL, 'p'},
        {"edit", no_argument, NULL, 'e'},  {"list", no_argument, NULL, 'l'},
        {"clean", no_argument, NULL, 'c'}, {0}};
    bool edit = false, list = false, clean = false;
    const char *process = NULL;
    int option;
    opterr = 0;
    while ((option = getopt_long(argc, argv, "+hp:", options, NULL)) != -1) {
        if (option == 'h') {
            fputs(usage, stdout);
            return finish_output();
        }
        if (option == 'p')
            process = optarg;
        else if (option != 'e' && option != 'l' && option != 'c')
            return option_error("doctor", argv);
        edit |= option == 'e';
        list |= option == 'l';
        clean |= option == 'c';
    }
    if (list && !edit)
        return usage_error("doctor", "--list requires --edit");
    if (edit && argc == optind)
        return usage_error("doctor", "--edit needs a FILE");
    if (clean && (edit || process))
        return usage_error("doctor", "--clean cannot be combined with --edit or -p");
    if (clean)
        return clean_up(argc - optind, argv + optind);
    if (edit) {
        int edit_status = print_edits(argc - optind, argv + optind, list);
        int written = finish_output();
        return written ? written : edit_status;
    }
    if (process) {
        char *end;
        unsigned long pid = strtoul(process, &end, 10);
        if (*end || !pid || pid > INT_MAX || argc > optind)
            return usage_error("doctor", "-p needs one process number and nothing else");
        int found = doctor_print_process(stdout, (pid_t)pid);
        int printed = finish_output();
        return printed ? printed : found;
    }
    if (argc - optind > 1)
        return usage_error("doctor", "only one PROGRAM is allowed");
    int status = doctor_print(stdout, argv[optind]);
    int output = finish_output();
    return output ? output : status;
}
