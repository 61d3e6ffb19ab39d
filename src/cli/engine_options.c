#include "cli/engine_options.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* --- on the command line ------------------------------------------------------------------------
 */

static bool is_in(const struct option *options, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(options[i].name, name) == 0)
            return true;
    return false;
}

struct option *engine_options_with(const struct option *own)
{
    VEC(struct option) all = {0};
    const struct record_engine *engine;
    const struct engine_option *o;
    for (; own->name; own++)
        vec_push(&all, *own);
    for (uint32_t i = 0; (engine = record_engine_at(i)); i++)
        for (o = engine->options; o && o->name; o++)
            if (!is_in(all.items, all.count, o->name)) /* two engines may have one of the name */
                vec_push(&all, (struct option){.name = o->name,
                                               .has_arg = o->otherwise  ? optional_argument
                                                          : o->argument ? required_argument
                                                                        : no_argument,
                                               .val = ENGINE_OPTION});
    vec_push(&all, (struct option){0});
    return all.items;
}

static const struct engine_option *option_of_letter(int letter)
{
    const struct record_engine *engine;
    const struct engine_option *o;
    for (uint32_t i = 0; letter && (engine = record_engine_at(i)); i++)
        for (o = engine->options; o && o->name; o++)
            if (o->letter == letter)
                return o;
    return NULL;
}

const char *engine_option_name(int letter)
{
    const struct engine_option *o = option_of_letter(letter);
    return o ? o->name : NULL;
}

void engine_options_letters(const char *own, char *out, size_t room)
{
    size_t used = (size_t)snprintf(out, room, "%s", own);
    for (int letter = 'A'; letter <= 'z' && used + 3 <= room; letter++) {
        const struct engine_option *o = option_of_letter(letter);
        if (o)
            used +=
                (size_t)snprintf(out + used, room - used, "%c%s", letter, o->argument ? ":" : "");
    }
}

/* The engine that has an option which was found in the rows. */
static const char *owner_of(const char *name)
{
    const struct record_engine *engine;
    for (uint32_t i = 0; (engine = record_engine_at(i)); i++)
        if (record_engine_option(engine, name))
            break;
    return engine->name;
}

int engine_options_take(const struct given_options *given, const struct record_engine *engine,
                        void **options, struct ct_error *err)
{
    *options = must_calloc(1, engine->options_bytes + 1);
    for (size_t i = 0; i < given->items.count; i++) {
        const struct given_option *g = &given->items.items[i];
        const struct engine_option *o = record_engine_option(engine, g->name);
        if (!o)
            return ct_fail(err, "--%s requires --engine %s", g->name, owner_of(g->name));
        CT_TRY(o->take(*options, g->argument ? g->argument : o->otherwise, err));
    }
    return CT_OK;
}

int engine_find(const char *name, const struct record_engine **found, struct ct_error *err)
{
    char names[256] = "";
    const struct record_engine *engine;
    *found = record_engine_named(name);
    for (uint32_t i = 0; (engine = record_engine_at(i)); i++)
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", *names ? ", " : "",
                 engine->name);
    return *found ? CT_OK : ct_fail(err, "there is no engine '%s'; there are: %s", name, names);
}

/* --- in words -----------------------------------------------------------------------------------
 */

/* What begins a line of the help, and the text, whose further lines stand below its first. */
static void print_help_row(const char *label, const char *who, const char *text)
{
    enum { INDENT = 6, LABEL = 15 };
    printf("%*s%-*s%s%s", INDENT, "", LABEL, label, strlen(label) > LABEL ? "  " : " ", who);
    for (; *text; text++) {
        putchar(*text);
        if (*text == '\n')
            printf("%*s", INDENT + LABEL + 1, "");
    }
    putchar('\n');
}

void engine_options_help(void)
{
    char label[100], who[100];
    const struct record_engine *engine;
    const struct engine_option *o;
    for (uint32_t i = 0; (engine = record_engine_at(i)); i++) {
        snprintf(label, sizeof label, "--engine %s", engine->name);
        print_help_row(label, "", engine->help);
        snprintf(who, sizeof who, "with %s: ", engine->name);
        for (o = engine->options; o && o->name; o++) {
            size_t used = o->letter ? (size_t)snprintf(label, sizeof label, "-%c, ", o->letter) : 0;
            snprintf(label + used, sizeof label - used,
                     o->otherwise  ? "--%s[=%s]"
                     : o->argument ? "--%s %s"
                                   : "--%s",
                     o->name, o->argument);
            print_help_row(label, who, o->help);
        }
    }
}

/* An option in mdoc, where arguments are in small letters. */
static void print_option(const struct engine_option *o)
{
    if (o->letter)
        printf("Fl %c , ", o->letter);
    printf("Fl -%s", o->name);
    if (o->argument)
        printf(o->otherwise ? " Ns Op = Ns Ar " : " Ar ");
    for (const char *c = o->argument; c && *c; c++)
        putchar(tolower((unsigned char)*c));
    putchar('\n');
}

void engine_options_synopsis(void)
{
    const struct record_engine *engine;
    const struct engine_option *o;
    puts(".Op Fl -engine Ar engine");
    for (uint32_t i = 0; (engine = record_engine_at(i)); i++)
        for (o = engine->options; o && o->name; o++) {
            printf(".Op ");
            print_option(o);
        }
}

void engine_options_man(void)
{
    const struct record_engine *engine;
    const struct engine_option *o;
    puts(".It Fl -engine Ar engine\nHow to measure:\n.Bl -tag -width Ds");
    for (uint32_t i = 0; (engine = record_engine_at(i)); i++)
        printf(".It Cm %s\n%s", engine->name, engine->man);
    puts(".El");
    for (uint32_t i = 0; (engine = record_engine_at(i)); i++)
        for (o = engine->options; o && o->name; o++) {
            printf(".It ");
            print_option(o);
            printf("With\n.Cm %s :\n%s", engine->name, o->man);
        }
}
