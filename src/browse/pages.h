/*
 * Pages that lie over the list until a key closes them: the source of a function, and the help.
 */
#ifndef BROWSE_PAGES_H
#define BROWSE_PAGES_H

#include "browse/browser.h"
#include "browse/function_key.h"
#include "browse/screen.h"

/* The source with the cost of every line. `view` says what is looked at; labels are by line there.
 * An error is of the profile. PRESS_GONE when the terminal went, else 0. */
int source_page(const struct profile *profile, const struct view_options *view,
                const struct function_key *function, const char *title,
                const struct source_folders *folders, struct screen *screen, uint32_t *press,
                struct ct_error *err);

uint32_t help_page(struct screen *screen);

/* One line of text below everything, as it is typed. False: it was given up, or the terminal went.
 * `text` has `room` bytes. */
bool prompt_line(struct screen *screen, const char *prompt, char *text, size_t room);

#endif
