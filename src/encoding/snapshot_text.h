/*
 * A snapshot as text, for logs:
 *
 *     ct:1:RUN:THREAD.NUMBERING:WORD:FUNCTION+BYTES:TASK:CHECK
 *
 * All are hexadecimal. FUNCTION is the offset of the function in its module, BYTES how far in it
 * the snapshot was taken. CHECK is a hash of the other values: a text that was cut or changed is
 * known to be one.
 */
#ifndef ENCODING_SNAPSHOT_TEXT_H
#define ENCODING_SNAPSHOT_TEXT_H

#include <stdbool.h>
#include <stdint.h>

struct snapshot_text {
    uint64_t run;
    uint64_t thread, numbering; /* 32 bits each */
    uint64_t word;
    uint64_t function, bytes;
    uint64_t task;
};

enum { SNAPSHOT_TEXT_BYTES = 128, SNAPSHOT_TEXT_FIELDS = 7 };

#define SNAPSHOT_TEXT_BEGIN "ct:1:"

static inline uint64_t snapshot_text_check(const struct snapshot_text *s)
{
    const uint64_t values[SNAPSHOT_TEXT_FIELDS] = {s->run,      s->thread, s->numbering, s->word,
                                                   s->function, s->bytes,  s->task};
    uint64_t hash = 1;
    for (unsigned i = 0; i < SNAPSHOT_TEXT_FIELDS; i++) {
        hash = (hash ^ values[i]) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 32;
    }
    return hash & UINT32_MAX;
}

static inline char *snapshot_text_put(char *to, uint64_t value, char behind)
{
    unsigned digits = 1;
    while (digits < 16 && value >> (4 * digits))
        digits++;
    while (digits-- > 0)
        *to++ = "0123456789abcdef"[value >> (4 * digits) & 15];
    *to++ = behind;
    return to;
}

/* Its length, without the zero byte at the end. */
static inline int snapshot_text_write(const struct snapshot_text *s, char text[SNAPSHOT_TEXT_BYTES])
{
    char *to = text;
    for (const char *c = SNAPSHOT_TEXT_BEGIN; *c; c++)
        *to++ = *c;
    to = snapshot_text_put(to, s->run, ':');
    to = snapshot_text_put(to, s->thread, '.');
    to = snapshot_text_put(to, s->numbering, ':');
    to = snapshot_text_put(to, s->word, ':');
    to = snapshot_text_put(to, s->function, '+');
    to = snapshot_text_put(to, s->bytes, ':');
    to = snapshot_text_put(to, s->task, ':');
    to = snapshot_text_put(to, snapshot_text_check(s), 0);
    return (int)(to - text) - 1;
}

static inline bool snapshot_text_get(const char **at, uint64_t *value, char behind)
{
    unsigned digits = 0;
    *value = 0;
    for (;; ++*at, digits++) {
        char c = **at;
        unsigned digit = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
                         : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10
                                                : 16;
        if (digit == 16 || digits == 16)
            break;
        *value = *value << 4 | digit;
    }
    if (!digits || (behind && **at != behind))
        return false;
    *at += behind != 0;
    return true;
}

/* Reads one that begins here and goes on past it. False: it is none, or is not whole. */
static inline bool snapshot_text_read(const char **at, struct snapshot_text *s)
{
    uint64_t check;
    for (const char *c = SNAPSHOT_TEXT_BEGIN; *c; c++, ++*at)
        if (**at != *c)
            return false;
    return snapshot_text_get(at, &s->run, ':') && snapshot_text_get(at, &s->thread, '.') &&
           snapshot_text_get(at, &s->numbering, ':') && snapshot_text_get(at, &s->word, ':') &&
           snapshot_text_get(at, &s->function, '+') && snapshot_text_get(at, &s->bytes, ':') &&
           snapshot_text_get(at, &s->task, ':') && snapshot_text_get(at, &check, 0) &&
           s->thread <= UINT32_MAX && s->numbering <= UINT32_MAX && check == snapshot_text_check(s);
}

#endif
