/*
 * The page as one file, which works without a network and can be mailed.
 */
#ifndef VIEW_HTML_H
#define VIEW_HTML_H

#include "view/page_data.h"

/* `count` profiles: one, or an older and a newer one. Errors of the stream are the caller's to ask
 * for. */
int html_write(const struct profile *profiles, size_t count, const struct page_options *options,
               FILE *out, struct ct_error *err);

#endif
