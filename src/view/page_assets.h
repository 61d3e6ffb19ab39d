/*
 * The page itself, made of src/view/page by scripts/embed-page when calltrail is built.
 */
#ifndef VIEW_PAGE_ASSETS_H
#define VIEW_PAGE_ASSETS_H

#include <stddef.h>

struct page_asset {
    const unsigned char *bytes;
    size_t size;
};

/* As one file: everything before the data, and everything behind it. */
extern const struct page_asset page_file_head, page_file_tail;
/* As it is served: in parts. */
extern const struct page_asset page_served_html, page_script, page_style;

#endif
