#include "map/map.h"

#include "base/search.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

static const uint8_t element_size[MAP_SECTION_COUNT] = {
    [MAP_INDEX] = sizeof(uint32_t),
    [MAP_ROWS] = sizeof(struct map_row),
    [MAP_SAVES] = sizeof(uint16_t),
    [MAP_SPECIALS] = sizeof(struct map_special),
    [MAP_CORRECTIONS] = sizeof(struct map_range),
    [MAP_UNMARKABLE] = sizeof(struct map_range),
    [MAP_FUNCTIONS] = sizeof(struct map_function),
    [MAP_ALIASES] = sizeof(uint32_t),
    [MAP_STRINGS] = 1,
};

static int check_header(const struct map_header *h, size_t size, const char *name,
                        struct ct_error *err)
{
    if (size < sizeof *h || h->magic != MAP_MAGIC)
        return ct_fail(err, "%s: is not a module map", name);
    if (h->version != MAP_VERSION || h->header_size != sizeof *h)
        return ct_fail(err, "%s: is a module map of another version (%u, this is %u)", name,
                       h->version, MAP_VERSION);
    struct map_header copy = *h;
    copy.header_hash = 0;
    if (XXH3_64bits(&copy, sizeof copy) != h->header_hash)
        return ct_fail(err, "%s: is damaged: the header's checksum does not match", name);
    if (h->file_size != size)
        return ct_fail(err, "%s: is truncated: %zu bytes instead of %lu", name, size,
                       (unsigned long)h->file_size);
    for (unsigned i = 0; i < MAP_SECTION_COUNT; i++) {
        const struct map_section *s = &h->sections[i];
        if (s->offset % 8 || s->offset > size || s->count > (size - s->offset) / element_size[i] ||
            s->count > UINT32_MAX)
            return ct_fail(err, "%s: is damaged: section %u lies outside", name, i);
    }
    uint64_t rows = h->sections[MAP_ROWS].count;
    if (h->sections[MAP_SAVES].count != rows || h->sections[MAP_INDEX].count == 0 ||
        h->build_id_size > sizeof h->build_id)
        return ct_fail(err, "%s: is damaged: the sections do not fit together", name);
    return CT_OK;
}

static int attach(const void *bytes, size_t size, const char *name, bool check_body,
                  struct map *out, struct ct_error *err)
{
    const struct map_header *h = bytes;
    CT_TRY(check_header(h, size, name, err));
    const uint8_t *b = bytes;
    if (check_body && XXH3_64bits(b + sizeof *h, size - sizeof *h) != h->body_hash)
        return ct_fail(err, "%s: is damaged: the checksum does not match", name);
    const struct map_section *s = h->sections;
    out->header = h;
    out->tables = (struct map_tables){
        .index = (const uint32_t *)(b + s[MAP_INDEX].offset),
        .rows = (const struct map_row *)(b + s[MAP_ROWS].offset),
        .saves = (const uint16_t *)(b + s[MAP_SAVES].offset),
        .specials = (const struct map_special *)(b + s[MAP_SPECIALS].offset),
        .corrections = (const struct map_range *)(b + s[MAP_CORRECTIONS].offset),
        .correction_count = (uint32_t)s[MAP_CORRECTIONS].count,
        .unmarkable = (const struct map_range *)(b + s[MAP_UNMARKABLE].offset),
        .unmarkable_count = (uint32_t)s[MAP_UNMARKABLE].count,
        .functions = (const struct map_function *)(b + s[MAP_FUNCTIONS].offset),
        .function_count = (uint32_t)s[MAP_FUNCTIONS].count,
        .bucket_count = (uint32_t)s[MAP_INDEX].count - 1,
        .row_count = (uint32_t)s[MAP_ROWS].count,
        .special_count = (uint32_t)s[MAP_SPECIALS].count,
    };
    out->functions = (const struct map_function *)(b + s[MAP_FUNCTIONS].offset);
    out->function_count = (uint32_t)s[MAP_FUNCTIONS].count;
    out->aliases = (const uint32_t *)(b + s[MAP_ALIASES].offset);
    out->alias_count = (uint32_t)s[MAP_ALIASES].count;
    out->strings = (const char *)(b + s[MAP_STRINGS].offset);
    out->strings_size = s[MAP_STRINGS].count;
    if (!out->strings_size || out->strings[out->strings_size - 1] != '\0')
        return ct_fail(err, "%s: is damaged: the names do not end", name);
    return CT_OK;
}

int map_from_bytes(const void *bytes, size_t size, bool check_body, struct map *out,
                   struct ct_error *err)
{
    *out = (struct map){0};
    return attach(bytes, size, "map in memory", check_body, out, err);
}

int map_open(const char *path, bool check_body, struct map *out, struct ct_error *err)
{
    *out = (struct map){0};
    CT_TRY(file_map(path, &out->file, err));
    int status = attach(out->file.bytes, out->file.size, path, check_body, out, err);
    if (status != CT_OK)
        map_close(out);
    return status;
}

void map_close(struct map *map)
{
    file_unmap(&map->file);
    free(map->owned);
    free(map->entry_path);
    *map = (struct map){0};
}

const char *map_string(const struct map *map, uint32_t offset)
{
    return offset < map->strings_size ? map->strings + offset : "";
}

const struct map_function *map_find_function(const struct map *map, uint64_t offset)
{
    /* Functions can overlap (a symbol inside another's range): the innermost start wins. */
    enum { MOST_NESTED = 16 };
    size_t i;
    SEARCH(i, map->function_count, map->functions[i].start <= offset);
    for (unsigned tries = 0; i && tries < MOST_NESTED; tries++) {
        const struct map_function *f = &map->functions[--i];
        if (f->start <= offset && offset - f->start < f->size)
            return f;
    }
    return NULL;
}

struct map_special map_spell_rule(const struct map_tables *t, uint32_t row)
{
    struct map_special s = {.cfa_kind = CFA_UNKNOWN, .reg = X86_NONE, .index_reg = X86_NONE};
    if (row >= t->row_count)
        return s;
    uint32_t rule = t->rows[row].rule;
    if (RULE_KIND(rule) == RULE_SPECIAL)
        return RULE_SPECIAL_INDEX(rule) < t->special_count ? t->specials[RULE_SPECIAL_INDEX(rule)]
                                                           : s;
    s.cfa_kind = CFA_REG;
    s.reg = RULE_KIND(rule) == RULE_RSP ? X86_RSP : X86_RBP;
    s.offset = (int32_t)(RULE_CFA_WORDS(rule) * 8);
    unsigned slots[AT_COUNT] = {
        [AT_RIP] = 1, [AT_RBX] = RULE_RBX_SLOT(rule), [AT_RBP] = RULE_RBP_SLOT(rule)};
    for (unsigned i = 0; i < 4; i++)
        slots[AT_R12 + i] = SAVES_SLOT(t->saves[row], X86_R12 + i);
    for (unsigned i = 0; i < AT_COUNT; i++)
        s.place[i] = (struct map_place){.kind = slots[i] ? PLACE_CFA : PLACE_SAME,
                                        .reg = X86_NONE,
                                        .offset = -8 * (int32_t)slots[i]};
    return s;
}
