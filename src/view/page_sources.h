/*
 * The lines of source that are in the page: those that have cost, and what is around them.
 */
#ifndef VIEW_PAGE_SOURCES_H
#define VIEW_PAGE_SOURCES_H

#include "base/json.h"
#include "base/strings.h"
#include "query/source_text.h"

/* Where something is: `file` is the offset of its name in the pool. */
struct page_place {
    uint32_t file, line;
};

/* As "sources", [[file, [[line, text], …]], …]. The places are put in order. Files that are not on
 * this machine are left out, and what is more than a page should hold. */
void page_sources_write(struct json *json, struct page_place *places, size_t count,
                        const struct string_pool *files, const struct source_folders *folders);

#endif
