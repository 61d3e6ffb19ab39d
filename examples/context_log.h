/*
 * Log lines that say which calls led to them: LOG("cannot open %s", path) writes, besides the text,
 * the context as one word. Where the program is not recorded, the word is not there.
 *
 *     calltrail record --engine encode ./server 2>server.log
 *     calltrail decode --inline <server.log
 */
#ifndef CONTEXT_LOG_H
#define CONTEXT_LOG_H

#include <calltrail.h>
#include <stdio.h>

/* A space and the context; nothing where none is known. */
static inline const char *log_context(const struct ct_snapshot *s, char text[CT_TEXT_BYTES + 1])
{
    *text = ' ';
    return ct_print(s, text + 1, CT_TEXT_BYTES) ? text : "";
}

#define LOG(...)                                                                                   \
    do {                                                                                           \
        struct ct_snapshot here_;                                                                  \
        char text_[CT_TEXT_BYTES + 1];                                                             \
        ct_here(&here_);                                                                           \
        flockfile(stderr);                                                                         \
        fprintf(stderr, __VA_ARGS__);                                                              \
        fprintf(stderr, "%s\n", log_context(&here_, text_));                                       \
        funlockfile(stderr);                                                                       \
    } while (0)

#endif
