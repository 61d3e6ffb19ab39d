/*
 * Calls before which the stack is to grow: so many bytes more lie between the caller and what it
 * calls there. Contexts that had the same function and height have different heights then (engine
 * infer).
 *
 * The list comes from outside, as text with a line for each call: the build-id of its module, its
 * return address as an offset, and the bytes. What it asks for is done only where it is safe
 * (growth_allows): at a direct call, in place, of a function that never looks above its frame.
 */
#ifndef EDIT_GROWTH_H
#define EDIT_GROWTH_H

#include "base/error.h"
#include "edit/above.h"

enum { GROWTH_STEP = 16, GROWTH_MOST = 128, GROWTH_BUILD_ID_ROOM = 32 };

struct growth_item {
    uint8_t build_id[GROWTH_BUILD_ID_ROOM]; /* zero-padded */
    uint32_t build_id_size;
    uint32_t place; /* offset of the return address */
    uint32_t bytes; /* a multiple of GROWTH_STEP, up to GROWTH_MOST */
};

struct growth {
    VEC(struct growth_item) items; /* sorted by module and place, each of them once */
};

/* `name`: of what the text is from, for errors. */
int growth_parse(const char *text, const char *name, struct growth *out, struct ct_error *err);
void growth_sort(struct growth *growth);
char *growth_text(const struct growth *growth); /* the caller frees it */
void growth_free(struct growth *growth);

/* Another number for another list. */
uint64_t growth_number(const struct growth *growth);

/* The bytes at a place; 0: there are none. */
uint32_t growth_at(const struct growth *growth, const uint8_t *build_id, uint32_t build_id_size,
                   uint32_t place);

/* Why the stack may not grow before a call. */
enum growth_reason {
    GROWTH_ALLOWED,
    GROWTH_NO_SITE,  /* no call ends there */
    GROWTH_INDIRECT, /* where it leads is not known before it runs */
    GROWTH_ANOTHER,  /* through the PLT: it leads to another module */
    GROWTH_LOOKS,    /* what is called may look above its frame: above_of says how */
    GROWTH_REASONS
};

/* May it grow before the call with that return address? `site`: which it is; `above`: with
 * GROWTH_LOOKS. Both may be NULL. */
enum growth_reason growth_allows(struct above_finder *finder, uint32_t place, uint32_t *site,
                                 enum above *above);

/* Adds all calls of a module that are allowed, each with bytes of its own; but those of functions
 * that call themselves. */
void growth_list_all(struct growth *growth, struct above_finder *finder, const uint8_t *build_id,
                     uint32_t build_id_size);

/*
 * The plan of a module with these sites alone, each of which says how much it grows
 * (plan_site.grow); those that are not allowed are left out, and counted. The bytes are the
 * caller's, to be freed.
 */
int growth_plan(const struct growth *growth, struct above_finder *finder, const uint8_t *build_id,
                uint32_t build_id_size, struct plan *out, uint32_t *refused, struct ct_error *err);

#endif
