/*
 * The options of the engines, as `calltrail record` has them: on the command line, in --help and in
 * the manual page, all from the rows of the engines (record/engine.h).
 */
#ifndef CLI_ENGINE_OPTIONS_H
#define CLI_ENGINE_OPTIONS_H

#include "base/vec.h"
#include "record/engine.h"

#include <getopt.h>

/* What getopt_long returns for an option of an engine. */
enum { ENGINE_OPTION = 256 };

/* For getopt_long: a command's own options, which end with a row of zeros, and those of all
 * engines. To be freed. */
struct option *engine_options_with(const struct option *own);

/* The same for options of one letter: the command's own, and behind them those of all engines. And
 * the name of an engine's option by its letter; NULL: there is none. */
void engine_options_letters(const char *own, char *out, size_t room);
const char *engine_option_name(int letter);

/* Options that were given, in turn: which engine is meant may be said behind them. */
struct given_option {
    const char *name, *argument;
};

struct given_options {
    VEC(struct given_option) items;
};

/*
 * The options of the engine, from those that were given; to be freed. An option of another engine
 * is an error.
 */
int engine_options_take(const struct given_options *given, const struct record_engine *engine,
                        void **options, struct ct_error *err);

/* An engine by its name; the error says which there are. */
int engine_find(const char *name, const struct record_engine **engine, struct ct_error *err);

/* The part of --help; and of the manual page, in mdoc: of its synopsis, and of its list. */
void engine_options_help(void);
void engine_options_synopsis(void);
void engine_options_man(void);

#endif
