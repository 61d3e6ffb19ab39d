/* calltrail: the command line. Finds the subcommand and hands over. */
#include "cli/commands.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define COMMAND_ROW(name, about) {#name, cmd_##name, about},
static const struct command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *about;
} commands[] = {COMMAND_LIST(COMMAND_ROW)};

enum { COMMAND_COUNT = sizeof commands / sizeof commands[0] };

static void print_usage(FILE *out)
{
    fputs("usage: calltrail COMMAND [OPTIONS] ...\n\ncommands:\n", out);
    for (int i = 0; i < COMMAND_COUNT; i++)
        fprintf(out, "  %-9s %s\n", commands[i].name, commands[i].about);
    fputs("\n`calltrail COMMAND --help` says more about each.\n", out);
}

int usage_error(const char *command, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, "calltrail %s: ", command);
    vfprintf(stderr, format, args);
    fprintf(stderr, " (see calltrail %s --help)\n", command);
    va_end(args);
    return 2;
}

/* getopt keeps a short option in optopt; a long one is the last word that it has read. */
int option_error(const char *command, char **argv)
{
    if (optopt > 0 && optopt < 128 && isprint(optopt) && argv[optind - 1][1] != '-')
        return usage_error(command, "unknown option '-%c'", optopt);
    return usage_error(command, "unknown option '%s'", argv[optind - 1]);
}

/* One line is one line, whatever bytes a file's name has. */
static void print_line(const char *text)
{
    for (const char *c = text; *c; c++)
        putc((unsigned char)*c < 0x20 || *c == 0x7f ? '?' : *c, stderr);
    putc('\n', stderr);
}

int report_error(const struct ct_error *err)
{
    fputs("calltrail: ", stderr);
    print_line(err->text);
    return 1;
}

int finish_output(void)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return 0;
    fprintf(stderr, "calltrail: standard output cannot be written: %s\n", strerror(errno));
    return 1;
}

int main(int argc, char **argv)
{
    /* A limit on file sizes is an error that can be told, not a reason to die. */
    signal(SIGXFSZ, SIG_IGN);
    if (argc < 2) {
        print_usage(stderr);
        return 2;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        print_usage(stdout);
        return finish_output();
    }
    if (strcmp(argv[1], "--version") == 0) {
        puts("calltrail " CALLTRAIL_VERSION);
        return finish_output();
    }
    for (int i = 0; i < COMMAND_COUNT; i++)
        if (strcmp(argv[1], commands[i].name) == 0)
            return commands[i].run(argc - 1, argv + 1);
    fprintf(stderr, "calltrail: there is no command '%s' (see calltrail --help)\n", argv[1]);
    return 2;
}
