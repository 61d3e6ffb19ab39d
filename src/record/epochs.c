#include "record/epochs.h"

#include <string.h>

enum { NAME_BYTES = 256 };

void epochs_begin(struct epochs *e, struct profile_writer *writer)
{
    *e = (struct epochs){.writer = writer};
    key_set_init(&e->names, sizeof(uint32_t));
    key_set_init(&e->numbers, sizeof(uint32_t));
}

void epochs_end(struct epochs *e)
{
    key_set_free(&e->names);
    key_set_free(&e->numbers);
    vec_free(&e->phases);
}

/* The list is gone through once: a tree may have as many phases as nodes. */
void epochs_begin_arena(struct epochs *e, const struct arena_view *v)
{
    const struct arena_phase *p;
    key_set_free(&e->numbers);
    key_set_init(&e->numbers, sizeof(uint32_t));
    e->phases.count = 0;
    VIEW_EACH(v, view_header(v)->first_phase, p) {
        uint32_t number = p->number, bytes = p->name_bytes;
        if (bytes >= NAME_BYTES || !view_holds(v, p, sizeof *p + bytes))
            continue;
        if (key_set_add(&e->numbers, &number) == e->phases.count)
            vec_push(&e->phases, p);
    }
}

uint32_t epoch_for(struct epochs *e, const struct arena_view *v, uint32_t number)
{
    char name[NAME_BYTES] = "";
    uint32_t at;
    if (key_set_find(&e->numbers, &number, &at)) {
        const struct arena_phase *p = e->phases.items[at];
        uint32_t bytes = p->name_bytes; /* the program may have changed it since */
        if (bytes < sizeof name && view_holds(v, p, sizeof *p + bytes))
            memcpy(name, p + 1, bytes);
    }
    uint32_t text = profile_add_string(e->writer, name), known = e->names.count;
    uint32_t epoch = key_set_add(&e->names, &text);
    return epoch < known ? epoch : profile_add_epoch(e->writer, name);
}
