/* A module that is edited: its sites, its stubs, and its code as it was. */
#ifndef RUNTIME_EDITED_MODULE_H
#define RUNTIME_EDITED_MODULE_H

#include "edit/plan_format.h"
#include "runtime/edit/rows.h"
#include "runtime/edit/stub_region.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A module that no thread runs yet. */
struct edit_request {
    uint64_t base;
    uint32_t module_id;
    const void *headers; /* its program headers */
    unsigned header_count;
    uint64_t bias; /* what is added to their addresses */
    const char *path;
    uint32_t languages; /* of its code: bits of enum arena_language */
    /* The editor's own: its plan, and its file, open. */
    const void *plan;
    size_t plan_bytes;
    int file;
};

/* An executable segment of a module: two mappings of the file as it is. */
enum { MOST_PRISTINE = 4 };

struct pristine {
    uint64_t start, bytes, offset; /* the last: in the file */
    uint8_t *copies[2];            /* NULL: could not be had, or has been used */
    uint8_t *edited;               /* while the program pauses its measurement: the edited code */
    bool has_rooms;
};

/* One edited module; sites are numbered through all of them. */
struct edited_module {
    uint64_t base;
    uint32_t first_site;
    uint32_t module_id;
    const struct plan_header *plan; /* NULL: not in use */
    const struct plan_site *sites;
    uint32_t site_count;
    const uint32_t *by_rank; /* a site's number is its rank, from first_site on */
    const uint8_t *code;
    struct region region; /* of the stubs, and of what is known of them */
    uint8_t *stubs;       /* its code: what they share, then those of the sites */
    struct stub_layout common;
    struct stub_layout *layouts;
    struct pristine pristine[MOST_PRISTINE];
    unsigned pristine_count;
    struct edit_request from; /* its plan and its descriptor are not there any more */
    uint64_t device, inode;   /* of its file */
    uint64_t *pun_pages;      /* addresses of the pages that puns lead to, sorted */
    uint32_t pun_page_count;
};

/* The site of that number in its module. */
static inline const struct plan_site *edited_site(const struct edited_module *m, uint32_t site)
{
    return &m->sites[m->by_rank[site - m->first_site]];
}

#endif
