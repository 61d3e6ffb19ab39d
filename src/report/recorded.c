#include "report/recorded.h"

#include "query/amount.h"
#include "query/facts.h"
#include "query/shorten.h"
#include "report/advice.h"

#include <inttypes.h>
#include <string.h>

/* A tree of more nodes takes a while to read, and it was not asked for yet. */
enum { NODES_MOST = 2000000 };

/* How the first process ended; "" while it runs. */
static void how_it_ended(const struct profile *p, char *text, size_t room)
{
    const struct ctp_process *process = first_process_at_end(p);
    text[0] = '\0';
    if (!process)
        return;
    const char *name = path_file(profile_string(p, process->command));
    if (process->exit_kind == CTP_EXIT_STATUS)
        snprintf(text, room, "; %.60s exited with status %" PRIu32, name, process->exit_value);
    else if (process->exit_kind == CTP_EXIT_SIGNAL)
        snprintf(text, room, "; %.60s was killed by SIG%s", name,
                 sigabbrev_np((int)process->exit_value) ? sigabbrev_np((int)process->exit_value)
                                                        : "?");
}

static void what_it_holds(const struct view *view, char *text, size_t room)
{
    const struct profile *p = view->profile;
    const struct ctp_metric *metric = profile_metric(p, view->metric);
    struct amount_scale scale = amount_scale(profile_string(p, metric->unit), view->total);
    char number[AMOUNT_ROOM];
    double samples;
    if (metric->kind == CTP_METRIC_SAMPLED && metric_number(view, "samples", &samples))
        snprintf(text, room, "%s sample%s", count_text((uint64_t)samples, number),
                 samples == 1 ? "" : "s");
    else
        snprintf(text, room, "%s: %s", profile_string(p, metric->name),
                 amount_text(&scale, view->total, number));
}

static void print_line(FILE *out, const char *text)
{
    char *clean = text_clean(text);
    fprintf(out, "calltrail: %s\n", clean);
    free(clean);
}

/* A file as a shell takes it. To be freed. */
static char *shell_word(const char *path)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
                                "/._-+,:@%=";
    if (*path != '-' && strspn(path, plain) == strlen(path))
        return must_strdup(path);
    char *word = must_format(*path == '-' ? "'./" : "'");
    for (const char *at = path; *at; at++) {
        char *longer = *at == '\'' ? must_format("%s'\\''", word) : must_format("%s%c", word, *at);
        free(word);
        word = longer;
    }
    char *all = must_format("%s'", word);
    free(word);
    return all;
}

static void print_all(const struct view *view, const char *path, FILE *out)
{
    char ended[128], holds[128];
    bool is_default = strcmp(path, "calltrail.ctp") == 0;
    how_it_ended(view->profile, ended, sizeof ended);
    what_it_holds(view, holds, sizeof holds);
    char *word = shell_word(path);
    char *line = must_format("%s in %s%s; next: calltrail report%s%s", holds, path, ended,
                             is_default ? "" : " ", is_default ? "" : word);
    print_line(out, line);
    free(line);
    free(word);
    struct advice advice = advice_about(view);
    for (size_t i = 0; i < advice.lines.count; i++)
        print_line(out, advice.lines.items[i].text);
    vec_free(&advice.lines);
}

int report_recorded(const char *path, FILE *out, struct ct_error *err)
{
    struct profile profile;
    struct view view;
    CT_TRY(profile_open(path, &profile, err));
    int status = profile_validate_tables(&profile, err);
    if (status == CT_OK && profile.node_count > NODES_MOST) {
        char *word = shell_word(path);
        char *line = must_format("the profile is in %s; next: calltrail report %s", path, word);
        print_line(out, line);
        free(line);
        free(word);
    } else if (status == CT_OK) {
        status = view_open(&profile, &(struct view_options){0}, &view, err);
        if (status == CT_OK) {
            print_all(&view, path, out);
            view_close(&view);
        }
    }
    profile_close(&profile);
    return status;
}
