/*
 * The data of the page: the tables of a profile as a browser reads them.
 *
 * A header in JSON says what there is: names, threads, metrics. Behind it lie the arrays, each a
 * typed array of JavaScript, in the order and with the counts that the header's `arrays` lists.
 * Values are doubles: whole up to 2^53, which is 104 days in nanoseconds.
 */
#ifndef VIEW_PAGE_DATA_H
#define VIEW_PAGE_DATA_H

#include "query/source_text.h"
#include "view/page_cut.h"

#include <stdio.h>

struct page_options {
    struct page_cut_options cut;
    struct source_folders sources;
    const char *thread, *process, *phase; /* what is looked at, as in a view; NULL: all */
    uint32_t times_max; /* entries of times: they are coarser until there are not more */
    bool keep_mangled;
    bool without_flat; /* page_flat_write is asked for that, when it is wanted */
    bool with_sources; /* lines of source and instructions that cost something are a part of it */
};

/* One profile. Errors of the stream are the caller's to ask for. */
int page_data_write(const struct profile *profile, const struct page_options *options, FILE *out,
                    struct ct_error *err);

/* Functions as they are in the whole profile, where the page does not have all of it: arrays alone,
 * behind a header that lists them. It takes as long as reading the profile. */
int page_flat_write(const struct profile *profile, const struct page_options *options, FILE *out,
                    struct ct_error *err);

#endif
