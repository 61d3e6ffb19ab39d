/* Edit plans: made once for each module, and kept in the cache beside its map. */
#ifndef EDIT_PLAN_H
#define EDIT_PLAN_H

#include "edit/plan_format.h"
#include "edit/sites.h"
#include "map/cache.h"

struct plan {
    struct mapped_file file;
    void *owned; /* or the bytes are on the heap, or the caller's */
    char *path;  /* of the file, in the cache; or NULL */
    const struct plan_header *header;
    const struct plan_site *sites;
    uint32_t site_count;
    const uint8_t *code;
    const uint32_t *undecoded; /* starts of functions that could not be decoded */
    uint32_t undecoded_count;
    const struct plan_routine *routines;
    uint32_t routine_count;
};

/* What a plan says, before it is written: counts of items in the header's sections, and those. */
struct plan_content {
    struct plan_header header;
    const void *items[PLAN_SECTIONS];
    void *owned;
};

/* A kind of plans: how its entries in the cache end, and how one is made. */
struct elf_file;
struct plan_kind {
    const char *ending;
    void (*make)(const struct elf_file *file, const struct map *map, struct plan_content *out);
    void (*free)(struct plan_content *content);
};

extern const struct plan_kind edit_plans; /* of sites */

int plan_for_file(struct map_cache *cache, const char *elf_path, struct plan *out,
                  struct ct_error *err);
int plan_of_kind(const struct plan_kind *kind, struct map_cache *cache, const char *elf_path,
                 struct plan *out, struct ct_error *err);

/* Of bytes that stay the caller's, aligned to 8. The frame and the hash are checked; what the sites
 * say is not. */
int plan_from_bytes(const void *bytes, size_t size, struct plan *out, struct ct_error *err);

/* Of some sites of a module, in memory. */
int plan_of_sites(const struct sites *sites, const struct map *map, struct plan *out,
                  struct ct_error *err);

/* A descriptor of the plan's bytes, for another process: of its file in the cache, or of a copy.
 * The caller closes it; -1 if there can be none. */
int plan_descriptor(const struct plan *plan);

void plan_close(struct plan *plan);

/* Would plan_for_file find it in the cache? */
bool plan_is_cached(struct map_cache *cache, const char *elf_path);
bool plan_of_kind_is_cached(const struct plan_kind *kind, struct map_cache *cache,
                            const char *elf_path);

/* What can be changed, by kind and tier, and why not better: for people. */
void plan_print(const struct plan *plan, const char *name, FILE *out);

/* One line for each site, for other programs. Addresses are those of the ELF file. */
void plan_list(const struct plan *plan, FILE *out);

/* Words for people. */
const char *plan_kind_name(unsigned kind);
const char *plan_reason_name(unsigned reason);

#endif
