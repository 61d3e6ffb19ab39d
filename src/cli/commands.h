/* The subcommands, one file each, and how all of them speak to the user. */
#ifndef CLI_COMMANDS_H
#define CLI_COMMANDS_H

#include "base/error.h"

/*
 * A command is a row here, in the order of --help, and a function cmd_NAME in a file of that name.
 * argv[0] is the command's own name. It returns the exit status: 0, 1 failure, 2 usage.
 */
#define COMMAND_LIST(ROW)                                                                          \
    ROW(record, "run a program and write where its time goes")                                     \
    ROW(report, "show where the cost is: hot contexts, trees, functions")                          \
    ROW(top, "look around in a profile, in the terminal")                                          \
    ROW(kctx, "the shortest caller chains that explain what hot functions cost")                   \
    ROW(view, "look at a profile in a browser")                                                    \
    ROW(html, "the same page as one file, to keep or to mail")                                     \
    ROW(export, "write a profile in another tool's format")                                        \
    ROW(import, "make a profile of what another tool measured")                                    \
    ROW(symbolize, "add source lines and names from debug files that came later")                  \
    ROW(decode, "calls for the contexts that a program wrote into its log")                        \
    ROW(diff, "what changed from one profile to another, beyond noise")                            \
    ROW(infer, "contexts from stack heights, and a map of known paths")                            \
    ROW(merge, "many profiles as one")                                                             \
    ROW(store, "profiles of many machines and days, in a PostgreSQL database")                     \
    ROW(recover, "make the profile of a recording that was killed")                                \
    ROW(doctor, "what this machine allows, and whether a program can be recorded")                 \
    ROW(map, "what is known of a program or library: functions and unwind rows")                   \
    ROW(info, "what a profile holds, and how good it is")

#define COMMAND_DECLARED(name, about) int cmd_##name(int argc, char **argv);
COMMAND_LIST(COMMAND_DECLARED)

/* cmd_diff, with other names for the two sides than those of the files. */
int diff_named(int argc, char **argv, const char *const names[2]);

/* "calltrail COMMAND: message" and a hint on stderr; returns 2. */
int usage_error(const char *command, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The same for an option that getopt_long has just refused. */
int option_error(const char *command, char **argv);

/* "calltrail: text" on stderr; returns 1. */
int report_error(const struct ct_error *err);

/* Flushes standard output; a full disk or a closed pipe is an error too. Returns 0 or 1. */
int finish_output(void);

#endif
