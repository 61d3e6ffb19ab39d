/*
 * A closer look at a part of a profile, as a page asks for it in words.
 */
#ifndef VIEW_CLOSER_LOOK_H
#define VIEW_CLOSER_LOOK_H

#include "view/page_cut.h"

struct closer_look {
    const char *thread, *process, *phase; /* names or numbers, as in a view; NULL: all */
    const char *path; /* labels in base 36 with dots between them, the outermost first; or NULL */
};

/* Fills in what is looked at; closer_look_end frees it. Words that mean nothing are an error. */
int closer_look_begin(const struct profile *profile, const struct closer_look *wanted,
                      struct page_cut_options *out, struct ct_error *err);
void closer_look_end(struct page_cut_options *options);

#endif
