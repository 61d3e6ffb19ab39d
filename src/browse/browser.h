/*
 * The browser of `calltrail top`: a profile in a terminal, one list of functions at a time, which
 * can be folded, searched and narrowed down.
 *
 *   screen        the terminal, its keys (ncurses)
 *   folding       the list: what is open, what is selected (over query/unfold)
 *   list          how the rows look
 *   source_page, help_page, prompt
 *   browser       what the keys do
 */
#ifndef BROWSE_BROWSER_H
#define BROWSE_BROWSER_H

#include "query/source_text.h"
#include "query/view.h"

enum browser_list { LIST_FUNCTIONS, LIST_CALLEES, LIST_CALLERS, LIST_THREADS, LIST_KINDS };

/* "functions" and so on. */
const char *browser_list_name(enum browser_list list);

struct browser_options {
    struct view_options view;
    struct source_folders sources;
    enum browser_list first;
    bool full_names;
    bool with_colors;
};

/* Returns when the user has seen enough. Fails without a terminal, and on a damaged profile. */
int browser_run(const struct profile *profile, const struct browser_options *options,
                struct ct_error *err);

#endif
