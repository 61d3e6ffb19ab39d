/* A dictionary with other keys: a record is read into a buffer, its key changed, and passed on. */
#include "encoding/dictionary.h"

enum { BUFFER = 4096 };

struct copying {
    struct dictionary_copier *copier;
    struct dictionary_bytes from;
    uint8_t buffer[BUFFER];
    size_t used;
    bool is_bad;
};

static uint8_t next_byte(struct copying *c)
{
    struct dictionary_bytes *b = &c->from;
    while (!c->is_bad && b->at == b->end)
        if (!b->more || !b->more(b))
            c->is_bad = true;
    return c->is_bad ? 0 : *b->at++;
}

static void flush(struct copying *c)
{
    if (c->used)
        c->copier->put(c->copier, c->buffer, c->used);
    c->used = 0;
}

static void put_byte(struct copying *c, uint8_t byte)
{
    if (c->used == BUFFER)
        flush(c);
    c->buffer[c->used++] = byte;
}

static uint64_t take_word(struct copying *c)
{
    uint64_t word = 0;
    for (unsigned i = 0; i < 8; i++)
        word |= (uint64_t)next_byte(c) << (8 * i);
    return word;
}

static void put_word(struct copying *c, uint64_t word)
{
    for (unsigned i = 0; i < 8; i++)
        put_byte(c, (uint8_t)(word >> (8 * i)));
}

static void copy_key(struct copying *c)
{
    uint64_t key = take_word(c);
    put_word(c, c->is_bad ? 0 : c->copier->translate(c->copier, key));
}

static uint64_t copy_number(struct copying *c)
{
    uint64_t number = 0;
    for (unsigned shift = 0; shift < 35; shift += 7) {
        uint8_t byte = next_byte(c);
        number |= (uint64_t)(byte & 127) << shift;
        put_byte(c, byte);
        if (!(byte & 128))
            return number;
    }
    c->is_bad = true;
    return 0;
}

static void copy_numbers(struct copying *c)
{
    copy_number(c);
    copy_number(c);
    for (uint64_t runs = copy_number(c); runs && !c->is_bad; runs--) {
        copy_number(c);
        copy_number(c);
    }
    for (uint64_t changed = copy_number(c); changed && !c->is_bad; changed--) {
        copy_number(c);
        for (uint64_t edges = copy_number(c); edges && !c->is_bad; edges--)
            copy_number(c);
    }
}

static void copy_record(struct copying *c)
{
    uint8_t kind = next_byte(c);
    put_byte(c, kind);
    switch (kind) {
    case DICTIONARY_FUNCTION:
    case DICTIONARY_PLACE:
        copy_key(c);
        break;
    case DICTIONARY_EDGE:
        copy_key(c);
        copy_number(c);
        copy_number(c);
        put_byte(c, next_byte(c));
        break;
    case DICTIONARY_ENTRY:
        put_word(c, take_word(c));
        copy_number(c);
        break;
    case DICTIONARY_TASK:
        for (unsigned i = 0; i < 3; i++)
            put_word(c, take_word(c));
        copy_key(c);
        put_word(c, take_word(c));
        break;
    case DICTIONARY_NUMBERS:
        copy_numbers(c);
        break;
    default:
        c->is_bad = true;
    }
}

bool dictionary_copy(struct dictionary_copier *copier, const struct dictionary_bytes *bytes)
{
    struct copying c = {.copier = copier, .from = *bytes};
    for (;;) {
        struct dictionary_bytes *b = &c.from;
        while (b->at == b->end)
            if (!b->more || !b->more(b))
                return true;
        copy_record(&c);
        if (c.is_bad)
            return false;
        flush(&c);
        copier->end(copier);
    }
}
