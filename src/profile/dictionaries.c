#include "profile/dictionaries.h"

static void add(struct dictionaries *all, const void *bytes, size_t count)
{
    const uint8_t *from = bytes;
    for (size_t i = 0; i < count; i++)
        vec_push(&all->bytes, from[i]);
}

bool dictionaries_add(struct dictionaries *all, const struct ctp_dictionary *dictionary,
                      const void *bytes)
{
    static const uint8_t zeros[CTP_ALIGNMENT];
    size_t room = CTP_NONE - 1 - all->bytes.count;
    if (room < sizeof *dictionary + CTP_ALIGNMENT ||
        dictionary->size > room - sizeof *dictionary - CTP_ALIGNMENT)
        return false;
    add(all, dictionary, sizeof *dictionary);
    add(all, bytes, dictionary->size);
    add(all, zeros, -dictionary->size % CTP_ALIGNMENT);
    return true;
}

const struct ctp_dictionary *profile_next_dictionary(const struct profile *p, uint64_t *at)
{
    const struct profile_table *table = &p->tables[CTP_DICTIONARIES];
    const struct ctp_dictionary *d = (const void *)(table->items + *at);
    if (*at >= table->count || table->count - *at < sizeof *d ||
        d->size > table->count - *at - sizeof *d)
        return NULL;
    uint64_t end = *at + sizeof *d + (d->size + CTP_ALIGNMENT - 1) / CTP_ALIGNMENT * CTP_ALIGNMENT;
    if (end > table->count)
        return NULL;
    *at = end;
    return d;
}
