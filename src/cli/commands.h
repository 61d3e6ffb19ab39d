/* The subcommands, one file each, and how all of them speak to the user. */
#ifndef CLI_COMMANDS_H
#define CLI_COMMANDS_H

#include "base/error.h"

/* argv[0] is the command's own name. They return the exit status: 0, 1 failure, 2 usage. */
int cmd_record(int argc, char **argv);
int cmd_report(int argc, char **argv);
int cmd_top(int argc, char **argv);
int cmd_kctx(int argc, char **argv);
int cmd_view(int argc, char **argv);
int cmd_html(int argc, char **argv);
int cmd_export(int argc, char **argv);
int cmd_import(int argc, char **argv);
int cmd_store(int argc, char **argv);
int cmd_symbolize(int argc, char **argv);
int cmd_diff(int argc, char **argv);
int cmd_merge(int argc, char **argv);
int cmd_recover(int argc, char **argv);
int cmd_doctor(int argc, char **argv);
int cmd_map(int argc, char **argv);
int cmd_infer(int argc, char **argv);
int cmd_info(int argc, char **argv);

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
